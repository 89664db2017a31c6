"""The configuration of a training: frozen, typed, and refused where it contradicts itself."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any, Literal

from harmony.config import MAX_SAMPLES, PAPER, Arrivals, Config
from harmony.errors import HarmonyError
from harmony.network import Size
from traces.files.numbers import check_numbers


@dataclass(frozen=True)
class TrainConfig:
    """Configuration of a training; `recipe()` has the paper's own."""

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
    tau: float = 0.5
    """of `teachers.Branches`, who is imitated: how much longer an action may take, in intervals
    added over all jobs, to be hardly worse; 0 imitates `schedulers.Lookahead` itself"""
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

    def __post_init__(self) -> None:
        check_numbers(self, HarmonyError)
        for name in ("iterations", "replay", "minibatch", "samples", "validate_every"):
            self._at_least(name, 1)
        for name in ("validation_sequences", "average_iterations"):
            self._at_least(name, 1)
        for name in ("seed", "exploration", "entropy", "clip", "imitation", "tau"):
            self._at_least(name, 0)
        for name in ("replay", "minibatch", "samples", "validation_sequences"):
            if getattr(self, name) > MAX_SAMPLES:
                raise HarmonyError(f"{name} is {getattr(self, name)}: at most {MAX_SAMPLES:,}")
        if not self.patterns:
            raise HarmonyError("patterns is empty: at least one way of arriving is needed")
        for name in ("discount", "smoothing", "exploration"):
            value = getattr(self, name)
            if not 0.0 <= value <= 1.0:
                raise HarmonyError(f"{name} is {value}: it must lie in [0, 1]")
        for name in ("passes", "max_norm"):
            value = getattr(self, name)
            if not value > 0.0:
                raise HarmonyError(f"{name} is {value}: it must be above 0")
        if not 0.0 < self.final_learning_rate <= self.learning_rate:
            raise HarmonyError(
                f"the learning rate goes from {self.learning_rate} to {self.final_learning_rate}: "
                "it must stay above 0 and not rise"
            )

    def _at_least(self, name: str, least: int) -> None:
        value = getattr(self, name)
        if not value >= least:
            raise HarmonyError(f"{name} is {value}: it must be at least {least}")

    def to_json(self) -> dict[str, Any]:
        """All settings as plain JSON; `settings.build` reads it."""
        return dataclasses.asdict(self)


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
