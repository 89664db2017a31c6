"""Evaluations as reports need them: read from the JSON of `decima evaluate`, and checked."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, TypeVar

import numpy as np
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    GetPydanticSchema,
    ValidationError,
)
from pydantic_core.core_schema import no_info_after_validator_function

from decima.errors import ConfigError
from decima.evaluation.report import FIGURES, FORMAT, VERSION
from decima.objectives import AVG_JCT, check_objective, objective_title
from decima.rl.statistics import Estimate, difference_percent
from spark_sim.cluster import MAX_EXECUTORS
from traces.files.errors import FileError
from traces.files.names import printable
from traces.files.numbers import MAX_TIME_MS
from traces.files.reading import read_json
from traces.numbers import MS_PER_S, Float64

MAX_TIME_S = MAX_TIME_MS / MS_PER_S
_MAX_EXECUTOR_S = MAX_TIME_S * MAX_EXECUTORS
_ROUNDING = 1e-6  # tolerance of shares and sums of times beyond their range

_Time = Annotated[float, Field(ge=0, le=MAX_TIME_S)]
_ExecutorTime = Annotated[float, Field(ge=-_ROUNDING, le=_MAX_EXECUTOR_S)]
_Count = Annotated[int, Field(ge=0)]
_Text = Annotated[str, AfterValidator(printable)]
"""a lone surrogate, which no page can hold, becomes its escape"""


def _array_of(number: Any) -> GetPydanticSchema:
    """Schema of a list of such numbers, which becomes an array."""
    return GetPydanticSchema(
        lambda _, handler: no_info_after_validator_function(
            np.array, handler.generate_schema(list[number])
        )
    )


_Times = Annotated[Float64, _array_of(_Time)]
# Positive numbers, as they are divisors.
_Positive = Annotated[Float64, _array_of(Annotated[float, Field(gt=0, le=MAX_TIME_S)])]
_Shares = Annotated[Float64, _array_of(Annotated[float, Field(ge=0, le=1 + _ROUNDING)])]
_Values = Annotated[Float64, _array_of(Annotated[float, Field(ge=0, allow_inf_nan=False)])]
N = TypeVar("N")


class _Strict(BaseModel):
    """Base model that ignores keys it does not declare."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True)


class Config(_Strict):
    """The setting of an evaluation."""

    trace: _Text
    policies: Sequence[_Text] = Field(min_length=1)
    executors: int = Field(ge=1, le=MAX_EXECUTORS)
    interarrival_s: _Time
    arrivals: _Text
    sequences: int = Field(ge=1)
    seed: int
    protocol: _Text
    moving_delay_s: _Time
    estimates: _Text
    objective: _Text = AVG_JCT
    """name of what differences are in (`decima.objectives`)"""


class Jobs(_Strict):
    """One sequence of K jobs."""

    name: list[_Text]
    arrival_s: _Times  # (K,)
    work_s: _Times  # (K,) tasks x mean duration


class Figure(_Strict, Generic[N]):
    """A figure of S sequences."""

    per_sequence: N  # (S,)


class PolicyResults(_Strict):
    """One policy over S sequences."""

    avg_jct_s: Figure[_Positive]
    median_jct_s: Figure[_Positive]
    p95_jct_s: Figure[_Positive]
    p99_jct_s: Figure[_Positive]
    makespan_s: Figure[_Positive]
    avg_slowdown: Figure[_Positive]
    utilisation: Figure[_Shares]
    fairness: Figure[_Shares]
    busy_executor_s: _ExecutorTime
    moving_executor_s: _ExecutorTime
    idle_executor_s: _ExecutorTime
    first_executor_s: _ExecutorTime
    unfinished: _Count
    not_arrived: _Count
    jct_s: list[_Times]
    """JCTs of each sequence, (A,) for the A jobs that arrived, which are its first"""
    other_objective: Figure[_Values] | None = Field(None, alias="objective")
    """None where the objective is the average JCT"""

    @property
    def figures(self) -> Mapping[str, Float64]:
        """(S,) each of `FIGURES`."""
        return {name: getattr(self, name).per_sequence for name in FIGURES}

    @property
    def objective(self) -> Float64:
        """(S,) what differences between policies are in."""
        return (self.other_objective or self.avg_jct_s).per_sequence

    @property
    def executor_s(self) -> Mapping[str, float]:
        """Executor-seconds of work, first tasks, moving and idling."""
        first_s = min(self.first_executor_s, self.busy_executor_s)
        return {
            "work": self.busy_executor_s - first_s,
            "first tasks": first_s,
            "moving": self.moving_executor_s,
            "idle": max(0.0, self.idle_executor_s),
        }


