"""The shared-session protocol: one SparkSession, a slot is offered again after every task.

Nothing moves and no executor belongs to a job. A decision round makes a *plan*: stages in the order
chosen, and a limit for each job. Since every slot comes back after its task, all slots are on offer
in a round, except those busy with the last tasks of a stage. Between rounds each free slot goes to
the first stage of the plan that has a task to start and whose job runs fewer tasks than its limit.
Rounds open at the scheduling events of the default protocol, and when the plan has run dry. Without
`Cluster.ask_while_idle` most of these are left out while slots are idle (`happen`).

No event and no round costs more in a session of many jobs: the counts that a round shows are
updated at every task, a plan is searched from `plan_place` on (`follow_plan`), and a round may ask
about few jobs: for a policy whose limits are known (`PLAN`), one that follows a round with slots
left over asks only about jobs that changed since. All others would be given what they have: their
parts of the plan stay.

Jobs may have a cap of slots together, and only so many may run at once (`Cluster.max_jobs`). When
one of these ends and several wait for its place, a round about these alone comes first: they are
shown as if no other job were there, and the job of the first choice enters (`ask_admission`). Slots
may come and go (`spark_sim.conditions`): at given times, where one that goes while it is busy
goes when its task ends, or by dynamic allocation (`spark_sim.kernels.allocation`).
"""

from __future__ import annotations

import math

import numpy as np

from spark_sim.compile import inlined_kernel, kernel
from spark_sim.kernels.allocation import allocate, come, leave, rest
from spark_sim.kernels.common import (
    admit_next,
    advance_time,
    compare_critical,
    count_finished,
    mark_changed,
    next_arrival_ms,
    next_timer_ms,
    retire,
    ring,
    start_task,
    truncate,
    unlock_children,
)
from spark_sim.kernels.lists import (
    append_idle,
    first_idle,
    next_event_ms,
    prepend_idle,
    remove_idle,
    take,
)
from spark_sim.kernels.room import free_further, give_back, has_room, set_slots, start_tasks
from spark_sim.tables import (
    ANY_LIMIT,
    DEADLOCK,
    DECIDE,
    DONE,
    FAIR_LIMIT,
    FORCED,
    IDLE,
    ILLEGAL,
    MOVING,
    NONE,
    QUIET,
    TRUNCATED,
    State,
)


@kernel
def advance(state: State) -> int:
    """Run events until a decision is due (DECIDE), all jobs are DONE, or the run is TRUNCATED.

    FORCED if nothing runs and nothing will arrive: the policy left every slot idle.
    """
    while True:
        status = happen(state)
        if status == DEADLOCK:
            open_round(state)
            return FORCED
        if status == DECIDE and (ask_admission(state) or ask(state)):
            return DECIDE
        if status in (DONE, TRUNCATED):
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
    if clock["slots_each"] > 0:
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
def count_waiting(state: State) -> int:
    """Count the jobs that have arrived and wait for a place."""
    clock = state.clock[0]
    last = clock["next_arrival"]
    while (
        last < clock["num_queued"]
        and state.jobs[state.queue[last]]["arrival_ms"] <= clock["time_ms"]
    ):
        last += 1
    return int(last - clock["next_arrival"])


@kernel
def ask_admission(state: State) -> bool:
    """Open a round about the jobs that wait, where a place is free; the only one enters at once.

    Returns whether there is a decision to make.
    """
    clock = state.clock[0]
    if clock["place_free"] == 0:
        return False
    waiting = count_waiting(state)
    if waiting == 1 or clock["num_executors"] == 0:
        admit(state, NONE)
        return False
    clock["is_admission"] = 1
    clock["rounds"] += 1
    clock["running_jobs"] = clock["num_active"]
    clock["running_open"] = clock["open_stages"]
    clock["running_local"] = clock["local"]
    for index in range(clock["num_active"]):
        state.asked[index] = state.active[index]
    clock["num_active"] = waiting
    clock["open_stages"] = 0
    clock["local"] = 0
    clock["on_offer"] = clock["num_executors"]
    for index in range(waiting):
        number = state.queue[clock["next_arrival"] + index]
        state.active[index] = number
        job = state.jobs[number]
        for stage in range(job["first_stage"], job["first_stage"] + job["num_stages"]):
            row = state.stages[stage]
            if row["parents_running"] == 0:
                row["runnable"] = 1
                row["open"] = 1
                job["open_stages"] += 1
                job["uncovered"] += row["num_tasks"]
                compare_critical(state, stage)
        clock["open_stages"] += job["open_stages"]
    return True


