"""The rules of decima-sim, event for event, with its bugs (`benchmarks/golden.py` checks them).
They serve comparison with published figures; `docs/simulator.md` lists each bug and the default
protocol's rule instead. What differs from the other protocols: the executors on offer (of one
*source*: a stage's executors, a job's pool or the pool of no job), promises for all executors of a
stage at once, and a fallback of its own for executors whose destination is gone.

Here `held` counts the executors in the job, moving to it, or promised to it by others, less those
on offer. A round opens even if no stage may be chosen, and it lasts until all are promised.
"""

from __future__ import annotations

import numpy as np

from spark_sim.compile import kernel
from spark_sim.kernels.common import (
    admit_next,
    advance_time,
    child_range,
    close_accounts,
    count_finished,
    first_open,
    next_arrival_ms,
    retire,
    start_task,
    truncate,
    unlock_children,
)
from spark_sim.kernels.lists import (
    add_promise,
    append_idle,
    first_idle,
    has_promise,
    next_event_ms,
    push,
    remove_idle,
    take,
    take_promise,
)
from spark_sim.tables import (
    DEADLOCK,
    DECIDE,
    DONE,
    IDLE,
    ILLEGAL,
    MOVING,
    NONE,
    RUNNING,
    TASK_DONE,
    TRUNCATED,
    State,
)

# decima-sim's ties run in push order for any event, so all are pushed as one kind.
_ONE_KIND = TASK_DONE


@kernel
def advance(state: State) -> int:
    """Run events until a decision is due (DECIDE), all is DONE, TRUNCATED or in DEADLOCK."""
    clock = state.clock[0]
    while True:
        event_ms = next_event_ms(state)
        arrival_ms = next_arrival_ms(state)
        time_ms = min(event_ms, arrival_ms)
        if clock["num_active"] == 0 and arrival_ms == np.inf:
            close_accounts(state)
            return DONE
        if time_ms == np.inf:
            return DEADLOCK
        if time_ms > clock["time_limit_ms"]:
            truncate(state)
            return TRUNCATED
        advance_time(state, time_ms)

        if arrival_ms <= event_ms:
            admit_next(state)
            # The first jobs are present at the start: one round for all that arrive at time 0.
            while clock["time_ms"] == 0.0 and next_arrival_ms(state) == 0.0:
                admit_next(state)
            if clock["unattached"] > 0:
                _offer(state, NONE, NONE, clock["unattached"], NONE)
        else:
            executor = take(state)
            worker = state.executors[executor]
            stage = int(worker["stage"])
            row = state.stages[stage]
            number = row["job"]
            job = state.jobs[number]
            if worker["state"] == RUNNING:
                # A task ends.
                count_finished(state, executor)
                worker["state"] = IDLE
                grew = False
                if row["finished"] == row["num_tasks"]:
                    grew = unlock_children(state, stage)
                if row["launched"] < row["num_tasks"]:
                    _launch(state, executor, stage)
                elif grew:
                    if has_promise(state, row):
                        _fulfil(state, executor, take_promise(state, row))
                    else:
                        _park(state, executor, number)
                    if job["pool"] > 0:
                        _offer(state, number, NONE, job["pool"], NONE)
                elif has_promise(state, row):
                    _fulfil(state, executor, take_promise(state, row))
                else:
                    _offer(state, number, stage, row["members"], executor)
                if job["stages_done"] == job["num_stages"]:
                    _complete_job(state, number)
            else:
                # An executor arrives in the job of the stage that it was sent to.
                clock["moving_ms"] += clock["time_ms"] - worker["since_ms"]
                worker["state"] = IDLE
                worker["stage"] = NONE
                has_tasks = False
                if job["active"] == 1:
                    row["covered"] -= 1
                    worker["job"] = number
                    job["attached"] += 1
                    job["held"] += 1
                    has_tasks = row["launched"] < row["num_tasks"]
                if has_tasks:
                    _start_or_park(state, executor, stage)
                else:
                    _fall_back(state, executor)

        if clock["on_offer"] > 0:
            refresh(state)
            return DECIDE


