"""The default protocol: executors move between jobs, every idle one is offered at every event.

A *round* opens at a scheduling event: a stage ran out of tasks, a stage completed and made others
runnable, a job completed, a job arrived, or an executor arrived to find no task left. On offer are
all idle executors, wherever they are, and the executors still running the last tasks of the stage
that ran out (one decision covers them; each leaves when its task ends). A decision names a stage
and its job's new limit; the stage gets as many executors as it has tasks for, the limit allows and
are on offer: first those idle in the job, then those about to be free in it, then those in no job,
then those idle in other jobs, last those about to be free in another job.

Executors may be of several classes. A decision may name one; it gives of that class alone, or of
all that can hold the stage's tasks, small ones first. A stage that no class on offer can hold may
not be chosen. An executor that finishes its last task for a job counts against the job's limit
until it leaves, since one of another class cannot take its place before. With one class, executors
promised elsewhere count there from the decision on.

The last part of this file has the stages that may be chosen: those that want executors which are
available.

An executor given to a stage whose parents are not complete goes to the job and waits there; it
starts when they are. Executors given by a decision are not on offer again. `docs/simulator.md`
explains the protocol and its reasons.
"""

from __future__ import annotations

import numpy as np

from spark_sim.compile import inlined_kernel, kernel
from spark_sim.kernels.common import (
    admit_next,
    advance_time,
    child_range,
    close_accounts,
    count_finished,
    next_arrival_ms,
    next_timer_ms,
    retire,
    ring,
    start_first,
    start_task,
    truncate,
    unlock_children,
)
from spark_sim.kernels.lists import (
    add_promise,
    append_idle,
    append_waiting,
    first_idle,
    has_promise_for,
    next_event_ms,
    push,
    remove_idle,
    take,
    take_promise,
)
from spark_sim.tables import (
    ANY,
    DECIDE,
    DONE,
    EXECUTOR_ARRIVED,
    FORCED,
    IDLE,
    ILLEGAL,
    MOVING,
    NONE,
    RUNNING,
    TRUNCATED,
    WAITING,
    State,
    fits,
)


