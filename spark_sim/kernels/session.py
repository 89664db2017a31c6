"""The shared-session protocol: one SparkSession, a slot is offered again after every task.

Nothing moves and no executor belongs to a job. A decision round makes a *plan*: stages in the order
chosen, and a limit for each job. Since every slot comes back after its task, all slots are on offer
in a round, except those busy with the last tasks of a stage. Between rounds each free slot goes to
the first stage of the plan that has a task to start and whose job runs fewer tasks than its limit.
Rounds open at the scheduling events of the default protocol, and when the plan has run dry. Without
`Cluster.ask_while_idle` most of these are left out while slots are idle (`happen`).

No event and no round costs more in a session of many jobs: the counts that a round shows are
updated at every task, a plan is searched from `plan_place` on (`session_plan`), and a round may ask
about few jobs (`session_rounds`).

Slots may come and go (`spark_sim.conditions`): at given times, where one that goes while it is busy
goes when its task ends, or by dynamic allocation (`spark_sim.kernels.allocation`).
"""

from __future__ import annotations

import numpy as np

from spark_sim.compile import inlined_kernel, kernel
from spark_sim.kernels.allocation import allocate, come, leave, rest
from spark_sim.kernels.common import (
    admit_next,
    advance_time,
    count_finished,
    first_open,
    mark_changed,
    next_arrival_ms,
    next_timer_ms,
    retire,
    ring,
    truncate,
    unlock_children,
)
from spark_sim.kernels.lists import append_idle, first_idle, prepend_idle, remove_idle
from spark_sim.kernels.queue import next_event_ms, take
from spark_sim.kernels.room import free_further, give_back, set_slots
from spark_sim.kernels.session_plan import follow_plan
from spark_sim.kernels.session_rounds import ask, assign, close_round, open_round
from spark_sim.tables import (
    DEADLOCK,
    DECIDE,
    DONE,
    IDLE,
    MOVING,
    NONE,
    QUIET,
    TRUNCATED,
    State,
)


@kernel
def advance(state: State) -> int:
    """Run events until a decision is due (DECIDE), all jobs are DONE, or the run is TRUNCATED."""
    while True:
        status = happen(state)
        if status == DEADLOCK:
            _force_progress(state)
        elif status == DECIDE and ask(state):
            return DECIDE
        elif status in (DONE, TRUNCATED):
            return status


@inlined_kernel
def happen(state: State) -> int:
    """Run what comes next: DECIDE if that calls for a round, else QUIET.

    Also DONE or TRUNCATED at the end, DEADLOCK if nothing runs and nothing will come.

    While slots are idle that the last round left on offer, every job in the plan is at its limit.
    Without `Cluster.ask_while_idle` a stage that has no task to start is then only an event if its
    job has another that may be chosen and none in the plan, so that the slot could be used.
    """
    clock = state.clock[0]
    event_ms = next_event_ms(state)
    arrival_ms = next_arrival_ms(state)
    timer_ms = next_timer_ms(state)
    allocation_ms = np.inf
    is_allocated = state.allocation[0]["slots_each"] > 0
    if is_allocated:
        allocation_ms = allocate(state)
        event_ms = next_event_ms(state)
    if clock["num_active"] == 0 and event_ms == np.inf and arrival_ms == np.inf:
        return DONE
    time_ms = min(event_ms, arrival_ms, timer_ms, allocation_ms)
    if time_ms == np.inf:
        return DEADLOCK
    if time_ms > clock["time_limit_ms"]:
        truncate(state)
        return TRUNCATED
    advance_time(state, time_ms)

    if event_ms > time_ms:
        if timer_ms <= time_ms:
            # All timers of this instant: stages may start, slots come or go.
            while next_timer_ms(state) <= time_ms:
                count = state.timers[clock["next_timer"]]["executors"]
                if ring(state) == NONE:
                    if clock["slots_each"] > 0:
                        set_slots(state, count)
                    else:
                        _set_slots(state, count)
            return DECIDE
        if arrival_ms > time_ms:
            return QUIET  # allocation alone is due
        while next_arrival_ms(state) == time_ms:
            admit_next(state)
        return DECIDE

    slot = take(state)
    worker = state.executors[slot]
    if worker["state"] == MOVING:
        come(state, slot)
        return DECIDE

    # A task ends.
    row = state.stages[worker["stage"]]
    number = row["job"]
    job = state.jobs[number]
    is_quiet = bool(clock["plan_spare"] == 1 and clock["unattached"] > 0)
    count_finished(state, slot)
    mark_changed(state, number)
    job["attached"] -= 1
    ran_out = bool(row["launched"] == row["num_tasks"])
    due = False
    if ran_out:
        job["held"] -= 1
        clock["ending"] -= 1
        if row["finished"] == row["num_tasks"]:
            due = unlock_children(state, worker["stage"])
            if job["stages_done"] == job["num_stages"]:
                retire(state, number)
                due = True
        if row["released"] == 0:
            row["released"] = 1
            due = due or not is_quiet
    else:
        job["local"] -= 1
        job["uncovered"] -= 1
        clock["local"] -= 1
        row["covered"] = row["finished"]
    if row["slots"] > 1:
        free_further(state, slot, ran_out)

    # The slot is idle or goes.
    worker["state"] = IDLE
    worker["stage"] = NONE
    if is_allocated:
        rest(state, slot)
    elif clock["slots_each"] > 0:
        give_back(state, slot)
    elif clock["present"] <= clock["num_executors"]:
        # Spark offers the slot that has just become free, so it is the first to be used again.
        prepend_idle(state, NONE, slot)
        clock["unattached"] += 1
    else:
        leave(state, slot)
        head = job["plan_head"]
        if head != NONE:  # the job may have another slot, but not this one
            clock["plan_place"] = min(clock["plan_place"], state.stages[head]["plan_place"])

    # It is used by the plan, unless a new one is due.
    if due:
        return DECIDE
    if ran_out:
        # Its slot was not on offer when the plan was made, so the plan does not use it.
        clock["plan_stale"] = 1
    follow_plan(state, number)
    if clock["unattached"] == 0 or clock["plan_stale"] == 0:
        return QUIET
    if not is_quiet:
        return DECIDE
    clock["plan_stale"] = 0
    return DECIDE if job["plan_head"] == NONE and job["open_stages"] > 0 else QUIET


@kernel
def _set_slots(state: State, count: int) -> None:
    """Change the number of slots; busy ones that are too many go when their tasks end."""
    clock = state.clock[0]
    clock["num_executors"] = count
    while clock["present"] < count:
        slot = clock["absent_head"]
        clock["absent_head"] = state.executors[slot]["next"]
        state.executors[slot]["last_stage"] = NONE
        append_idle(state, NONE, slot)
        clock["unattached"] += 1
        clock["present"] += 1
    while clock["present"] > count and clock["unattached"] > 0:
        slot = first_idle(state, NONE, 0)
        remove_idle(state, NONE, slot)
        clock["unattached"] -= 1
        leave(state, slot)


@kernel
def _force_progress(state: State) -> None:
    """Every slot was left idle and nothing will arrive: run one task of the oldest job."""
    clock = state.clock[0]
    open_round(state)
    stage = first_open(state)
    held = state.jobs[state.stages[stage]["job"]]["held"]
    clock["forced"] += 1
    clock["decisions"] -= 1
    if assign(state, stage, held + 1) == DECIDE:
        close_round(state)
