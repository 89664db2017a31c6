"""Strict fair share: every job at most N / jobs executors; those over the cap move on.

Decima section 7.1, baseline 3, without the loophole of decima-sim's version (`sticky_fair`).
"""

from __future__ import annotations

from decima.heuristics.compiled import Numbers, Scratch
from decima.heuristics.stages import fair_share, on_critical_path
from decima.kernels import kernel
from spark_sim.observation import Observation
from spark_sim.tables import NONE


@kernel
def decide(seen: Observation, _parameters: Numbers, _scratch: Scratch) -> tuple[int, int]:
    """Fill jobs to the share: first those with executors on offer, then by arrival."""
    cap = fair_share(seen)
    fallback = NONE
    for job in seen.active:
        row = seen.jobs[job]
        if row["open_stages"] == 0 or row["held"] >= cap:
            continue
        if fallback != NONE and row["local"] == 0:
            continue
        stage = on_critical_path(seen, job)
        if stage == NONE:
            continue
        if row["local"] > 0:
            return stage, cap
        fallback = stage
    return fallback, cap
