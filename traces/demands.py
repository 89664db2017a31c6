"""Memory demands of tasks, for traces without them."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, get_args

import numpy as np

from traces.trace import Trace

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