@kernel
def advance(state: State) -> int:
    """Run events until a decision is due (DECIDE), all jobs are DONE, or the run is TRUNCATED.

    FORCED if nothing runs, moves or will arrive: the policy left all executors idle. Of one
    instant, executors that become free come first, then timers, then arriving jobs.
    """
    clock = state.clock[0]
    while True:
        event_ms = next_event_ms(state)
        arrival_ms = next_arrival_ms(state)
        timer_ms = next_timer_ms(state)
        time_ms = min(event_ms, arrival_ms, timer_ms)
        if clock["num_active"] == 0 and arrival_ms == np.inf:
            close_accounts(state)
            return DONE
        if time_ms == np.inf:
            _open_round(state, NONE)
            return FORCED
        if time_ms > clock["time_limit_ms"]:
            truncate(state)
            return TRUNCATED
        advance_time(state, time_ms)

        is_due = True  # a round is
        source = NONE  # the stage that ran out of tasks, if that opens the round

        if event_ms > time_ms:
            if timer_ms <= time_ms:
                ring(state)
            else:
                # One decision covers all jobs that arrive at this instant.
                while next_arrival_ms(state) == time_ms:
                    new = state.jobs[admit_next(state)]
                    for root in range(new["first_stage"], new["first_stage"] + new["num_stages"]):
                        if state.stages[root]["parents_uncovered"] == 0:
                            set_open(state, root)
        else:
            executor = take(state)
            worker = state.executors[executor]
            stage = worker["stage"]
            row = state.stages[stage]
            if worker["state"] == RUNNING and row["launched"] < row["num_tasks"]:
                # The most frequent event: the executor runs the stage's next task, undecided.
                count_finished(state, executor)
                row["covered"] += 1
                start_task(state, executor, stage)
                if row["covered"] == row["num_tasks"]:
                    cover(state, stage)
                continue

            job = state.jobs[row["job"]]
            is_due = False
            next_stage = NONE  # that the executor works for
            if worker["state"] != RUNNING:
                # The executor has started in the job of the stage that it was given to.
                clock["moving_ms"] += clock["time_ms"] - worker["since_ms"]
                if job["active"] == 0:
                    become_unattached(state, executor)
                    is_due = True
                else:
                    worker["job"] = row["job"]
                    job["attached"] += 1
                    if row["launched"] < row["num_tasks"]:
                        next_stage = stage
                    else:
                        job["held"] -= 1
                        become_idle(state, executor)
                        is_due = True

            else:
                # A task ends, and its stage has no further one to start.
                count_finished(state, executor)
                kind = worker["kind"]
                state.running[stage, kind] -= 1
                if row["finished"] == row["num_tasks"]:
                    is_due = unlock_children(state, stage)
                if row["released"] == 0:
                    row["released"] = 1
                    is_due = True
                    source = stage
                if row["released"] == HELD_BACK and job["open_stages"] + job["misfits"] > 0:
                    is_due = True

                if has_promise_for(state, row, kind):
                    promised = take_promise(state, row)
                    target = state.stages[promised]
                    if len(state.classes) > 1 and worker["job"] != target["job"]:
                        state.jobs[worker["job"]]["held"] -= 1
                    if target["launched"] == target["num_tasks"]:
                        state.jobs[target["job"]]["held"] -= 1
                        become_idle(state, executor)
                        is_due = True
                    elif worker["job"] == target["job"]:
                        next_stage = promised
                    else:
                        move(state, executor, promised)
                else:
                    job["held"] -= 1
                    become_idle(state, executor)

                if job["stages_done"] == job["num_stages"]:
                    retire(state, row["job"])
                    for each_kind in range(len(state.classes)):
                        idle = first_idle(state, row["job"], each_kind)
                        while idle != NONE:
                            leave_idle(state, idle)
                            become_unattached(state, idle)
                            idle = first_idle(state, row["job"], each_kind)
                    is_due = True
                    source = NONE

            if next_stage != NONE:
                _start_or_wait(state, executor, next_stage)

        if is_due and _open_round(state, source):
            return DECIDE


# --- places of executors -------------------------------------------------------------------------


@inlined_kernel
def become_idle(state: State, executor: int) -> None:
    """Make `executor` idle; it stays in its job, warm."""
    worker = state.executors[executor]
    job = state.jobs[worker["job"]]
    worker["state"] = IDLE
    worker["stage"] = NONE
    append_idle(state, worker["job"], executor)
    state.classes[worker["kind"]]["idle"] += 1
    job["local"] += 1
    state.clock[0]["idle_in_jobs"] += 1


@inlined_kernel
def leave_idle(state: State, executor: int) -> None:
    """Take `executor` from the idle ones of its job, or from those of no job."""
    clock = state.clock[0]
    worker = state.executors[executor]
    state.classes[worker["kind"]]["idle"] -= 1
    if worker["job"] == NONE:
        remove_idle(state, NONE, executor)
        clock["unattached"] -= 1
    else:
        job = state.jobs[worker["job"]]
        remove_idle(state, worker["job"], executor)
        job["local"] -= 1
        clock["idle_in_jobs"] -= 1


@inlined_kernel
def become_unattached(state: State, executor: int) -> None:
    """Make `executor` idle in no job."""
    clock = state.clock[0]
    worker = state.executors[executor]
    if worker["job"] != NONE:
        state.jobs[worker["job"]]["attached"] -= 1
    worker["state"] = IDLE
    worker["job"] = NONE
    worker["stage"] = NONE
    worker["last_stage"] = NONE
    append_idle(state, NONE, executor)
    state.classes[worker["kind"]]["idle"] += 1
    clock["unattached"] += 1


@inlined_kernel
def move(state: State, executor: int, stage: int) -> None:
    """Send `executor` to the job of `stage`, where its next task will be fresh."""
    clock = state.clock[0]
    worker = state.executors[executor]
    if worker["job"] != NONE:
        state.jobs[worker["job"]]["attached"] -= 1
    worker["state"] = MOVING
    worker["job"] = NONE
    worker["stage"] = stage
    worker["last_stage"] = NONE
    worker["since_ms"] = clock["time_ms"]
    push(state, executor, clock["time_ms"] + clock["moving_delay_ms"], EXECUTOR_ARRIVED)