@kernel
def _complete_job(state: State, job: int) -> None:
    """Retire `job`: detach its executors, forget the promises and the destinations in it."""
    clock = state.clock[0]
    row = state.jobs[job]
    retire(state, job)
    first = row["first_stage"]
    last = first + row["num_stages"]
    for entry in range(len(state.commits)):
        commit = state.commits[entry]
        if first <= commit["stage"] < last:
            commit["count"] = 0
    while first_idle(state, job, 0) != NONE:
        executor = first_idle(state, job, 0)
        _unpark(state, executor)
        state.executors[executor]["job"] = NONE
        _park(state, executor, NONE)
    for executor in range(clock["num_executors"]):
        worker = state.executors[executor]
        if worker["job"] == job:
            _leave_stage(state, executor)
            worker["job"] = NONE
    row["attached"] = 0
    if clock["source_job"] == job and clock["source_stage"] != NONE:
        # Its last executor is on offer: the decision is booked on the pool of no job.
        clock["source_stage"] = NONE


# --- places of executors -------------------------------------------------------------------------


@kernel
def _launch(state: State, executor: int, stage: int) -> None:
    if state.executors[executor]["stage"] != stage:
        _leave_stage(state, executor)
        state.stages[stage]["members"] += 1
    start_task(state, executor, stage)
    state.stages[stage]["covered"] += 1


@kernel
def _leave_stage(state: State, executor: int) -> None:
    worker = state.executors[executor]
    if worker["stage"] != NONE:
        state.stages[worker["stage"]]["members"] -= 1
        worker["stage"] = NONE


@kernel
def _park(state: State, executor: int, job: int) -> None:
    """Put `executor` in the pool of `job` (or of none): its next task is fresh either way."""
    clock = state.clock[0]
    worker = state.executors[executor]
    _leave_stage(state, executor)
    worker["state"] = IDLE
    worker["last_stage"] = NONE
    if job == NONE:
        if worker["job"] != NONE:
            state.jobs[worker["job"]]["attached"] -= 1
        worker["job"] = NONE
        append_idle(state, NONE, executor)
        clock["unattached"] += 1
    else:
        append_idle(state, job, executor)
        state.jobs[job]["pool"] += 1


@kernel
def _unpark(state: State, executor: int) -> None:
    clock = state.clock[0]
    worker = state.executors[executor]
    if worker["job"] == NONE:
        remove_idle(state, NONE, executor)
        clock["unattached"] -= 1
    else:
        job = state.jobs[worker["job"]]
        remove_idle(state, worker["job"], executor)
        job["pool"] -= 1


@kernel
def _move(state: State, executor: int, stage: int) -> None:
    clock = state.clock[0]
    worker = state.executors[executor]
    _leave_stage(state, executor)
    if worker["job"] != NONE:
        state.jobs[worker["job"]]["attached"] -= 1
    worker["state"] = MOVING
    worker["job"] = NONE
    worker["stage"] = stage
    worker["last_stage"] = NONE
    worker["since_ms"] = clock["time_ms"]
    state.stages[stage]["covered"] += 1
    push(state, executor, clock["time_ms"] + clock["moving_delay_ms"], _ONE_KIND)


@kernel
def _start_or_park(state: State, executor: int, stage: int) -> None:
    if state.stages[stage]["runnable"] == 1:
        _launch(state, executor, stage)
    else:
        _park(state, executor, state.stages[stage]["job"])


