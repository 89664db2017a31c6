"""Model of executor start and of work inflation with many executors, which small recordings lack.

A trace recorded on a few slots holds task durations at one executor level and of warm executors
only. This model adds to the measured durations, in this order:

1. *Time scale*: all durations, arrivals and deadlines times `ExecutorModel.time_scale`. A pure
   change of the unit of time; it makes jobs of seconds as long as those that the delays of a
   cluster belong to.
2. *Executor start*: where the ``fresh`` wave was not measured, it is the ``rest`` wave (else the
   ``first``) plus a constant. A constant and not a factor, as the first task on a fresh executor of
   the public traces takes 2.3 times a later one at the median, but 10 times on average. The wave
   holds few samples, since means over all samples of a stage stand for its work.
3. *Work inflation*: further executor levels, whose measured durations are all multiplied by the
   level's factor; the constant of the start is not.

`benchmarks.record_tpch.calibration` chose the parameters of `tpch`: the trace meets figures of
decima-sim's public TPC-H traces. Nothing below 5 executors is public: there the factor is 1.

A trace file requests the model by parameters in ``metadata["model"]``; `with_model`
applies them. The measurements in the file stay as they are.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np

from traces.columns import starts, wave_of
from traces.errors import TraceError, located
from traces.model import MAX_EXECUTORS, FloatArray
from traces.thinning import quantile_means
from traces.trace import Trace

MODEL = "model"  # key of `Trace.metadata` under which the parameters stand

PUBLIC_INFLATION: Mapping[int, float] = MappingProxyType(
    {5: 1.0, 10: 1.08, 20: 1.25, 40: 1.65, 50: 1.83, 80: 2.39, 100: 2.88}
)
"""executors of a job -> its total work relative to 5 executors, median over the public jobs"""

WARM_PER_FRESH = 32  # the model adds one fresh sample for so many warm ones, at least one

MAX_LEVELS = 64
MAX_TIME_SCALE = 1e6

_NOTE = "a model, not measured: docs/tpch-trace.md"


@dataclass(frozen=True)
class ExecutorModel:
    """Parameters of the model; see the module for what they do."""

    start_ms: float
    """extra time of a fresh executor's first task, after scaling"""
    time_scale: float = 1.0
    inflation: Mapping[int, float] = field(default_factory=lambda: PUBLIC_INFLATION)
    """executor level -> factor on the durations of warm tasks"""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.start_ms) and self.start_ms >= 0):
            raise TraceError(f"model: start {self.start_ms} ms must be finite and not negative")
        if not 0 < self.time_scale <= MAX_TIME_SCALE:
            raise TraceError(
                f"model: time scale {self.time_scale} must be above 0 and at most "
                f"{MAX_TIME_SCALE:g}"
            )
        if not 1 <= len(self.inflation) <= MAX_LEVELS:
            raise TraceError(f"model: {len(self.inflation)} levels, 1 to {MAX_LEVELS} are allowed")
        for level, factor in self.inflation.items():
            if not (1 <= level <= MAX_EXECUTORS and math.isfinite(factor) and factor > 0):
                raise TraceError(f"model: factor {factor} at level {level} must be positive")

    @classmethod
    def from_metadata(cls, stored: object) -> ExecutorModel:
        """The parameters that `as_metadata` stored; TraceError if they are damaged."""
        try:
            if not isinstance(stored, Mapping):
                raise TypeError(f"is {type(stored).__name__}")
            inflation = {int(level): float(factor) for level, factor in stored["inflation"]}
            return cls(float(stored["start_ms"]), float(stored["time_scale"]), inflation)
        except (KeyError, TypeError, OverflowError) as error:
            raise TraceError(f"metadata of the executor model are damaged: {error}") from error
        except ValueError as error:
            raise TraceError(f"metadata of the executor model: {error}") from error

    def as_metadata(self) -> dict[str, Any]:
        """The parameters as JSON-like data."""
        return {
            "note": _NOTE,
            "time_scale": self.time_scale,
            "start_ms": self.start_ms,
            "inflation": [[level, factor] for level, factor in sorted(self.inflation.items())],
        }

    def factor(self, executors: int) -> float:
        """Factor at any number of executors: linear between levels, constant outside them."""
        levels = sorted(self.inflation)
        return float(np.interp(executors, levels, [self.inflation[level] for level in levels]))

    def apply(self, trace: Trace) -> Trace:
        """Apply the model to a trace of one level a stage, and note it in the metadata."""
        columns = trace.columns
        levels = np.diff(columns.first_level)
        if (levels > 1).any():
            row = int(np.argmax(levels > 1))
            job = columns.job_name[int(columns.job_of_stage[row])]
            raise TraceError(
                f"job {job!r}: stage {columns.stage_name[row]!r} was measured at {levels[row]} "
                "levels, the executor model extends traces of one"
            )
        # For each stage the factors by level: 1 at the measured one, and those of higher ones.
        factors = [
            {measured: 1.0}
            | {
                level: self.factor(level) / self.factor(measured)
                for level in sorted(self.inflation)
                if level > measured
            }
            for measured in columns.executors.tolist()
        ]
        samples: tuple[list[FloatArray], ...] = ([], [], [])
        for stage, factor_at in enumerate(factors):
            measured = [
                wave.values[slice(*wave.start[stage : stage + 2])] for wave in columns.waves
            ]
            for wave, at_levels in zip(
                samples, self._at_levels(measured, factor_at.values()), strict=True
            ):
                wave.extend(at_levels)
        fresh, first, rest = (wave_of(wave) for wave in samples)
        modelled = columns._replace(
            arrival_ms=columns.arrival_ms * self.time_scale,
            deadline_ms=columns.deadline_ms * self.time_scale,
            first_level=starts([len(factor_at) for factor_at in factors]),
            executors=np.array([level for factor_at in factors for level in factor_at], np.int64),
            waves=(fresh, first, rest),
        )
        # Recorded times are on the measured clock, which no longer applies.
        metadata = {key: value for key, value in trace.metadata.items() if key != "recorded"}
        metadata[MODEL] = {**self.as_metadata(), "applied": True}
        return Trace.of_columns(trace.name, modelled, metadata)

    def _at_levels(
        self, measured: list[FloatArray], factors: Iterable[float]
    ) -> tuple[list[FloatArray], list[FloatArray], list[FloatArray]]:
        """The waves of a stage at all its levels."""
        fresh, first, rest = measured
        few, start_ms = fresh, 0.0
        if len(fresh) == 0:
            warm = rest if len(rest) > 0 else first
            few, start_ms = quantile_means(warm, max(1, len(warm) // WARM_PER_FRESH)), self.start_ms
        scales = [np.float64(factor * self.time_scale) for factor in factors]
        with np.errstate(over="ignore"):  # overflow becomes infinity, which is refused by name
            return (
                [(scale * few + start_ms).astype(np.float32) for scale in scales],
                [(scale * first).astype(np.float32) for scale in scales],
                [(scale * rest).astype(np.float32) for scale in scales],
            )


def with_model(trace: Trace) -> Trace:
    """Apply the model that the metadata of `trace` request, unless it was applied already."""
    stored = trace.metadata.get(MODEL)
    if stored is None or (isinstance(stored, Mapping) and stored.get("applied") is True):
        return trace
    with located(f"trace {trace.name!r}"):
        return ExecutorModel.from_metadata(stored).apply(trace)
