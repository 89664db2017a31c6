"""`Scales`: units of a workload, by which one model fits any cluster size."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from traces.arrays import TraceArrays


class Scales(NamedTuple):
    """Typical values of the workload; columns of durations and work are divided by them.

    Numbers of executors are relative to the cluster's, which is part of every observation.
    """

    task_ms: float  # mean duration of a task
    work_ms: float  # mean work of a job, executor-milliseconds

    @classmethod
    def of(cls, trace: TraceArrays) -> Scales:
        """The scales of a workload that draws the trace's jobs with equal frequency."""
        work_ms = float(np.sum(trace.num_tasks * trace.mean_ms * trace.slots, dtype=np.float64))
        num_tasks = int(trace.num_tasks.sum(dtype=np.int64))
        return cls(
            task_ms=max(work_ms / num_tasks, 1e-3), work_ms=max(work_ms / trace.num_jobs, 1e-3)
        )