@kernel
def _fulfil(state: State, executor: int, stage: int) -> None:
    """Send `executor`, which is in no pool, to its promised stage (NONE: nowhere)."""
    worker = state.executors[executor]
    if stage == NONE:
        # It stays in its job if a stage there has tasks that have not started.
        home = NONE
        if worker["job"] != NONE:
            job = state.jobs[worker["job"]]
            for other in range(job["first_stage"], job["first_stage"] + job["num_stages"]):
                if state.stages[other]["launched"] < state.stages[other]["num_tasks"]:
                    home = int(worker["job"])
        _park(state, executor, home)
        return
    row = state.stages[stage]
    row["covered"] -= 1
    if row["launched"] == row["num_tasks"]:
        _fall_back(state, executor)
    elif worker["job"] == row["job"]:
        _start_or_park(state, executor, stage)
    else:
        _move(state, executor, stage)


@kernel
def _fall_back(state: State, executor: int) -> None:
    """Place an executor that lost its destination: decima-sim's "backup", without the policy."""
    worker = state.executors[executor]
    if worker["job"] != NONE:
        # The stage of its job that became runnable first among those wanting executors.
        job = state.jobs[worker["job"]]
        best = NONE
        for stage in range(job["first_stage"], job["first_stage"] + job["num_stages"]):
            row = state.stages[stage]
            wants = row["runnable"] == 1 and row["covered"] < row["num_tasks"]
            if wants and (best == NONE or row["order"] < state.stages[best]["order"]):
                best = stage
        if best != NONE:
            _launch(state, executor, best)
            return
    refresh(state)
    open_stage = first_open(state)
    if open_stage != NONE:
        _move(state, executor, open_stage)
    else:
        _park(state, executor, worker["job"])


# --- rounds ------------------------------------------------------------------------------------


@kernel
def _offer(state: State, job: int, stage: int, count: int, executor: int) -> None:
    """Open a round for `count` executors of a stage, else of a job's pool, else of no job.

    `executor` is the only one to be sent off at the end of the round; NONE: the whole pool is.
    """
    clock = state.clock[0]
    clock["source_job"] = job
    clock["source_stage"] = stage
    clock["on_offer"] = count
    clock["rounds"] += 1
    clock["dispatching"] = executor


@kernel
def assign(state: State, stage: int, limit: int, _only: int) -> int:
    """The decision (stage, limit of its job); stage NONE leaves all that is on offer idle.

    Returns DECIDE while the round is open, DONE once it is closed, ILLEGAL for an action that the
    rules forbid (nothing has changed then).
    """
    clock = state.clock[0]
    if stage == NONE:
        return commit(state, NONE, clock["on_offer"])
    if stage < 0 or stage >= len(state.stages):
        return ILLEGAL
    job = state.jobs[state.stages[stage]["job"]]
    if limit > clock["num_executors"]:
        return ILLEGAL
    return commit(state, stage, min(limit - job["held"], clock["on_offer"]))


@kernel
def commit(state: State, stage: int, count: int) -> int:
    """decima-sim's own action: promise `count` more executors to `stage` (NONE: to stay idle)."""
    clock = state.clock[0]
    if count < 1 or count > clock["on_offer"]:
        return ILLEGAL
    if stage != NONE:
        row = state.stages[stage]
        if row["open"] == 0:
            return ILLEGAL
        count = min(count, row["num_tasks"] - row["covered"])
        row["covered"] += count
        state.jobs[row["job"]]["limit"] = state.jobs[row["job"]]["held"] + count
        state.chosen[clock["num_chosen"]] = stage
        clock["num_chosen"] += 1
    if clock["source_stage"] != NONE:
        add_promise(state, state.stages[clock["source_stage"]], stage, 0, count)
    elif clock["source_job"] != NONE and state.jobs[clock["source_job"]]["active"] == 1:
        add_promise(state, state.jobs[clock["source_job"]], stage, 0, count)
    else:
        add_promise(state, clock, stage, 0, count)
    clock["decisions"] += 1
    clock["on_offer"] -= count
    if clock["on_offer"] > 0:
        refresh(state)
        return DECIDE
    clock["num_chosen"] = 0
    _dispatch(state)
    return DONE


