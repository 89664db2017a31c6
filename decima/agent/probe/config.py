"""Settings of the critical-path study, readable without torch."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

CLOSE = 0.01  # largest relative shortfall of a stage's critical path that counts as close


@dataclass(frozen=True)
class ProbeConfig:
    """Settings of the readout's training."""

    steps: int = 12_000
    """gradient steps"""
    questions_per_step: int = 64
    learning_rate: float = 5e-3
    """peak; the rate rises over `warmup_steps`, then falls to zero along a cosine"""
    warmup_steps: int = 100
    scale: tuple[float, float] = (0.7, 2.0)
    """mean work of a question's stages, drawn log-uniformly: larger DAGs have longer paths"""
    smallest_path: float = 0.3
    """least path length for relative errors"""
    tolerance: float = 0.02
    """relative errors above this count linearly, below quadratically"""
    sharpness: float = 100.0
    """a path that is 1 % longer is named e^(sharpness / 100) times as often"""
    naming_weight: float = 0.1
    """weight of the loss of naming against that of the lengths"""

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise ValueError(f"steps {self.steps} must be at least 1")

    def rate(self, step: int) -> float:
        """Learning rate of step 0, 1, ..."""
        rise = min(1.0, (step + 1) / self.warmup_steps)
        return self.learning_rate * rise * (0.5 + 0.5 * math.cos(math.pi * step / self.steps))


@dataclass(frozen=True)
class StudyConfig:
    """Sizes of the study."""

    probe: ProbeConfig = field(default_factory=ProbeConfig)
    seed: int = 0
    """seed of the DAGs, the initial weights and the batches"""
    train_questions: int = 8_000
    test_questions: int = 1_000
    """questions in each test set"""
    trace: str = "tpch"
    """name or file; its jobs are a test set"""

    def __post_init__(self) -> None:
        if self.seed < 0:
            raise ValueError(f"seed {self.seed} must not be negative")
        if self.seed >= 2**63:
            raise ValueError(f"seed {self.seed} does not fit into 64 bits")