@kernel
def _close_admission(state: State, stage: int) -> int:
    """Let the job of `stage` enter, or the first submitted if that is NONE.

    Returns DECIDE if that opens the round that was due, else DONE.
    """
    clock = state.clock[0]
    for index in range(clock["num_active"]):
        job = state.jobs[state.active[index]]
        job["open_stages"] = 0
        job["uncovered"] = 0
        job["critical"] = NONE
        for row in range(job["first_stage"], job["first_stage"] + job["num_stages"]):
            state.stages[row]["runnable"] = 0
            state.stages[row]["open"] = 0
    clock["is_admission"] = 0
    clock["num_active"] = clock["running_jobs"]
    clock["open_stages"] = clock["running_open"]
    clock["local"] = clock["running_local"]
    clock["on_offer"] = 0
    for index in range(clock["num_active"]):
        state.active[index] = state.asked[index]
    admit(state, NONE if stage == NONE else state.stages[stage]["job"])
    return DECIDE if ask(state) else DONE


@kernel
def admit(state: State, number: int) -> None:
    """Give the free place to a job that waits; NONE: to the first submitted."""
    first = state.clock[0]["next_arrival"]
    state.clock[0]["place_free"] = 0
    if number != NONE:
        place = first
        while state.queue[place] != number:
            place += 1
        while place > first:
            state.queue[place] = state.queue[place - 1]
            place -= 1
        state.queue[first] = number
    admit_next(state)


@kernel
def ask(state: State) -> bool:
    """Open a round, of few jobs if possible. Returns whether there is a decision to make."""
    clock = state.clock[0]
    plan = state.plan[0]
    is_kept = plan["is_kept"] == 1 and plan["num_executors"] == clock["num_executors"]
    if not is_kept or plan["limits"] == ANY_LIMIT:
        return open_round(state)

    # Find the jobs that changed, and the slots that are left for them.
    limit = _known_limit(state)
    asked = 0
    for index in range(clock["num_active"]):
        number = state.active[index]
        job = state.jobs[number]
        if job["changed"] == 0 and limit != plan["limit"]:
            # Another limit changes a job if that or the old one binds.
            held = job["held"] + job["plan_slots"]
            is_bound = held >= plan["limit"] or held > limit
            if job["open_stages"] > job["plan_stages"] or is_bound:
                mark_changed(state, number)
            elif job["plan_stages"] > 0:
                job["limit"] = limit
        if job["changed"] == 1:
            state.asked[asked] = number
            asked += 1
    plan["num_asked"] = asked
    clock["on_offer"] = clock["num_executors"] - clock["ending"] - plan["slots"]
    has_place = clock["plan_length"] + clock["open_stages"] - plan["stages"] <= len(state.chosen)
    is_possible = clock["on_offer"] > 0 and clock["open_stages"] > 0 and has_place
    if asked == clock["num_active"] or not is_possible:
        return open_round(state)

    # Ask about them alone.
    for index in range(asked):
        number = state.asked[index]
        stage = int(state.jobs[number]["plan_head"])
        while stage != NONE:
            state.stages[stage]["covered"] = state.stages[stage]["finished"]
            stage = int(state.stages[stage]["plan_next"])
        _forget_plan(state, number)
        state.jobs[number]["changed"] = 0
    plan["changed_only"] = 1
    plan["decisions"] = clock["decisions"]
    plan["begin"] = clock["plan_length"]
    clock["plan_place"] = clock["plan_length"]
    clock["plan_stale"] = 0
    clock["open_stages"] -= plan["stages"]
    clock["rounds"] += 1
    return bool(clock["open_stages"] > 0 or close_round(state) == DECIDE)