class Results(_Strict):
    """One evaluation: policies that met the same sequences in one setting."""

    format: Literal["decima-evaluation"]
    version: int
    config: Config
    sequences: list[Jobs]
    policies: dict[_Text, PolicyResults]
    """the first is what the others are compared with"""

    @property
    def label(self) -> str:
        """The setting in a line."""
        config = self.config
        slots = "slots" if config.protocol == "session" else "executors"
        arriving = config.arrivals
        if arriving != "batch":
            arriving += f", a job every {config.interarrival_s:g} s"
        return f"{Path(config.trace).name}, {config.executors} {slots}, {arriving}"

    @property
    def settings(self) -> Mapping[str, Any]:
        """The setting in words."""
        config = self.config
        return {
            "trace": config.trace,
            "executors": config.executors,
            "protocol": config.protocol,
            "arrivals": config.arrivals,
            "mean gap": f"{config.interarrival_s:g} s",
            "moving delay": f"{config.moving_delay_s:g} s",
            "estimates": config.estimates,
            "sequences": config.sequences,
            "jobs in a sequence": len(self.sequences[0].name),
            "seed": config.seed,
            **({} if config.objective == AVG_JCT else {"compared by": config.objective}),
        }

    @property
    def title(self) -> str:
        """What the objective is called."""
        return objective_title(self.config.objective)

    @property
    def reference(self) -> str:
        return next(iter(self.policies))


def read_results(path: Path) -> Results:
    """The results in a file of `decima evaluate --json`; FileError (one line) if it is none."""
    return results_of(read_json(path, FileError), str(path))


def results_of(content: Any, where: str) -> Results:
    """The results in what `Report.to_json` gave; FileError, beginning with `where`, if damaged."""
    is_ours = isinstance(content, dict) and content.get("format") == FORMAT
    if is_ours and content.get("version") != VERSION:
        raise FileError(
            f"{where}: version {content.get('version')!r:.40} of the results, this reads "
            f"{VERSION}: evaluate again"
        )
    try:
        results = Results.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "the file"
        rule = first["msg"].partition(" or instance of ")[0]  # what follows names our own types
        raise FileError(f"{where}: no results of an evaluation: {place}: {rule}") from error
    _check(results, where)
    return results


def _check(results: Results, where: str) -> None:
    """Refuse lists of lengths that do not belong together."""
    config, count = results.config, results.config.sequences
    if len(results.sequences) != count:
        raise FileError(f"{where}: {len(results.sequences)} sequences where {count} were asked for")
    if list(results.policies) != list(config.policies):
        raise FileError(
            f"{where}: policies {list(results.policies)!s:.200} are not those asked for"
        )
    for number, sequence in enumerate(results.sequences):
        if not 1 <= len(sequence.name) == len(sequence.arrival_s) == len(sequence.work_s):
            raise FileError(f"{where}: sequence {number}: not as many names as arrivals")
    try:
        check_objective(config.objective)
    except ConfigError as error:
        raise FileError(f"{where}: {error}") from error
    for name, policy in results.policies.items():
        other, expected = policy.other_objective, 0 if config.objective == AVG_JCT else count
        if (0 if other is None else len(other.per_sequence)) != expected:
            raise FileError(
                f"{where}: {name}: beside avg_jct_s the objective {config.objective} has "
                f"{expected} values"
            )
        for figure, values in policy.figures.items():
            if len(values) != count:
                raise FileError(f"{where}: {name}: {figure} has not {count} values")
        arrived = [len(jct_s) for jct_s in policy.jct_s]
        jobs = [len(sequence.name) for sequence in results.sequences]
        if len(arrived) != count or any(
            not 1 <= a <= k for a, k in zip(arrived, jobs, strict=True)
        ):
            raise FileError(
                f"{where}: {name}: completion times of {arrived[:9]!s:.60} of {jobs[:9]!s:.60} jobs"
            )
        if sum(jobs) - sum(arrived) != policy.not_arrived:
            raise FileError(
                f"{where}: {name}: completion times of {sum(arrived):,} of {sum(jobs):,} jobs, "
                f"where {policy.not_arrived:,} have not arrived"
            )


def difference_to(values: Float64, reference: Float64) -> Estimate | None:
    """The difference in percent; nothing is a percentage of 0, as a short run's utilisation is."""
    if (reference <= 0).any():
        return None
    return difference_percent(values, reference)


def significant(value: float) -> float:
    """Five significant digits, which is what a chart shows."""
    if value == 0 or not math.isfinite(value):
        return 0.0
    return round(value, 4 - math.floor(math.log10(abs(value))))
