"""The configuration of the training of a reward model: frozen, typed, checked."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

from harmony.config import MAX_SAMPLES, PAPER, Config
from harmony.errors import HarmonyError
from harmony.network import Size
from traces.files.numbers import check_numbers


@dataclass(frozen=True)
class RewardConfig:
    """Configuration of a training. The defaults are the paper's, where known."""

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

    def __post_init__(self) -> None:
        check_numbers(self, HarmonyError)
        for name in ("iterations", "minibatch", "validate_every"):
            value = getattr(self, name)
            if value < 1:
                raise HarmonyError(f"{name} is {value}: it must be at least 1")
        if self.seed < 0:
            raise HarmonyError(f"seed is {self.seed}: it must not be negative")
        if self.samples > MAX_SAMPLES:
            raise HarmonyError(f"samples is {self.samples}: at most {MAX_SAMPLES:,}")
        kept = int(self.held_out * self.samples)
        if not 1 <= kept < self.samples:
            raise HarmonyError(
                f"{self.held_out} of {self.samples} samples are held out: at least 1, not all"
            )
        if not 0.0 < self.final_learning_rate <= self.learning_rate:
            raise HarmonyError(
                f"the learning rate goes from {self.learning_rate} to {self.final_learning_rate}: "
                "it must stay above 0 and not rise"
            )

    def to_json(self) -> dict[str, Any]:
        """All settings as plain JSON; `settings.build` reads it."""
        return dataclasses.asdict(self)
