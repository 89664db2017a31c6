"""Spark's FAIR scheduler with one pool for each job (minShare 0, equal weights).

Spark gives each free slot to the pool with the fewest running tasks: the
shares are max-min fair and no slot stays idle while a job wants one.
"""

from __future__ import annotations

from decima.heuristics.compiled import Numbers, Scratch
from decima.heuristics.stages import on_critical_path
from decima.kernels import kernel
from spark_sim.observation import Observation
from spark_sim.tables import NONE


@kernel
def decide(seen: Observation, _parameters: Numbers, _scratch: Scratch) -> tuple[int, int]:
    """The job with the fewest executors, up to the level that all those on offer would fill."""
    level = water_level(seen)
    if _needed(seen, level) < seen.on_offer:
        # Slots left over by rounding go to the jobs with the fewest slots, the oldest first.
        level += 1
    best = NONE
    fewest = 0
    for job in seen.active:
        held = seen.jobs[job]["held"]
        if held >= level or (best != NONE and held >= fewest):
            continue
        stage = on_critical_path(seen, job)
        if stage != NONE:
            best = stage
            fewest = held
    return best, min(seen.num_executors, level)


@kernel
def water_level(seen: Observation) -> int:
    """The largest level to which all jobs that can use it are raised by what is on offer."""
    low = 0
    high = seen.num_executors
    while low < high:
        middle = (low + high + 1) // 2
        if _needed(seen, middle) <= seen.on_offer:
            low = middle
        else:
            high = middle - 1
    return low


@kernel
def _needed(seen: Observation, level: int) -> int:
    """Executors that bring every job up to `level`, as far as its open stages can use them."""
    needed = 0
    for job in seen.active:
        row = seen.jobs[job]
        if row["open_stages"] == 0 or row["held"] >= level:
            continue
        usable = 0
        for stage in range(row["first_stage"], row["first_stage"] + row["num_stages"]):
            candidate = seen.stages[stage]
            if candidate["open"] == 1:
                usable += candidate["num_tasks"] - candidate["covered"]
        needed += min(usable, level - row["held"])
    return needed
