"""The configuration of a training: frozen, typed and checked for contradictions.

A TOML file has one table for each section; `decima train --set section.key=value` changes one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from decima.agent.model import ModelError, check_size, load_model
from decima.agent.weights import NetworkConfig
from decima.errors import ConfigError
from decima.evaluation.config import EvaluationConfig, gap_at, setting_of
from decima.objectives import REWARDED, check_objective, is_own
from decima.policy_names import SAMPLED_SUFFIX, is_learned, model_path
from decima.registry import HEURISTICS
from decima.rl.study.settings import (
    ABOVE_0,
    BELOW_1,
    AtLeastOne,
    NotNegative,
    Positive,
    Range,
    Settings,
)
from spark_sim.cluster import MOVING_DELAY_S
from traces.arrivals import ARRIVALS
from traces.files.reading import read_toml
from traces.files.settings import Maybe, build, change_setting

MOST_SHARDS = 1_000
MOST_EPISODES = 1_000  # most episodes of an iteration, the distance between numbers of iterations
LOADS = (0.7, 0.9, 1.1)  # loads of continuous arrivals by default


class Section(Settings):
    """Base of the sections of a configuration."""

    ERROR = ConfigError


@dataclass(frozen=True)
class WorkloadConfig(Section):
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
    """instead of all this: keys as in a file of settings (`decima.evaluation.config`)"""

    def check(self) -> None:
        """Refuse impossible settings."""
        self.evaluations()

    def evaluations(self) -> tuple[EvaluationConfig, ...]:
        """The settings, in their order; refuses impossible ones."""
        if self.settings:
            settings = tuple(setting_of(values) for values in self.settings)
            for setting in settings:
                self.require(
                    setting.arrivals in ARRIVALS,
                    f"workload.settings: arrivals {setting.arrivals!r} cannot be drawn for each "
                    f"episode, as training needs: one of {', '.join(ARRIVALS)}",
                )
            return settings
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
        self.require(
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
            self.require(
                not self.load, "workload: load and interarrival_s exclude each other: give one"
            )
            return self.interarrival_s
        loads = LOADS if self.load is None else self.load
        return tuple(gap_at(self.trace, self.executors, load) for load in loads)


@dataclass(frozen=True)
class EpisodesConfig(Section):
    """Episodes of one iteration."""

    SECTION = "episodes"

    settings: AtLeastOne = 4
    """most settings that an iteration of imitate or reinforce plays; they take turns"""
    shards: Annotated[int, Range(1, MOST_SHARDS)] = 2
    """parts of an iteration that one process can play, of which those beyond its sequences are
    empty: results depend on it, not on workers"""
    start_jobs: float = 24.0
    """mean number of arrivals in an episode at first; ends are memoryless (Decima 5.3)"""
    end_jobs: float = 40.0
    """mean number at last"""
    growth_iterations: AtLeastOne = 200
    """iterations over which it grows (the curriculum)"""
    longest: Positive = 2.0
    """longest episode, in mean lengths"""
    backlog: NotNegative = 8
    """largest number of jobs (uniform from 0) present when an episode of arrivals begins"""
    ends: Literal["cut", "drained"] = "drained"
    """end of an episode: the run is cut, or arrivals stop and the present jobs are completed"""

    def check(self) -> None:
        """Refuse a curriculum that falls."""
        self.require(
            0 < self.start_jobs <= self.end_jobs,
            f"episodes: from {self.start_jobs} to {self.end_jobs} jobs must be > 0, not fall",
        )


@dataclass(frozen=True)
class StepConfig(Section):
    """Settings that all steps of a training share."""

    iterations: NotNegative = 0
    """0 leaves the step out"""
    sequences: AtLeastOne = 2
    """arrival sequences of each setting that an iteration plays"""
    average_iterations: AtLeastOne = 4
    """the validated weights are a moving mean over so many iterations; 1 takes the newest"""

    def falling(self, first: float, last: float, iteration: int) -> float:
        """Return a value that falls linearly over the step, at an iteration of it, from 0."""
        return first + min(1.0, iteration / max(1, self.iterations)) * (last - first)


@dataclass(frozen=True)
class GradientConfig(StepConfig):
    """Settings of the steps that follow a gradient, with Adam."""

    learning_rate: float = 1e-3
    """rate at the step's begin"""
    final_learning_rate: float = 1e-4
    """rate at the step's end; it falls linearly"""
    passes: AtLeastOne = 3
    """passes over the decisions of an iteration"""
    minibatches: AtLeastOne = 10
    """minibatches of each pass; 1 pass of 1 minibatch is plain REINFORCE"""
    max_norm: Maybe[Positive] = 0.5
    """gradients are clipped at this norm"""

    def rate_at(self, iteration: int) -> float:
        """Return the learning rate at an iteration of the step, from 0."""
        return self.falling(self.learning_rate, self.final_learning_rate, iteration)


