"""Choices of the heuristics."""

from __future__ import annotations

from deeprm.compile import inlined_kernel, kernel
from deeprm.sim_kernels import delay
from deeprm.tables import NONE, VOID, Bool, Float64, Int32, Jobs, Rules, State


@inlined_kernel
def _score(rules: Rules, jobs: Jobs, state: State, e: int, job: int, weight: float) -> float:
    """Tetris*: how short the job is, and how well its demands match what is free now."""
    s = state.jobs_of[e]
    match = 0.0
    for r in range(state.used.shape[2]):
        free = rules.capacity - state.used[e, 0, r]
        match += float(free * jobs.demand[s, job, r])
    match /= float(rules.capacity * rules.capacity)
    return weight / float(jobs.duration[s, job]) + (1.0 - weight) * match


@kernel
def best_now(
    rules: Rules, jobs: Jobs, state: State, rows: Int32, weight: float, action: Int32
) -> None:
    """Write the action that starts the best job of those that can start now; void if none can.

    (n,) episodes `rows`; of equal jobs the one that arrived first is taken.
    """
    for i in range(len(rows)):
        e = rows[i]
        action[i] = VOID
        best = 0.0
        for m in range(state.slot.shape[1]):
            job = state.slot[e, m]
            if job != NONE and delay(rules, jobs, state, e, job) == 0:
                score = _score(rules, jobs, state, e, job, weight)
                is_first = action[i] == VOID
                if (
                    is_first
                    or score > best
                    or (score == best and job < state.slot[e, action[i] - 1])
                ):
                    best = score
                    action[i] = m + 1


@kernel
def random_allowed(allowed: Bool, chance: Float64, action: Int32) -> None:
    """Write one of the allowed actions, (n, A), all alike, picked by (n,) numbers in [0, 1)."""
    for i in range(len(chance)):
        count = 0
        for a in range(allowed.shape[1]):
            if allowed[i, a]:
                count += 1
        left = int(chance[i] * count)
        for a in range(allowed.shape[1]):
            if allowed[i, a]:
                if left == 0:
                    action[i] = a
                left -= 1
