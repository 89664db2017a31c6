"""Choices of the heuristics. `e` is a row of the state, whose present job is to be placed.

All place workers first, then parameter servers. Of equally good servers they take the one with the
fastest GPUs, then the first. LIF and the lookahead weigh the speeds of GPUs too.
"""

from __future__ import annotations

from harmony.compile import inlined_kernel, kernel
from harmony.sim_kernels import act, is_allowed, put, take_back
from harmony.speed_kernels import gpu_factor, shares_server, speed_of
from harmony.tables import (
    CPU,
    GPU,
    NETWORK,
    NONE,
    PS,
    WORKER,
    Float64,
    Int32,
    Jobs,
    Rule,
    Rules,
    State,
    Types,
)

# Rules by number; `harmony.schedulers` has them by name.
BALANCE, PACK, TIRESIAS, LEAST_INTERFERENCE, LOOKAHEAD, RANDOM = range(6)
_BY_CPU, _BY_NETWORK, _CPU_CPU, _CPU_NETWORK, _NETWORK_NETWORK = range(1, 6)


@inlined_kernel
def _load(rules: Rules, state: State, e: int, m: int) -> float:
    """Sum of the used shares of cores and GPUs of a server."""
    cores = 1.0 - state.free[e, m, CPU] / rules.capacity[CPU]
    return float(cores + 1.0 - state.free[e, m, GPU] / rules.capacity[GPU])


@inlined_kernel
def _left_over(
    rules: Rules, types: Types, jobs: Jobs, state: State, e: int, kind: int, m: int
) -> float:
    """Free shares of all resources of a server after the task is put there, added."""
    model = jobs.model[state.jobs_of[e], state.current[e]]
    total = 0.0
    for k in range(state.free.shape[2]):
        total += (state.free[e, m, k] - types.demand[model, kind, k]) / rules.capacity[k]
    return total


@inlined_kernel
def _consolidating(
    rules: Rules, types: Types, jobs: Jobs, state: State, e: int, kind: int, m: int
) -> float:
    """Lower where more of the tasks that are left find room; then where it is fuller."""
    job = state.current[e]
    model = jobs.model[state.jobs_of[e], job]
    room = state.left[e, job, kind]
    for k in range(state.free.shape[2]):
        while room > 0 and state.free[e, m, k] < room * types.demand[model, kind, k]:
            room -= 1
    tasks = state.placed[e, job, m, WORKER] + state.placed[e, job, m, PS]
    full = _left_over(rules, types, jobs, state, e, kind, m)
    return float(-100.0 * min(tasks, 1) - 10.0 * room + full)


@inlined_kernel
def drop(weights: Float64, model: int, cpu: float, network: float) -> float:
    """Share of its speed that a job of a model loses beside others that ask for so much."""
    return float(
        weights[model, 0]
        + weights[model, _BY_CPU] * cpu
        + weights[model, _BY_NETWORK] * network
        + weights[model, _CPU_CPU] * cpu * cpu
        + weights[model, _CPU_NETWORK] * cpu * network
        + weights[model, _NETWORK_NETWORK] * network * network
    )


@inlined_kernel
def units_asked(
    rules: Rules, types: Types, jobs: Jobs, state: State, e: int, m: int, job: int, resource: int
) -> float:
    """Share of a server's resource that tasks of other jobs than this one have."""
    model = jobs.model[state.jobs_of[e], job]
    units = rules.capacity[resource] - state.free[e, m, resource]
    for kind in range(2):
        units -= state.placed[e, job, m, kind] * types.demand[model, kind, resource]
    return float(units / rules.capacity[resource])


@kernel
def _lost(
    rules: Rules, types: Types, jobs: Jobs, state: State, e: int, m: int, weights: Float64
) -> float:
    """Predict what all tasks on server m lose to each other; the present job's too."""
    total = 0.0
    fastest = types.gpu_speed[0]
    for speed in types.gpu_speed:
        fastest = max(fastest, speed)
    for i in range(state.running_count[e] + 1):
        job = state.current[e] if i == state.running_count[e] else state.running[e, i]
        count = state.placed[e, job, m, WORKER] + state.placed[e, job, m, PS]
        if count > 0:
            cpu = units_asked(rules, types, jobs, state, e, m, job, CPU)
            network = units_asked(rules, types, jobs, state, e, m, job, NETWORK)
            lost = 0.0
            if cpu + network > 0.0:
                model = jobs.model[state.jobs_of[e], job]
                lost = drop(weights, model, cpu, network)
            if len(types.gpu_speed) > 1:
                # Of its speed on the fastest GPUs, what the job loses on those that it has.
                lost += (1.0 - lost) * float(1.0 - gpu_factor(types, state, e, job) / fastest)
            total += count * lost
    return total


@inlined_kernel
def _is_better(
    types: Types, state: State, e: int, m: int, cost: float, best: int, least: float
) -> bool:
    """Return whether server m is better than the best so far, at their costs."""
    if best == NONE or cost < least:
        return True
    if len(types.gpu_speed) == 1 or cost > least:
        return False
    return bool(types.gpu_speed[state.gpu[e, m]] > types.gpu_speed[state.gpu[e, best]])


@inlined_kernel
def _over_best(rules: Rules, types: Types, jobs: Jobs, state: State, e: int, job: int) -> float:
    """Speed of a job as placed, over its best."""
    s = state.jobs_of[e]
    best = types.alone[jobs.model[s, job], jobs.workers[s, job], jobs.ps[s, job], 1]
    return float(speed_of(rules, types, jobs, state, e, job) / best)


