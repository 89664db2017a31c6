"""The cluster as numbers by job and resource, and the scores of a network that reads them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from deeprm.compile import inlined_kernel, kernel
from deeprm.sim_kernels import delay
from deeprm.tables import NONE, Float32, Int32, Jobs, Rules, State

THERE, DURATION, WAIT, DEMAND = range(4)
"""numbers of a slot; the demands for each resource stand from DEMAND on"""


class Weights(NamedTuple):
    """Weights of `deeprm.compact_policy.CompactPolicy`; H hidden units."""

    job: Float32
    """(d + 3, H) of the numbers of a slot"""
    around: Float32
    """(G, H) of the numbers of the cluster, for jobs"""
    around_void: Float32
    """(G, H) the same, for void"""
    bias: Float32
    """(H,)"""
    bias_void: Float32
    """(H,)"""
    score: Float32
    """(H,)"""
    score_void: Float32
    """(H,)"""


@kernel
def numbers(
    rules: Rules, jobs: Jobs, state: State, backlog: int, rows: Int32, found: Float32
) -> None:
    """Write (n, F) numbers of the episodes `rows`: each slot's, then the cluster's."""
    horizon, pools, resources = state.used.shape[1], state.used.shape[2], jobs.demand.shape[2]
    for i in range(len(rows)):
        e = rows[i]
        s = state.jobs_of[e]
        at = 0
        for m in range(state.slot.shape[1]):
            job = state.slot[e, m]
            for part in range(DEMAND + resources):
                found[i, at + part] = 0.0
            if job != NONE:
                wait = delay(rules, jobs, state, e, job)
                found[i, at + THERE] = 1.0
                found[i, at + DURATION] = jobs.duration[s, job] / horizon
                found[i, at + WAIT] = 1.0 if wait == NONE else wait / horizon
                for r in range(resources):
                    found[i, at + DEMAND + r] = jobs.demand[s, job, r] / rules.capacity[r]
            at += DEMAND + resources
        for row in range(horizon):
            for pool in range(pools):
                free = 1.0 - state.used[e, row, pool] / rules.capacity[pool % resources]
                found[i, at] = free
                at += 1
        found[i, at] = min(state.arrived[e] - state.entered[e], backlog) / backlog


@inlined_kernel
def _add(weight: Float32, seen: Float32, i: int, first: int, total: Float32) -> None:
    """Add to (H,) `total` the (G, H) weights times the G numbers of row i from `first` on."""
    for g in range(weight.shape[0]):
        value = seen[i, first + g]
        if value != 0.0:
            for h in range(weight.shape[1]):
                total[h] += weight[g, h] * value


@inlined_kernel
def _weighed(hidden: Float32, weight: Float32) -> float:
    """Sum of the (H,) hidden units above 0, times their weights."""
    total = 0.0
    for h in range(len(hidden)):
        if hidden[h] > 0.0:
            total += hidden[h] * weight[h]
    return total


@kernel
def compact_scores(
    net: Weights, slots: int, seen: Float32, scratch: Float32, found: Float32
) -> None:
    """Write (n, M + 1) scores of (n, F) numbers; minus infinity for a job that does not fit.

    Row by row and in one order, so that they do not depend on who plays beside. `scratch` is
    (2, H) and forgotten.
    """
    each = net.job.shape[0]
    shared, hidden = scratch[0], scratch[1]
    for i in range(len(seen)):
        for h in range(len(hidden)):
            shared[h] = net.bias[h]
            hidden[h] = net.bias_void[h]
        _add(net.around, seen, i, slots * each, shared)
        _add(net.around_void, seen, i, slots * each, hidden)
        found[i, 0] = _weighed(hidden, net.score_void)
        for m in range(slots):
            found[i, m + 1] = -np.inf
            if seen[i, m * each + THERE] > 0.0 and seen[i, m * each + WAIT] < 1.0:
                for h in range(len(hidden)):
                    hidden[h] = shared[h]
                _add(net.job, seen, i, m * each, hidden)
                found[i, m + 1] = _weighed(hidden, net.score)