@kernel
def _dispatch(state: State) -> None:
    """The round is over: send off the executors that are free now, in the order of their pool."""
    clock = state.clock[0]
    if clock["source_stage"] != NONE:
        row = state.stages[clock["source_stage"]]
        if has_promise(state, row):
            _fulfil(state, clock["dispatching"], take_promise(state, row))
    elif clock["dispatching"] != NONE:
        _fulfil(state, clock["dispatching"], take_promise(state, clock))
    elif clock["source_job"] != NONE:
        owner = state.jobs[clock["source_job"]]
        last = state.idle[clock["source_job"] + 1, 0]["tail"]
        while has_promise(state, owner):
            executor = first_idle(state, clock["source_job"], 0)
            _unpark(state, executor)
            _fulfil(state, executor, take_promise(state, owner))
            if executor == last:
                break
    else:
        last = state.idle[0, 0]["tail"]
        while has_promise(state, clock):
            executor = first_idle(state, NONE, 0)
            _unpark(state, executor)
            _fulfil(state, executor, take_promise(state, clock))
            if executor == last:
                break
    clock["source_job"] = NONE
    clock["source_stage"] = NONE


# --- features ------------------------------------------------------------------------------------


@kernel
def refresh(state: State) -> None:
    """Recompute which stages may be chosen and what each job holds.

    A stage may be chosen if tasks of it are not covered, all its parents are covered, and it was
    not chosen in this round. Parking uncovers a stage again, so an event-wise update is impossible.
    """
    clock = state.clock[0]
    clock["open_stages"] = 0
    for index in range(clock["num_active"]):
        job = state.jobs[state.active[index]]
        job["open_stages"] = 0
        job["held"] = job["attached"]
        job["local"] = 0
        first = job["first_stage"]
        last = first + job["num_stages"]
        for stage in range(first, last):
            state.stages[stage]["open"] = 1
        for stage in range(first, last):
            row = state.stages[stage]
            if row["covered"] < row["num_tasks"]:
                begin, end, offset = child_range(state, stage)
                for child in range(begin, end):
                    state.stages[offset + state.trace.children[child]]["open"] = 0
            else:
                row["open"] = 0
    for index in range(clock["num_chosen"]):
        state.stages[state.chosen[index]]["open"] = 0
    for index in range(clock["num_active"]):
        job = state.jobs[state.active[index]]
        for stage in range(job["first_stage"], job["first_stage"] + job["num_stages"]):
            job["open_stages"] += state.stages[stage]["open"]
        clock["open_stages"] += job["open_stages"]

    # `held` also counts executors that move to a job or are promised by others, less those offered.
    for executor in range(clock["num_executors"]):
        worker = state.executors[executor]
        if worker["state"] == MOVING:
            state.jobs[state.stages[worker["stage"]]["job"]]["held"] += 1
    _count_promised(state, clock["commit_head"], NONE)
    for index in range(clock["num_active"]):
        number = state.active[index]
        job = state.jobs[number]
        _count_promised(state, job["commit_head"], number)
        for stage in range(job["first_stage"], job["first_stage"] + job["num_stages"]):
            _count_promised(state, state.stages[stage]["commit_head"], number)
    if clock["source_job"] != NONE:
        state.jobs[clock["source_job"]]["held"] -= clock["on_offer"]
        state.jobs[clock["source_job"]]["local"] = clock["on_offer"]


@kernel
def _count_promised(state: State, entry: int, owner: int) -> None:
    """Add the promises from `entry` on to `held` of their jobs, but for those to `owner` itself."""
    while entry != NONE:
        commit = state.commits[entry]
        if commit["count"] > 0 and commit["stage"] != NONE:
            job = state.stages[commit["stage"]]["job"]
            if job != owner:
                state.jobs[job]["held"] += commit["count"]
        entry = commit["next"]
