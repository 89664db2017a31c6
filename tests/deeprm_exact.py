"""The best that anybody could do who knows all jobs beforehand: exact, on tiny job sets.

For a cost that never falls when a job is complete later (all objectives but utilisation), some
order of the jobs gives a best schedule when each in turn starts as early as it can, after its
arrival, among those placed before it. So all orders are tried, and an order is given up as soon as
what it costs so far, plus what the rest costs at least, reaches the best known.

Source: serial schedule generation, Kolisch, European Journal of Operational Research 90, 1996.
"""

from __future__ import annotations

import numpy as np

from decima.rl.errors import StudyError
from deeprm.config import Config
from deeprm.objectives import Objective, common_multiple
from deeprm.tables import Int32, Jobs

MOST_JOBS = 9
"""orders grow as the factorial"""


def least_cost(config: Config, jobs: Jobs, objective: Objective, number: int = 0) -> float:
    """The lowest cost of any schedule of a job set: a sum over its jobs, or a makespan.

    No scheduler that learns of jobs on arrival can do better.

    Args:
        config: the cluster.
        jobs: S job sets.
        objective: what is to be small.
        number: of the set among them.

    Raises:
        StudyError: the set is too large, or the objective is utilisation.
    """
    if objective is Objective.UTILISATION:
        raise StudyError("utilisation: a job that ends later may use more of the first steps")
    count = int(jobs.number[number])
    if count > MOST_JOBS:
        raise StudyError(f"{count} jobs: all orders of at most {MOST_JOBS} can be tried")
    return _Search(config, jobs, objective, number).best / objective.unit(config)


class _Search:
    """Depth first over orders; costs in whole units."""

    def __init__(self, config: Config, jobs: Jobs, objective: Objective, number: int) -> None:
        count = int(jobs.number[number])
        self._arrival = jobs.arrival[number, :count].tolist()
        self._duration = jobs.duration[number, :count].tolist()
        self._demand = jobs.demand[number, :count]
        self._capacity = config.capacity
        self._weight = [1] * count
        if objective is Objective.SLOWDOWN:
            self._weight = [common_multiple(config) // steps for steps in self._duration]
        self._is_makespan = objective is Objective.MAKESPAN
        steps = max(self._arrival) + sum(self._duration)
        self._used = np.zeros((steps, config.resources), np.int32)
        self.best = self._cost(range(count), self._one_by_one(count)) + 1
        self._extend([], list(range(count)), [])

    def _one_by_one(self, count: int) -> list[int]:
        """Return the ends of a schedule that runs one job after the other, which always exists."""
        ends: list[int] = []
        for job in range(count):
            start = max([self._arrival[job], *ends[-1:]])
            ends.append(start + self._duration[job])
        return ends

    def _cost(self, order: range | list[int], ends: list[int]) -> int:
        if self._is_makespan:
            return max(ends, default=0)
        return sum(
            self._weight[job] * (end - self._arrival[job])
            for job, end in zip(order, ends, strict=True)
        )

    def _extend(self, order: list[int], left: list[int], ends: list[int]) -> None:
        """Try every job that is left as the next one."""
        soonest = [self._arrival[job] + self._duration[job] for job in left]
        if self._cost([*order, *left], [*ends, *soonest]) >= self.best:
            return
        if not left:
            self.best = self._cost(order, ends)
            return
        for job in left:
            start = self._earliest(job)
            rows = self._used[start : start + self._duration[job]]
            rows += self._demand[job]
            rest = [other for other in left if other != job]
            self._extend([*order, job], rest, [*ends, start + self._duration[job]])
            rows -= self._demand[job]

    def _earliest(self, job: int) -> int:
        start: int = self._arrival[job]
        duration: int = self._duration[job]
        while not self._is_free(self._used[start : start + duration], job):
            start += 1
        return start

    def _is_free(self, rows: Int32, job: int) -> bool:
        return bool((rows + self._demand[job] <= self._capacity).all())