@kernel
def open_round(state: State) -> bool:
    """Put every slot on offer that will come back. Returns whether there is a decision to make."""
    clock = state.clock[0]
    plan = state.plan[0]
    for index in range(clock["plan_length"]):
        row = state.stages[state.chosen[index]]
        ran_out = row["launched"] == row["num_tasks"]
        row["covered"] = row["num_tasks"] if ran_out else row["finished"]
        _forget_plan(state, row["job"])
    plan["is_kept"] = 0
    plan["slots"] = 0
    plan["stages"] = 0
    plan["begin"] = 0
    clock["plan_length"] = 0
    clock["plan_place"] = 0
    clock["plan_stale"] = 0
    if clock["counted"] == 0:
        _count(state)
    clock["on_offer"] = clock["num_executors"] - clock["ending"]
    clock["plan_spare"] = clock["on_offer"] > 0 and _may_ask_less(state)
    due = bool(clock["on_offer"] > 0 and clock["open_stages"] > 0)
    clock["rounds"] += due
    return due


@inlined_kernel
def _may_ask_less(state: State) -> bool:
    """Return whether slots that stay idle show that all jobs are at their limits."""
    clock = state.clock[0]
    return bool(clock["ask_while_idle"] == 0 and clock["slots_each"] == 0)


@inlined_kernel
def _forget_plan(state: State, number: int) -> None:
    """The job has no part in the plan any more."""
    job = state.jobs[number]
    job["limit"] = 0
    job["plan_head"] = NONE
    job["plan_slots"] = 0
    job["plan_stages"] = 0


@kernel
def _count(state: State) -> None:
    """Count what a round shows of each job; between rounds `start` and `happen` count on.

    Tasks that run are not covered, as their slots are on offer too, but for a stage that has no
    further one.
    """
    clock = state.clock[0]
    clock["counted"] = 1
    clock["ending"] = 0
    clock["local"] = 0
    clock["open_stages"] = 0
    for index in range(clock["num_active"]):
        job = state.jobs[state.active[index]]
        job["held"] = 0
        job["local"] = 0
        job["uncovered"] = 0
        job["open_stages"] = 0
        for stage in range(job["first_stage"], job["first_stage"] + job["num_stages"]):
            row = state.stages[stage]
            running = (row["launched"] - row["finished"]) * row["slots"]
            row["covered"] = row["finished"]
            row["open"] = 0
            if row["launched"] == row["num_tasks"]:
                row["covered"] = row["num_tasks"]
                job["held"] += running
            elif row["runnable"] == 1:
                row["open"] = 1
                job["open_stages"] += 1
                job["local"] += running
                job["uncovered"] += row["num_tasks"] - row["finished"]
        find_critical(state, state.active[index])
        clock["ending"] += job["held"]
        clock["local"] += job["local"]
        clock["open_stages"] += job["open_stages"]


@inlined_kernel
def _known_limit(state: State) -> int:
    """Return the limit that the policy gives while slots are left over, if it is a known one."""
    clock = state.clock[0]
    if state.plan[0]["limits"] == FAIR_LIMIT:
        share: int = math.ceil(clock["num_executors"] / max(1, clock["num_active"]))
        return share
    return int(clock["num_executors"])


