"""Named random streams from one seed, so that policies are compared on common random numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

_ARRIVALS, _DURATIONS, _ACTIONS, _DEMANDS = range(4)


@dataclass(frozen=True)
class Streams:
    """The causes of randomness of one run.

    Runs of one `sequence` share their arrivals. With equal `rollout` they share task durations too:
    a task's duration depends on its job, stage and index and on nothing that a policy does (except
    the wave and the level it runs at), so two policies meet the same tasks.
    """

    seed: int
    sequence: int
    """number of the arrival sequence"""
    rollout: int = 0
    """number of the repetition on that sequence"""

    def __post_init__(self) -> None:
        for label, value in vars(self).items():
            if value < 0:
                raise ValueError(f"{label} must not be negative, got {value}")

    def arrivals(self) -> np.random.Generator:
        """A fresh generator for the jobs and their arrivals, the same for every rollout."""
        return np.random.default_rng(self._entropy(_ARRIVALS))

    def duration_key(self) -> int:
        """The 64-bit key from which every task's duration is hashed."""
        return int(self._entropy(_DURATIONS, self.rollout).generate_state(1, np.uint64)[0])

    def actions(self) -> np.random.Generator:
        """A fresh generator for the choices of a randomised policy."""
        return np.random.default_rng(self._entropy(_ACTIONS, self.rollout))

    def demands(self) -> np.random.Generator:
        """A fresh generator for drawn demands of tasks."""
        return np.random.default_rng(self._entropy(_DEMANDS))

    def _entropy(self, *cause: int) -> np.random.SeedSequence:
        return np.random.SeedSequence(self.seed, spawn_key=(self.sequence, *cause))
