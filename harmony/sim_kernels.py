"""Simulation kernels: jobs arrive, wait, are placed task by task, run and end.

Functions that take `e` see or change that row of the state; the others do so for many rows.
"""

from __future__ import annotations

from harmony.compile import inlined_kernel, kernel
from harmony.speed_kernels import find_speeds
from harmony.tables import GIVEN, NONE, PS, WORKER, Bool, Float64, Int32, Jobs, Rules, State, Types


@inlined_kernel
def is_open(jobs: Jobs, state: State, e: int, job: int, m: int) -> bool:
    """Return whether the job may share server m with the tasks that are there."""
    if state.owner[e, m] != NONE:
        return bool(state.owner[e, m] == job)
    return not jobs.exclusive[state.jobs_of[e], job] or bool(state.tasks[e, m] == 0)


@inlined_kernel
def has_gpu(jobs: Jobs, state: State, e: int, job: int, m: int) -> bool:
    """Return whether the GPUs of server m are of the type that the job's workers need."""
    needed = jobs.gpu[state.jobs_of[e], job]
    return bool(needed == NONE or state.gpu[e, m] == needed)


@inlined_kernel
def _room(types: Types, state: State, e: int, m: int, model: int, kind: int, taken: int) -> int:
    """Tasks of a kind that server m has room for beside `taken` further workers."""
    most = 2**30
    for k in range(state.free.shape[2]):
        units = types.demand[model, kind, k]
        if units > 0:
            left = state.free[e, m, k] - taken * types.demand[model, WORKER, k]
            most = min(most, left // units)
    return max(most, 0)


@inlined_kernel
def fits(types: Types, jobs: Jobs, state: State, e: int, job: int) -> bool:
    """Return whether the remaining tasks of the job find room, filled in server by server.

    Workers first, then parameter servers. If they do, then the first task of this filling leaves a
    state for which it also holds. Placing tasks only where it still holds never gets stuck.
    """
    model = jobs.model[state.jobs_of[e], job]
    workers, ps = state.left[e, job, WORKER], state.left[e, job, PS]
    m = 0
    while workers + ps > 0 and m < state.free.shape[1]:
        if is_open(jobs, state, e, job, m):
            here = 0
            if has_gpu(jobs, state, e, job, m):
                here = min(workers, _room(types, state, e, m, model, WORKER, 0))
            workers -= here
            ps -= min(ps, _room(types, state, e, m, model, PS, here))
        m += 1
    return bool(workers + ps == 0)


@inlined_kernel
def put(types: Types, jobs: Jobs, state: State, e: int, job: int, kind: int, m: int) -> None:
    """One task of the job on server m; there must be one left, and room."""
    model = jobs.model[state.jobs_of[e], job]
    if state.placed[e, job, m, WORKER] + state.placed[e, job, m, PS] == 0:
        state.spread[e, job] += 1
    state.placed[e, job, m, kind] += 1
    state.left[e, job, kind] -= 1
    state.tasks[e, m] += 1
    if jobs.exclusive[state.jobs_of[e], job]:
        state.owner[e, m] = job
    for k in range(state.free.shape[2]):
        state.free[e, m, k] -= types.demand[model, kind, k]


@inlined_kernel
def take_back(types: Types, jobs: Jobs, state: State, e: int, job: int, kind: int, m: int) -> None:
    """The reverse of `put`."""
    model = jobs.model[state.jobs_of[e], job]
    state.placed[e, job, m, kind] -= 1
    state.left[e, job, kind] += 1
    state.tasks[e, m] -= 1
    if state.placed[e, job, m, WORKER] + state.placed[e, job, m, PS] == 0:
        state.spread[e, job] -= 1
        if state.owner[e, m] == job:
            state.owner[e, m] = NONE
    for k in range(state.free.shape[2]):
        state.free[e, m, k] += types.demand[model, kind, k]


@kernel
def is_allowed(types: Types, jobs: Jobs, state: State, e: int, kind: int, m: int) -> bool:
    """Return whether server m has room for the task, and the rest of the job fits after."""
    job = state.current[e]
    model = jobs.model[state.jobs_of[e], job]
    allowed = False
    if (
        state.left[e, job, kind] > 0
        and is_open(jobs, state, e, job, m)
        and (kind == PS or has_gpu(jobs, state, e, job, m))
        and _room(types, state, e, m, model, kind, 0) > 0
    ):
        put(types, jobs, state, e, job, kind, m)
        allowed = fits(types, jobs, state, e, job)
        take_back(types, jobs, state, e, job, kind, m)
    return allowed


@inlined_kernel
def _arrive(rules: Rules, jobs: Jobs, state: State, e: int) -> None:
    """Let in the jobs that have come by the beginning of the interval."""
    s = state.jobs_of[e]
    now_min = state.interval[e] * rules.interval_min
    while state.arrived[e] < jobs.number[s] and jobs.arrival_min[s, state.arrived[e]] <= now_min:
        state.waiting[e, state.waiting_count[e]] = state.arrived[e]
        state.waiting_count[e] += 1
        state.arrived[e] += 1


@inlined_kernel
def is_over(rules: Rules, jobs: Jobs, state: State, e: int) -> bool:
    """Return whether all jobs are complete, or the episode is cut."""
    done = state.finished[e] == jobs.number[state.jobs_of[e]]
    return bool(done or state.interval[e] >= rules.max_intervals)


@inlined_kernel
def _complete(types: Types, jobs: Jobs, state: State, e: int, i: int, now_min: float) -> None:
    """Complete job `running[i]`: free its units and remove it as a neighbour."""
    job = state.running[e, i]
    model = jobs.model[state.jobs_of[e], job]
    for m in range(state.free.shape[1]):
        for kind in range(2):
            count = state.placed[e, job, m, kind]
            if count > 0:
                for k in range(state.free.shape[2]):
                    state.free[e, m, k] += count * types.demand[model, kind, k]
                state.tasks[e, m] -= count
                state.placed[e, job, m, kind] = 0
        if state.owner[e, m] == job:
            state.owner[e, m] = NONE
    state.end_min[e, job] = now_min
    state.finished[e] += 1
    state.running_count[e] -= 1
    for later in range(i, state.running_count[e]):
        state.running[e, later] = state.running[e, later + 1]
        state.speed[e, later] = state.speed[e, later + 1]


@kernel
def _run(rules: Rules, types: Types, jobs: Jobs, state: State, e: int) -> float:
    """Let an interval pass, from completion to completion.

    Gives its reward: the shares of their epochs that jobs have trained in it, summed.
    """
    s = state.jobs_of[e]
    begin_min = state.interval[e] * rules.interval_min
    left_min = rules.interval_min
    reward = 0.0
    while state.running_count[e] > 0 and left_min > 0.0:
        if rules.speed != GIVEN:
            find_speeds(rules, types, jobs, state, e)
        first, soonest_min = NONE, left_min
        for i in range(state.running_count[e]):
            job = state.running[e, i]
            needs_min = (jobs.epochs[s, job] - state.done[e, job]) / state.speed[e, i]
            if needs_min <= soonest_min:
                first, soonest_min = i, max(needs_min, 0.0)
        share = 0.0
        for i in range(state.running_count[e]):
            job = state.running[e, i]
            epochs = state.speed[e, i] * soonest_min
            state.done[e, job] += epochs
            share += epochs / jobs.epochs[s, job]
        reward += share
        left_min -= soonest_min
        if first == NONE:
            left_min = 0.0
        else:
            _complete(types, jobs, state, e, first, begin_min + rules.interval_min - left_min)
    state.interval[e] += 1
    return reward


@kernel
def _until_choice(
    rules: Rules, types: Types, jobs: Jobs, state: State, e: int, reward: Float64, passed: Int32
) -> None:
    """Find the next job that fits; while there is none, intervals pass.

    Adds to `reward[0]` the discounted rewards of those, and to `passed[0]` their number. With
    given speeds it stops before an interval.
    """
    factor = 1.0
    state.current[e] = NONE
    lacks_speeds = False
    while state.current[e] == NONE and not lacks_speeds and not is_over(rules, jobs, state, e):
        # The first waiting job that was not refused in this interval.
        job = NONE
        for i in range(state.waiting_count[e]):
            waiting = state.waiting[e, i]
            if state.refused[e, waiting] != state.interval[e] and (
                job == NONE or state.priority[e, waiting] < state.priority[e, job]
            ):
                job = waiting
        if job == NONE and rules.speed == GIVEN:
            lacks_speeds = True
        elif job == NONE:
            reward[0] += factor * _run(rules, types, jobs, state, e)
            factor *= rules.discount
            passed[0] += 1
            _arrive(rules, jobs, state, e)
        elif fits(types, jobs, state, e, job):
            state.current[e] = job
        else:
            state.refused[e, job] = state.interval[e]


@inlined_kernel
def act(
    rules: Rules,
    types: Types,
    jobs: Jobs,
    state: State,
    e: int,
    action: int,
    reward: Float64,
    passed: Int32,
) -> None:
    """Place one task of the present job; after its last one, go on to the next choice.

    `reward` and `passed`, (1,), are those of `_until_choice`, and 0 before the last task.
    """
    job = state.current[e]
    servers = state.free.shape[1]
    reward[0] = 0.0
    passed[0] = 0
    put(types, jobs, state, e, job, action // servers, action % servers)
    if state.left[e, job, WORKER] + state.left[e, job, PS] == 0:
        state.running[e, state.running_count[e]] = job
        state.running_count[e] += 1
        state.placed_in[e, job] = state.interval[e]
        still_waiting = 0
        for i in range(state.waiting_count[e]):
            if state.waiting[e, i] != job:
                state.waiting[e, still_waiting] = state.waiting[e, i]
                still_waiting += 1
        state.waiting_count[e] = still_waiting
        _until_choice(rules, types, jobs, state, e, reward, passed)


@kernel
def begin(
    rules: Rules,
    types: Types,
    jobs: Jobs,
    state: State,
    rows: Int32,
    reward: Float64,
    passed: Int32,
) -> int:
    """Set the rows to their start, and go on to the first choice.

    Gives the row of a job that an empty cluster has no room for; NONE where there is none.
    """
    misfit = NONE
    for i in range(len(rows)):
        e = rows[i]
        s = state.jobs_of[e]
        for m in range(state.free.shape[1]):
            state.owner[e, m] = NONE
            for k in range(state.free.shape[2]):
                state.free[e, m, k] = rules.capacity[k]
        for job in range(jobs.number[s]):
            state.left[e, job, WORKER] = jobs.workers[s, job]
            state.left[e, job, PS] = jobs.ps[s, job]
            state.refused[e, job] = NONE
            state.placed_in[e, job] = NONE
            state.end_min[e, job] = rules.max_intervals * rules.interval_min
            if not fits(types, jobs, state, e, job):
                misfit = job
        _arrive(rules, jobs, state, e)
        _until_choice(rules, types, jobs, state, e, reward[i : i + 1], passed[i : i + 1])
    return misfit


@kernel
def act_all(
    rules: Rules,
    types: Types,
    jobs: Jobs,
    state: State,
    rows: Int32,
    action: Int32,
    reward: Float64,
    passed: Int32,
    over: Bool,
) -> None:
    """Let (n,) episodes act; writes (n,) rewards, intervals that passed, and whether it is over."""
    for i in range(len(rows)):
        e = rows[i]
        act(rules, types, jobs, state, e, action[i], reward[i : i + 1], passed[i : i + 1])
        over[i] = is_over(rules, jobs, state, e)


@kernel
def pass_interval(
    rules: Rules, types: Types, jobs: Jobs, state: State, rows: Int32, reward: Float64
) -> None:
    """Advance (n,) episodes by one interval at given speeds, then to the next choice.

    Writes (n,) rewards of the interval.
    """
    ignored_reward, ignored_passed = reward[:0], state.current[:0]
    for i in range(len(rows)):
        e = rows[i]
        reward[i] = _run(rules, types, jobs, state, e)
        _arrive(rules, jobs, state, e)
        _until_choice(rules, types, jobs, state, e, ignored_reward, ignored_passed)


@kernel
def are_allowed(
    types: Types, jobs: Jobs, state: State, rows: Int32, action: Int32, allowed: Bool
) -> None:
    """Write (n,) whether `masks` allows each episode its action."""
    servers = state.free.shape[1]
    for i in range(len(rows)):
        kind, m = action[i] // servers, action[i] % servers
        allowed[i] = is_allowed(types, jobs, state, rows[i], kind, m)


@kernel
def masks(types: Types, jobs: Jobs, state: State, rows: Int32, allowed: Bool) -> None:
    """Write (n, 2 M) which actions place a task such that the rest of the job finds room."""
    servers = state.free.shape[1]
    for i in range(len(rows)):
        for a in range(2 * servers):
            allowed[i, a] = is_allowed(types, jobs, state, rows[i], a // servers, a % servers)
