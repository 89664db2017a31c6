"""Settings of evaluations, and files of them: policies and the workloads that they meet."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np

from decima.custom_policies import is_custom
from decima.errors import ConfigError
from decima.objectives import check_objective
from decima.policy_names import is_learned
from decima.registry import Heuristic
from spark_sim import Cluster, Protocol, Streams
from spark_sim.cluster import MOVING_DELAY_S, parse_classes
from traces import Trace, load_trace
from traces import arrivals as patterns
from traces.arrivals import ARRIVALS, Arrivals
from traces.estimates import DEMANDS, KINDS, Demands, Estimates
from traces.files.reading import read_toml
from traces.files.settings import build
from traces.numbers import MS_PER_S

_MAX_GAP_S = 1e6
# 11 days; the times of a few hundred such jobs still have their milliseconds.
ARRIVAL_PATTERNS = (*ARRIVALS, "recorded", "decima-sim")
"""arrival patterns by name; anything else is the path of a CSV file (`arrival_ms,job`)"""


@dataclass(frozen=True)
class EvaluationConfig:
    """Settings of `evaluate`. Times are seconds, as at the command line."""

    trace: str = "tpch"
    """a built-in trace by name, or a file"""
    policies: tuple[str, ...] = ("strict_fair", "fifo")
    """names from `decima.registry.HEURISTICS`, "decima", model files, or classes of your own
    (`decima.custom_policies`); the first is the reference of the others"""
    executors: int = 50
    jobs: int = 200
    """jobs in each sequence (decima-sim's generator adds the one present at the start)"""
    interarrival_s: float = 25.0
    """mean time between arrivals"""
    arrivals: str = "poisson"
    """name in `ARRIVAL_PATTERNS`, or the path of a CSV file"""
    sequences: int = 10
    """arrival sequences; every policy meets the same ones"""
    seed: int = 0
    protocol: str = "executors"
    """"executors", "session" or "decima-sim" (`spark_sim.Protocol`)"""
    moving_delay_s: float = MOVING_DELAY_S
    warmup_delay_s: float = 1.0
    time_limit_s: float | None = None
    """end of each run; None runs until every job is complete"""
    max_jobs: int | None = None
    """jobs of a session that run at once (`Cluster.max_jobs`); None: any number"""
    estimates: Estimates = "exact"
    """estimates of task durations that policies observe (`traces.estimates`)"""
    classes: str | None = None
    """executor classes, as `spark_sim.cluster.parse_classes` reads them; None: one size for all"""
    demands: Demands = "trace"
    """the trace's memory demands, or drawn ones"""
    parameters: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """tuned parameters by policy"""
    objective: str = "avg_jct"
    """what differences between policies are in, by its name in `decima.objectives`"""

    def __post_init__(self) -> None:
        if not isinstance(self.trace, str):
            raise ConfigError(
                f"trace is a name or a file, not {self.trace!r:.60}: evaluate(config, trace=...) "
                "takes jobs"
            )
        if not self.policies:
            raise ConfigError("no policy to evaluate")
        if isinstance(self.policies, str):
            raise ConfigError(f"policies are a tuple of names, not {self.policies!r:.60}")
        check_objective(self.objective)
        self._check_numbers()
        for name in self.policies:
            if self.policies.count(name) > 1:
                raise ConfigError(f"policy {name!r} is named twice")
            self._check_policy(name)
        unused = sorted(set(self.parameters) - set(self.policies))
        if unused:
            raise ConfigError(f"parameters for {unused[0]!r}, which is not among the policies")
        for label, values in (("estimates", KINDS), ("demands", DEMANDS)):
            if getattr(self, label) not in values:
                raise ConfigError(
                    f"{label} {getattr(self, label)!r}: there are {', '.join(values)}"
                )
        if self.demands == "drawn" and self.classes is None:
            raise ConfigError("demands are drawn for executor classes, and there are none")
        if self.arrivals not in ARRIVAL_PATTERNS and not Path(self.arrivals).exists():
            pattern_names = ", ".join(ARRIVAL_PATTERNS)
            raise ConfigError(
                f"arrivals {self.arrivals!r}: no such file, and none of {pattern_names}"
            )
        self.cluster()

    def _check_numbers(self) -> None:
        for label in ("jobs", "sequences"):
            if not isinstance(getattr(self, label), Integral):
                raise ConfigError(f"{label} is a whole number, not {getattr(self, label)!r:.60}")
            if not 1 <= getattr(self, label) <= 1_000_000:
                raise ConfigError(f"{label} must lie in 1..1,000,000, got {getattr(self, label)}")
        if not 0 < self.interarrival_s <= _MAX_GAP_S:
            raise ConfigError(
                f"interarrival must be above 0 and at most {_MAX_GAP_S:g} s, got "
                f"{self.interarrival_s} s"
            )
        if self.seed < 0:
            raise ConfigError(f"seed must not be negative, got {self.seed}")

    def _check_policy(self, name: str) -> None:
        parameters = self.parameters.get(name)
        if not (is_custom(name) or is_learned(name)):
            Heuristic(name, parameters)
        elif parameters and is_custom(name):
            raise ConfigError(f"policy {name!r} is your own and has no parameters to set")
        elif parameters:
            raise ConfigError(f"policy {name!r} is learned and has no parameters to set")

    def cluster(self) -> Cluster:
        """Return the cluster of every run; raise on impossible settings."""
        limit_s = self.time_limit_s
        return Cluster(
            num_executors=self.executors,
            moving_delay_ms=self.moving_delay_s * MS_PER_S,
            warmup_delay_ms=self.warmup_delay_s * MS_PER_S,
            protocol=Protocol.parse(self.protocol),
            time_limit_ms=None if limit_s is None else limit_s * MS_PER_S,
            max_jobs=self.max_jobs,
            classes=None if self.classes is None else parse_classes(self.classes),
        )

    def workload_key(self) -> tuple[str | int | None, ...]:
        """Key of the workload and its observations; settings with equal keys may share them."""
        return self.trace, self.estimates, self.seed, self.classes, self.demands

    def to_json(self) -> dict[str, Any]:
        """All settings as JSON-like values."""
        return asdict(self)


def draw_sequence(config: EvaluationConfig, trace: Trace, number: int) -> Arrivals:
    """Return sequence `number`, the same for every policy and every set of policies.

    A file or a recording gives every sequence the same arrivals; task durations still differ.
    """
    gap_ms = config.interarrival_s * MS_PER_S
    rng = Streams(config.seed, number).arrivals()
    if config.arrivals not in ARRIVAL_PATTERNS:
        return patterns.read_arrivals(Path(config.arrivals), trace)
    if config.arrivals == "recorded":
        return patterns.recorded(trace)
    if config.arrivals == "decima-sim":
        return patterns.decima_sim(trace, config.jobs, gap_ms, config.seed + number)
    return patterns.ARRIVALS[config.arrivals](trace, config.jobs, gap_ms, rng)


def read_settings(path: Path) -> tuple[EvaluationConfig, ...]:
    """The settings of a TOML file, in its order; a ConfigError names the file and the setting.

    Keys at the top hold for every setting, those below ``[[setting]]`` for one; names and units are
    those of `EvaluationConfig`. Instead of `interarrival_s` a setting may give `load`, the work
    that arrives as a share of the executors' time.
    """
    content = read_toml(path, ConfigError)
    rows = content.pop("setting", None)
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
        raise ConfigError(f"{path}: there is no [[setting]]")
    settings = []
    for number, row in enumerate(rows, start=1):
        try:
            settings.append(setting_of({**content, **row}))
        except ValueError as error:
            raise ConfigError(f"{path}: setting {number}: {error}") from error
    return tuple(settings)


def setting_of(values: Mapping[str, Any]) -> EvaluationConfig:
    """One setting; ConfigError for an unknown key or a value that a setting refuses."""
    rest = dict(values)
    load = rest.pop("load", None)
    for key in ("policies", "parameters", "sequences", "seed", "objective"):
        if key in rest:
            raise ConfigError(f"{key} belongs to the command, not to a setting")
    config = build(EvaluationConfig, rest, ConfigError)
    if load is None:
        return config
    if "interarrival_s" in rest:
        raise ConfigError("load and interarrival_s exclude each other: give one")
    return replace(config, interarrival_s=gap_at(config.trace, config.executors, load))


def gap_at(trace: str, executors: int, load: float) -> float:
    """Return the mean seconds between arrivals at which the work is `load` of the executors' time.

    Work is tasks x mean duration. Moving and first tasks come on top: at a load of 1 a queue grows.
    """
    if isinstance(load, bool) or not isinstance(load, int | float) or not 0 < load < math.inf:
        raise ConfigError(f"load must be a positive number, got {load!r}")
    return _mean_work_s(trace) / (executors * load)


def mean_work_s(trace: Trace) -> float:
    """Mean work of a job: tasks x mean duration, in executor-seconds."""
    columns = trace.columns
    # One after the other, as gaps between arrivals must not change in the last bit.
    total_ms = float(np.cumsum(columns.num_tasks * columns.mean_ms() * columns.slots)[-1])
    return total_ms / (MS_PER_S * columns.num_jobs)


@lru_cache
def _mean_work_s(trace: str) -> float:
    return mean_work_s(load_trace(trace))
