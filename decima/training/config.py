"""The configuration of a training: frozen, typed, and refused where it contradicts itself.

A TOML file has one table for each section; `decima train --set section.key=value` changes one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from decima.agent.model import ModelError, check_size
from decima.agent.network import NetworkConfig
from decima.evaluation.config import ConfigError, EvaluationConfig
from decima.evaluation.settings_file import gap_at, setting_of
from decima.heuristics.es_rule import PARAMETERS
from files.reading import read_toml
from files.settings import Maybe, build, change_setting
from traces.arrivals import ARRIVALS

Objective = Literal["avg_jct", "tail", "makespan"]
LOADS = (0.7, 0.9, 1.1)
"""of continuous arrivals, where nobody says otherwise"""


def _require(rule: bool, message: str) -> None:
    if not rule:
        raise ConfigError(message)


@dataclass(frozen=True)
class WorkloadConfig:
    """What arrives where. A *setting* is a cluster with jobs that arrive, or are all there at once.

    One trace on one cluster, with a list of gaps and batches; or `settings`, each with a trace and
    a cluster of its own.
    """

    trace: str = "tpch"
    """a built-in trace by name, or a file"""
    executors: int = 50
    load: Maybe[tuple[float, ...]] = None
    """of continuous arrivals, as in `gap_at`: one setting each; None: `LOADS`, unless there are
    gaps"""
    interarrival_s: Maybe[tuple[float, ...]] = None
    """mean gaps of continuous arrivals, in place of loads: one setting each"""
    batch_jobs: tuple[int, ...] = (20,)
    """numbers of jobs that arrive at once: one setting each"""
    protocol: str = "executors"
    moving_delay_s: float = 2.0
    warmup_delay_s: float = 1.0
    classes: Maybe[str] = None
    """executors of several sizes, as `decima evaluate --classes`; they add up to `executors`"""
    demands: Literal["trace", "drawn"] = "trace"
    """"drawn": what tasks need of memory is drawn, as `decima evaluate --demands`"""
    settings: tuple[Mapping[str, Any], ...] = ()
    """instead of all this: keys as in a file of settings (`decima.evaluation.settings_file`)"""

    def __post_init__(self) -> None:
        self.evaluations()

    def evaluations(self) -> tuple[EvaluationConfig, ...]:
        """The settings, in their order; refuses impossible ones."""
        if self.settings:
            found = tuple(setting_of(one) for one in self.settings)
            for one in found:
                _require(
                    one.arrivals in ARRIVALS,
                    f"workload.settings: arrivals {one.arrivals!r} cannot be drawn anew for each "
                    f"episode, as training needs: one of {', '.join(ARRIVALS)}",
                )
            return found
        base = EvaluationConfig(
            trace=self.trace,
            executors=self.executors,
            protocol=self.protocol,
            moving_delay_s=self.moving_delay_s,
            warmup_delay_s=self.warmup_delay_s,
            classes=self.classes,
            demands=self.demands,
        )
        gaps = tuple(replace(base, interarrival_s=gap_s) for gap_s in self._gaps_s())
        batches = tuple(replace(base, arrivals="batch", jobs=jobs) for jobs in self.batch_jobs)
        _require(
            len(gaps) + len(batches) > 0,
            "workload: neither load, interarrival_s nor batch_jobs names a setting",
        )
        return (*gaps, *batches)

    def with_gaps(self) -> WorkloadConfig:
        """The same with gaps in place of loads: a run keeps what it was trained on, whatever
        becomes of the trace.
        """
        if self.settings or self.interarrival_s is not None:
            return self
        return replace(self, load=None, interarrival_s=self._gaps_s())

    def _gaps_s(self) -> tuple[float, ...]:
        """Mean gaps of continuous arrivals."""
        if self.interarrival_s is not None:
            _require(
                self.load is None,
                "workload: load and interarrival_s say the same: give one of them",
            )
            return self.interarrival_s
        loads = LOADS if self.load is None else self.load
        return tuple(gap_at(self.trace, self.executors, load) for load in loads)


@dataclass(frozen=True)
class EpisodesConfig:
    """What one iteration plays."""

    settings: int = 4
    """that an iteration plays: they take turns"""
    sequences: int = 2
    """arrival sequences of each"""
    rollouts: int = 16
    """on each sequence, with the same arrivals and task durations"""
    shards: int = 2
    """parts of an iteration that one process can play: results depend on it, not on workers"""
    start_jobs: float = 16.0
    """mean number of arrivals in an episode at first; ends are memoryless (Decima 5.3)"""
    end_jobs: float = 32.0
    """mean number at last"""
    growth_iterations: int = 200
    """iterations over which it grows (the curriculum)"""
    longest: float = 2.5
    """no episode is longer than so many mean lengths"""
    backlog: int = 10
    """up to so many jobs (equally likely) are there when an episode of arrivals begins"""
    ends: Literal["cut", "drained"] = "drained"
    """at an episode's end the run is cut, or arrivals stop and the jobs there are completed"""

    def __post_init__(self) -> None:
        for label in ("settings", "sequences", "rollouts", "shards", "growth_iterations"):
            _require(getattr(self, label) >= 1, f"episodes.{label}: it must be at least 1")
        _require(
            self.settings * self.sequences >= self.shards,
            f"episodes: {self.settings} x {self.sequences} sequences for {self.shards} shards",
        )
        _require(
            0 < self.start_jobs <= self.end_jobs,
            f"episodes: from {self.start_jobs} to {self.end_jobs} jobs must be > 0, not fall",
        )
        _require(self.longest > 0, f"episodes.longest: {self.longest} is not > 0")
        _require(self.backlog >= 0, f"episodes.backlog: {self.backlog} is negative")


