"""Choices of the heuristics."""

from __future__ import annotations

from typing import NamedTuple

from deeprm.compile import inlined_kernel, kernel
from deeprm.sim_kernels import soonest
from deeprm.tables import NONE, VOID, Int32, Jobs, Rules, State


class Rule(NamedTuple):
    """Parameters of a rule: the preferred jobs and those held back."""

    weight: float
    """of shortness against fit"""
    small: int
    """steps that a job lasts at most which is never held back"""
    theta: int
    """units of each resource of a machine that must stay free after any other job"""


@inlined_kernel
def _score(
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
                score = _score(rules, jobs, state, e, job, machine, rule.weight)
                is_first = action[i] == VOID
                if (
                    is_first
                    or score > best
                    or (score == best and job < state.slot[e, action[i] - 1])
                ):
                    best = score
                    action[i] = m + 1