@inlined_kernel
def _start_or_wait(state: State, executor: int, stage: int) -> None:
    """Start a task of `stage` on `executor`, which is in its job, or let it wait for parents."""
    if state.stages[stage]["runnable"] == 1:
        start_first(state, executor, stage)
    else:
        worker = state.executors[executor]
        worker["state"] = WAITING
        worker["stage"] = stage
        append_waiting(state, stage, executor)


# --- rounds --------------------------------------------------------------------------------------


@kernel
def _open_round(state: State, source_stage: int) -> bool:
    """Collect what is on offer. Returns whether there is a decision to make."""
    clock = state.clock[0]
    clock["source_stage"] = source_stage
    clock["source_job"] = NONE
    clock["releasing"] = 0
    if source_stage != NONE:
        row = state.stages[source_stage]
        job = state.jobs[row["job"]]
        clock["source_job"] = row["job"]
        clock["releasing"] = row["launched"] - row["finished"]
        job["held"] -= clock["releasing"]
        job["local"] += clock["releasing"]
    clock["on_offer"] = clock["unattached"] + clock["idle_in_jobs"] + clock["releasing"]
    for kind in range(len(state.classes)):
        size = state.classes[kind]
        if source_stage != NONE:
            size["releasing"] = state.running[source_stage, kind]
        size["on_offer"] = size["idle"] + size["releasing"]
    set_misfits(state)
    if clock["on_offer"] > 0 and clock["open_stages"] > 0:
        clock["rounds"] += 1
        return True
    close_round(state)
    return False


@kernel
def close_round(state: State) -> None:
    """End the decisions of this event; the other executors stay in place."""
    clock = state.clock[0]
    for index in range(clock["num_chosen"]):
        stage = state.chosen[index]
        row = state.stages[stage]
        if row["covered"] < row["num_tasks"]:
            set_open(state, stage)
    clock["num_chosen"] = 0
    if clock["source_job"] != NONE:
        job = state.jobs[clock["source_job"]]
        job["held"] += clock["releasing"]
        job["local"] -= clock["releasing"]
    clock["releasing"] = 0
    clock["on_offer"] = 0
    for kind in range(len(state.classes)):
        state.classes[kind]["releasing"] = 0
        state.classes[kind]["on_offer"] = 0
    clock["source_job"] = NONE
    clock["source_stage"] = NONE


@kernel
def assign(state: State, stage: int, limit: int, only: int) -> int:
    """Give executors to `stage` until its job holds `limit`; stage NONE ends the round.

    They are of the class `only`, or of ANY that fits. While some class that fits is left on offer
    and the limit is not reached, the stage may be chosen again.

    Returns DECIDE while the round is open, DONE once it is closed, ILLEGAL for an action that the
    rules forbid (nothing has changed then).
    """
    clock = state.clock[0]
    if stage == NONE:
        clock["decisions"] += 1
        close_round(state)
        return DONE
    if stage < 0 or stage >= len(state.stages) or state.stages[stage]["open"] == 0:
        return ILLEGAL
    row = state.stages[stage]
    job = state.jobs[row["job"]]
    if limit <= job["held"] or limit > clock["num_executors"]:
        return ILLEGAL
    if only != ANY and not is_on_offer(state, stage, only):
        return ILLEGAL
    clock["decisions"] += 1
    job["limit"] = limit
    held_before = job["held"]
    wanted = min(row["num_tasks"] - row["covered"], limit - job["held"])
    room = room_under(state, row["job"], limit)
    for kind in range(len(state.classes)):
        if wanted > 0 and only in (ANY, kind) and is_on_offer(state, stage, kind):
            leaving_now = leaving(state, row["job"], kind)
            count = min(wanted, state.classes[kind]["on_offer"], leaving_now + room)
            if count == 0:
                continue
            wanted -= count
            state.classes[kind]["on_offer"] -= count
            clock["on_offer"] -= count
            job["held"] += count
            row["covered"] += count
            room -= _give(state, stage, kind, count, room)
    if row["covered"] == row["num_tasks"]:
        cover(state, stage)
    elif job["held"] == limit:
        set_aside(state, stage)
    elif room <= 0:
        # It wants other executors than those that finish, so it is offered again when they leave.
        state.stages[clock["source_stage"]]["released"] = HELD_BACK
        if job["held"] == held_before or not _may_get_leaving(state, stage):
            set_aside(state, stage)
    set_misfits(state)
    if clock["on_offer"] > 0 and clock["open_stages"] > 0:
        return DECIDE
    close_round(state)
    return DONE


