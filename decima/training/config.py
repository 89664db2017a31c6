"""The configuration of a training: frozen, typed and checked for contradictions.

A TOML file has one table for each section; `decima train --set section.key=value` changes one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args

from decima.agent.model import ModelError, check_size, load_model
from decima.agent.weights import NetworkConfig
from decima.errors import ConfigError
from decima.evaluation.config import EvaluationConfig
from decima.evaluation.settings_file import gap_at, setting_of
from decima.objectives import check_objective, is_own
from decima.policy_names import SAMPLED_SUFFIX, is_learned, model_path
from decima.registry import HEURISTICS
from spark_sim.cluster import MOVING_DELAY_S
from traces.arrivals import ARRIVALS
from traces.files.reading import read_toml
from traces.files.settings import Maybe, build, change_setting

RewardedObjective = Literal["avg_jct", "rms_jct", "makespan"]
"""objectives that are a sum over time, so that each plan has a reward (`costs.py`)"""
MOST_SHARDS = 1_000
MOST_EPISODES = 1_000  # most episodes of an iteration, the distance between numbers of iterations
LOADS = (0.7, 0.9, 1.1)  # loads of continuous arrivals by default


def _require(rule: bool, message: str) -> None:
    if not rule:
        raise ConfigError(message)


@dataclass(frozen=True)
class WorkloadConfig:
    """Workload of a training. A *setting* is a cluster with jobs that arrive, or are all there at
    once.

    One trace on one cluster, with a list of gaps and batches; or `settings`, each with a trace and
    a cluster of its own.
    """

    trace: str = "tpch"
    """a built-in trace by name, or a file"""
    executors: int = 50
    load: Maybe[tuple[float, ...]] = None
    """loads of continuous arrivals, as in `gap_at`, one setting each; None takes `LOADS` unless
    there are gaps"""
    interarrival_s: Maybe[tuple[float, ...]] = None
    """mean gaps of continuous arrivals, in place of loads: one setting each"""
    batch_jobs: tuple[int, ...] = (20,)
    """numbers of jobs that arrive at once: one setting each"""
    protocol: str = "executors"
    moving_delay_s: float = MOVING_DELAY_S
    warmup_delay_s: float = 1.0
    classes: Maybe[str] = None
    """executors of several sizes, as `decima evaluate --classes`; they add up to `executors`"""
    demands: Literal["trace", "drawn"] = "trace"
    """"drawn": memory demands are drawn, as by `decima evaluate --demands`"""
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
                    f"workload.settings: arrivals {one.arrivals!r} cannot be drawn for each "
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
        """Return the workload with gaps in place of loads, so that a resumed run keeps its gaps."""
        if self.settings or self.interarrival_s is not None:
            return self
        return replace(self, load=None, interarrival_s=self._gaps_s())

    def _gaps_s(self) -> tuple[float, ...]:
        """Mean gaps of continuous arrivals."""
        if self.interarrival_s is not None:
            _require(
                not self.load, "workload: load and interarrival_s exclude each other: give one"
            )
            return self.interarrival_s
        loads = LOADS if self.load is None else self.load
        return tuple(gap_at(self.trace, self.executors, load) for load in loads)


@dataclass(frozen=True)
class EpisodesConfig:
    """Episodes of one iteration."""

    settings: int = 4
    """most settings that an iteration of imitate or reinforce plays; they take turns"""
    shards: int = 2
    """parts of an iteration that one process can play, of which those beyond its sequences are
    empty: results depend on it, not on workers"""
    start_jobs: float = 24.0
    """mean number of arrivals in an episode at first; ends are memoryless (Decima 5.3)"""
    end_jobs: float = 40.0
    """mean number at last"""
    growth_iterations: int = 200
    """iterations over which it grows (the curriculum)"""
    longest: float = 2.0
    """longest episode, in mean lengths"""
    backlog: int = 8
    """largest number of jobs (uniform from 0) present when an episode of arrivals begins"""
    ends: Literal["cut", "drained"] = "drained"
    """end of an episode: the run is cut, or arrivals stop and the present jobs are completed"""

    def __post_init__(self) -> None:
        for label in ("settings", "shards", "growth_iterations"):
            _require(getattr(self, label) >= 1, f"episodes.{label}: it must be at least 1")
        _require(
            self.shards <= MOST_SHARDS, f"episodes.shards: {self.shards} is above {MOST_SHARDS:,}"
        )
        _require(
            0 < self.start_jobs <= self.end_jobs,
            f"episodes: from {self.start_jobs} to {self.end_jobs} jobs must be > 0, not fall",
        )
        _require(self.longest > 0, f"episodes.longest: {self.longest} is not > 0")
        _require(self.backlog >= 0, f"episodes.backlog: {self.backlog} is negative")


@dataclass(frozen=True)
class StepConfig:
    """Settings that all steps of a training share."""

    iterations: int = 0
    """0 leaves the step out"""
    sequences: int = 2
    """arrival sequences of each setting that an iteration plays"""
    average_iterations: int = 4
    """the validated weights are a moving mean over so many iterations; 1 takes the newest"""

    def __post_init__(self) -> None:
        _require(self.iterations >= 0, f"iterations: {self.iterations} is negative")
        for label in ("sequences", "average_iterations"):
            _require(getattr(self, label) >= 1, f"{label} must be at least 1")


@dataclass(frozen=True)
class GradientConfig(StepConfig):
    """Settings of the steps that follow a gradient, with Adam."""

    learning_rate: float = 1e-3
    """rate at the step's begin"""
    final_learning_rate: float = 1e-4
    """rate at the step's end; it falls linearly"""
    passes: int = 3
    """passes over the decisions of an iteration"""
    minibatches: int = 10
    """minibatches of each pass; 1 pass of 1 minibatch is plain REINFORCE"""
    max_norm: Maybe[float] = 0.5
    """gradients are clipped at this norm"""

    def __post_init__(self) -> None:
        super().__post_init__()
        _require(
            0 < self.final_learning_rate <= self.learning_rate,
            "0 < final_learning_rate <= learning_rate is needed",
        )
        for label in ("passes", "minibatches"):
            _require(getattr(self, label) >= 1, f"{label} must be at least 1")
        _require(self.max_norm is None or self.max_norm > 0, "max_norm must be > 0")

    def rate_at(self, iteration: int) -> float:
        """Return the learning rate at an iteration of the step, from 0."""
        share = min(1.0, iteration / max(1, self.iterations))
        return self.learning_rate + share * (self.final_learning_rate - self.learning_rate)


