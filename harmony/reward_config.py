"""The configuration of the training of a reward model: frozen, typed, checked."""

from __future__ import annotations

from dataclasses import dataclass, field

from decima.rl.study.settings import ANY, Settings
from harmony.config import MAX_SAMPLES, PAPER, Config
from harmony.network import Size


@dataclass(frozen=True)
class RewardConfig(Settings):
    """Settings of a training. The defaults are the paper's, where known."""

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