@inlined_kernel
def _may_get_leaving(state: State, stage: int) -> bool:
    """Return whether executors that leave the job of `stage` could be given to `stage`."""
    for kind in range(len(state.classes)):
        if is_on_offer(state, stage, kind) and leaving(state, state.stages[stage]["job"], kind):
            return True
    return False


@kernel
def _give(state: State, stage: int, kind: int, count: int, room: int) -> int:
    """Choose `count` executors on offer of a class for `stage`, the nearest first.

    At most `room` of them besides those about to be free in its job. Returns their number.
    """
    clock = state.clock[0]
    home = state.stages[stage]["job"]
    all_given = count
    promised = 0
    count -= _take_idle(state, home, stage, kind, min(count, room))
    if clock["source_job"] == home:
        promised = _promise(state, stage, kind, count)
        count -= promised
    count -= _take_idle(state, NONE, stage, kind, count)
    index = 0
    while count > 0 and state.classes[kind]["idle"] > 0 and index < clock["num_active"]:
        count -= _take_idle(state, state.active[index], stage, kind, count)
        index += 1
    if count > 0:
        _promise(state, stage, kind, count)
    return int(all_given - promised)


@inlined_kernel
def _take_idle(state: State, job: int, stage: int, kind: int, count: int) -> int:
    """Send up to `count` executors idle in `job`, or NONE, to `stage`; returns their number."""
    home = state.stages[stage]["job"]
    taken = 0
    while taken < count:
        executor = first_idle(state, job, kind)
        if executor == NONE:
            break
        leave_idle(state, executor)
        if job == home:
            _start_or_wait(state, executor, stage)
        else:
            move(state, executor, stage)
        taken += 1
    return taken


@kernel
def _promise(state: State, stage: int, kind: int, count: int) -> int:
    """Promise up to `count` of a class that the source stage will free; returns their number."""
    clock = state.clock[0]
    promised = min(count, state.classes[kind]["releasing"])
    if promised > 0:
        clock["releasing"] -= promised
        state.classes[kind]["releasing"] -= promised
        source = state.stages[clock["source_stage"]]
        state.jobs[clock["source_job"]]["local"] -= promised
        if len(state.classes) > 1 and state.stages[stage]["job"] != clock["source_job"]:
            state.jobs[clock["source_job"]]["held"] += promised
            source["released"] = HELD_BACK
        add_promise(state, source, stage, kind, promised)
    return int(promised)


HELD_BACK = 2
"""`released` of a stage whose last executors hold its job at a limit: if the job wants others, each
that leaves is an event. Only with several classes"""

can_hold = inlined_kernel(fits)


@kernel
def set_open(state: State, stage: int) -> None:
    """Open `stage`, which wants executors while no parent of it does any more."""
    row = state.stages[stage]
    if len(state.classes) > 1:
        # At the head of the stages that want executors, by its smallest class.
        size = state.classes[row["least_class"]]
        row["want_prev"] = NONE
        row["want_next"] = size["want_head"]
        if size["want_head"] != NONE:
            state.stages[size["want_head"]]["want_prev"] = stage
        size["want_head"] = stage
        if row["fits"] & state.clock[0]["offered"] == 0:
            _count_misfit(state, stage, 1)
            return
    _count_open(state, stage, 1)


