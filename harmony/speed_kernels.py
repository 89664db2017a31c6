"""Speeds of the jobs of a cluster, given which jobs share servers.

Two models, both hidden from schedulers. `measured`: a job's speed alone, at its number of workers
and servers, times what was measured beside its neighbours; a neighbour is a job with a task on one
of its servers. Only pairs were measured. With several neighbours each takes its share of what the
others leave, so their ratios are multiplied; or, as an option, the worst of them decides alone, as
DeepShare's authors have it. `analytic`: steps take longer where cores or the network of a server
are short. In both a job is as fast as the slowest of its GPUs.

Neither depends on the order of jobs, servers or questions. `e` is a row of the state.
"""

from __future__ import annotations

import numpy as np

from decima.rl.study.streams import uniform
from harmony.compile import inlined_kernel, kernel
from harmony.tables import ANALYTIC, MEASURED_WORST, PS, WORKER, Jobs, K, Rules, State, Types

_CORES, _NETWORK = 1, K - 1
_uniform = inlined_kernel(uniform)


@inlined_kernel
def _noise(rules: Rules, state: State, e: int, job: int) -> float:
    """Factor on the job's speed in this interval; its logarithm is normal (Box and Muller)."""
    counter = 2 * (state.interval[e] * state.done.shape[1] + job)
    first = _uniform(state.key[e], np.uint64(counter + 1))
    second = _uniform(state.key[e], np.uint64(counter + 2))
    normal = np.sqrt(-2.0 * np.log(1.0 - first)) * np.cos(2.0 * np.pi * second)
    return float(np.exp(rules.noise * normal))


@inlined_kernel
def gpu_factor(types: Types, state: State, e: int, job: int) -> float:
    """Return the speed of the slowest type of GPU that the job's workers have; 1 without any."""
    if len(types.gpu_speed) == 1:
        return float(types.gpu_speed[0])
    slowest = 0.0
    for m in range(state.placed.shape[2]):
        if state.placed[e, job, m, WORKER] > 0:
            speed = types.gpu_speed[state.gpu[e, m]]
            slowest = speed if slowest == 0.0 else min(slowest, speed)
    return float(slowest if slowest > 0.0 else 1.0)


@inlined_kernel
def speed_alone(types: Types, jobs: Jobs, state: State, e: int, job: int) -> float:
    """Return the epochs per minute without neighbours, in the job's place."""
    s = state.jobs_of[e]
    n = state.spread[e, job]
    speed = types.alone[jobs.model[s, job], jobs.workers[s, job], jobs.ps[s, job], n]
    return float(speed * gpu_factor(types, state, e, job))


@inlined_kernel
def _measured_as(types: Types, jobs: Jobs, state: State, e: int, job: int) -> int:
    s = state.jobs_of[e]
    n = state.spread[e, job]
    return int(types.measured_as[jobs.model[s, job], jobs.workers[s, job], jobs.ps[s, job], n])


@inlined_kernel
def shares_server(state: State, e: int, job: int, other: int) -> bool:
    """Return whether both have a task on some server."""
    shares = False
    for m in range(state.placed.shape[2]):
        tasks = state.placed[e, job, m, WORKER] + state.placed[e, job, m, PS]
        others = state.placed[e, other, m, WORKER] + state.placed[e, other, m, PS]
        if tasks > 0 and others > 0:
            shares = True
    return shares


@inlined_kernel
def _beside(rules: Rules, types: Types, jobs: Jobs, state: State, e: int, job: int) -> float:
    """Return the share of its speed alone that the job keeps, as measured beside its neighbours."""
    share = 1.0
    row = _measured_as(types, jobs, state, e, job)
    for i in range(state.running_count[e]):
        other = state.running[e, i]
        if other != job and shares_server(state, e, job, other):
            ratio = types.ratio[row, _measured_as(types, jobs, state, e, other)]
            share = min(share, ratio) if rules.speed == MEASURED_WORST else share * ratio
    return share


@inlined_kernel
def _wanted(types: Types, jobs: Jobs, state: State, e: int, m: int, resource: int) -> float:
    """Cores that tasks on server m keep busy, or Gbit/s that those of spread jobs send."""
    s = state.jobs_of[e]
    total = 0.0
    for i in range(state.running_count[e]):
        job = state.running[e, i]
        for kind in range(2):
            count = float(state.placed[e, job, m, kind])
            if resource == _CORES:
                total += count * types.cpu_use[jobs.model[s, job], kind]
            elif state.spread[e, job] > 1:
                total += count * types.traffic_gbps[jobs.model[s, job], kind]
    return total


@inlined_kernel
def _contended(rules: Rules, types: Types, jobs: Jobs, state: State, e: int, job: int) -> float:
    r"""Return the share of its speed that the job keeps on one server, by the analytic model.

    .. math:: 1 / \left( (1 - f) / c + f \cdot b \right), \qquad
        b = 1 \text{ on one server, else } 2 / \min_m \min(1, B / B_m)

    with the share f of a step that is sending, c the least share of the cores that its servers give
    it of those it wants, and B over B_m the same of the network. Sending through the network takes
    twice as long as inside a server.
    """
    s = state.jobs_of[e]
    cores, network = 1.0, 1.0
    for m in range(state.free.shape[1]):
        if state.placed[e, job, m, WORKER] + state.placed[e, job, m, PS] > 0:
            busy = _wanted(types, jobs, state, e, m, _CORES)
            cores = min(cores, rules.capacity[_CORES] / max(busy, 1e-9))
            sent = _wanted(types, jobs, state, e, m, _NETWORK)
            network = min(network, rules.capacity[_NETWORK] / max(sent, 1e-9))
    share = types.send_share[jobs.model[s, job]]
    sending = 1.0 if state.spread[e, job] == 1 else 2.0 / network
    return float(1.0 / ((1.0 - share) / cores + share * sending))


@inlined_kernel
def speed_of(rules: Rules, types: Types, jobs: Jobs, state: State, e: int, job: int) -> float:
    """Return the epochs per minute of a fully placed job, without noise."""
    if rules.speed == ANALYTIC:
        s = state.jobs_of[e]
        speed = types.alone[jobs.model[s, job], jobs.workers[s, job], jobs.ps[s, job], 1]
        speed *= gpu_factor(types, state, e, job)
        return float(speed * _contended(rules, types, jobs, state, e, job))
    return speed_alone(types, jobs, state, e, job) * _beside(rules, types, jobs, state, e, job)


@kernel
def find_speeds(rules: Rules, types: Types, jobs: Jobs, state: State, e: int) -> None:
    """Write the speed of every running job."""
    for i in range(state.running_count[e]):
        job = state.running[e, i]
        speed = speed_of(rules, types, jobs, state, e, job)
        if rules.noise > 0.0:
            speed *= _noise(rules, state, e, job)
        state.speed[e, i] = speed
