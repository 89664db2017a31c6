"""Teachers: a target distribution over the actions for each choice."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from decima.rl.study.lockstep import play
from decima.rl.study.streams import Draws
from harmony.clusters import Clusters
from harmony.config import MAX_JOBS
from harmony.schedulers import LoadBalance, Lookahead, Scheduler
from harmony.tables import Float64, Int32


class Teacher(Protocol):
    """Protocol of a teacher."""

    def targets(self, clusters: Clusters, rows: Int32, draws: Draws) -> Float64:
        """(n, 2 M) probabilities of the actions of the episodes `rows`."""
        ...


class Sure:
    """A scheduler's choice, for certain."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def targets(self, clusters: Clusters, rows: Int32, draws: Draws) -> Float64:
        """Return the targets; see `Teacher`."""
        targets = np.zeros((len(rows), clusters.config.actions))
        targets[np.arange(len(rows)), self._scheduler.choose(clusters, rows, draws)] = 1.0
        return targets


class Branches:
    r"""Teacher that lets a scheduler play on behind each action.

    .. math:: p(a) \propto \exp\left(-\frac{C(a) - \min_b C(b)}{\tau}\right)

    with the time from arrival to completion :math:`C` in intervals, added over the jobs played. All
    branches meet the same jobs, so that chance cancels in the differences. It knows what a policy
    does not: speeds, lengths and the jobs to come. One that learns from it at many choices learns
    what is best on average over what it cannot see.

    Args:
        scheduler: plays on after each action.
        tau: how much longer an action may take to be hardly worse.
        coming: how many of the jobs to come each branch plays. What an action does to later ones
            is chance more than cause, and takes most of the CPU time.
    """

    def __init__(
        self, scheduler: LoadBalance | Lookahead, tau: float, coming: int = MAX_JOBS
    ) -> None:
        self._scheduler = scheduler
        self._tau = tau
        self._coming = coming

    def targets(self, clusters: Clusters, rows: Int32, draws: Draws) -> Float64:
        """Return the targets; see `Teacher`."""
        total = self.outcomes(clusters, rows)
        weight = np.exp(-(total - total.min(axis=1, keepdims=True)) / self._tau)
        return np.asarray(weight / weight.sum(axis=1, keepdims=True))

    def outcomes(self, clusters: Clusters, rows: Int32) -> Float64:
        """(n, 2 M) total time to completion in intervals; infinite where not allowed."""
        allowed = clusters.masks(rows)
        at, action = np.nonzero(allowed)
        branches = clusters.fork_until(rows[at], self._coming)
        branches.step(np.arange(len(at), dtype=np.int32), action.astype(np.int32))
        if clusters.speeds_are_predicted:
            play(self._scheduler, branches, Draws(0, len(at)))
        else:
            self._scheduler.play_out(branches)
        total = np.full(allowed.shape, np.inf)
        total[at, action] = branches.completion_min().sum(axis=1) / clusters.config.interval_min
        return total
