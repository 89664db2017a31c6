"""Inputs of networks: a row for each job and each server, and the jobs on each server.

Letters: n observations, N rows of jobs, M servers, F and H numbers of a row, L types of job,
G types of GPU.
"""

from __future__ import annotations

from harmony.compile import inlined_kernel, kernel
from harmony.rule_kernels import units_asked
from harmony.speed_kernels import find_speeds, gpu_factor, shares_server, speed_alone
from harmony.tables import (
    CPU,
    NETWORK,
    NONE,
    PS,
    WORKER,
    Bool,
    Float32,
    Float64,
    Int32,
    Jobs,
    K,
    Rules,
    State,
    Types,
)

# After L columns of the type (x): what workers and parameter servers ask for (r), how many are
# placed (w, p), on how many servers, tasks a server (both of d), and what the job does (u).
JOB_COLUMNS = 2 * (1 + K) + 2 + 2 + 3
WAITING_ROWS = 3
"""jobs behind the present one that are seen"""
SERVER_COLUMNS = K + 2 + 2 + 2
"""free shares (v), tasks of the present job (its d), tasks of all jobs, what may be put there"""
# Where G > 1, after these: G columns of the type of GPU, that a job needs or a server has, and the
# speed of the GPUs over that of the fastest type; 0 for a job without a placed worker.


@inlined_kernel
def _over_fastest(types: Types, speed: float) -> float:
    fastest = types.gpu_speed[0]
    for gpu_speed in types.gpu_speed:
        fastest = max(fastest, gpu_speed)
    return float(speed / fastest)


@kernel
def _job(
    rules: Rules, types: Types, jobs: Jobs, state: State, e: int, job: int, role: int, row: Float32
) -> None:
    """Write a row; `role` is 0 for one that runs, 1 for the present job, 2 for one that waits."""
    s = state.jobs_of[e]
    most = types.alone.shape[1] - 1
    servers = types.alone.shape[3] - 1
    model = jobs.model[s, job]
    row[model] = 1.0
    at = types.alone.shape[0]
    for kind in range(2):
        count = jobs.workers[s, job] if kind == WORKER else jobs.ps[s, job]
        row[at] = count / most
        for k in range(K):
            if count > 0:
                row[at + 1 + k] = types.demand[model, kind, k] / rules.capacity[k]
        at += 1 + K
    workers = jobs.workers[s, job] - state.left[e, job, WORKER]
    ps = jobs.ps[s, job] - state.left[e, job, PS]
    row[at] = workers / most
    row[at + 1] = ps / most
    row[at + 2] = state.spread[e, job] / servers
    if state.spread[e, job] > 0:
        row[at + 3] = (workers + ps) / state.spread[e, job] / 4.0
    row[at + 4 + role] = 1.0
    gpus = len(types.gpu_speed)
    if gpus > 1:
        if jobs.gpu[s, job] != NONE:
            row[at + 7 + jobs.gpu[s, job]] = 1.0
        if workers > 0:
            row[at + 7 + gpus] = _over_fastest(types, gpu_factor(types, state, e, job))


@kernel
def _server(
    rules: Rules, types: Types, state: State, e: int, m: int, allowed: Bool, row: Float32
) -> None:
    job = state.current[e]
    for k in range(K):
        row[k] = state.free[e, m, k] / rules.capacity[k]
    for kind in range(2):
        total = state.placed[e, job, m, kind]
        row[K + kind] = total / 2.0
        for i in range(state.running_count[e]):
            total += state.placed[e, state.running[e, i], m, kind]
        row[K + 2 + kind] = total / 4.0
        if allowed[kind * state.free.shape[1] + m]:
            row[K + 4 + kind] = 1.0
    if len(types.gpu_speed) > 1:
        gpu = state.gpu[e, m]
        row[SERVER_COLUMNS + gpu] = 1.0
        row[SERVER_COLUMNS + len(types.gpu_speed)] = _over_fastest(types, types.gpu_speed[gpu])


