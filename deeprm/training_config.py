"""The configuration of a training: frozen, typed, and refused where it contradicts itself."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Literal

from deeprm.config import PAPER, Config
from deeprm.errors import DeepRmError
from traces.files.numbers import check_numbers

ObjectiveName = Literal["slowdown", "completion", "utilisation", "makespan"]


@dataclass(frozen=True)
class TrainConfig:
    """Configuration of a training. The defaults are the paper's (section 4.1)."""

    cluster: Config = PAPER
    objective: ObjectiveName = "slowdown"
    policy: Literal["image", "compact"] = "image"
    """what the network sees: the paper's image, or numbers by job and resource"""
    seed: int = 0
    iterations: int = 1_000
    job_sets: int = 100
    """in each iteration"""
    fresh_job_sets: bool = False
    """whether each iteration draws new ones; else they are the same throughout, as in the paper"""
    episodes: int = 20
    """N, on each job set"""
    baseline: Literal["step", "time"] = "step"
    """mean return over the N episodes at the same number of actions, or at the same time"""
    learning_rate: float = 1e-3
    final_learning_rate: float = 1e-3
    """the rate falls to it in a straight line, over all iterations"""
    decay: float = 0.9
    """of RMSProp's mean of squares; the paper names none, this is the released code's"""
    entropy: float = 0.0
    """weight of an entropy bonus"""
    initial: bool = False
    """begin with the weights in the run folder's `initial.safetensors`"""
    imitation: int = 0
    """iterations at the beginning that imitate shortest job first instead"""
    validate_every: int = 10
    """iterations"""
    validation_sets: int = 100
    """job sets that choose the best weights"""

    def __post_init__(self) -> None:
        check_numbers(self, DeepRmError)
        for name in ("iterations", "job_sets", "validate_every", "validation_sets"):
            value = getattr(self, name)
            if value < 1:
                raise DeepRmError(f"{name} is {value}: it must be at least 1")
        for name in ("seed", "imitation", "entropy"):
            value = getattr(self, name)
            if not value >= 0:
                raise DeepRmError(f"{name} is {value}: it must not be negative")
        if self.episodes < 2:
            raise DeepRmError(f"episodes is {self.episodes}: the baseline compares at least 2")
        if not 0.0 < self.final_learning_rate <= self.learning_rate:
            raise DeepRmError(
                f"the learning rate goes from {self.learning_rate} to {self.final_learning_rate}: "
                "it must stay above 0 and not rise"
            )
        if not 0.0 <= self.decay < 1.0:
            raise DeepRmError(f"decay is {self.decay}: it must lie in [0, 1)")

    def to_json(self) -> dict[str, Any]:
        """All settings as plain JSON; `settings.build` reads it."""
        return dataclasses.asdict(self)
