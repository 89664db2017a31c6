"""Choices of networks and heuristics, and the gradient of the image's first layer.

Letters: n decisions, K rectangles of each, R rows of the table, H hidden units, A actions.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from deeprm.compile import inlined_kernel, kernel
from deeprm.observation_kernels import THERE, WAIT
from deeprm.sim_kernels import soonest
from deeprm.tables import NONE, VOID, Float32, Float64, Int16, Int32, Jobs, Rules, State


class Weights(NamedTuple):
    """Weights of `deeprm.network.CompactPolicy`; H hidden units."""

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
def sum_rows(table: Float32, chosen: Int16, total: Float32) -> None:
    """Add to (n, H) `total` the rows of the (R, H) table that (n, K) `chosen` names."""
    for i in range(chosen.shape[0]):
        for k in range(chosen.shape[1]):
            row = chosen[i, k]
            if row != NONE:
                for h in range(table.shape[1]):
                    total[i, h] += table[row, h]


@kernel
def spread_rows(gradient: Float32, chosen: Int16, table: Float32) -> None:
    """Add each row of the (n, H) gradient to the rows of the (R, H) table that it was summed of."""
    for i in range(chosen.shape[0]):
        for k in range(chosen.shape[1]):
            row = chosen[i, k]
            if row != NONE:
                for h in range(table.shape[1]):
                    table[row, h] += gradient[i, h]


@kernel
def image_scores(hidden: Float32, weight: Float32, bias: Float32, score: Float32) -> None:
    """Write (n, A) scores of the (n, H) hidden units; those below 0 count nothing.

    Row by row and in one order, so that they do not depend on the other rows.
    """
    for i in range(hidden.shape[0]):
        for a in range(weight.shape[0]):
            score[i, a] = bias[a]
        for h in range(hidden.shape[1]):
            if hidden[i, h] > 0.0:
                for a in range(weight.shape[0]):
                    score[i, a] += weight[a, h] * hidden[i, h]


@inlined_kernel
def _add(weight: Float32, inputs: Float32, i: int, first: int, total: Float32) -> None:
    """Add to (H,) `total` the (G, H) weights times the G numbers of row i from `first` on."""
    for g in range(weight.shape[0]):
        value = inputs[i, first + g]
        if value != 0.0:
            for h in range(weight.shape[1]):
                total[h] += weight[g, h] * value


@inlined_kernel
def _score(hidden: Float32, weight: Float32) -> float:
    """Sum of the (H,) hidden units above 0, times their weights."""
    total = 0.0
    for h in range(len(hidden)):
        if hidden[h] > 0.0:
            total += hidden[h] * weight[h]
    return total


@kernel
def compact_scores(
    net: Weights, slots: int, inputs: Float32, scratch: Float32, score: Float32
) -> None:
    """Write (n, M + 1) scores of (n, F) numbers; minus infinity for a job that does not fit.

    Row by row and in one order, so that they do not depend on the other rows. `scratch` is
    (2, H), overwritten.
    """
    each = net.job.shape[0]
    shared, hidden = scratch[0], scratch[1]
    for i in range(len(inputs)):
        for h in range(len(hidden)):
            shared[h] = net.bias[h]
            hidden[h] = net.bias_void[h]
        _add(net.around, inputs, i, slots * each, shared)
        _add(net.around_void, inputs, i, slots * each, hidden)
        score[i, 0] = _score(hidden, net.score_void)
        for m in range(slots):
            score[i, m + 1] = -np.inf
            if inputs[i, m * each + THERE] > 0.0 and inputs[i, m * each + WAIT] < 1.0:
                for h in range(len(hidden)):
                    hidden[h] = shared[h]
                _add(net.job, inputs, i, m * each, hidden)
                score[i, m + 1] = _score(hidden, net.score)


@kernel
def draw_action(score: Float32, chance: Float64, action: Int32) -> None:
    r"""Draw from the softmax of (n, A) scores by (n,) numbers in [0, 1).

    A chance below 0 takes the highest score instead, of equal ones the first. A score of
    :math:`-\infty` is never drawn.
    """
    for i in range(score.shape[0]):
        best = 0
        for a in range(score.shape[1]):
            if score[i, a] > score[i, best]:
                best = a
        total = 0.0
        for a in range(score.shape[1]):
            total += math.exp(score[i, a] - score[i, best])
        rest = chance[i] * total
        action[i] = best
        if chance[i] >= 0.0:
            for a in range(score.shape[1]):
                share = math.exp(score[i, a] - score[i, best])
                if rest < share:
                    action[i] = a
                    break
                rest -= share


class Rule(NamedTuple):
    """Parameters of a rule: the preferred jobs and those held back."""

    weight: float
    """of shortness against fit"""
    small: int
    """steps that a job lasts at most which is never held back"""
    theta: int
    """units of each resource of a machine that must stay free after any other job"""


@inlined_kernel
def _match(
    rules: Rules, jobs: Jobs, state: State, e: int, job: int, machine: int, weight: float
) -> float:
    """Tetris*: how short the job is, and how well its demands match what is free there now."""
    s = state.jobs_of[e]
    resources = jobs.demand.shape[2]
    match = 0.0
    for r in range(resources):
        free = rules.capacity[r] - state.used[e, 0, machine * resources + r]
        match += float(free * jobs.demand[s, job, r] * rules.share[r] * rules.share[r])
    match /= float(rules.whole * rules.whole)
    return weight / float(jobs.duration[s, job]) + (1.0 - weight) * match


@inlined_kernel
def _leaves(rules: Rules, jobs: Jobs, state: State, e: int, job: int, machine: int) -> int:
    """Units of the scarcest resource that are free there now once the job has started."""
    resources = jobs.demand.shape[2]
    least = rules.capacity[0]
    for r in range(resources):
        used = state.used[e, 0, machine * resources + r] + jobs.demand[state.jobs_of[e], job, r]
        least = min(least, rules.capacity[r] - used)
    return int(least)


@kernel
def best_now(
    rules: Rules, jobs: Jobs, state: State, rows: Int32, rule: Rule, action: Int32
) -> None:
    """Write the action that starts the best job of those that can start now; void if none can.

    (n,) episodes `rows`; of equal jobs the one that arrived first is taken. A job that lasts longer
    than `rule.small` steps is passed over unless it leaves `rule.theta` units of each resource.
    """
    for i in range(len(rows)):
        e = rows[i]
        action[i] = VOID
        best = 0.0
        for m in range(state.slot.shape[1]):
            job = state.slot[e, m]
            wait, machine = NONE, 0
            if job != NONE:
                wait, machine = soonest(rules, jobs, state, e, job)
            if wait == 0 and (
                jobs.duration[state.jobs_of[e], job] <= rule.small
                or _leaves(rules, jobs, state, e, job, machine) >= rule.theta
            ):
                score = _match(rules, jobs, state, e, job, machine, rule.weight)
                is_first = action[i] == VOID
                if (
                    is_first
                    or score > best
                    or (score == best and job < state.slot[e, action[i] - 1])
                ):
                    best = score
                    action[i] = m + 1
