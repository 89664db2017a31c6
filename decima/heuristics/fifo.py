"""FIFO, Spark's default: jobs by arrival, each with as many executors as it can use."""

from __future__ import annotations

from decima.heuristics.spec import HeuristicSpec, Numbers, Scratch
from decima.heuristics.stages import on_critical_path
from decima.kernels import kernel
from spark_sim.observation import Observation
from spark_sim.tables import ANY, FULL_LIMIT, NONE


@kernel
def decide(
    observation: Observation, _parameters: Numbers, _scratch: Scratch
) -> tuple[int, int, int]:
    """The first job by arrival that has a stage to run, without a limit."""
    for job in observation.active:
        stage = on_critical_path(observation, job)
        if stage != NONE:
            return stage, observation.num_executors, ANY
    return NONE, 0, ANY


HEURISTICS = {
    "fifo": HeuristicSpec(
        decide,
        "jobs by arrival, each with all executors it can use",
        place=10,
        idle_insensitive=True,
        limits=FULL_LIMIT,
    )
}