@kernel
def _worth(
    rules: Rules, types: Types, jobs: Jobs, state: State, e: int, empty_worth: float
) -> float:
    """Speeds of all jobs and of the present one as placed, each over its best, added.

    And `empty_worth` times the speed of its GPUs for each server whose GPUs are all free: the next
    job may need it.
    """
    current = state.current[e]
    state.running[e, state.running_count[e]] = current
    state.running_count[e] += 1
    total = 0.0
    for i in range(state.running_count[e]):
        job = state.running[e, i]
        # The speeds of jobs that share no server with the present one are as they were.
        if job == current or shares_server(state, e, job, current):
            total += _over_best(rules, types, jobs, state, e, job)
        else:
            total += state.worth[e, i]
    state.running_count[e] -= 1
    for m in range(state.free.shape[1]):
        if state.free[e, m, GPU] == rules.capacity[GPU]:
            total += empty_worth * types.gpu_speed[state.gpu[e, m]]
    return total


@kernel
def _cheapest(
    rules: Rules, types: Types, jobs: Jobs, state: State, e: int, kind: int, number: int
) -> int:
    """Return the server of the least cost, by free units alone, without placing the task."""
    best, least = NONE, 0.0
    for m in range(state.free.shape[1]):
        if number == BALANCE:
            cost = _load(rules, state, e, m)
        elif number == PACK:
            cost = _left_over(rules, types, jobs, state, e, kind, m)
        else:
            cost = _consolidating(rules, types, jobs, state, e, kind, m)
        # What is allowed takes longest to find out, and matters only where the cost is lower.
        better = _is_better(types, state, e, m, cost, best, least)
        if better and is_allowed(types, jobs, state, e, kind, m):
            best, least = m, cost
    return best


@kernel
def _lookahead(rules: Rules, types: Types, jobs: Jobs, state: State, e: int, rule: Rule) -> float:
    """Minus what the cluster is worth once the rest of the job is placed, consolidating."""
    job = state.current[e]
    servers = state.free.shape[1]
    placed = 0
    while state.left[e, job, WORKER] + state.left[e, job, PS] > 0:
        kind = WORKER if state.left[e, job, WORKER] > 0 else PS
        m = _cheapest(rules, types, jobs, state, e, kind, TIRESIAS)
        put(types, jobs, state, e, job, kind, m)
        state.plan[e, placed] = kind * servers + m
        placed += 1
    worth = _worth(rules, rule.believed, jobs, state, e, rule.empty_worth)
    while placed > 0:
        placed -= 1
        action = state.plan[e, placed]
        take_back(types, jobs, state, e, job, action // servers, action % servers)
    return -worth


@kernel
def _drawn(types: Types, jobs: Jobs, state: State, e: int, kind: int, chance: float) -> int:
    """Return the server that `chance` in [0, 1) picks of those that are allowed."""
    count, drawn = 0, NONE
    for m in range(state.free.shape[1]):
        count += is_allowed(types, jobs, state, e, kind, m)
    passed = int(chance * count)
    for m in range(state.free.shape[1]):
        if is_allowed(types, jobs, state, e, kind, m):
            if passed == 0:
                drawn = m
            passed -= 1
    return drawn


@kernel
def choose(
    rules: Rules, types: Types, jobs: Jobs, state: State, e: int, rule: Rule, chance: float
) -> int:
    """The action of a rule; `chance` in [0, 1) picks the server where it is drawn."""
    servers, job = state.free.shape[1], state.current[e]
    kind = WORKER if state.left[e, job, WORKER] > 0 else PS
    if rule.number == RANDOM:
        return int(kind * servers + _drawn(types, jobs, state, e, kind, chance))
    if rule.number == TIRESIAS:
        together = rule.together[jobs.model[state.jobs_of[e], job]]
        number = TIRESIAS if together else PACK
        return int(kind * servers + _cheapest(rules, types, jobs, state, e, kind, number))
    if rule.number == BALANCE or rule.number == PACK:
        return int(kind * servers + _cheapest(rules, types, jobs, state, e, kind, rule.number))
    if rule.number == LOOKAHEAD:
        for i in range(state.running_count[e]):
            running = state.running[e, i]
            state.worth[e, i] = _over_best(rules, rule.believed, jobs, state, e, running)
    # The others try each server with the task placed there.
    best, least = NONE, 0.0
    for m in range(servers):
        if is_allowed(types, jobs, state, e, kind, m):
            put(types, jobs, state, e, job, kind, m)
            if rule.number == LEAST_INTERFERENCE:
                cost = _lost(rules, types, jobs, state, e, m, rule.weights)
            else:
                cost = _lookahead(rules, types, jobs, state, e, rule)
            take_back(types, jobs, state, e, job, kind, m)
            if _is_better(types, state, e, m, cost, best, least):
                best, least = m, cost
    return int(kind * servers + best)


@kernel
def choose_all(
    rules: Rules,
    types: Types,
    jobs: Jobs,
    state: State,
    rows: Int32,
    rule: Rule,
    chance: Float64,
    action: Int32,
) -> None:
    """Write the (n,) actions of a rule."""
    for i in range(len(rows)):
        action[i] = choose(rules, types, jobs, state, rows[i], rule, chance[i])


@kernel
def play_out(
    rules: Rules,
    types: Types,
    jobs: Jobs,
    state: State,
    rows: Int32,
    rule: Rule,
    reward: Float64,
    passed: Int32,
) -> None:
    """Play the episodes to their ends by a rule that draws nothing.

    Writes (n,) rewards and intervals of each one's last action.
    """
    for i in range(len(rows)):
        e = rows[i]
        while state.current[e] != NONE:
            action = choose(rules, types, jobs, state, e, rule, 0.0)
            act(rules, types, jobs, state, e, action, reward[i : i + 1], passed[i : i + 1])
