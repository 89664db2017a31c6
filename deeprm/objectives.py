"""Rewards of a scheduler; those of an episode sum to its objective exactly.

* slowdown: minus the sum of 1 / duration over the jobs in the system; in all, minus the sum of
  slowdowns.
* completion: minus the number of jobs in the system; in all, minus the sum of completion times.
* utilisation: the sum over resources of the share in use, while jobs arrive.
* makespan: -1 until the last job is complete; in all, minus the makespan.

All jobs in the system count: running, in a slot, and beyond the slots. Kernels count costs in whole
units (`Objective.unit`), so no rounding hides in a sum.

The paper rewards utilisation in every step. Over an episode in which all jobs are completed that
sum is the work of the jobs for any scheduler; it distinguishes schedulers while jobs
arrive, for the length of an experiment.

Source: DeepRM (HotNets 2016), sections 3.2 and 3.4.
"""

from __future__ import annotations

import math
from enum import Enum

from deeprm.config import Config
from deeprm.tables import OBJECTIVES, Float64, Int64


def common_multiple(config: Config) -> int:
    """The unit in which slowdowns are whole: least common multiple of all durations."""
    return math.lcm(*range(1, config.max_duration + 1))


class Objective(Enum):
    """Cost to minimise."""

    SLOWDOWN = "slowdown"
    COMPLETION = "completion"
    UTILISATION = "utilisation"
    MAKESPAN = "makespan"

    @property
    def is_gain(self) -> bool:
        """True if more is better."""
        return self is Objective.UTILISATION

    @property
    def column(self) -> int:
        """Column of `State.cost`."""
        return OBJECTIVES.index(self.value)

    def unit(self, config: Config) -> int:
        """Return how many kernel units make one unit of the objective."""
        if self is Objective.SLOWDOWN:
            return common_multiple(config)
        return math.lcm(*config.capacities) if self is Objective.UTILISATION else 1

    def reward(self, config: Config, cost: Int64) -> Float64:
        """Rewards for (..., COSTS) costs: (...)."""
        return -cost[..., self.column].astype(float) / self.unit(config)
