"""The configuration of a training: frozen, typed, and refused where it contradicts itself.

A TOML file has one table for each section; `decima train --set section.key=value` changes one.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from decima.agent.model import ModelError, check_size
from decima.agent.network import NetworkConfig
from decima.evaluation.config import ConfigError
from decima.policies import HEURISTICS, Heuristic, PolicyError
from decima.settings import Maybe, build
from files.errors import FileError
from files.reading import parse_toml, read_toml
from spark_sim import Cluster, Protocol
from traces.numbers import MS_PER_S

Objective = Literal["avg_jct", "tail", "makespan"]


def _require(rule: bool, message: str) -> None:
    if not rule:
        raise ConfigError(message)


@dataclass(frozen=True)
class WorkloadConfig:
    """What arrives where. A *setting* is a mean gap, or a batch."""

    trace: str = "tpch"
    """a built-in trace by name, or a file"""
    executors: int = 50
    interarrival_s: tuple[float, ...] = (25.0, 18.0, 15.0)
    """mean gaps of continuous arrivals: one setting each"""
    batch_jobs: tuple[int, ...] = (20,)
    """numbers of jobs that arrive at once: one setting each"""
    protocol: str = "executors"
    moving_delay_s: float = 2.0
    warmup_delay_s: float = 1.0

    def __post_init__(self) -> None:
        _require(
            len(self.interarrival_s) + len(self.batch_jobs) > 0,
            "workload: neither interarrival_s nor batch_jobs names a setting",
        )
        for gap in self.interarrival_s:
            _require(math.isfinite(gap) and gap > 0, f"workload.interarrival_s: {gap} is not > 0")
        for jobs in self.batch_jobs:
            _require(jobs >= 1, f"workload.batch_jobs: {jobs} is not at least 1")
        self.cluster()

    def cluster(self) -> Cluster:
        """The cluster of every episode; refuses impossible settings."""
        return Cluster(
            num_executors=self.executors,
            moving_delay_ms=self.moving_delay_s * MS_PER_S,
            warmup_delay_ms=self.warmup_delay_s * MS_PER_S,
            protocol=Protocol.parse(self.protocol),
        )


@dataclass(frozen=True)
class EpisodesConfig:
    """What one iteration plays."""

    sequences: int = 8
    """arrival sequences, shared out over the settings in turn"""
    rollouts: int = 16
    """on each sequence, with the same arrivals and task durations"""
    shards: int = 2
    """parts of an iteration that one process can play: results depend on it, not on workers"""
    start_s: float = 400.0
    """mean length of an episode at first; ends are memoryless (Decima 5.3)"""
    end_s: float = 800.0
    """mean length at last"""
    growth_iterations: int = 200
    """iterations over which it grows (the curriculum)"""
    pick: Literal["turns", "gap"] = "turns"
    """settings take turns, or come the more often the further behind the reference they are"""
    longest: float = 2.5
    """no episode is longer than so many mean lengths"""
    backlog: int = 10
    """up to so many jobs (equally likely) are there when an episode of arrivals begins"""
    ends: Literal["cut", "drained"] = "drained"
    """at an episode's end the run is cut, or arrivals stop and the jobs there are completed"""

    def __post_init__(self) -> None:
        _require(self.shards >= 1, f"episodes.shards: {self.shards} is not at least 1")
        _require(
            self.sequences >= self.shards and self.sequences % self.shards == 0,
            f"episodes.sequences: {self.sequences} is no multiple of {self.shards} shards",
        )
        _require(self.rollouts >= 1, f"episodes.rollouts: {self.rollouts} is not at least 1")
        _require(
            0 < self.start_s <= self.end_s,
            f"episodes: mean length from {self.start_s} to {self.end_s} s must be > 0, not fall",
        )
        _require(self.growth_iterations >= 1, "episodes.growth_iterations must be at least 1")
        _require(self.longest > 0, f"episodes.longest: {self.longest} is not > 0")
        _require(self.backlog >= 0, f"episodes.backlog: {self.backlog} is negative")


@dataclass(frozen=True)
class CreditConfig:
    """How much better than expected an action was."""

    objective: Objective = "avg_jct"
    """"avg_jct", "tail" (sum of squared JCT) or "makespan" (time with jobs in the system)"""
    differential: bool = False
    """subtract the average reward (the paper's choice where returns are not discounted)"""
    horizon_s: Maybe[float] = None
    """a reward so many seconds later counts 1/e; None: all count alike (the paper)"""
    critic: bool = False
    """a learned value function, with generalised advantages"""
    trace_s: float = 150.0
    """generalised advantages trust rewards for about so many seconds, then the critic"""
    baseline: Literal["input", "mean", "none"] = "input"
    """"input": mean over rollouts of one sequence at the same wall time; "mean": at equal step"""
    normalise: Literal["cost", "sequence", "update", "none"] = "cost"
    """advantages to deviation 1 over each "sequence", over the whole "update", or over the update
    after taking those of each sequence as shares of its "cost\""""

    def __post_init__(self) -> None:
        _require(
            self.horizon_s is None or self.horizon_s > 0,
            f"credit.horizon_s: {self.horizon_s} is not > 0",
        )
        _require(self.trace_s > 0, f"credit.trace_s: {self.trace_s} is not > 0")
        _require(
            not (self.critic and self.horizon_s is None),
            "credit: a critic needs a horizon_s, since undiscounted values have no bound",
        )


