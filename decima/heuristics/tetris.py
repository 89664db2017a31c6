r"""Tetris: packing by alignment, with a preference for jobs with little work left.

.. math:: s = d_v \cdot r_c - w \, R_i / \bar R

Of the tasks that an executor on offer can hold the one with the largest score s goes first: d_v is
what a task of stage v needs and r_c what an executor of class c has, memory and cores, each over
the largest class; R_i is the work left in job i, \bar R its mean over the jobs in the system.
(Grandl et al., SIGCOMM 2014, section 3: alignment by the dot product, and the combined score with
the remaining work. Decima 7.3, baseline 6.) There is no limit but the number of executors.
"""

from __future__ import annotations

import math

from decima.heuristics.spec import HeuristicSpec, Numbers, Scratch
from decima.heuristics.stages import is_on_offer
from decima.kernels import kernel
from spark_sim.observation import Observation
from spark_sim.tables import LEAST_WORK_MS, NONE

WORK_WEIGHT = 0  # position in the parameters: w
WEIGHTS = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0)


@kernel
def decide(
    observation: Observation, parameters: Numbers, _scratch: Scratch
) -> tuple[int, int, int]:
    """The stage and the class of executors with the largest score."""
    mean_ms = LEAST_WORK_MS
    for job in observation.active:
        mean_ms += max(0.0, observation.jobs[job]["remaining_ms"]) / len(observation.active)
    best = best_kind = NONE
    best_score = -math.inf
    for job in observation.active:
        row = observation.jobs[job]
        if row["open_stages"] == 0 or row["held"] >= observation.num_executors:
            continue
        penalty = parameters[WORK_WEIGHT] * max(0.0, row["remaining_ms"]) / mean_ms
        for stage in range(row["first_stage"], row["first_stage"] + row["num_stages"]):
            if observation.stages[stage]["open"] == 0:
                continue
            for kind in range(len(observation.classes)):
                if not is_on_offer(observation.classes, observation.stages[stage], kind):
                    continue
                score = alignment(observation, stage, kind) - penalty
                if score > best_score:
                    best, best_kind, best_score = stage, kind, score
    return best, observation.num_executors, best_kind


@kernel
def alignment(observation: Observation, stage: int, kind: int) -> float:
    """Return the dot product; a resource that the trace or the cluster lacks adds nothing."""
    row, size, largest = (
        observation.stages[stage],
        observation.classes[kind],
        observation.classes[-1],
    )
    total = 0.0
    if row["memory_mb"] > 0 and largest["memory_mb"] < math.inf:
        total += row["memory_mb"] * size["memory_mb"] / largest["memory_mb"] ** 2
    if row["cpu"] > 0 and largest["cpu"] < math.inf:
        total += row["cpu"] * size["cpu"] / largest["cpu"] ** 2
    return total


HEURISTICS = {
    "tetris": HeuristicSpec(
        decide,
        "packs the largest tasks that fit first, less what their job has left",
        place=90,
        defaults={"work_weight": 0.1},
        search={"work_weight": WEIGHTS},
        idle_insensitive=True,
    )
}