@kernel
def read_choices(
    rules: Rules,
    types: Types,
    jobs: Jobs,
    state: State,
    rows: Int32,
    allowed: Bool,
    job: Float32,
    is_job: Bool,
    beside: Bool,
    server: Float32,
    holds: Bool,
) -> None:
    """Write what a policy sees; all outputs are zero before.

    Args:
        rules: with `types`, `jobs` and `state` the clusters.
        rows: (n,) episodes, each with a job to place.
        allowed: (n, 2 M) as `masks` gives.
        job: (n, N, F) the present job first, then those that run, then those that
            wait, up to WAITING_ROWS.
        is_job: (n, N) which rows are jobs.
        beside: (n, N, N) whether two of them share a server; True for a job itself.
        server: (n, M, H)
        holds: (n, M, N) whether a job has a task on a server; True for the present job.
    """
    for i in range(len(rows)):
        e = rows[i]
        count = 1 + state.running_count[e]
        _job(rules, types, jobs, state, e, state.current[e], 1, job[i, 0])
        for a in range(1, count):
            _job(rules, types, jobs, state, e, state.running[e, a - 1], 0, job[i, a])
        for a in range(count):
            first = state.current[e] if a == 0 else state.running[e, a - 1]
            is_job[i, a] = True
            for b in range(count):
                second = state.current[e] if b == 0 else state.running[e, b - 1]
                beside[i, a, b] = a == b or shares_server(state, e, first, second)
        for m in range(state.free.shape[1]):
            _server(rules, types, state, e, m, allowed[i], server[i, m])
            holds[i, m, 0] = True
            for a in range(1, count):
                other = state.running[e, a - 1]
                if state.placed[e, other, m, WORKER] + state.placed[e, other, m, PS] > 0:
                    holds[i, m, a] = True
        last = count + WAITING_ROWS
        for w in range(state.waiting_count[e]):
            other = state.waiting[e, w]
            if other != state.current[e] and count < last:
                _job(rules, types, jobs, state, e, other, 2, job[i, count])
                is_job[i, count] = True
                beside[i, count, count] = True
                count += 1


@kernel
def read_running(
    rules: Rules,
    types: Types,
    jobs: Jobs,
    state: State,
    rows: Int32,
    job: Float32,
    is_job: Bool,
    beside: Bool,
    shape: Int32,
) -> None:
    """Write the jobs that run, in the order of `state.running`; all outputs are zero before.

    Args:
        rules, types, jobs, state: the clusters.
        rows: (n,) episodes.
        job: (n, N, F)
        is_job: (n, N) which rows are jobs.
        beside: (n, N, N) whether two of them share a server; True for a job itself.
        shape: (n, N, 4) type, workers, parameter servers, servers.
    """
    for i in range(len(rows)):
        e = rows[i]
        s = state.jobs_of[e]
        for a in range(state.running_count[e]):
            number = state.running[e, a]
            _job(rules, types, jobs, state, e, number, 0, job[i, a])
            is_job[i, a] = True
            shape[i, a, 0] = jobs.model[s, number]
            shape[i, a, 1] = jobs.workers[s, number]
            shape[i, a, 2] = jobs.ps[s, number]
            shape[i, a, 3] = state.spread[e, number]
            for b in range(state.running_count[e]):
                other = state.running[e, b]
                beside[i, a, b] = a == b or shares_server(state, e, number, other)


@kernel
def measure(
    rules: Rules,
    types: Types,
    jobs: Jobs,
    state: State,
    rows: Int32,
    speed: Float64,
    alone: Float64,
    others: Float64,
) -> None:
    """Write the speeds of the jobs that run, as measured now, and what LIF goes by.

    Args:
        rules, types, jobs, state: the clusters.
        rows: (n,) episodes.
        speed: (n, N) epochs a minute; `state.speed` is the same then.
        alone: (n, N) epochs a minute of such a job without neighbours, on as many servers.
        others: (n, N, 2) largest shares of cores and of network that others ask for on a server.
    """
    for i in range(len(rows)):
        e = rows[i]
        find_speeds(rules, types, jobs, state, e)
        for a in range(state.running_count[e]):
            number = state.running[e, a]
            speed[i, a] = state.speed[e, a]
            alone[i, a] = speed_alone(types, jobs, state, e, number)
            for m in range(state.free.shape[1]):
                if state.placed[e, number, m, WORKER] + state.placed[e, number, m, PS] > 0:
                    cpu = units_asked(rules, types, jobs, state, e, m, number, CPU)
                    network = units_asked(rules, types, jobs, state, e, m, number, NETWORK)
                    others[i, a, 0] = max(others[i, a, 0], cpu)
                    others[i, a, 1] = max(others[i, a, 1], network)
