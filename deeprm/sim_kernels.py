"""Simulation kernels: jobs arrive, are placed, run and end.

Functions that take `e` see or change that row of the state; the others do so for many rows. Costs
are whole numbers, in the units of `deeprm.objectives`.
"""

from __future__ import annotations

from deeprm.compile import inlined_kernel, kernel
from deeprm.tables import (
    COMPLETION,
    COSTS,
    MAKESPAN,
    NONE,
    SLOWDOWN,
    UTILISATION,
    VOID,
    Bool,
    Int32,
    Int64,
    Jobs,
    Rules,
    State,
)


@inlined_kernel
def _delay_on(rules: Rules, jobs: Jobs, state: State, e: int, job: int, machine: int) -> int:
    """Steps until `job` can start on the machine; NONE if it cannot end within reach."""
    s = state.jobs_of[e]
    duration = jobs.duration[s, job]
    resources = jobs.demand.shape[2]
    start = 0
    row = 0
    while start + duration <= rules.reach:
        if row == start + duration:
            return start
        for r in range(resources):
            used = state.used[e, row, machine * resources + r]
            if used + jobs.demand[s, job, r] > rules.capacity[r]:
                start = row + 1
        row += 1
    return NONE


@inlined_kernel
def soonest(rules: Rules, jobs: Jobs, state: State, e: int, job: int) -> tuple[int, int]:
    """Steps until `job` can start such that its units are free until it ends, and the machine.

    NONE if it cannot end within reach. Of machines on which it can start at once the first is
    taken.
    """
    wait = _delay_on(rules, jobs, state, e, job, 0)
    machine = 0
    for candidate in range(1, state.used.shape[2] // jobs.demand.shape[2]):
        if wait != 0:
            start = _delay_on(rules, jobs, state, e, job, candidate)
            if start != NONE and (wait == NONE or start < wait):
                wait = start
                machine = candidate
    return wait, machine


@inlined_kernel
def delay(rules: Rules, jobs: Jobs, state: State, e: int, job: int) -> int:
    """Steps until `job` can start; NONE if it cannot end within reach."""
    return soonest(rules, jobs, state, e, job)[0]


@inlined_kernel
def _fill(state: State, e: int, m: int) -> None:
    """Give empty slot m to the job that waits longest beyond the slots, if there is one."""
    if state.entered[e] < state.arrived[e]:
        state.slot[e, m] = state.entered[e]
        state.entered[e] += 1
    else:
        state.slot[e, m] = NONE


@inlined_kernel
def _arrive(rules: Rules, jobs: Jobs, state: State, e: int) -> None:
    """Let in the jobs of the present step."""
    s = state.jobs_of[e]
    while state.arrived[e] < jobs.number[s] and jobs.arrival[s, state.arrived[e]] == state.time[e]:
        state.weight[e] += rules.multiple // jobs.duration[s, state.arrived[e]]
        state.last_arrival[e] = state.time[e]
        state.arrived[e] += 1
    for m in range(state.slot.shape[1]):
        if state.slot[e, m] == NONE:
            _fill(state, e, m)


@inlined_kernel
def _place(rules: Rules, jobs: Jobs, state: State, e: int, m: int, wait: int, machine: int) -> None:
    """Start the job of slot m in `wait` steps on a machine; the next in line takes the slot."""
    s, job = state.jobs_of[e], state.slot[e, m]
    last = wait + jobs.duration[s, job] - 1
    resources = jobs.demand.shape[2]
    for row in range(wait, last + 1):
        for r in range(resources):
            state.used[e, row, machine * resources + r] += jobs.demand[s, job, r]
    state.ending[e, last] += 1
    state.ending_weight[e, last] += rules.multiple // jobs.duration[s, job]
    state.start[e, job] = state.time[e] + wait
    state.machine[e, job] = machine
    _fill(state, e, m)


@inlined_kernel
def _pass(rules: Rules, jobs: Jobs, state: State, e: int) -> None:
    """One step of time: charge it, end jobs, move what is planned, let in new jobs."""
    # The cost of all jobs in the system, visible or not.
    state.cost[e, SLOWDOWN] += state.weight[e]
    state.cost[e, COMPLETION] += state.arrived[e] - state.finished[e]
    state.cost[e, MAKESPAN] += 1
    if state.time[e] < rules.arrival_steps:
        for pool in range(state.used.shape[2]):
            share = rules.share[pool % len(rules.share)]
            state.cost[e, UTILISATION] -= state.used[e, 0, pool] * share
    state.finished[e] += state.ending[e, 0]
    state.weight[e] -= state.ending_weight[e, 0]
    last = state.used.shape[1] - 1
    for row in range(last):
        state.ending[e, row] = state.ending[e, row + 1]
        state.ending_weight[e, row] = state.ending_weight[e, row + 1]
        for pool in range(state.used.shape[2]):
            state.used[e, row, pool] = state.used[e, row + 1, pool]
    state.ending[e, last] = 0
    state.ending_weight[e, last] = 0
    for pool in range(state.used.shape[2]):
        state.used[e, last, pool] = 0
    state.time[e] += 1
    _arrive(rules, jobs, state, e)


@inlined_kernel
def is_over(rules: Rules, jobs: Jobs, state: State, e: int) -> bool:
    """Return whether all jobs of the set are complete, or the episode is cut."""
    return bool(
        state.finished[e] == jobs.number[state.jobs_of[e]] or state.time[e] >= rules.last_step
    )


@inlined_kernel
def _until_choice(rules: Rules, jobs: Jobs, state: State, e: int) -> None:
    """Let time pass while no job waits in a slot: then none waits beyond them either."""
    waiting = 0
    while waiting == 0 and not is_over(rules, jobs, state, e):
        for m in range(state.slot.shape[1]):
            if state.slot[e, m] != NONE:
                waiting += 1
        if waiting == 0:
            _pass(rules, jobs, state, e)


@inlined_kernel
def act(rules: Rules, jobs: Jobs, state: State, e: int, action: int) -> None:
    """Place the chosen job; void, an empty slot or a job that does not fit let a step pass."""
    wait, machine = NONE, 0
    if action != VOID and state.slot[e, action - 1] != NONE:
        wait, machine = soonest(rules, jobs, state, e, state.slot[e, action - 1])
    if wait == NONE:
        _pass(rules, jobs, state, e)
    else:
        _place(rules, jobs, state, e, action - 1, wait, machine)
    _until_choice(rules, jobs, state, e)


@kernel
def begin(rules: Rules, jobs: Jobs, state: State, rows: Int32) -> None:
    """Let in the first jobs of the (n,) episodes `rows`, and go on to the first choice."""
    for e in rows:
        _arrive(rules, jobs, state, e)
        _until_choice(rules, jobs, state, e)


@kernel
def act_all(
    rules: Rules,
    jobs: Jobs,
    state: State,
    rows: Int32,
    action: Int32,
    cost: Int64,
    over: Bool,
) -> None:
    """Let (n,) episodes act. Writes what that cost, (n, COSTS), and whether they are over, (n,)."""
    for i in range(len(rows)):
        e = rows[i]
        for kind in range(COSTS):
            cost[i, kind] = -state.cost[e, kind]
        act(rules, jobs, state, e, action[i])
        for kind in range(COSTS):
            cost[i, kind] += state.cost[e, kind]
        over[i] = is_over(rules, jobs, state, e)


@kernel
def delays(rules: Rules, jobs: Jobs, state: State, rows: Int32, wait: Int32) -> None:
    """Write for each slot of (n,) episodes how soon its job could start: (n, M), NONE if not."""
    for i in range(len(rows)):
        e = rows[i]
        for m in range(state.slot.shape[1]):
            wait[i, m] = NONE
            if state.slot[e, m] != NONE:
                wait[i, m] = delay(rules, jobs, state, e, state.slot[e, m])
