r"""Weighted fair share: a job's cap is proportional to its total work to the power alpha.

.. math:: \text{cap}_i = \lceil c \, N \, T_i^\alpha / \sum_j T_j^\alpha \rceil

Decima section 7.1: alpha = 1 is baseline 4 (naive), a swept alpha baseline 5 ("tuned"; the paper
names Naive and Opt. weighted fair). The factor c is an addition here: above 1 it lets jobs use what
others leave. alpha = 0, c = 1 is the strict fair share.
"""

from __future__ import annotations

import math

from decima.heuristics.spec import HeuristicSpec, Numbers, Scratch
from decima.heuristics.stages import on_critical_path
from decima.heuristics.tuned_srw import FACTORS
from decima.kernels import kernel
from spark_sim.observation import Observation
from spark_sim.tables import ANY, LEAST_WORK_MS, NONE

ALPHA, LIMIT_FACTOR = range(2)  # positions in the parameters


@kernel
def decide(
    observation: Observation, parameters: Numbers, _scratch: Scratch
) -> tuple[int, int, int]:
    """Fill jobs to their share: first those with executors on offer, then by arrival."""
    total = 0.0
    for job in observation.active:
        total += max(LEAST_WORK_MS, observation.jobs[job]["work_ms"]) ** parameters[ALPHA]
    fallback = NONE
    fallback_cap = 0
    for job in observation.active:
        row = observation.jobs[job]
        if row["open_stages"] == 0 or (fallback != NONE and row["local"] == 0):
            continue
        weight = max(LEAST_WORK_MS, row["work_ms"]) ** parameters[ALPHA] / total
        share = math.ceil(parameters[LIMIT_FACTOR] * observation.num_executors * weight)
        cap = min(observation.num_executors, max(1, share))
        if row["held"] >= cap:
            continue
        stage = on_critical_path(observation, job)
        if stage == NONE:
            continue
        if row["local"] > 0:
            return stage, cap, ANY
        fallback = stage
        fallback_cap = cap
    return fallback, fallback_cap, ANY


HEURISTICS = {
    "weighted_fair": HeuristicSpec(
        decide,
        "share proportional to total work",
        place=60,
        defaults={"alpha": 1.0, "limit_factor": 1.0},
        idle_insensitive=True,
    ),
    "tuned_weighted_fair": HeuristicSpec(
        decide,
        "share proportional to total work to a tuned power",
        place=70,
        defaults={"alpha": -0.1, "limit_factor": 0.9},
        search={
            "alpha": tuple(round(-2.0 + 0.1 * step, 1) for step in range(41)),
            "limit_factor": FACTORS,
        },
        idle_insensitive=True,
    ),
}
