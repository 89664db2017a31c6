"""Plans: all choices of one scheduling event, drawn from one pass of the network.

A plan orders the stages that may be chosen, gives every job a limit and, where executors are of
several classes, every stage a class. `decima.agent.plan_probabilities` computes how likely one is.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from decima.agent.columns import Choices
from decima.agent.feature_kernels import describe_limits
from decima.agent.forward_kernels import Memory, Networks, Scores, Scratch, score_limits
from decima.agent.kernels import inlined_kernel, kernel
from decima.agent.sort_kernels import sort_entries
from spark_sim.kernels.dispatch import Preferences
from spark_sim.kernels.durations import task_hash
from spark_sim.observation import ObservationBatch
from spark_sim.tables import ANY, NONE
from traces.numbers import Float32, Float64, Int64

_COUNT = np.uint64(0xD1342543DE82EF95)  # odd: the keys of a run's plans are multiples of it apart


class Plans(NamedTuple):
    """Q plans for decisions of a batch; entries and limits count from those of the decision."""

    decision: Int64  # (Q,)
    ptr: Int64  # (Q + 1,) plan q has the entries ptr[q]:ptr[q + 1], its stages and then the end
    order: Int64  # (K,) number of the stage among the decision's open ones; their count: the end,
    # after which entries are unused and unsorted
    used: Int64  # (Q,) entries that were used
    job_ptr: Int64  # (Q + 1,)
    limit: Int64  # (jobs,) limit of each job of the decision, among the decision's; -1: none, or
    # one that the plan cannot reach
    kind: Int64  # (K,) class for each stage by its number, among the decision's; -1: any


class Room(NamedTuple):
    """Room for drawing plans with K entries, of decisions with J jobs."""

    height: Float64  # (K,)
    order: Int64  # (K,)
    is_needed: NDArray[np.bool_]  # (J,) jobs whose limit matters

    @classmethod
    def of(cls, plans: Plans, choices: Choices) -> Room:
        """Return room for some plans; no limit matters yet."""
        entries = len(plans.order)
        jobs = len(choices.limit_ptr) - 1
        return cls(np.empty(entries), np.empty(entries, np.int64), np.zeros(jobs, np.bool_))


def draw(
    scores: Scores[Float32], choices: Choices, decision: Int64, key: NDArray[np.uint64] | None
) -> Plans:
    """Draw a plan for each of the (Q,) decisions, by (Q,) keys that are not 0.

    Without keys the likeliest: the likeliest order and classes, and of each job's limits, which are
    ordered, the median.
    """
    plans, keys = plans_for(choices, decision), keys_for(decision, key)
    room = Room.of(plans, choices)
    draw_order(scores, choices, keys, room, plans)
    room.is_needed[:] = True
    draw_limits(scores, choices, keys, room.is_needed, plans)
    return plans


def plans_for(choices: Choices, decision: Int64) -> Plans:
    """Return plans for the (Q,) decisions, to be filled."""
    counts = choices.open_ptr[decision + 1] - choices.open_ptr[decision] + 1
    ptr = pointers(counts)
    job_ptr = pointers(choices.job_ptr[decision + 1] - choices.job_ptr[decision])
    order, kind = np.empty((2, ptr[-1]), np.int64)
    return Plans(decision, ptr, order, counts, job_ptr, np.full(job_ptr[-1], -1), kind)


def keys_for(decision: Int64, key: NDArray[np.uint64] | None) -> NDArray[np.uint64]:
    """Return the keys as kernels take them: 0 is none."""
    return np.zeros(len(decision), np.uint64) if key is None else key


@inlined_kernel
def _gumbel(key: np.uint64, number: int) -> float:
    """Draw `number` of the Gumbel distribution; 0 without a key."""
    if key == np.uint64(0):
        return 0.0
    bits = task_hash(key, 0, 0, number)
    uniform = (float(bits >> np.uint64(11)) + 0.5) * 2.0**-53
    return -math.log(-math.log(uniform))


@kernel
def plan(
    networks: Networks,
    has_limit_head: bool,
    observation: ObservationBatch,
    choices: Choices,
    memory: Memory,
    at: Scratch,
    clusters: Float32,
    key: NDArray[np.uint64],
    scores: Scores[Float32],
    room: Room,
    out: Plans,
) -> None:
    """Draw plans as `draw` does, but describe, score and draw only limits that matter.

    One call for all, since to pass the arrays takes as long as many of the steps.
    """
    is_needed = room.is_needed
    draw_order(scores, choices, key, room, out)
    reach(out, choices, observation, is_needed)
    describe_limits(observation, choices, is_needed)
    score_limits(networks, has_limit_head, choices, memory, at, clusters, is_needed, scores)
    draw_limits(scores, choices, key, is_needed, out)


@kernel
def draw_order(
    scores: Scores[Float32], choices: Choices, key: NDArray[np.uint64], room: Room, out: Plans
) -> None:
    """Fill the `order` and `kind` of plans.

    Sorting logits with Gumbel noise draws without replacement (Plackett-Luce). The largest of them
    is a draw from their softmax (Gumbel-max). Without a key the result is the likeliest order and
    classes.
    """
    for plan in range(len(out.decision)):
        decision = out.decision[plan]
        first, last = choices.open_ptr[decision], choices.open_ptr[decision + 1]
        count = last - first
        base = out.ptr[plan]
        for entry in range(count + 1):
            logit = scores.end[decision] if entry == count else scores.stage[first + entry]
            room.height[base + entry] = logit + _gumbel(key[plan], entry)
        end = base + count + 1
        _order(room.height[base:end], out.order[base:end], room.order[base:end])
        first_kind = choices.kind_ptr[first]
        first_job, last_job = choices.job_ptr[decision], choices.job_ptr[decision + 1]
        number = count + 1 + choices.limit_ptr[last_job] - choices.limit_ptr[first_job]
        for entry in range(count):
            best = _highest(
                scores.kind, choices.kind_ptr, first + entry, key[plan], number - first_kind
            )
            out.kind[base + entry] = best - first_kind if best >= 0 else -1
        out.kind[base + count] = -1


@kernel
def reach(
    plans: Plans, choices: Choices, observation: ObservationBatch, is_needed: NDArray[np.bool_]
) -> None:
    """Set those of the jobs (J,) whose limit a round that follows a plan can look at.

    A round ends at the end of the plan, or when no executor is left. The first choice of a job
    takes at least one, so limits behind as many jobs as there are executors on offer do not matter.
    """
    has_classes = observation.classes.shape[1] > 1
    for plan in range(len(plans.decision)):
        decision = plans.decision[plan]
        first, last = choices.open_ptr[decision], choices.open_ptr[decision + 1]
        left = observation.on_offer[decision]
        for entry in range(plans.ptr[plan], plans.ptr[plan + 1]):
            row = first + plans.order[entry]
            if row == last or left == 0:
                break
            index = choices.open_job[row]
            if is_needed[index]:
                continue
            is_needed[index] = True
            stage = observation.stages[choices.open_stage[row]]
            job = observation.jobs[observation.rows[index]]
            # Other choices may close a stage that needs a class, several slots or room under a
            # cap: such a job may take nothing.
            if not has_classes and stage["slots"] == 1 and stage["barrier"] == 0:
                left -= job["cap"] == NONE


@kernel
def draw_limits(
    scores: Scores[Float32],
    choices: Choices,
    key: NDArray[np.uint64],
    is_needed: NDArray[np.bool_],
    out: Plans,
) -> None:
    """Fill the `limit` of plans for the jobs that are needed; without a key the medians."""
    for plan in range(len(out.decision)):
        decision = out.decision[plan]
        count = choices.open_ptr[decision + 1] - choices.open_ptr[decision]
        first_job = choices.job_ptr[decision]
        first_limit = choices.limit_ptr[first_job]
        for job in range(first_job, choices.job_ptr[decision + 1]):
            if not is_needed[job]:
                continue
            if key[plan] == np.uint64(0):
                best = _median(scores.limit, choices.limit_ptr, job)
            else:
                best = _highest(
                    scores.limit, choices.limit_ptr, job, key[plan], count + 1 - first_limit
                )
            out.limit[out.job_ptr[plan] + job - first_job] = best - first_limit if best >= 0 else -1


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
        noisy = logit[row] + _gumbel(key, number + row)
        if noisy > height:
            height = noisy
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


def key_of(run: NDArray[np.uint64], count: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The random bits of the plan that comes after `count` others, from those of its run."""
    return run + count * _COUNT


