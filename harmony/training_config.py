"""The configurations of trainings: of a policy, by the paper's recipe, of a reward model."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from decima.rl.study.settings import ANY, AtLeastOne, NotNegative, Positive, Range, Settings
from harmony.config import MAX_JOBS, MAX_SAMPLES, PAPER, Arrivals, Config, Share
from harmony.network import Size

Samples = Annotated[int, Range(1, MAX_SAMPLES)]


@dataclass(frozen=True)
class TrainConfig(Settings):
    """Settings of a training; `recipe()` has the paper's own."""

    cluster: Config = PAPER
    patterns: tuple[Arrivals, ...] = ("uniform", "poisson", "trace")
    """how jobs come in the sequences, in turn"""
    size: Size = field(default_factory=Size)
    seed: NotNegative = 0
    iterations: AtLeastOne = 20
    replay: Samples = 8_192
    """size of the buffer of choices, sampled at random; an iteration fills it again"""
    minibatch: Samples = 32
    passes: Positive = 1.0
    """how often an iteration learns from each choice, on average"""
    shuffled: bool = True
    """whether minibatches are drawn at random; else they are choices that follow each other once"""
    critic: bool = True
    """whether a value network is the baseline; else a moving average of the returns"""
    discount: Share = 0.9
    """gamma, of rewards, for each interval"""
    learning_rate: float = 3e-4
    final_learning_rate: float = 1e-5
    """the rate falls to it in a straight line"""
    exploration: Share = 0.02
    """epsilon: chance of taking the server of bin packing or load balancing; falls to 0"""
    entropy: Annotated[float, Range(0)] = 0.005
    """beta, weight of the entropy bonus; falls to 0"""
    clip: Annotated[float, Range(0)] = 0.2
    """bound on how far an update moves a choice's probability; 0 has none, as in the paper"""
    smoothing: Share = 0.9
    """lambda, by which later intervals count less in what a choice is credited with; 1: in full"""
    max_norm: Positive = 1.0
    """of the gradient"""
    average_iterations: AtLeastOne = 1
    """the weights that are validated and saved are a moving average over about so many"""
    imitation: NotNegative = 20
    """iterations at the beginning that imitate a teacher; 0 in the paper"""
    teacher: Literal["lookahead", "load_balance"] = "lookahead"
    """the heuristic whose branches are imitated, or whose own choices are (`tau`)"""
    tau: Annotated[float, Range(0)] = 0.5
    """of `teachers.Branches`: how much longer an action may take, in intervals added over the
    jobs, to be hardly worse; 0 imitates the teacher's own choices"""
    coming: Annotated[int, Range(0, MAX_JOBS)] = MAX_JOBS
    """of `teachers.Branches`: how many of the jobs to come each branch plays"""
    samples: Samples = 10_000
    """states whose speeds the teacher's table, or the model, is fitted to"""
    world: Literal["environment", "model"] = "environment"
    """where rewards come from: the cluster, or a reward model of it (`reward.safetensors`)"""
    initial: bool = False
    """begin with the weights in the run folder's `initial.safetensors`"""
    validate_every: AtLeastOne = 4
    """iterations"""
    validation_sequences: Samples = 20
    """for each pattern; they choose the best weights"""

    def check(self) -> None:
        """Refuse sequences without a way of arriving."""
        self.require(
            bool(self.patterns), "patterns is empty: at least one way of arriving is needed"
        )


def recipe(**changes: Any) -> TrainConfig:
    """The paper's own: no imitation, no bound on updates, exploration and entropy from 0.5.

    Source: Harmony, section VI-A.
    """
    paper: dict[str, Any] = {
        "imitation": 0,
        "learning_rate": 1e-4,
        "final_learning_rate": 1e-4,
        "clip": 0.0,
        "smoothing": 1.0,
        "exploration": 0.5,
        "entropy": 0.5,
    }
    return TrainConfig(**paper | changes)


@dataclass(frozen=True)
class RewardConfig(Settings):
    """Settings of the training of a reward model. The defaults are the paper's, where known."""

    cluster: Config = PAPER
    size: Size = field(default_factory=Size)
    seed: NotNegative = 0
    samples: Annotated[int, Range(-ANY, MAX_SAMPLES)] = 29_264
    """states of clusters"""
    held_out: float = 0.1
    """share of them that nothing is learned from"""
    iterations: AtLeastOne = 10
    """passes over the samples"""
    minibatch: AtLeastOne = 32
    """states"""
    learning_rate: float = 1e-3
    final_learning_rate: float = 1e-5
    """the logarithm of the rate falls to its logarithm in a straight line"""
    validate_every: AtLeastOne = 1
    """passes"""

    def check(self) -> None:
        """Refuse a share that leaves nothing to learn from, or nothing to check with."""
        self.require(
            1 <= int(self.held_out * self.samples) < self.samples,
            f"{self.held_out} of {self.samples} samples are held out: at least 1, not all",
        )
