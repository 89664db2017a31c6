"""Shared parts of the three protocols: clock, life of jobs and stages, start of a task."""

from __future__ import annotations

import math

import numpy as np

from spark_sim.compile import inlined_kernel, kernel
from spark_sim.kernels.durations import (
    hash_in_stage,
    pick_level,
    pick_level_decima_sim,
    stage_hash,
    task_duration,
    upper_level,
)
from spark_sim.kernels.lists import push, take_waiting
from spark_sim.tables import (
    DECIMA_SIM,
    EXECUTORS,
    HELD,
    LEAST_WORK_MS,
    MOVING,
    NONE,
    RUNNING,
    SESSION,
    TASK_DONE,
    State,
)


@inlined_kernel
def advance_time(state: State, time_ms: float) -> None:
    """Move the clock, and with it the integral of the number of jobs in the system."""
    clock = state.clock[0]
    clock["job_time_ms"] += clock["num_active"] * (time_ms - clock["time_ms"])
    clock["time_ms"] = time_ms


@inlined_kernel
def next_arrival_ms(state: State) -> float:
    """Time of the next job arrival; infinity when all have come, or `max_jobs` run."""
    clock = state.clock[0]
    if clock["next_arrival"] < clock["num_admissible"]:
        return float(state.jobs[state.queue[clock["next_arrival"]]]["arrival_ms"])
    return np.inf


@inlined_kernel
def next_timer_ms(state: State) -> float:
    """Time of the next timer; infinity when none is set."""
    clock = state.clock[0]
    if clock["next_timer"] < clock["num_timers"]:
        return float(state.timers[clock["next_timer"]]["time_ms"])
    return np.inf


@kernel
def admit_next(state: State) -> int:
    """The next job enters the system; its roots become runnable in index order."""
    clock = state.clock[0]
    earlier: int = clock["next_arrival"]
    job = int(state.queue[earlier])
    clock["next_arrival"] += 1
    arrival_ms = state.jobs[job]["arrival_ms"]
    clock["last_arrival_ms"] = max(clock["last_arrival_ms"], arrival_ms)
    clock["mean_gap_ms"] = np.inf
    if earlier > 0:
        first_ms = state.jobs[state.queue[0]]["arrival_ms"]
        clock["mean_gap_ms"] = (clock["last_arrival_ms"] - first_ms) / earlier
    clock["arrived_log"] += math.log(max(state.jobs[job]["work_ms"], LEAST_WORK_MS))
    clock["typical_ms"] = math.exp(clock["arrived_log"] / clock["next_arrival"])
    place = clock["num_active"]
    while place > 0 and state.jobs[state.active[place - 1]]["arrival_ms"] > arrival_ms:
        state.active[place] = state.active[place - 1]
        place -= 1
    state.active[place] = job
    clock["num_active"] += 1
    row = state.jobs[job]
    row["active"] = 1
    waited_ms = clock["time_ms"] - arrival_ms  # for its place among `max_jobs`
    clock["job_time_ms"] += waited_ms
    for stage in range(row["first_stage"], row["first_stage"] + row["num_stages"]):
        if state.stages[stage]["parents_running"] == 0:
            ready(state, stage, waited_ms)
    return job


@kernel
def ready(state: State, stage: int, since_ms: float) -> bool:
    """Note that `stage` has had no parent to wait for since so long ago.

    Returns whether it may start at once.
    """
    clock = state.clock[0]
    wait_ms = state.stages[stage]["wait_ms"] - since_ms
    if not wait_ms > 0:
        mark_runnable(state, stage)
        return True
    # Set a timer; of equal times the one set first comes first.
    time_ms = clock["time_ms"] + wait_ms
    place = clock["num_timers"]
    while place > clock["next_timer"] and state.timers[place - 1]["time_ms"] > time_ms:
        earlier = state.timers[place - 1]
        state.timers[place]["time_ms"] = earlier["time_ms"]
        state.timers[place]["stage"] = earlier["stage"]
        state.timers[place]["executors"] = earlier["executors"]
        place -= 1
    state.timers[place]["time_ms"] = time_ms
    state.timers[place]["stage"] = stage
    clock["num_timers"] += 1
    return False


@kernel
def ring(state: State) -> int:
    """Take the next timer. Returns the stage that may start now; NONE: the slots change."""
    clock = state.clock[0]
    stage: int = state.timers[clock["next_timer"]]["stage"]
    clock["next_timer"] += 1
    if stage != NONE:
        mark_runnable(state, stage)
    return stage


