"""Room for tasks in a session where some take several slots, start at once, or are under a cap.

Only a run with such a stage (`clock["slots_each"]` > 0) comes here. Slot `s` is of the executor
`s // slots_each`. As in Spark, nothing is reserved: a stage that finds no room is passed over.
"""

from __future__ import annotations

from spark_sim.compile import kernel
from spark_sim.kernels.allocation import leave, rest
from spark_sim.kernels.common import start_task
from spark_sim.kernels.lists import append_idle, first_idle, prepend_idle, remove_idle
from spark_sim.tables import HELD, IDLE, NONE, State


@kernel
def has_room(state: State, stage: int) -> bool:
    """Return whether `stage` can start a task now; of a barrier stage all of them."""
    row = state.stages[stage]
    least = row["num_tasks"] - row["launched"] if row["barrier"] == 1 else 1
    number = state.jobs[row["job"]]["cap"]
    if number != NONE:
        cap = state.caps[number]
        if cap["held"] + least * row["slots"] > cap["slots"]:
            return False
    if row["slots"] == 1:
        return bool(state.clock[0]["unattached"] >= least)
    fit, _ = _seek(state, row["slots"])
    return bool(fit >= least)


@kernel
def _seek(state: State, count: int) -> tuple[int, int]:
    """Return how many tasks of `count` slots fit, and a slot of the executor with most idle ones.

    So tasks spread over executors, as Spark gives each offer one task in turn. Of equal ones goes
    first whose slot became free last.
    """
    each = state.clock[0]["slots_each"]
    slot = first_idle(state, NONE, 0)
    while slot != NONE:
        state.executors[slot // each * each]["idle"] += 1
        slot = int(state.executors[slot]["next"])
    fit, most, best = 0, 0, NONE
    slot = first_idle(state, NONE, 0)
    while slot != NONE:
        idle = int(state.executors[slot // each * each]["idle"])
        state.executors[slot // each * each]["idle"] = 0
        fit += idle // count
        if idle > most:
            most = idle
            best = slot
        slot = int(state.executors[slot]["next"])
    return fit, best


@kernel
def start_tasks(state: State, stage: int) -> None:
    """Run the next task of `stage`, which has room, or of a barrier stage all of them.

    The slots of a task are threaded from the one that has its event.
    """
    clock = state.clock[0]
    row = state.stages[stage]
    job = state.jobs[row["job"]]
    count = row["num_tasks"] - row["launched"] if row["barrier"] == 1 else 1
    for _ in range(count):
        slot = _take_slots(state, stage)
        clock["unattached"] -= row["slots"]
        job["attached"] += row["slots"]
        if job["cap"] != NONE:
            state.caps[job["cap"]]["held"] += row["slots"]
        start_task(state, slot, stage)
        job["remaining_ms"] -= (row["slots"] - 1) * row["mean_ms"]
        job["local"] += row["slots"]
        clock["local"] += row["slots"]


@kernel
def _take_slots(state: State, stage: int) -> int:
    """Take the slots of a task out of the list of idle ones; returns the first."""
    clock = state.clock[0]
    left = state.stages[stage]["slots"] - 1
    _, leader = _seek(state, state.stages[stage]["slots"])
    executor = leader // clock["slots_each"]
    remove_idle(state, NONE, leader)
    slot = first_idle(state, NONE, 0)
    while left > 0:
        after = int(state.executors[slot]["next"])
        if slot // clock["slots_each"] == executor:
            remove_idle(state, NONE, slot)
            left -= 1
            worker = state.executors[slot]
            worker["next"] = state.executors[leader]["next"]
            state.executors[leader]["next"] = slot
            worker["state"] = HELD
            worker["stage"] = stage
            worker["last_stage"] = stage
            worker["since_ms"] = clock["time_ms"]
        slot = after
    return leader


@kernel
def free_further(state: State, slot: int, ran_out: bool) -> None:
    """The task whose event `slot` had ends: free its further slots, and count them back.

    `ran_out`: it was among the last of its stage.
    """
    clock = state.clock[0]
    row = state.stages[state.executors[slot]["stage"]]
    job = state.jobs[row["job"]]
    if job["cap"] != NONE:
        state.caps[job["cap"]]["held"] -= row["slots"]
    if row["slots"] == 1:
        return
    job["attached"] -= row["slots"] - 1
    if ran_out:
        job["held"] -= row["slots"] - 1
        clock["ending"] -= row["slots"] - 1
    else:
        job["local"] -= row["slots"] - 1
        clock["local"] -= row["slots"] - 1
    further = int(state.executors[slot]["next"])
    while further != NONE:
        worker = state.executors[further]
        after = int(worker["next"])
        clock["busy_ms"] += clock["time_ms"] - worker["since_ms"]
        worker["state"] = IDLE
        worker["stage"] = NONE
        if state.allocation[0]["slots_each"] > 0:
            rest(state, further)
        else:
            give_back(state, further)
        further = after


@kernel
def give_back(state: State, slot: int) -> None:
    """Make `slot` idle and the next to be used, or absent if there are too many."""
    clock = state.clock[0]
    if slot < clock["num_executors"]:
        prepend_idle(state, NONE, slot)
        clock["unattached"] += 1
    else:
        leave(state, slot)


@kernel
def set_slots(state: State, count: int) -> None:
    """Have the slots below `count`, so that executors stay whole; busy ones go when they end."""
    clock = state.clock[0]
    clock["num_executors"] = count
    slot = first_idle(state, NONE, 0)
    while slot != NONE:
        after = int(state.executors[slot]["next"])
        if slot >= count:
            remove_idle(state, NONE, slot)
            leave(state, slot)
            clock["unattached"] -= 1
        slot = after
    slot = int(clock["absent_head"])
    clock["absent_head"] = NONE
    while slot != NONE:
        after = int(state.executors[slot]["next"])
        if slot < count:
            state.executors[slot]["last_stage"] = NONE
            append_idle(state, NONE, slot)
            clock["unattached"] += 1
            clock["present"] += 1
        else:
            state.executors[slot]["next"] = clock["absent_head"]
            clock["absent_head"] = slot
        slot = after