@dataclass(frozen=True)
class UpdateConfig:
    """How the weights follow the gradient."""

    learning_rate: float = 4e-4
    final_learning_rate: float = 1e-4
    decay_iterations: int = 250
    """iterations over which the rate falls, linearly"""
    max_norm: Maybe[float] = 0.5
    """gradients are clipped at this norm"""
    passes: int = 3
    """over the decisions of an iteration; 1 is REINFORCE"""
    minibatches: int = 4
    """of each pass"""
    clip: float = 0.2
    """of the probability ratio (PPO), where there is more than one step"""
    max_kl: Maybe[float] = 0.02
    """no further pass once the policy has moved so far from the one that acted"""
    value_weight: float = 0.5
    critic_first: int = 6
    """after `initial_model`: iterations that train the critic alone, whose own returns differed"""
    average_iterations: int = 15
    """the weights kept are a moving mean over so many iterations; 1 keeps the newest"""
    device: Literal["auto", "cpu", "cuda"] = "cpu"
    """where gradients are computed; "auto" is cuda where there is one (sums differ a little)"""
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
        _require(self.critic_first >= 0, "update.critic_first must not be negative")
        _require(self.value_weight >= 0, "update.value_weight must not be negative")
        _require(
            0 <= self.entropy_end <= self.entropy_start, "update: 0 <= entropy_end <= entropy_start"
        )


@dataclass(frozen=True)
class ImitationConfig:
    """The warm start: first iterations that copy a heuristic."""

    teacher: str = "es_rule"
    """a heuristic by name"""
    parameters: Maybe[Mapping[str, float]] = None
    """of the teacher, as `decima tune` or `decima fit-rule` found them; None: the shipped ones"""
    iterations: int = 30
    """0 starts from nothing"""
    learning_rate: float = 3e-3
    sharpen: float = 3.0
    """factor on all scores at its end, and on those of `initial_model`: above 1 explores less"""

    def __post_init__(self) -> None:
        _require(
            self.teacher in HEURISTICS,
            f"imitation.teacher: no policy {self.teacher!r}; there are {', '.join(HEURISTICS)}",
        )
        try:
            Heuristic(self.teacher, self.parameters)
        except PolicyError as error:
            raise ConfigError(f"imitation.parameters: {error}") from error
        _require(self.iterations >= 0, "imitation.iterations must not be negative")
        _require(self.learning_rate > 0, "imitation.learning_rate must be > 0")
        _require(self.sharpen > 0, "imitation.sharpen must be > 0")


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
    """a model file to go on from, for another workload or other settings, without `imitation`"""
    workload: WorkloadConfig = field(default_factory=WorkloadConfig)
    episodes: EpisodesConfig = field(default_factory=EpisodesConfig)
    network: NetworkConfig = field(default_factory=NetworkConfig)
    credit: CreditConfig = field(default_factory=CreditConfig)
    update: UpdateConfig = field(default_factory=UpdateConfig)
    imitation: ImitationConfig = field(default_factory=ImitationConfig)
    validation: ValidationConfig = field(default_factory=ValidationConfig)

    def __post_init__(self) -> None:
        _require(self.iterations >= 1, f"iterations: {self.iterations} is not at least 1")
        _require(self.seed >= 0, f"seed: {self.seed} is negative")
        _require(self.seed < 2**63, f"seed: {self.seed} does not fit into 64 bits")
        _require(
            self.credit.baseline != "input" or self.episodes.rollouts >= 2,
            'credit.baseline "input" compares rollouts: episodes.rollouts must be at least 2',
        )
        try:
            check_size(self.network)
        except ModelError as error:
            raise ConfigError(f"network: {error}") from error

    @property
    def imitations(self) -> int:
        """Iterations that copy the teacher."""
        return 0 if self.initial_model is not None else self.imitation.iterations

    @property
    def critic_until(self) -> int:
        """The first iteration that changes what the policy does, where it starts from a model."""
        is_new = self.initial_model is not None and self.credit.critic
        return self.update.critic_first if is_new else 0

    def to_json(self) -> dict[str, Any]:
        """All settings as JSON-like values."""
        return dataclasses.asdict(self)


def read_config(path: Path | None, changes: tuple[str, ...] = ()) -> TrainConfig:
    """The configuration in a TOML file, with `section.key=value` changes on top.

    Raises:
        ConfigError: not TOML, an unknown key, a wrong type or a value that breaks a rule.
    """
    table: dict[str, Any] = {} if path is None else read_toml(path, ConfigError)
    for change in changes:
        _apply(table, change)
    return config_from(table)


def with_teacher(config: TrainConfig, teacher: str, parameters: Mapping[str, float]) -> TrainConfig:
    """`config` with the heuristic that its first iterations copy."""
    imitation = replace(config.imitation, teacher=teacher, parameters=parameters)
    return replace(config, imitation=imitation)


def config_from(table: Mapping[str, Any]) -> TrainConfig:
    """The configuration that `TrainConfig.to_json` or a TOML file describes."""
    return build(TrainConfig, table)


def _apply(table: dict[str, Any], change: str) -> None:
    label, equals, text = change.partition("=")
    *sections, key = label.strip().split(".")
    if not equals or not key:
        raise ConfigError(f"--set {change!r:.60}: expected section.key=value")
    try:
        value = parse_toml(f"value = {text}", "--set")["value"]
    except FileError:
        value = text.strip()
    for section in sections:
        inner = table.setdefault(section, {})
        if not isinstance(inner, dict):
            raise ConfigError(f"--set {change!r:.60}: {section!r:.60} is no section")
        table = inner
    table[key] = value
