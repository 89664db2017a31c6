"""SJF-CP: the job with the least total work first, inside it the critical path first.

Decima section 7.1, baseline 2. Total work is known on arrival: tasks times mean duration.
"""

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
    """The open stage with the longest critical path, of the shortest job that has one."""
    best = NONE
    least_ms = 0.0
    for job in observation.active:
        work_ms = observation.jobs[job]["work_ms"]
        if best != NONE and work_ms >= least_ms:
            continue
        stage = on_critical_path(observation, job)
        if stage != NONE:
            best = stage
            least_ms = work_ms
    return best, observation.num_executors, ANY


HEURISTICS = {
    "sjf_cp": HeuristicSpec(
        decide,
        "least total work first, in the job the critical path first",
        place=20,
        idle_insensitive=True,
        limits=FULL_LIMIT,
    )
}
