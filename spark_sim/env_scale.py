"""Observations of `spark_sim.env` in units that a network can read: every entry from 0 to 1."""

from __future__ import annotations

import math

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from spark_sim.cluster import Cluster
from spark_sim.env_view import Padded
from spark_sim.needs import classes_of

MOST = 1e7
"""seconds, executor-seconds, jobs or tasks that are scaled to 1, the maximum"""

_EXECUTORS = {
    *("on_offer", "job_held", "job_attached", "job_local", "job_limit", "lowest_limit"),
    *("class_count", "class_on_offer"),
}
_AMOUNTS = {
    *("time_s", "jobs_in_system", "job_age_s", "job_work_s", "job_remaining_s", "stage_tasks"),
    *("stage_launched", "stage_finished", "stage_demand", "stage_task_s", "stage_critical_path_s"),
}
_SLOTS = {"source_job": "jobs", "stage_job": "jobs", "edges": "stages"}


class Scale:
    """Scaling of an observation's entries by their upper bounds, as float32.

    | entries | scaled |
    |---|---|
    | seconds, executor-seconds, jobs in the system, tasks | log(1 + x) / log(1 + 10^7), at most 1 |
    | executors, limits | x / N |
    | slots: `source_job`, `stage_job`, `edges` | (slot + 1) / slots, 0 for none |
    | memory | x / that of the largest class |
    | masks and `stage_runnable` | as they are, 0 or 1 |
    """

    def __init__(self, cluster: Cluster, max_jobs: int, max_stages: int) -> None:
        self._executors = cluster.num_executors
        self._slots = {"jobs": max_jobs, "stages": max_stages}
        self._memory_mb = min(classes_of(cluster)[-1].memory_mb, float(np.finfo(np.float32).max))

    def space(self, plain: spaces.Dict) -> spaces.Dict:
        """The space of scaled observations."""
        return spaces.Dict(
            {
                name: part
                if isinstance(part, spaces.MultiBinary)
                else spaces.Box(0.0, 1.0, part.shape, np.float32)
                for name, part in plain.spaces.items()
            }
        )

    def apply(self, shown: Padded) -> Padded:
        """The observation of one simulation, or of several at once, scaled."""
        return {name: self._scaled(name, values) for name, values in shown.items()}

    def _scaled(self, name: str, values: NDArray[np.generic]) -> NDArray[np.generic]:
        numbers = values.astype(np.float64)
        if name in _AMOUNTS:
            numbers = np.log1p(numbers) / math.log1p(MOST)
        elif name in _EXECUTORS:
            numbers = numbers / self._executors
        elif name in _SLOTS:
            numbers = (numbers + 1) / self._slots[_SLOTS[name]]
        elif name.endswith("memory_mb"):
            numbers = numbers / self._memory_mb
        else:
            return values
        return np.minimum(numbers, 1.0).astype(np.float32)
