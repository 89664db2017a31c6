"""Estimates of task durations, and drawn memory demands: what schedulers know beside the trace.

Schedulers know durations from earlier runs of the same query, if at all. The simulator always draws
task durations from the measured samples; only the means that policies *observe* change here.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, get_args

import numpy as np

from traces.arrays import TraceArrays
from traces.columns import children_of, critical_paths_ms
from traces.errors import TraceError
from traces.trace import Trace

Estimates = Literal["exact", "noisy", "none"]
KINDS: tuple[Estimates, ...] = get_args(Estimates)

SPREAD = 0.5
"""noisy estimates are off by a factor between 1 - SPREAD and 1 + SPREAD, equally likely"""


def with_estimates(
    trace: Trace, arrays: TraceArrays, kind: Estimates, rng: np.random.Generator
) -> TraceArrays:
    """`arrays` of `trace` with other mean durations, and the critical paths that follow from them.

    "exact" changes nothing; "noisy" multiplies the mean of each stage by a factor of its own;
    "none" gives all stages the mean over all tasks, so that only counts are known.
    """
    if kind not in KINDS:
        raise TraceError(f"estimates {kind!r}: it must be one of {', '.join(KINDS)}")
    if kind == "exact":
        return arrays
    if kind == "none":
        overall_ms = float(np.average(arrays.mean_ms, weights=arrays.num_tasks))
        mean_ms = np.full(len(arrays.mean_ms), overall_ms)
    else:
        mean_ms = arrays.mean_ms * rng.uniform(1 - SPREAD, 1 + SPREAD, len(arrays.mean_ms))
    columns = trace.columns
    paths_ms = critical_paths_ms(columns, children_of(columns), mean_ms)
    return arrays._replace(mean_ms=mean_ms, critical_path_ms=paths_ms)


Demands = Literal["trace", "drawn"]  # source of demands: the trace itself, or `drawn_demands`
DEMANDS: tuple[Demands, ...] = get_args(Demands)


def drawn_demands(trace: Trace, largest_mb: float, rng: np.random.Generator) -> Trace:
    """Draw a memory demand for each stage, uniform in (0, `largest_mb`] (Decima, section 7.3)."""
    return replace(
        trace,
        jobs=tuple(
            replace(
                job,
                stages=tuple(
                    replace(stage, memory_mb=float(largest_mb * (1.0 - rng.random())))
                    for stage in job.stages
                ),
            )
            for job in trace.jobs
        ),
    )