@dataclass(frozen=True)
class ImitateConfig(GradientConfig):
    """Imitation of the best heuristic of each setting (behaviour cloning with DAgger).

    Source: Ross, Gordon and Bagnell, A Reduction of Imitation Learning to No-Regret Online
    Learning, AISTATS 2011.
    """

    iterations: int = 60
    learning_rate: float = 3e-3
    final_learning_rate: float = 3e-4
    minibatches: int = 12
    sequences: int = 4
    teachers: tuple[str, ...] = ("es_rule", "tuned_srw", "tuned_weighted_fair", "sjf_cp")
    """heuristics, `decima` and model files; each setting is taught by the one with the lowest
    objective there"""
    student: float = 0.5
    """share of the sequences that the network plays itself, with the teacher's choices as labels"""
    labels: float = 0.4
    """share of the decisions of those sequences that are labelled"""

    def __post_init__(self) -> None:
        super().__post_init__()
        _require(len(self.teachers) >= 1, "imitate.teachers: at least one is needed")
        for name in self.teachers:
            _require(
                is_learned(name) or (name in HEURISTICS and name != "random"),
                f"imitate.teachers: {name!r} is neither a heuristic that can teach nor a model",
            )
            _require(
                not name.endswith(SAMPLED_SUFFIX),
                f"imitate.teachers: {name!r} draws its plans: the likeliest ones teach",
            )
        for label in ("student", "labels"):
            value = getattr(self, label)
            _require(0 <= value <= 1, f"imitate.{label}: {value} is no share from 0 to 1")
        _require(self.labels > 0, "imitate.labels must be > 0")


@dataclass(frozen=True)
class ReinforceConfig(GradientConfig):
    """Policy gradient on what came after each decision: REINFORCE, or PPO with several passes."""

    rollouts: int = 8
    """rollouts of each sequence, with the same arrivals and task durations"""
    clip: float = 0.2
    """bound on the probability ratio (PPO), with more than one minibatch or pass"""
    max_kl: Maybe[float] = 0.05
    """bound on the divergence from the policy that acted; no further minibatch beyond it"""
    entropy_start: float = 0.003
    """weight of the entropy bonus at the step's begin"""
    entropy_end: float = 0.0
    """weight at the step's end"""
    fallback: Maybe[float] = 3.0
    """percent above the best validation at which the best weights are restored, with half the
    learning rate; none disables it"""

    def __post_init__(self) -> None:
        super().__post_init__()
        _require(self.rollouts >= 1, f"reinforce.rollouts: {self.rollouts} is not at least 1")
        _require(self.clip > 0, f"reinforce.clip: {self.clip} is not > 0")
        _require(self.max_kl is None or self.max_kl > 0, "reinforce.max_kl must be > 0")
        _require(
            0 <= self.entropy_end <= self.entropy_start,
            "reinforce: 0 <= entropy_end <= entropy_start is needed",
        )
        _require(self.fallback is None or self.fallback > 0, "reinforce.fallback must be > 0")

    def entropy_at(self, iteration: int) -> float:
        """Return the weight of the entropy bonus at an iteration of the step, from 0."""
        share = min(1.0, iteration / max(1, self.iterations))
        return self.entropy_start + share * (self.entropy_end - self.entropy_start)


