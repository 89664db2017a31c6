"""Schedules of a training: the length of episodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np


@dataclass(frozen=True)
class Curriculum:
    """Memoryless ends of episodes whose mean length grows.

    A length is drawn from an exponential distribution: at no moment does the time already passed
    show how much is left. With a fixed, predictable end a policy learns to push work past it.
    Early episodes are short, as a policy that knows nothing lets the queue grow without bound and
    late states of such episodes teach little.

    Source: Decima (SIGCOMM 2019), section 5.3. The paper lets the number of jobs grow with it. In
    the released code the flags for that (`num_stream_dags_grow`, `num_stream_dags_max`) are never
    read; only the chance of an end falls there (mean 2,000 s to 20,000 s over 1,125 iterations).
    """

    start: float
    """mean length at iteration 0, in whatever unit"""
    end: float
    """mean length from iteration `iterations` on"""
    iterations: int
    """how many iterations the growth takes"""
    growth: Literal["linear", "geometric"] = "geometric"
    """whether equal steps add the same time or multiply by the same factor"""

    def __post_init__(self) -> None:
        if not 0.0 < self.start <= self.end:
            raise ValueError(
                f"mean episode length from {self.start} to {self.end}: it must be above 0"
                " and not fall"
            )
        if self.iterations < 1:
            raise ValueError(f"episodes grow over {self.iterations} iterations: at least 1")
        if self.growth not in ("linear", "geometric"):
            raise ValueError(f"growth is {self.growth!r}: it must be linear or geometric")

    def mean(self, iteration: int) -> float:
        """Mean episode length at an iteration, counted from 0."""
        share = min(iteration / self.iterations, 1.0)
        if self.growth == "linear":
            return self.start + (self.end - self.start) * share
        return float(self.start * (self.end / self.start) ** share)

    def draw(self, rng: np.random.Generator, iteration: int) -> float:
        """Length of one episode of an iteration; all rollouts of one input share it."""
        return float(rng.exponential(self.mean(iteration)))
