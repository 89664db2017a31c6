"""Plans: all choices of one scheduling event, drawn from one pass of the network.

A plan orders the stages that may be chosen, gives every job a limit and, where executors are of
several classes, every stage a class. `decima.agent.plan_probabilities` computes how likely one is.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from decima.agent import choice_kernels
from decima.agent.choice_kernels import Draws
from decima.agent.choice_kernels import Plans as Plans
from decima.agent.forward_kernels import Found
from decima.agent.tables import Legal
from spark_sim.kernels.choices import Preferences
from traces.numbers import Int64

_COUNT = np.uint64(0xD1342543DE82EF95)  # odd: the keys of a run's plans are multiples of it apart


def draw(scores: Found, legal: Legal, decision: Int64, key: NDArray[np.uint64] | None) -> Plans:
    """Draw a plan for each of the (Q,) decisions, by (Q,) keys that are not 0.

    Without keys the likeliest: the likeliest order and classes, and of each job's limits, which are
    ordered, the median.
    """
    counts = legal.open_ptr[decision + 1] - legal.open_ptr[decision] + 1
    jobs = legal.job_ptr[decision + 1] - legal.job_ptr[decision]
    ptr, job_ptr = pointers(counts), pointers(jobs)
    draws = Draws(
        np.zeros(len(decision), np.uint64) if key is None else key,
        np.empty(ptr[-1]),
        np.empty(ptr[-1], np.int64),
    )
    order, kind = (np.empty(ptr[-1], np.int64) for _ in range(2))
    found = Plans(decision, ptr, order, counts, job_ptr, np.empty(job_ptr[-1], np.int64), kind)
    choice_kernels.draw(scores, legal, draws, found)
    return found


def key_of(run: NDArray[np.uint64], count: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The random bits of the plan that comes after `count` others, from those of its run."""
    return run + count * _COUNT


def preferences(plans: Plans, legal: Legal) -> Preferences:
    """Return the plans as the simulator takes them; stages are rows of the scene."""
    found = Preferences(plans.ptr, *(np.empty(len(plans.order), np.int64) for _ in range(3)))
    choice_kernels.prefer(plans, legal, found)
    return found


def picked(every: Plans, rows: Int64) -> Plans:
    """Return the plans of `rows`."""
    return Plans(
        every.decision[rows],
        pointers(np.diff(every.ptr)[rows]),
        every.order[rows_of(every.ptr, rows)],
        every.used[rows],
        pointers(np.diff(every.job_ptr)[rows]),
        every.limit[rows_of(every.job_ptr, rows)],
        every.kind[rows_of(every.ptr, rows)],
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
