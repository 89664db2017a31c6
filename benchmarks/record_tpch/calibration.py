"""Parameters of `traces.inflation` with which a recording meets the public TPC-H traces.

Those are decima-sim's, whose jobs are Decima's (SIGCOMM 2019). The public inflation is of a job's
*total* work, with one start for each executor in it; the factors on durations are therefore
smaller, and small jobs lose more by many executors than large ones, as the public ones do.
"""

from __future__ import annotations

import statistics

import numpy as np
from numpy.typing import NDArray

from traces.inflation import PUBLIC_INFLATION, ExecutorModel
from traces.model import FloatArray, LevelDurations
from traces.trace import Trace

PUBLIC_FRESH_RATIO = 2.3
"""first task of a fresh executor relative to a rest-wave task, median over the public stages"""

PUBLIC_WORK_MS = 640_000.0
"""mean executor-milliseconds of a public job at 5 executors: 51 % load of 50 executors at a mean
gap of 25 s, rounded"""

_BISECTIONS = 40


def calibrated(trace: Trace) -> ExecutorModel:
    """The model whose public figures `trace` meets: mean work, cost of a start, total work.

    The ratio of the first task on a fresh executor to a later one is met at the median over
    stages without parents, where executors mostly start in the public traces, too; the growth
    of a job's total work with its executors at the median over jobs.
    """
    work_ms = np.array([job.work_ms for job in trace.jobs])
    time_scale = _rounded(PUBLIC_WORK_MS / float(work_ms.mean()))
    typical_ms = statistics.median(
        float(_warm(stage.durations[0]).mean(dtype=np.float64))
        for job in trace.jobs
        for stage in job.stages
        if not stage.parents
    )
    start_ms = _rounded((PUBLIC_FRESH_RATIO - 1) * typical_ms * time_scale)
    tasks = np.array([job.num_tasks for job in trace.jobs])
    return ExecutorModel(start_ms, time_scale, _factors(time_scale * work_ms, tasks, start_ms))


def _factors(
    work_ms: NDArray[np.float64], tasks: NDArray[np.int64], start_ms: float
) -> dict[int, float]:
    """Return, for each public level, the factor on durations that gives the public total work.

    Total work of a job at n executors: its warm work times the factor, and one start for each
    executor that finds a task. It grows with the factor, so bisection finds the median's.
    """
    lowest = min(PUBLIC_INFLATION)
    base_ms = work_ms + start_ms * np.minimum(tasks, lowest)
    ratios: dict[int, float] = {}
    least = 1.0  # more executors never make tasks faster
    for level, target in sorted(PUBLIC_INFLATION.items()):
        starts_ms = start_ms * np.minimum(tasks, level)
        low, high = least, max(least, target)
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            is_less = np.median((middle * work_ms + starts_ms) / base_ms) < target
            low, high = (middle, high) if is_less else (low, middle)
        least = ratios[level] = max(least, _rounded(high))
    return ratios


def _warm(level: LevelDurations) -> FloatArray:
    """Durations of tasks on warm executors: the rest wave, else the first, else all."""
    return next(values for values in reversed(level.waves) if len(values) > 0)


def _rounded(value: float) -> float:
    """Round to three significant digits, as the model is no more precise."""
    return float(f"{value:.3g}")
