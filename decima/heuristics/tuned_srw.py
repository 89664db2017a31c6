r"""Shortest remaining work first, with a limit that depends on the work and the number of jobs.

.. math:: l_i = \lceil c \, N \, J^{-q} (R_i / \bar R)^p \rceil

R_i is the work left in job i, \bar R its mean over the J jobs in the system. A plain shortest-first
rule gives a job all executors and pays for it in work inflation; the limit is what makes it
compete. `decima tune` fits (c, q, p).
"""

from __future__ import annotations

import math

from decima.heuristics.spec import HeuristicSpec, Numbers, Scratch
from decima.heuristics.stages import on_critical_path
from decima.kernels import kernel
from spark_sim.observation import Observation
from spark_sim.tables import ANY, LEAST_WORK_MS, NONE

FACTOR, JOBS_POWER, WORK_POWER = range(3)  # positions in the parameters: c, q, p
FACTORS = (0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.35, 1.5, 1.75, 2.0, 3.0)
POWERS = tuple(round(0.1 * step, 1) for step in range(-5, 16))


@kernel
def decide(
    observation: Observation, parameters: Numbers, _scratch: Scratch
) -> tuple[int, int, int]:
    """The job with the least work left that is under its limit and has an open stage."""
    if len(observation.active) == 0:  # decima-sim's rules ask even then
        return NONE, 0, ANY
    mean_ms = 0.0
    for job in observation.active:
        mean_ms += max(LEAST_WORK_MS, observation.jobs[job]["remaining_ms"]) / len(
            observation.active
        )
    common = (
        parameters[FACTOR]
        * observation.num_executors
        / len(observation.active) ** parameters[JOBS_POWER]
    )
    best = NONE
    best_limit = 0
    least_ms = 0.0
    for job in observation.active:
        row = observation.jobs[job]
        left_ms = max(LEAST_WORK_MS, row["remaining_ms"])
        if row["open_stages"] == 0 or (best != NONE and left_ms >= least_ms):
            continue
        wanted = math.ceil(common * (left_ms / mean_ms) ** parameters[WORK_POWER])
        limit = min(observation.num_executors, max(1, wanted))
        if row["held"] >= limit:
            continue
        stage = on_critical_path(observation, job)
        if stage != NONE:
            best = stage
            best_limit = limit
            least_ms = left_ms
    return best, best_limit, ANY


HEURISTICS = {
    "tuned_srw": HeuristicSpec(
        decide,
        "shortest remaining work first, under a tuned limit",
        place=80,
        defaults={"factor": 1.5, "jobs_power": 1.0, "work_power": 0.2},
        search={"factor": FACTORS, "jobs_power": POWERS, "work_power": POWERS},
    )
}
