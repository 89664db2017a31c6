"""decima-sim's `dynamic_partition`: a fair share, but a job keeps all that its stages release.

Under `protocol="decima-sim"` it decides exactly as the original (simulator reference 1.9).
"""

from __future__ import annotations

import math

from decima.heuristics.spec import HeuristicSpec, Numbers, Scratch
from decima.heuristics.stages import first_runnable
from decima.kernels import kernel
from spark_sim.observation import Observation
from spark_sim.tables import ANY, NONE


@kernel
def decide(
    observation: Observation, _parameters: Numbers, _scratch: Scratch
) -> tuple[int, int, int]:
    """Return free executors to their own job first, then fill jobs to their fair share."""
    wanting = 0  # jobs that still want executors
    for job in observation.active:
        row = observation.jobs[job]
        for stage in range(row["first_stage"], row["first_stage"] + row["num_stages"]):
            if observation.stages[stage]["covered"] < observation.stages[stage]["num_tasks"]:
                wanting += 1
                break
    cap = math.ceil(observation.num_executors / max(1, wanting))
    source = observation.source_job
    if source != NONE and observation.jobs[source]["active"] == 1:
        stage = first_runnable(observation, source)
        if stage != NONE and observation.jobs[source]["local"] > 0:
            return stage, _own_or_share(observation, source, cap), ANY
    for job in observation.active:
        row = observation.jobs[job]
        if row["local"] > 0 and row["open_stages"] > 0:
            return first_runnable(observation, job), _own_or_share(observation, job, cap), ANY
    for job in observation.active:
        row = observation.jobs[job]
        if row["held"] < cap and row["open_stages"] > 0:
            return first_runnable(observation, job), cap, ANY
    return NONE, 0, ANY


@kernel
def _own_or_share(observation: Observation, job: int, cap: int) -> int:
    """All executors on offer that are in the job already, even above its share."""
    row = observation.jobs[job]
    return int(min(observation.num_executors, max(cap, row["held"] + row["local"])))


HEURISTICS = {
    "sticky_fair": HeuristicSpec(
        decide, "fair share, but jobs keep what their stages release", place=30
    )
}
