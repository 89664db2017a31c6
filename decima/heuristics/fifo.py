"""FIFO, Spark's default: jobs by arrival, each with as many executors as it can use."""

from __future__ import annotations

from decima.heuristics.compiled import Numbers, Scratch
from decima.heuristics.stages import on_critical_path
from decima.kernels import kernel
from spark_sim.observation import Observation
from spark_sim.tables import NONE


@kernel
def decide(seen: Observation, _parameters: Numbers, _scratch: Scratch) -> tuple[int, int]:
    """The first job by arrival that has a stage to run, without a limit."""
    for job in seen.active:
        stage = on_critical_path(seen, job)
        if stage != NONE:
            return stage, seen.num_executors
    return NONE, 0
