"""The order of a job's stages that `graphene` follows, worked out before the run.

Graphene's offline part (Grandl et al., OSDI 2016, section 4.1) guesses which stages are
*troublesome*: those that are long, or that few executors can hold. For each guess T, closed so that
it holds all stages between two of its own, the others are the ancestors P of T, its descendants C
and the rest O; T is placed first, the others around it, and the guess whose schedule is the most
compact is chosen. Here a schedule is a list schedule of the job alone on the whole cluster, in one
of the orders P T O C, P T C O and P O T C, stages with the longer critical path first in each set;
the paper places tasks backwards in time as well, which a list schedule does not.
"""

from __future__ import annotations

import hashlib
import itertools
from collections import OrderedDict
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from decima.kernels import kernel
from spark_sim.needs import fitting
from spark_sim.tables import Table
from traces.arrays import TraceArrays
from traces.numbers import Float64, Int64

GUESSES = 4  # thresholds of length that are tried, beside one for each number of executors that fit
MOST_WAVES = 8  # waves that a stage is simulated in at most; larger ones get fewer and longer tasks

Bool = NDArray[np.bool_]


class JobGraph(NamedTuple):
    """A job of S stages on a cluster of C classes."""

    num_tasks: Int64  # (S,)
    task_ms: Float64  # (S,)
    path_ms: Float64  # (S,) critical path
    fits: NDArray[np.bool_]  # (S, C)
    parents: NDArray[np.bool_]  # (S, S) [v, u]: u is a parent of v
    executors: Int64  # (C,) of each class


class Scratch(NamedTuple):
    """Buffers of `makespan_ms`, for S stages and N executors."""

    left: Int64  # (S,) tasks not started
    running: Int64  # (S,)
    free: Int64  # (C,)
    end_ms: Float64  # (N,) of groups of tasks that end together
    stage: Int64  # (N,)
    kind: Int64  # (N,)
    size: Int64  # (N,)


_known: OrderedDict[bytes, Float64] = OrderedDict()
_MOST_KNOWN = 8


def planned_places(trace: TraceArrays, classes: Table) -> Float64:
    """(stages of the trace,) where each comes in its job's order, from 0.

    Planning some thousands of jobs takes seconds, so the newest few plans are cached.
    """
    digest = hashlib.sha256()
    columns = (classes[name] for name in ("memory_mb", "cpu", "count"))
    for part in (trace.first_stage, trace.num_tasks, trace.mean_ms, trace.children, *columns,
                 trace.memory_mb, trace.cpu):  # fmt: skip
        digest.update(np.ascontiguousarray(part).tobytes())
    key = digest.digest()
    if key not in _known:
        places = np.zeros(len(trace.num_tasks))
        for first, last in itertools.pairwise(trace.first_stage.tolist()):
            order = best_order(_graph_of(trace, classes, first, last))
            places[first + order] = np.arange(len(order))
        _known[key] = places
        if len(_known) > _MOST_KNOWN:
            _known.popitem(last=False)
    return _known[key]


def best_order(job: JobGraph) -> Int64:
    """(S,) the stages of a job, those that its most compact schedule prefers first."""
    by_path = np.argsort(-job.path_ms, kind="stable")
    if len(by_path) < 3:  # nothing to choose between
        return by_path
    room = int(job.executors.sum())
    stages, classes = job.fits.shape
    scratch = Scratch(
        left=np.empty(stages, np.int64),
        running=np.empty(stages, np.int64),
        free=np.empty(classes, np.int64),
        end_ms=np.empty(room),
        stage=np.empty(room, np.int64),
        kind=np.empty(room, np.int64),
        size=np.empty(room, np.int64),
    )
    best, least_ms = by_path, makespan_ms(job, by_path, scratch)
    for sets in _guesses(job):
        order = np.concatenate([by_path[members[by_path]] for members in sets])
        order_ms = makespan_ms(job, order, scratch)
        if order_ms < least_ms:
            best, least_ms = order, order_ms
    return best