NetworkPart = Literal["encoder", "stage_head", "end_head", "limit_head", "class_head"]


@dataclass(frozen=True)
class EvolveConfig(StepConfig):
    """Evolution strategies: the weights move towards perturbations that lower the objective.

    The formulas are in `decima.rl.evolution`.
    """

    iterations: int = 40
    sequences: int = 1
    """arrival sequences that each pair plays"""
    pairs: int = 128
    """pairs of opposite perturbations in an iteration"""
    jobs: int = 60
    """jobs in each sequence of continuous arrivals"""
    sigma: float = 0.05
    """standard deviation of a perturbation at first, as a share of the size of the weights"""
    cost: Maybe[float] = 0.003
    """share by which perturbations worsen the objective, in the median: sigma is adapted until
    they do; none leaves sigma as it is"""
    rate: float = 1.0
    """length of a step at the step's begin, in standard deviations of a perturbation"""
    final_rate: float = 0.1
    """length at the step's end; it falls linearly"""
    momentum: float = 0.8
    """weight of the earlier steps in the direction of the next"""
    parts: tuple[NetworkPart, ...] = ()
    """parts of the network that may change; none named: all"""

    def __post_init__(self) -> None:
        super().__post_init__()
        _require(2 <= self.pairs <= 100_000, f"evolve.pairs: {self.pairs} is not in 2..100,000")
        _require(
            self.sequences <= MOST_EPISODES,
            f"evolve.sequences: {self.sequences:,} is above {MOST_EPISODES:,}",
        )
        _require(self.jobs >= 1, f"evolve.jobs: {self.jobs} is not at least 1")
        _require(0 < self.sigma <= 1, f"evolve.sigma: {self.sigma} is no share above 0 and up to 1")
        _require(
            self.cost is None or 0 < self.cost < 1, f"evolve.cost: {self.cost} is no share above 0"
        )
        _require(
            0 < self.final_rate <= self.rate <= 100,
            "evolve: 0 < final_rate <= rate <= 100 is needed",
        )
        _require(0 <= self.momentum < 1, f"evolve.momentum: {self.momentum} is not in [0, 1)")

    def rate_at(self, iteration: int) -> float:
        """Return the length of a step at an iteration of the step, from 0."""
        share = min(1.0, iteration / max(1, self.iterations))
        return self.rate + share * (self.final_rate - self.rate)


@dataclass(frozen=True)
class CreditConfig:
    """Settings of credit assignment in the step `reinforce`.

    Times are in units of the average JCT of strict fair in the same setting, so that one
    configuration serves jobs of seconds and of hours.
    """

    differential: bool = False
    """subtract the average reward (the paper)"""
    horizon: Maybe[float] = 4.0
    """a reward so much later counts 1/e; none: all count alike (the paper)"""
    critic: bool = True
    """the network's own value of a state is subtracted"""
    trace: Maybe[float] = 2.0
    """time after which the critic accounts for 1 - 1/e of a reward (generalised advantage
    estimation with lambda as a time); none: never"""
    baseline: Literal["input", "mean", "none"] = "input"
    """"input": mean over rollouts of one sequence at the same wall time; "mean": at equal step"""

    def __post_init__(self) -> None:
        for label in ("horizon", "trace"):
            value = getattr(self, label)
            _require(value is None or value > 0, f"credit.{label}: {value} is not > 0")


@dataclass(frozen=True)
class ValidationConfig:
    """Fixed sequences, used neither in training nor by `decima evaluate`."""

    every: int = 20
    """iterations"""
    sequences: int = 10
    """sequences of each setting"""
    jobs: int = 80
    """jobs in each sequence of continuous arrivals"""
    patience: Maybe[int] = None
    """stop after so many validations without a better one"""

    def __post_init__(self) -> None:
        for label in ("every", "sequences", "jobs"):
            _require(getattr(self, label) >= 1, f"validation.{label} must be at least 1")
        _require(self.patience is None or self.patience >= 1, "validation.patience must be >= 1")