@kernel
def mark_runnable(state: State, stage: int) -> None:
    """Let `stage` start, and the executors that wait for it."""
    clock = state.clock[0]
    row = state.stages[stage]
    row["runnable"] = 1
    row["order"] = clock["runnable_count"]
    clock["runnable_count"] += 1
    if clock["protocol"] == SESSION:
        row["open"] = 1
        state.jobs[row["job"]]["open_stages"] += 1
        state.jobs[row["job"]]["uncovered"] += row["num_tasks"] - row["finished"]
        clock["open_stages"] += 1
        compare_critical(state, stage)
        mark_changed(state, row["job"])
    elif clock["protocol"] == EXECUTORS and row["wait_head"] != NONE:
        _start_waiting(state, stage)


@kernel
def _start_waiting(state: State, stage: int) -> None:
    """Start the executors that wait for `stage`.

    A kernel of its own, without which its callers are too large to be inlined in the event loop
    (`benchmarks/simulator_speed.py`).
    """
    executor = take_waiting(state, stage)
    while executor != NONE:
        start_first(state, executor, stage)
        executor = take_waiting(state, stage)


@inlined_kernel
def compare_critical(state: State, stage: int) -> None:
    """Make `stage` its job's stage on the critical path if it is; of equal ones the first is."""
    row = state.stages[stage]
    job = state.jobs[row["job"]]
    path_ms = row["critical_path_ms"]
    if job["critical"] == NONE:
        job["critical"] = stage
        return
    known_ms = state.stages[job["critical"]]["critical_path_ms"]
    if path_ms > known_ms or (path_ms == known_ms and stage < job["critical"]):
        job["critical"] = stage


@inlined_kernel
def mark_changed(state: State, number: int) -> None:
    """Leave the job's part out of what a session keeps of its plan."""
    job = state.jobs[number]
    if job["changed"] == 0:
        job["changed"] = 1
        plan = state.plan[0]
        plan["slots"] -= job["plan_slots"]
        plan["stages"] -= job["plan_stages"]


@kernel
def retire(state: State, job: int) -> None:
    """Take `job`, which is complete, out of the system; its followers arrive later.

    Where it was one of `max_jobs`, the first job that waits for its place enters, unless the policy
    is asked which (`spark_sim.kernels.session`).
    """
    clock = state.clock[0]
    was_full = clock["num_active"] == clock["max_jobs"]
    row = state.jobs[job]
    row["completion_ms"] = clock["time_ms"]
    row["active"] = 0
    index = 0
    while state.active[index] != job:
        index += 1
    for later in range(index + 1, clock["num_active"]):
        state.active[later - 1] = state.active[later]
    clock["num_active"] -= 1
    follower = row["first_follower"]
    while follower != NONE and clock["num_queued"] < clock["num_jobs"]:
        # It is queued after others that arrive at the same time.
        arrival_ms = clock["time_ms"] + state.jobs[follower]["lag_ms"]
        state.jobs[follower]["arrival_ms"] = arrival_ms
        place = clock["num_queued"]
        while (
            place > clock["next_arrival"]
            and state.jobs[state.queue[place - 1]]["arrival_ms"] > arrival_ms
        ):
            state.queue[place] = state.queue[place - 1]
            place -= 1
        state.queue[place] = follower
        clock["num_queued"] += 1
        follower = state.jobs[follower]["next_follower"]
    room = clock["next_arrival"] + clock["max_jobs"] - clock["num_active"]
    clock["num_admissible"] = min(clock["num_queued"], room)
    if was_full and next_arrival_ms(state) <= clock["time_ms"]:
        if clock["ask_admission"] == 1:
            clock["place_free"] = 1
        else:
            admit_next(state)


@kernel
def child_range(state: State, stage: int) -> tuple[int, int, int]:
    """Slice of `trace.children` for `stage`, and the row to add to each entry."""
    row = state.stages[stage]
    template = row["template"]
    trace = state.trace
    return (
        int(trace.first_child[template]),
        int(trace.first_child[template + 1]),
        int(state.jobs[row["job"]]["first_stage"]),
    )


@kernel
def unlock_children(state: State, stage: int) -> bool:
    """Note that `stage` is complete. Returns whether that made any child runnable."""
    state.jobs[state.stages[stage]["job"]]["stages_done"] += 1
    unlocked = False
    first, last, offset = child_range(state, stage)
    for index in range(first, last):
        child = offset + state.trace.children[index]
        state.stages[child]["parents_running"] -= 1
        if state.stages[child]["parents_running"] == 0:
            unlocked |= ready(state, child, 0.0)
    return unlocked