@dataclass(frozen=True)
class CreditConfig:
    """How much better than expected an action was."""

    method: Literal["branches", "returns"] = "branches"
    """"branches": several plans from one state, each followed by the rule, are compared with each
    other; "returns": what came after the action in its rollout (REINFORCE, the paper)"""
    states: int = 12
    """"branches": about so many of each rollout"""
    plans: int = 8
    """"branches": drawn at each of them"""
    objective: Objective = "avg_jct"
    """"avg_jct", "tail" (sum of squared JCT) or "makespan" (time with jobs in the system)"""
    differential: bool = False
    """"returns": subtract the average reward (the paper)"""
    horizon_s: Maybe[float] = None
    """"returns": a reward so many seconds later counts 1/e; None: all count alike (the paper)"""
    baseline: Literal["input", "mean", "critic", "none"] = "input"
    """"returns": "input": mean over rollouts of one sequence at the same wall time; "mean": at
    equal step; "critic": what the network's own value expects"""

    def __post_init__(self) -> None:
        _require(
            self.horizon_s is None or self.horizon_s > 0,
            f"credit.horizon_s: {self.horizon_s} is not > 0",
        )
        _require(self.states >= 1, f"credit.states: {self.states} is not at least 1")
        _require(self.plans >= 2, f"credit.plans: {self.plans} cannot be compared, 2 can")


@dataclass(frozen=True)
class UpdateConfig:
    """How the weights follow the gradient."""

    learning_rate: float = 1e-3
    final_learning_rate: float = 2e-4
    decay_iterations: int = 400
    """iterations over which the rate falls, linearly"""
    max_norm: Maybe[float] = 0.5
    """gradients are clipped at this norm"""
    passes: int = 2
    """over the decisions of an iteration; 1 is REINFORCE"""
    minibatches: int = 2
    """of each pass"""
    clip: float = 0.2
    """of the probability ratio (PPO), where there is more than one step"""
    max_kl: Maybe[float] = 0.05
    """no further pass once the policy has moved so far from the one that acted"""
    average_iterations: int = 15
    """the weights kept are a moving mean over so many iterations; 1 keeps the newest"""
    entropy_start: float = 0.0
    entropy_end: float = 0.0
    entropy_iterations: int = 400

    def __post_init__(self) -> None:
        _require(
            0 < self.final_learning_rate <= self.learning_rate,
            "update: 0 < final_learning_rate <= learning_rate is needed",
        )
        for label in (
            "decay_iterations",
            "passes",
            "minibatches",
            "entropy_iterations",
            "average_iterations",
        ):
            _require(getattr(self, label) >= 1, f"update.{label} must be at least 1")
        _require(self.clip > 0, f"update.clip: {self.clip} is not > 0")
        _require(self.max_norm is None or self.max_norm > 0, "update.max_norm must be > 0")
        _require(self.max_kl is None or self.max_kl > 0, "update.max_kl must be > 0")
        _require(
            0 <= self.entropy_end <= self.entropy_start, "update: 0 <= entropy_end <= entropy_start"
        )


