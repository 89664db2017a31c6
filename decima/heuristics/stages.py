"""What several heuristics need: choosing inside a job, and whether executors can hold a task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from decima.kernels import inlined_kernel, kernel
from spark_sim.kernels.executors import can_hold
from spark_sim.observation import Observation
from spark_sim.tables import NONE, SESSION, Table

Row = Mapping[str, Any]  # a row of a table, by column


@kernel
def first_runnable(observation: Observation, job: int) -> int:
    """The open stage of `job` that became runnable first, else its first open stage, else NONE."""
    row = observation.jobs[job]
    best = NONE
    if row["open_stages"] == 0:
        return best
    for stage in range(row["first_stage"], row["first_stage"] + row["num_stages"]):
        candidate, leader = observation.stages[stage], observation.stages[best]
        if candidate["open"] == 0:
            continue
        is_sooner = candidate["runnable"] == 1 and candidate["order"] < leader["order"]
        if best == NONE or candidate["runnable"] > leader["runnable"] or is_sooner:
            best = stage
    return best


@inlined_kernel
def on_critical_path(observation: Observation, job: int) -> int:
    """The open stage of `job` with the longest critical path, runnable ones first; NONE if none.

    A stage that is not runnable yet is worth choosing: executors that its parents free would else
    move to other jobs and back. On decima-sim's data that costs strict fair 6 % at 25 s mean gap
    and 15 % at 18 s, and FIFO more than half (`docs/simulator.md`).
    """
    row = observation.jobs[job]
    best = NONE
    if row["open_stages"] == 0:
        return best
    if observation.protocol == SESSION and observation.stages[row["critical"]]["open"] == 1:
        return int(row["critical"])  # known, unless it was chosen in this round
    for stage in range(row["first_stage"], row["first_stage"] + row["num_stages"]):
        candidate = observation.stages[stage]
        if candidate["open"] == 0:
            continue
        if best == NONE or is_more_critical(candidate, observation.stages[best]):
            best = stage
    return best


@kernel
def is_more_critical(candidate: Row, leader: Row) -> bool:
    """Return whether a stage precedes another of its job: runnable first, then longest path."""
    if candidate["runnable"] != leader["runnable"]:
        return bool(candidate["runnable"] > leader["runnable"])
    return bool(candidate["critical_path_ms"] > leader["critical_path_ms"])


@kernel
def is_on_offer(classes: Table, stage: Row, kind: int) -> bool:
    """Return whether an executor on offer of the class can hold a task of the stage."""
    if len(classes) == 1:
        return True
    return bool(classes[kind]["on_offer"] > 0 and can_hold(stage, kind))


@kernel
def scarcity(classes: Table, stage: Row, num_executors: int) -> float:
    """1 - H / N: the part of the executors that cannot hold a task of the stage."""
    if len(classes) == 1:
        return 0.0
    hosts = 0
    for kind in range(len(classes)):
        if can_hold(stage, kind):
            hosts += classes[kind]["count"]
    return 1.0 - hosts / num_executors
