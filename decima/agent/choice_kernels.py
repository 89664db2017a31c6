"""Compiled: how high the choices of a plan stand, likeliest or drawn, from their logits."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from decima.kernels import inlined_kernel, kernel
from spark_sim.kernels.durations import task_hash
from traces.numbers import Float32, Float64, Int64


class Logits(NamedTuple):
    """Of B decisions with O stages, J jobs, M limits and K classes for stages."""

    stage: Float32  # (O,)
    end: Float32  # (B,)
    limit: Float32  # (M,)
    open_ptr: Int64  # (B + 1,)
    job_ptr: Int64  # (B + 1,)
    limit_ptr: Int64  # (J + 1,)
    kind: Float32  # (K,)
    kind_ptr: Int64  # (O + 1,)


class Drawn(NamedTuple):
    """Q plans, of the decisions `decision`: arrays to fill."""

    decision: Int64  # (Q,)
    key: NDArray[np.uint64]  # (Q,) random bits of the plan; 0 takes the likeliest
    ptr: Int64  # (Q + 1,) plan q has the entries ptr[q]:ptr[q + 1], its stages and then the end
    height: Float64  # (K,) of the entries: the highest comes first
    job_ptr: Int64  # (Q + 1,)
    limit: Int64  # (jobs,) of each job of the decision, among the decision's; -1: none
    kind: Int64  # (K,) of each entry before the end, among the decision's classes; -1: any


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
    """Fill `height`, `limit` and `kind`.

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
        last_job = logits.job_ptr[decision + 1]
        for job in range(first_job, last_job):
            best = _highest(
                logits.limit, logits.limit_ptr, job, out.key[plan], count + 1 - first_limit
            )
            out.limit[out.job_ptr[plan] + job - first_job] = best - first_limit if best >= 0 else -1
        first_kind = logits.kind_ptr[first]
        number = count + 1 + logits.limit_ptr[last_job] - first_limit
        for entry in range(count):
            best = _highest(
                logits.kind, logits.kind_ptr, first + entry, out.key[plan], number - first_kind
            )
            out.kind[base + entry] = best - first_kind if best >= 0 else -1
        out.kind[base + count] = -1


@inlined_kernel
def _highest(logit: Float32, ptr: Int64, segment: int, key: np.uint64, number: int) -> int:
    """The row of a segment with the highest logit and noise, -1 if there is none.

    Row r takes the draw `number` + r.
    """
    best = -1
    height = -math.inf
    for row in range(ptr[segment], ptr[segment + 1]):
        found = logit[row] + _gumbel(key, number + row)
        if found > height:
            height = found
            best = row
    return best
