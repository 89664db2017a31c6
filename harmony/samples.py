"""Speeds measured in clusters under mixed placements: what models of interference learn from."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from decima.rl.errors import StudyError
from decima.rl.study.lockstep import joined
from decima.rl.study.streams import Draws, Purpose
from harmony import token_kernels
from harmony.clusters import Clusters
from harmony.config import Config
from harmony.jobs import draw_jobs
from harmony.schedulers import LoadBalance, Mixed, RandomChoice, Tetris, Tiresias
from harmony.tables import Float64, Int32
from harmony.tokens import Running, see_running

_AT_ONCE = 64
"""sequences that are played in lockstep"""
_CHANCE = 0.5
"""of a state to be measured, so that neighbours in time are not all alike"""


class Samples(NamedTuple):
    """n states of clusters, with the speed of each of up to N jobs."""

    running: Running
    speed: Float64
    """(n, N) epochs a minute; 0 where there is no job"""
    alone: Float64
    """(n, N) epochs a minute of such a job without neighbours, on as many servers"""
    others: Float64
    """(n, N, 2) largest shares of cores and of network that others ask for on a server of it"""

    def rows(self, chosen: Int32) -> Samples:
        """Return the samples of some states."""
        rest = (column[chosen] for column in self[1:])
        return Samples(self.running.rows(chosen), *rest)


def draw_samples(config: Config, count: int, seed: int) -> Samples:
    """Draw states with at least one job each, met while jobs are placed by various rules.

    Each choice is that of a baseline, picked at random: least loaded, best fit, consolidating, or
    any server.

    Raises:
        StudyError: less than 1 is asked for.
    """
    if count < 1:
        raise StudyError(f"{count} samples: at least 1 is needed")
    mixed = Mixed((LoadBalance(), Tetris(), Tiresias(config, "las"), RandomChoice()))
    parts: list[Samples] = []
    drawn = 0
    for number in range(count):
        if drawn >= count:
            break
        jobs = draw_jobs(config, _AT_ONCE, seed, Purpose.TUNING, number * _AT_ONCE)
        clusters = Clusters(config, jobs, seed=seed + number)
        parts += _played(clusters, mixed, Draws(seed, _AT_ONCE, number))
        drawn = sum(len(part.speed) for part in parts)
    order = np.random.default_rng(seed).permutation(drawn)[:count].astype(np.int32)
    return joined(parts).rows(order)


def _played(clusters: Clusters, mixed: Mixed, draws: Draws) -> list[Samples]:
    """States with a job that runs, at choices for a job of which no task is placed yet."""
    found = []
    rows = clusters.under_way()
    while len(rows) > 0:
        state = clusters.state
        whole = state.spread[rows, state.current[rows]] == 0
        chosen = whole & (state.running_count[rows] > 0) & (draws.next(rows) < _CHANCE)
        if chosen.any():
            found.append(measure(clusters, rows[chosen]))
        rows = rows[~clusters.step(rows, mixed.choose(clusters, rows, draws)).over]
    return found


def measure(clusters: Clusters, rows: Int32) -> Samples:
    """The jobs that run in the episodes `rows`, and their speeds at this moment."""
    most = clusters.config.most_running
    shape = (len(rows), most)
    found = Samples(
        see_running(clusters, rows, most), np.zeros(shape), np.zeros(shape), np.zeros((*shape, 2))
    )
    token_kernels.measure(*clusters.world, rows, *found[1:])
    return found