@kernel
def clear_open(state: State, stage: int) -> None:
    """Close `stage`: it may not be chosen."""
    row = state.stages[stage]
    if len(state.classes) > 1 and row["open"] + row["misfit"] > 0:
        if row["want_prev"] == NONE:
            state.classes[row["least_class"]]["want_head"] = row["want_next"]
        else:
            state.stages[row["want_prev"]]["want_next"] = row["want_next"]
        if row["want_next"] != NONE:
            state.stages[row["want_next"]]["want_prev"] = row["want_prev"]
    if row["misfit"] == 1:
        _count_misfit(state, stage, -1)
    if row["open"] == 1:
        _count_open(state, stage, -1)


@inlined_kernel
def _count_open(state: State, stage: int, change: int) -> None:
    row = state.stages[stage]
    row["open"] += change
    state.jobs[row["job"]]["open_stages"] += change
    state.clock[0]["open_stages"] += change


@inlined_kernel
def _count_misfit(state: State, stage: int, change: int) -> None:
    row = state.stages[stage]
    row["misfit"] += change
    state.jobs[row["job"]]["misfits"] += change


@kernel
def cover(state: State, stage: int) -> None:
    """Close `stage`, which wants no more executors, and open the children that now may get some."""
    clear_open(state, stage)
    first, last, offset = child_range(state, stage)
    for index in range(first, last):
        child = offset + state.trace.children[index]
        row = state.stages[child]
        row["parents_uncovered"] -= 1
        if row["parents_uncovered"] == 0 and row["covered"] < row["num_tasks"]:
            set_open(state, child)


@inlined_kernel
def set_aside(state: State, stage: int) -> None:
    """Close `stage` until the end of this round."""
    clock = state.clock[0]
    clear_open(state, stage)
    state.chosen[clock["num_chosen"]] = stage
    clock["num_chosen"] += 1


# --- stages that may be chosen, with one class of executors or several ---------------------------


@kernel
def set_misfits(state: State) -> None:
    """Exclude the stages that fit no executor on offer, until one that fits is.

    It looks only at stages of which some class that they may all use is on offer now and was not
    before, or the other way round (docs/results/2026-11-session-growth.md).
    """
    if len(state.classes) == 1:
        return
    offered = 0
    for kind in range(len(state.classes)):
        if state.classes[kind]["on_offer"] > 0:
            offered |= 1 << kind
    before = state.clock[0]["offered"]
    state.clock[0]["offered"] = offered
    if offered == before:
        return
    for kind in range(len(state.classes)):
        size = state.classes[kind]
        if size["common"] & offered == 0 or size["common"] & before == 0:
            stage = size["want_head"]
            while stage != NONE:
                row = state.stages[stage]
                is_misfit = row["fits"] & offered == 0
                if is_misfit and row["open"] == 1:
                    _count_misfit(state, stage, 1)
                    _count_open(state, stage, -1)
                elif row["misfit"] == 1 and not is_misfit:
                    _count_misfit(state, stage, -1)
                    _count_open(state, stage, 1)
                stage = row["want_next"]


@inlined_kernel
def is_on_offer(state: State, stage: int, kind: int) -> bool:
    """Return whether an executor on offer of the class can hold a task of `stage`."""
    if not 0 <= kind < len(state.classes) or state.classes[kind]["on_offer"] == 0:
        return False
    return bool(can_hold(state.stages[stage], kind))


@inlined_kernel
def room_under(state: State, job: int, limit: int) -> int:
    """Executors that may join those of `job` under the limit while its last tasks still run."""
    clock = state.clock[0]
    if len(state.classes) == 1:
        # Executors about to be free are given before any others.
        return int(clock["num_executors"])
    ending = clock["releasing"] if clock["source_job"] == job else 0
    return int(max(0, limit - state.jobs[job]["held"] - ending))


@inlined_kernel
def leaving(state: State, job: int, kind: int) -> int:
    """Executors of a class on offer that end their last tasks for `job`."""
    if state.clock[0]["source_job"] != job:
        return 0
    return int(state.classes[kind]["releasing"])
