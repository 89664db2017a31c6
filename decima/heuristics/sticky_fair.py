"""decima-sim's `dynamic_partition`: a fair share, but a job keeps all that its stages release.

Under `protocol="decima-sim"` it decides exactly as the original (simulator reference 1.9).
"""

from __future__ import annotations

import math

from decima.heuristics.compiled import Numbers, Scratch
from decima.heuristics.stages import first_runnable
from decima.kernels import kernel
from spark_sim.observation import Observation
from spark_sim.tables import NONE


@kernel
def decide(seen: Observation, _parameters: Numbers, _scratch: Scratch) -> tuple[int, int]:
    """Return free executors to their own job first, then fill jobs to their fair share."""
    cap = _share(seen)
    source = seen.source_job
    if source != NONE and seen.jobs[source]["active"] == 1:
        stage = first_runnable(seen, source)
        if stage != NONE and seen.jobs[source]["local"] > 0:
            return stage, _own_or_share(seen, source, cap)
    for job in seen.active:
        row = seen.jobs[job]
        if row["local"] > 0 and row["open_stages"] > 0:
            return first_runnable(seen, job), _own_or_share(seen, job, cap)
    for job in seen.active:
        row = seen.jobs[job]
        if row["held"] < cap and row["open_stages"] > 0:
            return first_runnable(seen, job), cap
    return NONE, 0


@kernel
def _own_or_share(seen: Observation, job: int, cap: int) -> int:
    """All executors on offer that are in the job already, even above its share."""
    row = seen.jobs[job]
    return int(min(seen.num_executors, max(cap, row["held"] + row["local"])))


@kernel
def _share(seen: Observation) -> int:
    """Executors divided by the jobs that still want some."""
    wanting = 0
    for job in seen.active:
        row = seen.jobs[job]
        for stage in range(row["first_stage"], row["first_stage"] + row["num_stages"]):
            if seen.stages[stage]["covered"] < seen.stages[stage]["num_tasks"]:
                wanting += 1
                break
    return math.ceil(seen.num_executors / max(1, wanting))
