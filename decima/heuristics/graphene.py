r"""Graphene*: jobs packed around their troublesome stages, under a tuned parallelism limit.

.. math:: s = a \, (d_v \cdot r_c) - R_i / \bar R, \qquad
    l_i = \lceil c \, N \, J^{-q} (R_i / \bar R)^p \rceil

Inside a job the stages go in an order that is worked out before the run
(`decima.heuristics.graphene_plan`: long stages and stages that few executors can hold come as
early as the graph allows). Between jobs that are under their limit l_i, the largest score s goes
first: little work left R_i, and a task that fills the executor (`decima.heuristics.tetris`).

Graphene: Grandl et al., OSDI 2016, sections 4 and 5. Graphene* is its form with executors of
discrete classes and a parallelism limit (Decima 7.3, baseline 7); `decima tune` fits (c, q, p, a).
"""

from __future__ import annotations

import math

from decima.heuristics.graphene_plan import planned_places
from decima.heuristics.spec import HeuristicSpec, Numbers, Scratch
from decima.heuristics.stages import is_on_offer
from decima.heuristics.tetris import WEIGHTS, alignment
from decima.heuristics.tuned_srw import FACTORS, POWERS
from decima.kernels import kernel
from spark_sim.observation import Observation
from spark_sim.tables import LEAST_WORK_MS, NONE

FACTOR, JOBS_POWER, WORK_POWER, PACKING, SIZE = range(5)
"""positions in the parameters: c, q, p, a; from SIZE on the place of each stage of the trace"""


@kernel
def decide(
    observation: Observation, parameters: Numbers, _scratch: Scratch
) -> tuple[int, int, int]:
    """The stage, its job's limit, and the class of executors with the largest score."""
    if len(observation.active) == 0:  # decima-sim's rules ask even then
        return NONE, 0, NONE
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
    best = best_kind = NONE
    best_limit = 0
    best_score = -math.inf
    for job in observation.active:
        row = observation.jobs[job]
        left = max(LEAST_WORK_MS, row["remaining_ms"]) / mean_ms
        limit = min(
            observation.num_executors, max(1, math.ceil(common * left ** parameters[WORK_POWER]))
        )
        if row["open_stages"] == 0 or row["held"] >= limit:
            continue
        stage = _first_planned(observation, job, parameters)
        if stage == NONE:
            continue
        for kind in range(len(observation.classes)):
            if is_on_offer(observation.classes, observation.stages[stage], kind):
                score = parameters[PACKING] * alignment(observation, stage, kind) - left
                if score > best_score:
                    best, best_kind, best_limit, best_score = stage, kind, limit, score
    return best, best_limit, best_kind


@kernel
def _first_planned(observation: Observation, job: int, parameters: Numbers) -> int:
    """The open stage of `job` that comes first in its plan, runnable ones before others."""
    row = observation.jobs[job]
    best = NONE
    best_place = math.inf
    for stage in range(row["first_stage"], row["first_stage"] + row["num_stages"]):
        candidate = observation.stages[stage]
        if candidate["open"] == 0:
            continue
        place = parameters[SIZE + candidate["template"]]
        if candidate["runnable"] == 0:
            place += row["num_stages"]
        if place < best_place:
            best, best_place = stage, place
    return best


HEURISTICS = {
    "graphene": HeuristicSpec(
        decide,
        "shortest remaining work first under a tuned limit, packed around troublesome stages",
        place=100,
        defaults={"factor": 1.5, "jobs_power": 1.0, "work_power": 0.2, "packing": 0.1},
        search={
            "factor": FACTORS,
            "jobs_power": POWERS,
            "work_power": POWERS,
            "packing": WEIGHTS,
        },
        plan=planned_places,
    )
}
