"""Supervised warm start: imitation of a teacher.

Source: the released code's `pg_su.py`, which imitates shortest job first.
"""

from __future__ import annotations

import numpy as np

from decima.rl.study.lockstep import play
from decima.rl.study.streams import Draws
from deeprm.config import Config
from deeprm.episodes import Episodes
from deeprm.learned import Frozen, Seen
from deeprm.schedulers import Scheduler
from deeprm.tables import Int32, Jobs


class _Student:
    """Scheduler that follows the teacher and records the network's observations."""

    def __init__(self, frozen: Frozen, teacher: Scheduler) -> None:
        self._frozen = frozen
        self._teacher = teacher
        self.seen: list[Seen] = []
        self.action: list[Int32] = []

    def choose(self, episodes: Episodes, rows: Int32, draws: Draws) -> Int32:
        self.seen.append(self._frozen.observe(episodes, rows))
        self.action.append(self._teacher.choose(episodes, rows, draws))
        return self.action[-1]


def imitated(frozen: Frozen, teacher: Scheduler, config: Config, jobs: Jobs) -> tuple[Seen, Int32]:
    """Let the teacher play each job set: (Q, ...) what it saw, and (Q,) what it did."""
    student = _Student(frozen, teacher)
    episodes = Episodes(config, jobs)
    play(student, episodes, Draws(0, len(episodes)))
    return np.concatenate(student.seen), np.concatenate(student.action)
