"""Dynamic allocation of a session's executors, by the rules of Spark's ExecutorAllocationManager.

While tasks wait, executors are requested: one after the backlog timeout, then twice as many with
each further timeout, up to what the waiting and running tasks need. An executor comes some time
after its request. One that is idle for the idle timeout goes, if more are there than are needed.
Executor `e` has the slots `e * slots_each` and following. Spark looks at all this ten times a
second; here it happens at once.
"""

from __future__ import annotations

import numpy as np

from spark_sim.compile import inlined_kernel, kernel
from spark_sim.kernels.lists import append_idle, first_idle, push, remove_idle
from spark_sim.tables import EXECUTOR_ARRIVED, IDLE, MOVING, NONE, State


@kernel
def allocate(state: State) -> float:
    """Request and remove executors at this instant, whose tasks have all been started.

    Returns when to look again if nothing else happens; infinity: never.
    """
    clock = state.clock[0]
    rules = state.allocation[0]
    now_ms = clock["time_ms"]
    _charge(state)
    pending, lost = _pending(state)
    slots = pending + lost + clock["present"] - clock["unattached"]
    most_needed = int(np.ceil(slots * rules["ratio"] / rules["slots_each"]))
    if most_needed < rules["target"]:
        if clock["runnable_count"] > 0:  # before the first stage Spark keeps its target
            rules["target"] = max(most_needed, rules["least"])
            rules["step"] = 1
    elif pending > 0:
        if rules["add_ms"] == np.inf:
            rules["add_ms"] = now_ms + rules["backlog_ms"]
        if rules["add_ms"] <= now_ms:
            # Raise the target by the step that is due, if it may rise; the next step is twice that.
            before = rules["target"]
            wanted = min(max(before, rules["present"]) + rules["step"], most_needed)
            rules["target"] = max(min(wanted, rules["most"]), rules["least"])
            risen = rules["target"] - before
            rules["step"] = 2 * rules["step"] if risen == rules["step"] else 1
            if risen != 0:
                rules["add_ms"] = now_ms + rules["sustained_ms"]
    if pending == 0:
        rules["add_ms"] = np.inf
        rules["step"] = 1

    while rules["present"] + rules["coming"] < rules["target"]:
        # Start an executor.
        rules["coming"] += 1
        for _ in range(rules["slots_each"]):
            slot = int(clock["absent_head"])
            clock["absent_head"] = state.executors[slot]["next"]
            state.executors[slot]["state"] = MOVING
            state.executors[slot]["since_ms"] = now_ms
            push(state, slot, now_ms + rules["start_ms"], EXECUTOR_ARRIVED)
    idle_ms = _remove_idle_executors(state)
    return min(idle_ms, rules["add_ms"] if rules["add_ms"] > now_ms else np.inf)


@inlined_kernel
def come(state: State, slot: int) -> None:
    """Make `slot` of an executor that has started available."""
    clock = state.clock[0]
    rules = state.allocation[0]
    _charge(state)
    state.executors[slot]["state"] = IDLE
    state.executors[slot]["last_stage"] = NONE
    rest(state, slot)
    clock["present"] += 1
    clock["num_executors"] = clock["present"]
    if slot % rules["slots_each"] == 0:
        rules["present"] += 1
        rules["coming"] -= 1


@inlined_kernel
def rest(state: State, slot: int) -> None:
    """Make `slot` idle; it is used again after those that have been idle for longer.

    Spark offers executors in random order, so a light load keeps them all awake.
    """
    clock = state.clock[0]
    append_idle(state, NONE, slot)
    clock["unattached"] += 1
    state.executors[slot]["since_ms"] = clock["time_ms"]


@inlined_kernel
def leave(state: State, slot: int) -> None:
    """Make `slot`, which is in no list, absent."""
    clock = state.clock[0]
    state.executors[slot]["next"] = clock["absent_head"]
    clock["absent_head"] = slot
    clock["present"] -= 1


@inlined_kernel
def _charge(state: State) -> None:
    """Count the time that executors were held since this was called last."""
    rules = state.allocation[0]
    now_ms = state.clock[0]["time_ms"]
    held = (rules["present"] + rules["coming"]) * rules["slots_each"]
    rules["held_ms"] += held * (now_ms - rules["charged_ms"])
    rules["charged_ms"] = now_ms


@inlined_kernel
def _pending(state: State) -> tuple[float, float]:
    """Slots to request for tasks of submitted stages that wait, and slots lost beside running ones.

    Spark divides the tasks of a stage by those that an executor has room for. So each task of
    several slots counts its part of those that are left over in an executor, too.
    """
    clock = state.clock[0]
    slots_each = state.allocation[0]["slots_each"]
    waiting, lost = 0.0, 0.0
    for index in range(clock["num_active"]):
        job = state.jobs[state.active[index]]
        for stage in range(job["first_stage"], job["first_stage"] + job["num_stages"]):
            row = state.stages[stage]
            if row["runnable"] == 1:
                slots = row["slots"]
                share = slots_each / max(1, slots_each // slots)
                waiting += (row["num_tasks"] - row["launched"]) * share
                lost += (row["launched"] - row["finished"]) * (share - slots)
    return waiting, lost


@kernel
def _remove_idle_executors(state: State) -> float:
    """Remove executors that were idle for too long; returns when the next one will have been."""
    clock = state.clock[0]
    rules = state.allocation[0]
    each = rules["slots_each"]
    floor = max(rules["target"], rules["least"])
    if rules["present"] <= floor or clock["unattached"] < each:
        return np.inf
    next_ms = np.inf
    for first in range(0, len(state.executors), each):
        # When the executor became idle; infinity: it is busy or absent.
        since_ms = 0.0
        for slot in range(first, first + each):
            row = state.executors[slot]
            # An absent slot is idle and in no list, one that is alone in the list is its head.
            is_listed = row["prev"] != NONE or first_idle(state, NONE, 0) == slot
            is_idle = row["state"] == IDLE and is_listed
            since_ms = max(since_ms, row["since_ms"] if is_idle else np.inf)
        due_ms = since_ms + rules["idle_ms"]
        if due_ms > clock["time_ms"]:
            next_ms = min(next_ms, due_ms)
        elif rules["present"] > floor:
            rules["present"] -= 1
            for slot in range(first + each - 1, first - 1, -1):
                remove_idle(state, NONE, slot)
                clock["unattached"] -= 1
                leave(state, slot)
    clock["num_executors"] = clock["present"]
    return next_ms if rules["present"] > floor else np.inf
