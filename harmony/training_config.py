"""The configurations of trainings: of a policy, by the paper's recipe, of a reward model."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from decima.rl.study.settings import ABOVE_0, ANY, Settings
from harmony.config import MAX_JOBS, MAX_SAMPLES, PAPER, Arrivals, Config
from harmony.network import Size


@dataclass(frozen=True)
class TrainConfig(Settings):
    """Settings of a training; `recipe()` has the paper's own."""

    cluster: Config = PAPER
    patterns: tuple[Arrivals, ...] = ("uniform", "poisson", "trace")
    """how jobs come in the sequences, in turn"""
    size: Size = field(default_factory=Size)
    seed: int = 0
    iterations: int = 20
    replay: int = 8_192
    """size of the buffer of choices, sampled at random; an iteration fills it again"""
    minibatch: int = 32
    passes: float = 1.0
    """how often an iteration learns from each choice, on average"""
    shuffled: bool = True
    """whether minibatches are drawn at random; else they are choices that follow each other once"""
    critic: bool = True
    """whether a value network is the baseline; else a moving average of the returns"""
    discount: float = 0.9
    """gamma, of rewards, for each interval"""
    learning_rate: float = 3e-4
    final_learning_rate: float = 1e-5
    """the rate falls to it in a straight line"""
    exploration: float = 0.02
    """epsilon: chance of taking the server of bin packing or load balancing; falls to 0"""
    entropy: float = 0.005
    """beta, weight of the entropy bonus; falls to 0"""
    clip: float = 0.2
    """bound on how far an update moves a choice's probability; 0 has none, as in the paper"""
    smoothing: float = 0.9
    """lambda, by which later intervals count less in what a choice is credited with; 1: in full"""
    max_norm: float = 1.0
    """of the gradient"""
    average_iterations: int = 1
    """the weights that are validated and saved are a moving average over about so many"""
    imitation: int = 20
    """iterations at the beginning that imitate a teacher; 0 in the paper"""
    teacher: Literal["lookahead", "load_balance"] = "lookahead"
    """the heuristic whose branches are imitated, or whose own choices are (`tau`)"""
    tau: float = 0.5
    """of `teachers.Branches`: how much longer an action may take, in intervals added over the
    jobs, to be hardly worse; 0 imitates the teacher's own choices"""
    coming: int = MAX_JOBS
    """of `teachers.Branches`: how many of the jobs to come each branch plays"""
    samples: int = 10_000
    """states whose speeds the teacher's table, or the model, is fitted to"""
    world: Literal["environment", "model"] = "environment"
    """where rewards come from: the cluster, or a reward model of it (`reward.safetensors`)"""
    initial: bool = False
    """begin with the weights in the run folder's `initial.safetensors`"""
    validate_every: int = 4
    """iterations"""
    validation_sequences: int = 20
    """for each pattern; they choose the best weights"""

    RANGES = {  # noqa: RUF012 (annotated in the base)
        **dict.fromkeys(("iterations", "validate_every", "average_iterations"), (1, ANY)),
        **dict.fromkeys(
            ("replay", "minibatch", "samples", "validation_sequences"), (1, MAX_SAMPLES)
        ),
        **dict.fromkeys(("seed", "entropy", "clip", "imitation", "tau"), (0, ANY)),
        "coming": (0, MAX_JOBS),
        **dict.fromkeys(("discount", "smoothing", "exploration"), (0.0, 1.0)),
        **dict.fromkeys(("passes", "max_norm"), (ABOVE_0, ANY)),
    }

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
    seed: int = 0
    samples: int = 29_264
    """states of clusters"""
    held_out: float = 0.1
    """share of them that nothing is learned from"""
    iterations: int = 10
    """passes over the samples"""
    minibatch: int = 32
    """states"""
    learning_rate: float = 1e-3
    final_learning_rate: float = 1e-5
    """the logarithm of the rate falls to its logarithm in a straight line"""
    validate_every: int = 1
    """passes"""

    RANGES = {  # noqa: RUF012 (annotated in the base)
        **dict.fromkeys(("iterations", "minibatch", "validate_every"), (1, ANY)),
        "seed": (0, ANY),
        "samples": (-ANY, MAX_SAMPLES),
    }

    def check(self) -> None:
        """Refuse a share that leaves nothing to learn from, or nothing to check with."""
        self.require(
            1 <= int(self.held_out * self.samples) < self.samples,
            f"{self.held_out} of {self.samples} samples are held out: at least 1, not all",
        )