def preferences(plans: Plans, choices: Choices) -> Preferences:
    """Return the plans as the simulator takes them; stages are rows of the observation."""
    stage, limit, kind = np.empty((3, len(plans.order)), np.int64)
    wanted = Preferences(plans.ptr, stage, limit, kind)
    _prefer(plans, choices, wanted)
    return wanted


@kernel
def _prefer(plans: Plans, choices: Choices, out: Preferences) -> None:
    """Fill the stages, limits and classes of `out`, whose `ptr` is that of the plans."""
    for plan in range(len(plans.decision)):
        decision = plans.decision[plan]
        first, last = choices.open_ptr[decision], choices.open_ptr[decision + 1]
        first_job = choices.job_ptr[decision]
        first_limit = choices.limit_ptr[first_job]
        for entry in range(plans.ptr[plan], plans.ptr[plan + 1]):
            row = first + plans.order[entry]
            out.stage[entry], out.limit[entry], out.kind[entry] = NONE, 0, ANY
            if row == last:
                continue
            out.stage[entry] = choices.open_stage[row]
            job = choices.open_job[row] - first_job
            limit = plans.limit[plans.job_ptr[plan] + job]
            if limit >= 0:
                out.limit[entry] = choices.limit[first_limit + limit]
            if len(choices.kind) > 0:
                number = plans.kind[plans.ptr[plan] + plans.order[entry]]
                out.kind[entry] = choices.kind[choices.kind_ptr[first] + number]


