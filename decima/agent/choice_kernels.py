"""Compiled: the choices of a plan from their logits, likeliest or drawn."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from decima.agent.kernels import inlined_kernel, kernel
from decima.agent.sort_kernels import sort_entries
from spark_sim.kernels.choices import Preferences
from spark_sim.kernels.durations import task_hash
from spark_sim.tables import ANY, NONE
from traces.numbers import Float32, Float64, Int64


class Logits(NamedTuple):
    """Logits of B decisions with O stages, J jobs, M limits and K classes for stages."""

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
    key: NDArray[np.uint64]  # (Q,) random bits of the plan; 0: likeliest order, median limits
    ptr: Int64  # (Q + 1,) plan q has the entries ptr[q]:ptr[q + 1], its stages and then the end
    height: Float64  # (K,) of the entries: the highest comes first
    job_ptr: Int64  # (Q + 1,)
    limit: Int64  # (jobs,) of each job of the decision, among the decision's; -1: none
    kind: Int64  # (K,) of each entry before the end, among the decision's classes; -1: any
    order: Int64  # (K,) the entries of each plan, highest first; those after the end are not sorted
    scratch: Int64  # (K,)


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
    """Fill `height`, `order`, `limit` and `kind`.

    Sorting logits with Gumbel noise draws without replacement (Plackett-Luce). The largest of them
    is a draw from their softmax (Gumbel-max). Without a key the result is the likeliest order and
    classes, and the median limits.
    """
    for plan in range(len(out.decision)):
        decision = out.decision[plan]
        first, last = logits.open_ptr[decision], logits.open_ptr[decision + 1]
        count = last - first
        base = out.ptr[plan]
        for entry in range(count + 1):
            logit = logits.end[decision] if entry == count else logits.stage[first + entry]
            out.height[base + entry] = logit + _gumbel(out.key[plan], entry)
        end = base + count + 1
        _order(out.height[base:end], out.order[base:end], out.scratch[base:end])
        first_job = logits.job_ptr[decision]
        first_limit = logits.limit_ptr[first_job]
        last_job = logits.job_ptr[decision + 1]
        for job in range(first_job, last_job):
            if out.key[plan] == np.uint64(0):
                best = _median(logits.limit, logits.limit_ptr, job)
            else:
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
def _order(height: Float64, order: Int64, scratch: Int64) -> None:
    """Sort the entries of a plan, ties in their order, up to the end. Entries after the end are
    never used, and are most of them where many jobs wait.
    """
    end = len(order) - 1
    ahead = 0
    for entry in range(end):
        if height[entry] >= height[end]:
            order[ahead] = entry
            ahead += 1
    order[ahead] = end
    place = ahead + 1
    for entry in range(end):
        if height[entry] < height[end]:
            order[place] = entry
            place += 1
    sort_entries(height, order[:ahead], scratch[:ahead])


@inlined_kernel
def _highest(logit: Float32, ptr: Int64, segment: int, key: np.uint64, number: int) -> int:
    """Return the row of a segment with the highest logit and noise, -1 if there is none.

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


@inlined_kernel
def _median(logit: Float32, ptr: Int64, segment: int) -> int:
    """Return the row of a segment at the median of its softmax, -1 if there is none.

    Limits are ordered. The largest one is a choice of its own, "all that the job can use", and the
    likeliest of many while most of the probability lies on lower ones: the largest jobs then take
    every executor (JCT of `heavy-dag` on 50 executors -27 % against strict fair, by the median -47
    %).
    """
    first, last = ptr[segment], ptr[segment + 1]
    if first == last:
        return -1
    highest = logit[first]
    for row in range(first + 1, last):
        highest = max(highest, logit[row])
    total = 0.0
    for row in range(first, last):
        total += math.exp(logit[row] - highest)
    below = 0.0
    for row in range(first, last - 1):
        below += math.exp(logit[row] - highest)
        if 2.0 * below >= total:
            return int(row)
    return int(last - 1)


class Chosen(NamedTuple):
    """Q plans, and what their numbers stand for (`plans.Plans`, `graph.Legal`)."""

    decision: Int64  # (Q,)
    ptr: Int64  # (Q + 1,)
    order: Int64  # (K,)
    job_ptr: Int64  # (Q + 1,)
    limit: Int64  # (jobs,)
    kind: Int64  # (K,)
    open_stage: Int64  # (O,)
    open_ptr: Int64  # (B + 1,)
    open_job: Int64  # (O,)
    limits: Int64  # (M,)
    limit_ptr: Int64  # (J + 1,)
    first_job: Int64  # (B + 1,)
    kinds: Int64  # (classes,)
    kind_ptr: Int64  # (O + 1,)


@kernel
def prefer(chosen: Chosen, out: Preferences) -> None:
    """Fill the stages, limits and classes of `out`, whose `ptr` is that of the plans."""
    for plan in range(len(chosen.decision)):
        decision = chosen.decision[plan]
        first, last = chosen.open_ptr[decision], chosen.open_ptr[decision + 1]
        first_job = chosen.first_job[decision]
        first_limit = chosen.limit_ptr[first_job]
        for entry in range(chosen.ptr[plan], chosen.ptr[plan + 1]):
            row = first + chosen.order[entry]
            out.stage[entry], out.limit[entry], out.kind[entry] = NONE, 0, ANY
            if row == last:
                continue
            out.stage[entry] = chosen.open_stage[row]
            job = chosen.open_job[row] - first_job
            out.limit[entry] = chosen.limits[first_limit + chosen.limit[chosen.job_ptr[plan] + job]]
            if len(chosen.kinds) > 0:
                own = chosen.kind[chosen.ptr[plan] + chosen.order[entry]]
                out.kind[entry] = chosen.kinds[chosen.kind_ptr[first] + own]