def _guesses(job: JobGraph) -> Iterator[tuple[Bool, ...]]:
    """Yield orders of four sets of stages, one for each guess at the troublesome stages."""
    above, longer = job.parents, None  # [v, u]: there is a way from u down to v
    while longer is None or (longer != above).any():
        above = above if longer is None else longer
        longer = above | ((above.astype(np.int64) @ job.parents.astype(np.int64)) > 0)
    hosts = job.fits @ job.executors
    guessed: set[bytes] = set()
    lengths = np.unique(np.quantile(job.task_ms, np.linspace(0.25, 1.0, GUESSES), method="higher"))
    for long_ms, few in itertools.product((np.inf, *lengths), (0, *np.unique(hosts))):
        first = (job.task_ms >= long_ms) | (hosts <= few)
        trouble = first | (above[first].any(axis=0) & above[:, first].any(axis=1))
        if not trouble.any() or trouble.all() or trouble.tobytes() in guessed:
            continue
        guessed.add(trouble.tobytes())
        before = above[trouble].any(axis=0) & ~trouble
        after = above[:, trouble].any(axis=1) & ~trouble
        others = ~(trouble | before | after)
        yield before, trouble, others, after
        yield before, trouble, after, others
        yield before, others, trouble, after


@kernel
def makespan_ms(job: JobGraph, order: Int64, at: Scratch) -> float:
    """Makespan of the job alone; free executors take the first stage in order that fits."""
    for stage in range(len(at.left)):
        at.left[stage] = job.num_tasks[stage]
        at.running[stage] = 0
    for kind in range(len(at.free)):
        at.free[kind] = job.executors[kind]
    groups = 0
    now_ms = 0.0
    while True:
        for stage in order:
            if at.left[stage] > 0 and _is_ready(job, at, stage):
                groups = _start(job, at, stage, now_ms, groups)
        if groups == 0:
            return now_ms
        now_ms = at.end_ms[0]
        for group in range(1, groups):
            now_ms = min(now_ms, at.end_ms[group])
        group = 0
        while group < groups:
            if at.end_ms[group] > now_ms:
                group += 1
                continue
            at.running[at.stage[group]] -= at.size[group]
            at.free[at.kind[group]] += at.size[group]
            groups -= 1
            at.end_ms[group] = at.end_ms[groups]
            at.stage[group] = at.stage[groups]
            at.kind[group] = at.kind[groups]
            at.size[group] = at.size[groups]


@kernel
def _is_ready(job: JobGraph, at: Scratch, stage: int) -> bool:
    for parent in range(len(at.left)):
        if job.parents[stage, parent] and (at.left[parent] > 0 or at.running[parent] > 0):
            return False
    return True


@kernel
def _start(job: JobGraph, at: Scratch, stage: int, now_ms: float, groups: int) -> int:
    """Start tasks on the free executors that can hold them, small ones first; groups then."""
    for kind in range(len(at.free)):
        size = min(at.left[stage], at.free[kind])
        if size > 0 and job.fits[stage, kind]:
            at.left[stage] -= size
            at.running[stage] += size
            at.free[kind] -= size
            at.end_ms[groups] = now_ms + job.task_ms[stage]
            at.stage[groups] = stage
            at.kind[groups] = kind
            at.size[groups] = size
            groups += 1
    return groups


def _graph_of(trace: TraceArrays, classes: Table, first: int, last: int) -> JobGraph:
    rows = slice(first, last)
    tasks = trace.num_tasks[rows].astype(np.int64)
    fits = fitting(classes["memory_mb"], classes["cpu"], trace.memory_mb[rows], trace.cpu[rows])
    count = classes["count"].astype(np.int64)
    simulated = np.minimum(tasks, MOST_WAVES * (fits @ count))
    parents = np.zeros((last - first, last - first), np.bool_)
    for parent in range(first, last):
        children = trace.children[trace.first_child[parent] : trace.first_child[parent + 1]]
        parents[children, parent - first] = True
    return JobGraph(
        simulated,
        trace.mean_ms[rows] * tasks / simulated,
        trace.critical_path_ms[rows],
        fits,
        parents,
        count,
    )
