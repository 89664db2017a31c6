"""Compact observation instead of pixels: shares by job and resource.

Everything is a share (of the horizon, of a resource, of what the backlog counts), so the same
numbers stand for a small cluster and a large one.

Letters: n observations, M slots, T steps of the horizon, d resources, P of all machines, F numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from deeprm import compact_kernels
from deeprm.compact_kernels import DEMAND
from deeprm.config import Config
from deeprm.episodes import Episodes
from deeprm.tables import Float32, Int32


@dataclass(frozen=True)
class CompactLayout:
    """The numbers of one configuration.

    First for each slot, 0 where it is empty: 1 as there is a job, its duration over T, the steps
    until it could start over T (1 if it cannot end within the horizon), its share of each resource.
    Then for each step of the horizon and each resource of each machine the share that is free. At
    last the jobs beyond the slots, over those that the backlog counts.
    """

    config: Config

    @property
    def of_slot(self) -> int:
        """numbers of a slot: d + 3"""
        return DEMAND + self.config.resources

    @property
    def of_cluster(self) -> int:
        """numbers of the cluster: T P + 1"""
        return self.config.horizon * self.config.pools + 1

    @property
    def size(self) -> int:
        """F."""
        return self.config.slots * self.of_slot + self.of_cluster

    def read(self, episodes: Episodes, rows: Int32) -> Float32:
        """(n, F) numbers of the episodes `rows`, each in 0..1."""
        found = np.empty((len(rows), self.size), np.float32)
        compact_kernels.numbers(
            episodes.rules, episodes.jobs, episodes.state, self.config.backlog, rows, found
        )
        return found