def picked(plans: Plans, rows: Int64) -> Plans:
    """Return the plans of `rows`."""
    return Plans(
        plans.decision[rows],
        pointers(np.diff(plans.ptr)[rows]),
        plans.order[rows_of(plans.ptr, rows)],
        plans.used[rows],
        pointers(np.diff(plans.job_ptr)[rows]),
        plans.limit[rows_of(plans.job_ptr, rows)],
        plans.kind[rows_of(plans.ptr, rows)],
    )


def copied_plans(plans: Plans) -> Plans:
    """Return a copy of the plans whose choices may be overwritten."""
    return plans._replace(
        order=plans.order.copy(),
        used=plans.used.copy(),
        limit=plans.limit.copy(),
        kind=plans.kind.copy(),
    )


def chosen(plans: Plans, others: Plans, is_other: Int64) -> Plans:
    """Return `plans` with those of `others` where `is_other` (Q,) is 1; both for like decisions."""
    entry = np.repeat(is_other, np.diff(plans.ptr)) == 1
    job = np.repeat(is_other, np.diff(plans.job_ptr)) == 1
    return plans._replace(
        order=np.where(entry, others.order, plans.order),
        used=np.where(is_other == 1, others.used, plans.used),
        limit=np.where(job, others.limit, plans.limit),
        kind=np.where(entry, others.kind, plans.kind),
    )


class Asked(NamedTuple):
    """The entries of plans that were looked at, the end excepted."""

    plan: Int64
    stage: Int64  # number among those of the decision


def asked_of(plans: Plans) -> Asked:
    """Return what a round looked at of each plan, plan by plan."""
    counts = np.diff(plans.ptr)
    plan = np.repeat(np.arange(len(counts)), counts)
    place = np.arange(len(plan)) - plans.ptr[plan]
    asked = (place < plans.used[plan]) & (plans.order < counts[plan] - 1)
    return Asked(plan[asked], plans.order[asked])


def rows_of(ptr: Int64, index: Int64) -> Int64:
    """All rows ptr[i]:ptr[i + 1] of the segments i in `index`, in their order."""
    counts = ptr[index + 1] - ptr[index]
    starts = np.repeat(ptr[index] - (np.cumsum(counts) - counts), counts)
    rows: Int64 = starts + np.arange(len(starts))
    return rows


def pointers(counts: NDArray[np.int64]) -> Int64:
    """(n + 1,) where segments of so many rows begin and end."""
    ptr = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=ptr[1:])
    return ptr
