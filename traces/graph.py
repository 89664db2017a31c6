"""Figures of a job's graph and of a trace: depth, critical path, sums."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

import numpy as np

from traces.columns import children_of, critical_paths_ms
from traces.model import Job
from traces.numbers import MS_PER_S
from traces.trace import Trace


def layers(job: Job) -> tuple[int, ...]:
    """Return, for each stage, the length of the longest chain above it; a root has 0."""
    layer = [0] * len(job.stages)
    for index in job.topological_order:
        above = (layer[parent] + 1 for parent in job.stages[index].parents)
        layer[index] = max(above, default=0)
    return tuple(layer)


def depth(job: Job) -> int:
    """Number of stages on the longest chain of `job`; a job without edges has depth 1."""
    return max(layers(job)) + 1


def critical_path(job: Job) -> tuple[int, ...]:
    """Stage indices on the chain with the largest sum of mean task durations, root first."""
    remaining = job.critical_path_ms
    candidates: Sequence[int] = [i for i, stage in enumerate(job.stages) if not stage.parents]
    path: list[int] = []
    while candidates:
        path.append(max(candidates, key=lambda index: remaining[index]))
        candidates = job.children[path[-1]]
    return tuple(path)


def summary(trace: Trace) -> dict[str, Any]:
    """Key figures of `trace`, ready for JSON.

    ``work_executor_s`` has each stage at its smallest executor level; ``job_weights`` are the least
    and the largest; ``stages_per_job`` and ``tasks_per_job`` hold min, median, mean and max.
    """
    columns = trace.columns
    stages = np.diff(columns.first_stage).tolist()
    tasks = columns.tasks_of_jobs().tolist()
    ones = np.ones(len(columns.num_tasks))
    return {
        "name": trace.name,
        "jobs": len(trace.jobs),
        "stages": sum(stages),
        "tasks": sum(tasks),
        "edges": len(columns.parents.values),
        "work_executor_s": sum(columns.work_ms().tolist()) / MS_PER_S,
        "depth_max": int(critical_paths_ms(columns, children_of(columns), ones).max()),
        "executor_levels": np.unique(columns.executors).tolist(),
        "jobs_with_arrival": int((~np.isnan(columns.arrival_ms)).sum()),
        "jobs_with_deadline": int((~np.isnan(columns.deadline_ms)).sum()),
        "job_weights": [float(columns.weight.min()), float(columns.weight.max())],
        "stages_per_job": _spread(stages),
        "tasks_per_job": _spread(tasks),
        "metadata": dict(trace.metadata),
    }


def _spread(values: list[int]) -> dict[str, float]:
    return {
        "min": min(values),
        "median": statistics.median(values),
        "mean": statistics.fmean(values),
        "max": max(values),
    }
