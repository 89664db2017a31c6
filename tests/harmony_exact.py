"""The best that anybody could do who knows everything: all placements of tiny sequences, tried."""

from __future__ import annotations

import numpy as np

from decima.rl.errors import StudyError
from harmony.clusters import Clusters
from harmony.config import Config
from harmony.tables import Jobs

MOST_STATES = 20_000
"""they grow as the number of servers to the power of the number of tasks"""
_ONLY = np.zeros(1, np.int32)


def least_completion(config: Config, jobs: Jobs) -> float:
    """The least mean completion time of a sequence, in intervals, over all ways to place its tasks.

    Jobs are tried in the order of arrival, as by schedulers without an order of their own; which of
    a job's tasks goes first makes no difference, so workers do.

    Args:
        config: the cluster; speeds without noise.
        jobs: one sequence.

    Raises:
        StudyError: there are more than `MOST_STATES` states, or speeds are noisy.
    """
    if config.noise > 0.0:
        raise StudyError(f"noise is {config.noise}: the best placement is found without any")
    search = _Search(config, jobs)
    search.extend([])
    return search.best


class _Search:
    """Depth first over actions; each state is reached anew, by all actions before it."""

    def __init__(self, config: Config, jobs: Jobs) -> None:
        self._config = config
        self._jobs = jobs
        self._states = 0
        self.best = float("inf")

    def extend(self, actions: list[int]) -> None:
        """Try every action after those."""
        self._states += 1
        if self._states > MOST_STATES:
            raise StudyError(f"more than {MOST_STATES} states: too many to try them all")
        clusters = Clusters(self._config, self._jobs)
        for action in actions:
            clusters.step(_ONLY, np.array([action], np.int32))
        if clusters.over[0]:
            self.best = min(self.best, float(clusters.mean_completion()[0]))
            return
        allowed = np.nonzero(clusters.masks(_ONLY)[0])[0]
        servers = self._config.servers
        of_workers = allowed[allowed < servers]
        for action in of_workers if len(of_workers) else allowed:
            self.extend([*actions, int(action)])