@dataclass(frozen=True)
class ImitateConfig(GradientConfig):
    """Imitation of the best heuristic of each setting (behaviour cloning with DAgger).

    Source: Ross, Gordon and Bagnell, A Reduction of Imitation Learning to No-Regret Online
    Learning, AISTATS 2011.
    """

    SECTION = "imitate"

    iterations: NotNegative = 60
    learning_rate: float = 3e-3
    final_learning_rate: float = 3e-4
    minibatches: AtLeastOne = 12
    sequences: AtLeastOne = 4
    teachers: tuple[str, ...] = ("es_rule", "tuned_srw", "tuned_weighted_fair", "sjf_cp")
    """heuristics, `decima` and model files; each setting is taught by the one with the lowest
    objective there"""
    student: Annotated[float, Range(0, 1)] = 0.5
    """share of the sequences that the network plays itself, with the teacher's choices as labels"""
    labels: Annotated[float, Range(ABOVE_0, 1)] = 0.4
    """share of the decisions of those sequences that are labelled"""

    def check(self) -> None:
        """Refuse teachers that cannot teach."""
        self.require(len(self.teachers) >= 1, "imitate.teachers: at least one is needed")
        for name in self.teachers:
            self.require(
                is_learned(name) or (name in HEURISTICS and name != "random"),
                f"imitate.teachers: {name!r} is neither a heuristic that can teach nor a model",
            )
            self.require(
                not name.endswith(SAMPLED_SUFFIX),
                f"imitate.teachers: {name!r} draws its plans: the likeliest ones teach",
            )


@dataclass(frozen=True)
class ReinforceConfig(GradientConfig):
    """Policy gradient on what came after each decision: REINFORCE, or PPO with several passes."""

    SECTION = "reinforce"

    rollouts: AtLeastOne = 8
    """rollouts of each sequence, with the same arrivals and task durations"""
    clip: Positive = 0.2
    """bound on the probability ratio (PPO), with more than one minibatch or pass"""
    max_kl: Maybe[Positive] = 0.05
    """bound on the divergence from the policy that acted; no further minibatch beyond it"""
    entropy_start: float = 0.003
    """weight of the entropy bonus at the step's begin"""
    entropy_end: float = 0.0
    """weight at the step's end"""
    fallback: Maybe[Positive] = 3.0
    """percent above the best validation at which the best weights are restored, with half the
    learning rate; none disables it"""

    def check(self) -> None:
        """Refuse an entropy bonus that rises."""
        self.require(
            0 <= self.entropy_end <= self.entropy_start,
            "reinforce: 0 <= entropy_end <= entropy_start is needed",
        )

    def entropy_at(self, iteration: int) -> float:
        """Return the weight of the entropy bonus at an iteration of the step, from 0."""
        return self.falling(self.entropy_start, self.entropy_end, iteration)


NetworkPart = Literal["encoder", "stage_head", "end_head", "limit_head", "class_head"]


@dataclass(frozen=True)
class EvolveConfig(StepConfig):
    """Evolution strategies: the weights move towards perturbations that lower the objective.

    The formulas are in `decima.rl.evolution`.
    """

    SECTION = "evolve"

    iterations: NotNegative = 40
    sequences: Annotated[int, Range(1, MOST_EPISODES)] = 1
    """arrival sequences that each pair plays"""
    pairs: Annotated[int, Range(2, 100_000)] = 128
    """pairs of opposite perturbations in an iteration"""
    jobs: AtLeastOne = 60
    """jobs in each sequence of continuous arrivals"""
    sigma: Annotated[float, Range(ABOVE_0, 1)] = 0.05
    """standard deviation of a perturbation at first, as a share of the size of the weights"""
    cost: Maybe[Annotated[float, Range(ABOVE_0, BELOW_1)]] = 0.003
    """share by which perturbations worsen the objective, in the median: sigma is adapted until
    they do; none leaves sigma as it is"""
    rate: float = 1.0
    """length of a step at the step's begin, in standard deviations of a perturbation"""
    final_rate: float = 0.1
    """length at the step's end; it falls linearly"""
    momentum: Annotated[float, Range(0, BELOW_1)] = 0.8
    """weight of the earlier steps in the direction of the next"""
    parts: tuple[NetworkPart, ...] = ()
    """parts of the network that may change; none named: all"""

    def check(self) -> None:
        """Refuse steps that grow."""
        self.require(
            0 < self.final_rate <= self.rate <= 100,
            "evolve: 0 < final_rate <= rate <= 100 is needed",
        )

    def rate_at(self, iteration: int) -> float:
        """Return the length of a step at an iteration of the step, from 0."""
        return self.falling(self.rate, self.final_rate, iteration)