@kernel
def first_open(state: State) -> int:
    """The first stage that may be chosen, jobs by arrival, stages by index; NONE: there is none."""
    for index in range(state.clock[0]["num_active"]):
        job = state.jobs[state.active[index]]
        for stage in range(job["first_stage"], job["first_stage"] + job["num_stages"]):
            if state.stages[stage]["open"] == 1:
                return int(stage)
    return NONE


@inlined_kernel
def start_task(state: State, executor: int, stage: int) -> None:
    """Run the next task of `stage` on `executor`, which is in the stage's job already."""
    clock = state.clock[0]
    row = state.stages[stage]
    worker = state.executors[executor]
    job = state.jobs[row["job"]]
    task = row["launched"]
    if row["hash"] == 0:
        local = stage - job["first_stage"]
        row["hash"] = stage_hash(clock["duration_key"], row["job"], local)
    bits = hash_in_stage(row["hash"], task)
    low = bits & np.uint64(0xFFFFFFFF)
    if clock["protocol"] == DECIMA_SIM:
        level = pick_level_decima_sim(state.trace, row["template"], job["attached"], low)
    else:
        # The levels are searched when the job's executors have changed.
        if row["level_of"] != job["attached"]:
            row["level_of"] = job["attached"]
            row["level"] = upper_level(state.trace, row["template"], job["attached"])
        level = pick_level(state.trace, row["template"], job["attached"], low, row["level"])
    finish_ms = clock["time_ms"] + task_duration(state, executor, stage, level, bits)
    row["launched"] += 1
    job["remaining_ms"] -= row["mean_ms"]
    worker["state"] = RUNNING
    worker["stage"] = stage
    worker["last_stage"] = stage
    worker["task"] = task
    worker["since_ms"] = clock["time_ms"]
    if len(state.timeline) > 0:
        entry = state.timeline[clock["tasks_started"]]
        entry["job"] = row["job"]
        entry["stage"] = stage
        entry["task"] = task
        entry["executor"] = executor
        entry["start_ms"] = clock["time_ms"]
        entry["finish_ms"] = finish_ms
    clock["tasks_started"] += 1
    push(state, executor, finish_ms, TASK_DONE)


@inlined_kernel
def start_first(state: State, executor: int, stage: int) -> None:
    """Start the first task of `executor` for `stage`, in the default protocol."""
    state.running[stage, state.executors[executor]["kind"]] += 1
    start_task(state, executor, stage)


@inlined_kernel
def count_finished(state: State, executor: int) -> None:
    """The task of `executor` ends now: count it, and the time it took."""
    clock = state.clock[0]
    worker = state.executors[executor]
    state.stages[worker["stage"]]["finished"] += 1
    clock["task_events"] += 1
    _charge(state, executor)


@inlined_kernel
def _charge(state: State, executor: int) -> None:
    """The time since the executor's task began; with classes, also the memory left idle by it."""
    clock = state.clock[0]
    worker = state.executors[executor]
    spent_ms = clock["time_ms"] - worker["since_ms"]
    clock["busy_ms"] += spent_ms
    if len(state.classes) > 1:
        size = state.classes[worker["kind"]]
        size["busy_ms"] += spent_ms
        size["idle_mb_ms"] += spent_ms * (
            size["memory_mb"] - state.stages[worker["stage"]]["memory_mb"]
        )


@kernel
def truncate(state: State) -> None:
    """Stop at the time limit; jobs that wait for their place count as in the system."""
    clock = state.clock[0]
    advance_time(state, clock["time_limit_ms"])
    for place in range(clock["next_arrival"], clock["num_queued"]):
        waited_ms = clock["time_ms"] - state.jobs[state.queue[place]]["arrival_ms"]
        clock["job_time_ms"] += max(0.0, waited_ms)
    close_accounts(state)


@kernel
def close_accounts(state: State) -> None:
    """End the run: tasks and moves under way count up to now."""
    clock = state.clock[0]
    for executor in range(len(state.executors)):
        worker = state.executors[executor]
        if worker["state"] == RUNNING:
            _charge(state, executor)
        elif worker["state"] == HELD:
            clock["busy_ms"] += clock["time_ms"] - worker["since_ms"]
        elif worker["state"] == MOVING:
            clock["moving_ms"] += clock["time_ms"] - worker["since_ms"]