@dataclass(frozen=True)
class TrainConfig:
    """Configuration of a training: everything that decides its result."""

    seed: int = 0
    initial_model: Maybe[str] = None
    """a model file, or `decima`, to continue from for another workload or other settings"""
    objective: str = "avg_jct"
    """what is minimised, by its name in `decima.objectives`: it chooses teachers and the best
    weights, and the steps `reinforce` and `evolve` lower it"""
    workload: WorkloadConfig = field(default_factory=WorkloadConfig)
    episodes: EpisodesConfig = field(default_factory=EpisodesConfig)
    network: NetworkConfig = field(default_factory=NetworkConfig)
    imitate: ImitateConfig = field(default_factory=ImitateConfig)
    """the first step"""
    reinforce: ReinforceConfig = field(default_factory=ReinforceConfig)
    """the second"""
    credit: CreditConfig = field(default_factory=CreditConfig)
    """credit assignment of the second step"""
    evolve: EvolveConfig = field(default_factory=EvolveConfig)
    """the last step"""
    validation: ValidationConfig = field(default_factory=ValidationConfig)

    def __post_init__(self) -> None:
        _require(self.seed >= 0, f"seed: {self.seed} is negative")
        _require(self.seed < 2**63, f"seed: {self.seed} does not fit into 64 bits")
        check_objective(self.objective)
        settings = self.workload.evaluations()
        at_once = min(self.episodes.settings, len(settings))
        for step in (self.imitate, self.reinforce):
            _require(
                at_once * step.sequences <= MOST_EPISODES,
                f"{at_once} settings of {step.sequences:,} sequences: an iteration plays at most "
                f"{MOST_EPISODES:,}",
            )
        _require(
            len(self.evolving_parts) > 0,
            f"evolve.parts: {', '.join(self.evolve.parts)} decides nothing in these settings: name "
            "another",
        )
        _require(
            self.reinforce.iterations == 0 or self.objective in get_args(RewardedObjective),
            f"objective {self.objective!r} is known at the end of a run only, and reinforce needs "
            f"a reward at each plan: set reinforce.iterations = 0 and let evolve follow, or choose "
            f"one of {', '.join(get_args(RewardedObjective))}",
        )
        _require(self.iterations >= 1, "the iterations of imitate, reinforce and evolve are all 0")
        _require(
            self.credit.baseline != "input" or self.reinforce.rollouts >= 2,
            'credit.baseline "input" compares rollouts: reinforce.rollouts must be at least 2',
        )
        try:
            check_size(self.network)
        except ModelError as error:
            raise ConfigError(f"network: {error}") from error

    @property
    def steps(self) -> tuple[GradientConfig | EvolveConfig, ...]:
        """The steps in their order."""
        return self.imitate, self.reinforce, self.evolve

    @cached_property
    def evolving_parts(self) -> frozenset[NetworkPart]:
        """Parts of the network that `evolve` may change: those asked for that decide anything."""
        parts = set(self.evolve.parts or get_args(NetworkPart))
        if all(one.classes is None for one in self.workload.evaluations()):
            parts.discard("class_head")
        if not self.network.limit_head:
            parts.discard("limit_head")
        return frozenset(parts)

    @property
    def iterations(self) -> int:
        """Number of iterations of all steps together."""
        return sum(step.iterations for step in self.steps)

    def step_at(self, iteration: int) -> tuple[GradientConfig | EvolveConfig, int]:
        """Return the step of an iteration, and its number in the step."""
        own = iteration
        for step in self.steps[:-1]:
            if own < step.iterations:
                return step, own
            own -= step.iterations
        return self.steps[-1], own

    def to_json(self) -> dict[str, Any]:
        """Return all settings as JSON-like values."""
        return dataclasses.asdict(self)


def read_config(
    path: Path | None,
    changes: tuple[str, ...] = (),
    workload: Mapping[str, Any] | None = None,
    objective: str | None = None,
) -> TrainConfig:
    """Read the configuration in a TOML file; ConfigError if it breaks a rule.

    The `workload` settings come on top (with gaps alone there are no batches), then the `changes`,
    `section.key=value` each, and the `objective`. A first model brings its sizes, where no others
    are named.
    """
    table: dict[str, Any] = {} if path is None else read_toml(path, ConfigError)
    _require(
        not is_own(str(table.get("objective", ""))),
        f"{path}: objective {table.get('objective')!r:.60} is code of your own, which a file must "
        "not run: name it in the command, as --objective",
    )
    if workload:
        own = table.setdefault("workload", {})
        _require(isinstance(own, dict), f"{path}: workload is no section")
        own |= workload
        if "interarrival_s" in workload:
            own.pop("load", None)
            own.setdefault("batch_jobs", [])
    for change in changes:
        change_setting(table, change, ConfigError)
    if objective is not None:
        table["objective"] = objective
    config = config_from(table)
    if config.initial_model is not None and "network" not in table:
        first = load_model(model_path(config.initial_model)).weights
        config = replace(config, network=first.config)
    _require(
        not (workload and config.workload.settings),
        "workload.settings has traces and clusters of its own: no others beside it",
    )
    return replace(config, workload=config.workload.with_gaps())


def config_from(table: Mapping[str, Any]) -> TrainConfig:
    """The configuration that `TrainConfig.to_json` or a TOML file describes."""
    return build(TrainConfig, table, ConfigError)