@dataclass(frozen=True)
class CreditConfig(Section):
    """Settings of credit assignment in the step `reinforce`.

    Times are in units of the average JCT of strict fair in the same setting, so that one
    configuration serves jobs of seconds and of hours.
    """

    SECTION = "credit"

    differential: bool = False
    """subtract the average reward (the paper)"""
    horizon: Maybe[Positive] = 4.0
    """a reward so much later counts 1/e; none: all count alike (the paper)"""
    critic: bool = True
    """the network's own value of a state is subtracted"""
    trace: Maybe[Positive] = 2.0
    """time after which the critic accounts for 1 - 1/e of a reward (generalised advantage
    estimation with lambda as a time); none: never"""
    baseline: Literal["input", "mean", "none"] = "input"
    """"input": mean over rollouts of one sequence at the same wall time; "mean": at equal step"""


@dataclass(frozen=True)
class ValidationConfig(Section):
    """Fixed sequences, used neither in training nor by `decima evaluate`."""

    SECTION = "validation"

    every: AtLeastOne = 20
    """iterations"""
    sequences: AtLeastOne = 10
    """sequences of each setting"""
    jobs: AtLeastOne = 80
    """jobs in each sequence of continuous arrivals"""
    patience: Maybe[AtLeastOne] = None
    """stop after so many validations without a better one"""


@dataclass(frozen=True)
class TrainConfig(Section):
    """Configuration of a training: everything that decides its result."""

    seed: Annotated[int, Range(0, 2**63 - 1)] = 0
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

    def check(self) -> None:
        """Refuse sections that contradict each other."""
        check_objective(self.objective)
        settings = self.workload.evaluations()
        at_once = min(self.episodes.settings, len(settings))
        for step in (self.imitate, self.reinforce):
            self.require(
                at_once * step.sequences <= MOST_EPISODES,
                f"{at_once} settings of {step.sequences:,} sequences: an iteration plays at most "
                f"{MOST_EPISODES:,}",
            )
        self.require(
            len(self.evolving_parts) > 0,
            f"evolve.parts: {', '.join(self.evolve.parts)} decides nothing in these settings: name "
            "another",
        )
        self.require(
            self.reinforce.iterations == 0 or self.objective in REWARDED,
            f"objective {self.objective!r} is known at the end of a run only, and reinforce needs "
            f"a reward at each plan: set reinforce.iterations = 0 and let evolve follow, or choose "
            f"one of {', '.join(REWARDED)}",
        )
        self.require(
            self.iterations >= 1, "the iterations of imitate, reinforce and evolve are all 0"
        )
        self.require(
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
        if all(setting.classes is None for setting in self.workload.evaluations()):
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
        number = iteration
        for step in self.steps[:-1]:
            if number < step.iterations:
                return step, number
            number -= step.iterations
        return self.steps[-1], number


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
    if is_own(str(table.get("objective", ""))):
        raise ConfigError(
            f"{path}: objective {table['objective']!r:.60} is code of your own, which a file must "
            "not run: name it in the command, as --objective"
        )
    if workload:
        section = table.setdefault("workload", {})
        if not isinstance(section, dict):
            raise ConfigError(f"{path}: workload is no section")
        section |= workload
        if "interarrival_s" in workload:
            section.pop("load", None)
            section.setdefault("batch_jobs", [])
    for change in changes:
        change_setting(table, change, ConfigError)
    if objective is not None:
        table["objective"] = objective
    config = config_from(table)
    if config.initial_model is not None and "network" not in table:
        first = load_model(model_path(config.initial_model)).weights
        config = replace(config, network=first.config)
    if workload and config.workload.settings:
        raise ConfigError(
            "workload.settings has traces and clusters of its own: no others beside it"
        )
    return replace(config, workload=config.workload.with_gaps())


def config_from(table: Mapping[str, Any]) -> TrainConfig:
    """The configuration that `TrainConfig.to_json` or a TOML file describes."""
    return build(TrainConfig, table, ConfigError)
