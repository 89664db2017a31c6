"""Following a session's plan: a free slot goes to the first stage with a task and room for it."""

from __future__ import annotations

from spark_sim.compile import inlined_kernel, kernel
from spark_sim.kernels.common import compare_critical, mark_changed, start_task
from spark_sim.kernels.lists import first_idle, remove_idle
from spark_sim.kernels.room import has_room, start_tasks
from spark_sim.tables import NONE, State


@inlined_kernel
def follow_plan(state: State, number: int) -> None:
    """Give idle slots to the plan's stages, in its order and under its limits.

    Before `plan_place` only the job `number` can have become able to use one; NONE: no job.
    """
    clock = state.clock[0]
    if clock["slots_each"] > 0:
        _follow_with_room(state)
        return
    while clock["unattached"] > 0:
        stage = NONE
        if number != NONE:
            stage = int(state.jobs[number]["plan_head"])
        if stage == NONE or not (
            state.stages[stage]["plan_place"] < clock["plan_place"] and _may_start(state, stage)
        ):
            stage = NONE
            while stage == NONE and clock["plan_place"] < clock["plan_length"]:
                if _may_start(state, state.chosen[clock["plan_place"]]):
                    stage = int(state.chosen[clock["plan_place"]])
                else:
                    clock["plan_place"] += 1
        if stage == NONE:
            break
        start(state, stage)


@kernel
def _follow_with_room(state: State) -> None:
    """Follow the plan where tasks may take several slots: a stage passed over may have room now.

    A task of several slots may lead its job beyond the limit.
    """
    clock = state.clock[0]
    place = 0
    while clock["unattached"] > 0 and place < clock["plan_length"]:
        stage = int(state.chosen[place])
        if _may_start(state, stage) and has_room(state, stage):
            start_with_room(state, stage)
        else:
            place += 1


@kernel
def start_with_room(state: State, stage: int) -> None:
    """Run the next task of `stage`, which `has_room`, or of a barrier stage all."""
    start_tasks(state, stage)
    if state.stages[stage]["launched"] == state.stages[stage]["num_tasks"]:
        _run_out(state, stage)


@inlined_kernel
def _may_start(state: State, stage: int) -> bool:
    """Return whether a stage has a task to start and its job is under its limit."""
    row = state.stages[stage]
    job = state.jobs[row["job"]]
    return bool(row["launched"] < row["num_tasks"] and job["attached"] < job["limit"])


@inlined_kernel
def start(state: State, stage: int) -> None:
    """Run the next task of `stage` on an idle slot."""
    clock = state.clock[0]
    slot = first_idle(state, NONE, 0)
    row = state.stages[stage]
    job = state.jobs[row["job"]]
    remove_idle(state, NONE, slot)
    clock["unattached"] -= 1
    job["attached"] += 1
    start_task(state, slot, stage)
    job["local"] += 1
    clock["local"] += 1
    if row["launched"] == row["num_tasks"]:
        _run_out(state, stage)


@inlined_kernel
def _run_out(state: State, stage: int) -> None:
    """Take `stage`, which has started its last task, out of the plan, and its slots off offer."""
    clock = state.clock[0]
    row = state.stages[stage]
    job = state.jobs[row["job"]]
    running = (row["launched"] - row["finished"]) * row["slots"]
    mark_changed(state, row["job"])
    job["local"] -= running
    clock["local"] -= running
    job["held"] += running
    clock["ending"] += running
    job["uncovered"] -= row["num_tasks"] - row["finished"]
    row["covered"] = row["num_tasks"]
    row["open"] = 0
    if job["critical"] == stage:
        find_critical(state, row["job"])
    job["open_stages"] -= 1
    clock["open_stages"] -= 1
    if job["plan_head"] == stage:
        job["plan_head"] = row["plan_next"]
        clock["plan_stale"] = 1


@kernel
def find_critical(state: State, number: int) -> None:
    """Find the job's stage on the critical path among the open ones."""
    job = state.jobs[number]
    job["critical"] = NONE
    for stage in range(job["first_stage"], job["first_stage"] + job["num_stages"]):
        if state.stages[stage]["open"] == 1:
            compare_critical(state, stage)
