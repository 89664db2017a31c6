r"""Shortest remaining work first, with a limit that depends on the work and the number of jobs.

.. math:: l_i = \lceil c \, N \, J^{-q} (R_i / \bar R)^p \rceil

R_i is the work left in job i, \bar R its mean over the J jobs in the system. A plain shortest-first
rule gives a job all executors and pays for it in work inflation; the limit is what makes it
compete. `decima tune` fits (c, q, p).
"""

from __future__ import annotations

import math

from decima.heuristics.compiled import Numbers, Scratch
from decima.heuristics.stages import on_critical_path
from decima.kernels import kernel
from spark_sim.observation import Observation
from spark_sim.tables import NONE

FACTOR, JOBS_POWER, WORK_POWER = range(3)  # positions in the parameters: c, q, p

_FLOOR_MS = 1.0


@kernel
def decide(seen: Observation, parameters: Numbers, _scratch: Scratch) -> tuple[int, int]:
    """The job with the least work left that is under its limit and has an open stage."""
    if len(seen.active) == 0:  # decima-sim's rules ask even then
        return NONE, 0
    mean_ms = 0.0
    for job in seen.active:
        mean_ms += max(_FLOOR_MS, seen.jobs[job]["remaining_ms"]) / len(seen.active)
    common = parameters[FACTOR] * seen.num_executors / len(seen.active) ** parameters[JOBS_POWER]
    best = NONE
    best_limit = 0
    least_ms = 0.0
    for job in seen.active:
        row = seen.jobs[job]
        left_ms = max(_FLOOR_MS, row["remaining_ms"])
        if row["open_stages"] == 0 or (best != NONE and left_ms >= least_ms):
            continue
        wanted = math.ceil(common * (left_ms / mean_ms) ** parameters[WORK_POWER])
        limit = min(seen.num_executors, max(1, wanted))
        if row["held"] >= limit:
            continue
        stage = on_critical_path(seen, job)
        if stage != NONE:
            best = stage
            best_limit = limit
            least_ms = left_ms
    return best, best_limit