@inlined_kernel
def assign(state: State, stage: int, limit: int, _only: int) -> int:
    """Put `stage` next in the plan and set its job's limit; stage NONE ends the round.

    In a round about jobs that wait for a place either ends it, and the next one may open.

    Returns DECIDE while the round is open, DONE once it is closed, ILLEGAL for an action that the
    rules forbid (nothing has changed then).
    """
    clock = state.clock[0]
    if stage == NONE:
        if clock["is_admission"] == 1:
            return _close_admission(state, NONE)
        clock["decisions"] += 1
        return close_round(state)
    if stage < 0 or stage >= len(state.stages) or state.stages[stage]["open"] == 0:
        return ILLEGAL
    row = state.stages[stage]
    job = state.jobs[row["job"]]
    if limit <= job["held"] or limit > clock["num_executors"]:
        return ILLEGAL
    if clock["is_admission"] == 1:
        return ILLEGAL if job["active"] == 1 else _close_admission(state, stage)
    clock["decisions"] += 1
    job["limit"] = limit
    job["uncovered"] -= row["num_tasks"] - row["covered"]
    if clock["slots_each"] > 0 and (row["slots"] > 1 or row["barrier"] == 1 or job["cap"] != NONE):
        # Tasks of several slots are covered up to the new limit. Policies count a task as a slot: a
        # limit that would cover all tasks so covers all. The slots stay on offer, and are not held:
        # a task that finds no room, or none under its cap, is passed over, and reserves none.
        waiting = int(row["num_tasks"] - row["covered"])
        room = int(limit - job["held"])
        is_whole = row["barrier"] == 1 or room >= waiting
        tasks = waiting if is_whole else max(1, room // row["slots"])
        row["covered"] += tasks
        most = min(clock["num_executors"], job["held"] + tasks * row["slots"])
        job["limit"] = max(limit, most)
    else:
        count = min(row["num_tasks"] - row["covered"], limit - job["held"], clock["on_offer"])
        clock["on_offer"] -= count
        job["held"] += count
        local = min(count, job["local"])
        job["local"] -= local
        clock["local"] -= local
        row["covered"] += count
    row["open"] = 0
    job["open_stages"] -= 1
    clock["open_stages"] -= 1

    # It goes to the end of the plan, and of its job's part of it.
    row["plan_place"] = clock["plan_length"]
    row["plan_next"] = NONE
    if job["plan_head"] == NONE:
        job["plan_head"] = stage
    else:
        state.stages[job["plan_tail"]]["plan_next"] = stage
    job["plan_tail"] = stage
    state.chosen[clock["plan_length"]] = stage
    clock["plan_length"] += 1
    if clock["on_offer"] > 0 and clock["open_stages"] > 0:
        return DECIDE
    return close_round(state)


@kernel
def close_round(state: State) -> int:
    """Start what the plan allows now. Returns DONE, or DECIDE if all jobs are due."""
    clock = state.clock[0]
    plan = state.plan[0]
    is_left_over = bool(clock["on_offer"] > 0)
    if plan["changed_only"] == 1:
        plan["changed_only"] = 0
        clock["open_stages"] += plan["stages"]
        room = 0
        for index in range(plan["num_asked"]):
            job = state.jobs[state.asked[index]]
            room += max(0, job["held"] - job["attached"])
        if not is_left_over or room >= clock["unattached"]:
            # No slot stays idle, so the order of the whole plan decides: ask about all jobs.
            _take_back(state)
            clock["decisions"] = plan["decisions"]
            clock["rounds"] -= 1
            open_round(state)
            return DECIDE
        # What the others would be given again.
        clock["decisions"] += plan["stages"]
    clock["plan_spare"] = is_left_over and _may_ask_less(state)
    clock["on_offer"] = 0
    is_counted = clock["counted"] == 1
    if is_counted and clock["slots_each"] == 0:
        _take_back(state)
    elif clock["counted"] != 2:
        _count(state)
    follow_plan(state, NONE)
    # The policy knew the slots that the plan used just now.
    clock["plan_stale"] = 0
    plan["num_executors"] = clock["num_executors"]
    plan["limit"] = _known_limit(state)
    is_fixed = state.allocation[0]["slots_each"] == 0 and clock["slots_each"] == 0
    plan["is_kept"] = is_counted and is_fixed and is_left_over and clock["unattached"] > 0
    return DONE


@inlined_kernel
def _take_back(state: State) -> None:
    """Undo what the round's choices changed in the counts: they are a plan so far."""
    clock = state.clock[0]
    plan = state.plan[0]
    for index in range(plan["begin"], clock["plan_length"]):
        row = state.stages[state.chosen[index]]
        job = state.jobs[row["job"]]
        count = row["covered"] - row["finished"]
        plan["slots"] += count
        plan["stages"] += 1
        job["plan_slots"] += count
        job["plan_stages"] += 1
        job["changed"] = 0
        job["held"] -= count
        job["uncovered"] += row["num_tasks"] - row["finished"]
        row["open"] = 1
        job["open_stages"] += 1
        clock["open_stages"] += 1
        local = job["attached"] - job["held"]
        clock["local"] += local - job["local"]
        job["local"] = local


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
