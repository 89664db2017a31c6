"""Strict fair share: every job at most N / jobs executors; those over the cap move on.

Decima section 7.1, baseline 3, without the loophole of decima-sim's version (`sticky_fair`).
"""

from __future__ import annotations

import math

from decima.heuristics.rounds import has_room, is_new
from decima.heuristics.spec import HeuristicSpec, Numbers, Scratch
from decima.heuristics.stages import Row, on_critical_path
from decima.kernels import inlined_kernel, kernel
from spark_sim.observation import Observation
from spark_sim.tables import ANY, FAIR_LIMIT, NONE

_PASS, _PLACE, _LOCAL = 1, 2, 3
"""places in `Scratch.stored`: the pass over the jobs, how far it is, `local` of the jobs before"""


@kernel
def decide(
    observation: Observation, _parameters: Numbers, scratch: Scratch
) -> tuple[int, int, int]:
    """Fill jobs to the share: first those with executors on offer, then by arrival."""
    cap = math.ceil(observation.num_executors / max(1, observation.num_jobs))
    if not has_room(observation, scratch):
        return _search(observation, cap), cap, ANY
    stored = scratch.stored
    if is_new(observation, scratch):
        stored[_PASS] = stored[_PLACE] = stored[_LOCAL] = 0
    if stored[_PASS] == 0:
        # The first jobs hold what there is, so this pass ends early while others wait.
        while stored[_PLACE] < len(observation.active) and stored[_LOCAL] < observation.local:
            row = observation.jobs[observation.active[stored[_PLACE]]]
            if row["local"] > 0:
                if _wants(row, cap):
                    return (
                        on_critical_path(observation, observation.active[stored[_PLACE]]),
                        cap,
                        ANY,
                    )
                stored[_LOCAL] += row["local"]
            stored[_PLACE] += 1
        stored[_PASS] = 1
        stored[_PLACE] = 0
    while stored[_PLACE] < len(observation.active):
        job = observation.active[stored[_PLACE]]
        if _wants(observation.jobs[job], cap):
            return on_critical_path(observation, job), cap, ANY
        stored[_PLACE] += 1
    return NONE, cap, ANY


@inlined_kernel
def _wants(job: Row, cap: int) -> bool:
    return bool(job["open_stages"] > 0 and job["held"] < cap)


@kernel
def _search(observation: Observation, cap: int) -> int:
    """Return the stage by one look at the jobs, storing nothing."""
    fallback = NONE
    local = 0
    for job in observation.active:
        row = observation.jobs[job]
        if row["local"] > 0:
            if _wants(row, cap):
                return on_critical_path(observation, job)
            local += row["local"]
        elif fallback == NONE and _wants(row, cap):
            fallback = on_critical_path(observation, job)
        if fallback != NONE and local >= observation.local:
            break
    return fallback


HEURISTICS = {
    "strict_fair": HeuristicSpec(
        decide,
        "every job at most executors / jobs",
        place=40,
        idle_insensitive=True,
        limits=FAIR_LIMIT,
    )
}
