"""Schedulers: the interface, the heuristics, and one loop that plays any of them.

Source of the heuristics: DeepRM (HotNets 2016), section 4.1, paragraph "Comparables"; Packer and
Tetris* after Tetris (SIGCOMM 2014). Like DeepRM they see the jobs in the slots and no others, and
unlike it they start each job at once, as many as fit, in the order of their score.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from decima.rl.draws import Draws as RunDraws
from deeprm import rule_kernels
from deeprm.episodes import Episodes, Steps
from deeprm.errors import DeepRmError
from deeprm.jobs import Purpose, seed_of
from deeprm.tables import Int32


class Draws(RunDraws):
    """Random numbers for choices: the k-th of an episode does not depend on episodes played beside
    it.

    Args:
        seed: of all.
        count: E, how many episodes there are.
        which: distinguishes draws of one seed, such as the number of an iteration.
    """

    def __init__(self, seed: int, count: int, *which: int) -> None:
        super().__init__(seed_of(seed, Purpose.ACTIONS, *which), count)


class Scheduler(Protocol):
    """Protocol of a scheduler: it chooses which job to place next."""

    def choose(self, episodes: Episodes, rows: Int32, draws: Draws) -> Int32:
        """(n,) actions for the episodes `rows`, 0 for void and m for the job in slot m.

        Whatever is random comes from `draws`.
        """
        ...


@dataclass(frozen=True)
class Scored:
    r"""Start the job with the highest score of those that can start now.

    .. math:: w / T_j + (1 - w) \sum_r f_r \, q_{jr}

    with the duration :math:`T_j`, and the free and the demanded share of each resource,
    :math:`f_r` and :math:`q_{jr}`. Weight 1 is shortest job first, 0 is Packer, anything between
    Tetris*.
    """

    weight: float
    """w, of shortness against fit, in [0, 1]"""

    def __post_init__(self) -> None:
        if not 0.0 <= self.weight <= 1.0:
            raise DeepRmError(f"the weight is {self.weight}: it must lie in [0, 1]")

    def choose(self, episodes: Episodes, rows: Int32, draws: Draws) -> Int32:
        """(n,) actions; nothing is random."""
        action = np.empty(len(rows), np.int32)
        rule_kernels.best_now(
            episodes.rules, episodes.jobs, episodes.state, rows, self.weight, action
        )
        return action


SJF = Scored(1.0)
PACKER = Scored(0.0)


class RandomChoice:
    """Uniform choice among void and the jobs that fit."""

    def choose(self, episodes: Episodes, rows: Int32, draws: Draws) -> Int32:
        """(n,) actions."""
        action = np.empty(len(rows), np.int32)
        rule_kernels.random_allowed(episodes.masks(rows), draws.next(rows), action)
        return action


Watcher = Callable[[Int32, Int32, Steps], None]
"""called after each round: (n,) episodes, their actions, the results"""


def play(
    scheduler: Scheduler, episodes: Episodes, draws: Draws, watcher: Watcher | None = None
) -> None:
    """Let the scheduler play all episodes to their ends, in lockstep."""
    rows = episodes.under_way()
    while len(rows) > 0:
        action = scheduler.choose(episodes, rows, draws)
        steps = episodes.step(rows, action)
        if watcher is not None:
            watcher(rows, action, steps)
        rows = rows[~steps.over]