@dataclass(frozen=True)
class ValidationConfig:
    """Fixed sequences, used neither in training nor by `decima evaluate`."""

    every: int = 10
    """iterations"""
    sequences: int = 10
    """of each setting"""
    jobs: int = 120
    """in each sequence of continuous arrivals"""
    patience: Maybe[int] = None
    """stop after so many validations without a better one"""

    def __post_init__(self) -> None:
        for label in ("every", "sequences", "jobs"):
            _require(getattr(self, label) >= 1, f"validation.{label} must be at least 1")
        _require(self.patience is None or self.patience >= 1, "validation.patience must be >= 1")


@dataclass(frozen=True)
class TrainConfig:
    """Everything that decides what a training gives."""

    iterations: int = 400
    seed: int = 0
    initial_model: Maybe[str] = None
    """a model file to go on from, for another workload or other settings"""
    rule: Maybe[Mapping[str, float]] = None
    """weights of the rule that learning starts from, as `decima fit-rule` found them; None: the
    shipped ones"""
    workload: WorkloadConfig = field(default_factory=WorkloadConfig)
    episodes: EpisodesConfig = field(default_factory=EpisodesConfig)
    network: NetworkConfig = field(default_factory=NetworkConfig)
    credit: CreditConfig = field(default_factory=CreditConfig)
    update: UpdateConfig = field(default_factory=UpdateConfig)
    validation: ValidationConfig = field(default_factory=ValidationConfig)

    def __post_init__(self) -> None:
        _require(self.iterations >= 1, f"iterations: {self.iterations} is not at least 1")
        _require(self.seed >= 0, f"seed: {self.seed} is negative")
        _require(self.seed < 2**63, f"seed: {self.seed} does not fit into 64 bits")
        _require(
            self.credit.method == "branches"
            or self.credit.baseline != "input"
            or self.episodes.rollouts >= 2,
            'credit.baseline "input" compares rollouts: episodes.rollouts must be at least 2',
        )
        _require(
            self.rule is None or set(self.rule) == set(PARAMETERS),
            f"rule: it must have the {len(PARAMETERS)} weights of `decima fit-rule`",
        )
        try:
            check_size(self.network)
        except ModelError as error:
            raise ConfigError(f"network: {error}") from error

    def to_json(self) -> dict[str, Any]:
        """All settings as JSON-like values."""
        return dataclasses.asdict(self)


def read_config(
    path: Path | None, changes: tuple[str, ...] = (), workload: Mapping[str, Any] | None = None
) -> TrainConfig:
    """The configuration in a TOML file, with what was said otherwise on top.

    Args:
        path: of the file; None: all settings have their defaults.
        changes: `section.key=value` each; they come last.
        workload: settings of that section. Gaps are all there is, unless batches were asked for.

    Raises:
        ConfigError: not TOML, an unknown key, a wrong type or a value that breaks a rule.
    """
    table: dict[str, Any] = {} if path is None else read_toml(path, ConfigError)
    if workload:
        own = table.setdefault("workload", {})
        _require(isinstance(own, dict), f"{path}: workload is no section")
        own |= workload
        if "interarrival_s" in workload:
            own.pop("load", None)
            own.setdefault("batch_jobs", [])
    for change in changes:
        change_setting(table, change, ConfigError)
    config = config_from(table)
    _require(
        not (workload and config.workload.settings),
        "workload.settings has traces and clusters of its own: no others beside it",
    )
    return replace(config, workload=config.workload.with_gaps())


def with_rule(config: TrainConfig, policy: str, parameters: Mapping[str, float]) -> TrainConfig:
    """`config` with the rule that learning starts from.

    Raises:
        ConfigError: the parameters are those of another heuristic.
    """
    _require(policy == "es_rule", f"learning starts from weights of es_rule, not of {policy}")
    return replace(config, rule=parameters)


def config_from(table: Mapping[str, Any]) -> TrainConfig:
    """The configuration that `TrainConfig.to_json` or a TOML file describes."""
    return build(TrainConfig, table, ConfigError)
