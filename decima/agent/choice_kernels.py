"""Compiled: how high each stage and limit stands in a plan, likeliest or drawn, from its logit."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from decima.kernels import inlined_kernel, kernel
from spark_sim.kernels.durations import task_hash
from traces.numbers import Float32, Float64, Int64


class Logits(NamedTuple):
    """Of B decisions with O stages, J jobs and M limits."""

    stage: Float32  # (O,)
    end: Float32  # (B,)
    limit: Float32  # (M,)
    open_ptr: Int64  # (B + 1,)
    job_ptr: Int64  # (B + 1,)
    limit_ptr: Int64  # (J + 1,)


class Drawn(NamedTuple):
    """Q plans, of the decisions `decision`: arrays to fill."""

    decision: Int64  # (Q,)
    key: NDArray[np.uint64]  # (Q,) random bits of the plan; 0 takes the likeliest
    ptr: Int64  # (Q + 1,) plan q has the entries ptr[q]:ptr[q + 1], its stages and then the end
    height: Float64  # (K,) of the entries: the highest comes first
    job_ptr: Int64  # (Q + 1,)
    limit: Int64  # (jobs,) of each job of the decision, among the decision's; -1: none


@inlined_kernel
def _gumbel(key: np.uint64, number: int) -> float:
    """Draw `number` of the Gumbel distribution; 0 without a key."""
    if key == np.uint64(0):
        return 0.0
    bits = task_hash(key, 0, 0, number)
    uniform = (float(bits >> np.uint64(11)) + 0.5) * 2.0**-53
    return -math.log(-math.log(uniform))


@kernel
def draw(logits: Logits, out: Drawn) -> None:
    """Fill `height` and `limit`.

    Sorting logits with Gumbel noise draws without replacement (Plackett-Luce); the largest of some
    is a draw from their softmax (Gumbel-max).
    """
    for plan in range(len(out.decision)):
        decision = out.decision[plan]
        first, last = logits.open_ptr[decision], logits.open_ptr[decision + 1]
        count = last - first
        base = out.ptr[plan]
        for entry in range(count + 1):
            logit = logits.end[decision] if entry == count else logits.stage[first + entry]
            out.height[base + entry] = logit + _gumbel(out.key[plan], entry)
        first_job = logits.job_ptr[decision]
        first_limit = logits.limit_ptr[first_job]
        for job in range(first_job, logits.job_ptr[decision + 1]):
            best = -1
            height = -math.inf
            for row in range(logits.limit_ptr[job], logits.limit_ptr[job + 1]):
                number = count + 1 + row - first_limit
                found = logits.limit[row] + _gumbel(out.key[plan], number)
                if found > height:
                    height = found
                    best = row - first_limit
            out.limit[out.job_ptr[plan] + job - first_job] = best
