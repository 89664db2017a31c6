"""Where the time of a recorded job went: a partition of its JCT.

At each instant between a job's submission and its end exactly one part counts, so the parts add up
to the JCT. It is the first of these that holds:

1. A task runs that has not yet taken longer than its stage's median. The part is *own stages* where
   slots are free, every task that may start has started, and further stages wait for those that
   run; else *running*.
2. A task runs that has not yet taken longer than its successful attempt: *stragglers*.
3. A task runs for longer than its successful attempt took: *failed work*. A task needs as long as
   its first attempt that succeeded; all that its attempts take beyond that is for retries, lost
   executors, stages done again, or copies that lost (speculation).
4. Tasks may start, and find no slot: *executors* where the executors that are there have too few
   even without any task, *failed work* where attempts that the job no longer needs run on, else
   *other jobs*.
5. Nothing runs, and what may start has a free slot: *driver*. It plans, sends out tasks, or merges
   results.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from traces.numbers import Bool, Float64, Int64


class Breakdown(NamedTuple):
    """How long each part of a job's JCT lasted; the parts add up to it."""

    own_stages_ms: float
    running_ms: float
    stragglers_ms: float
    failed_ms: float
    executors_ms: float
    other_jobs_ms: float
    driver_ms: float


class Part(NamedTuple):
    """Words for a part of the JCT."""

    label: str
    meaning: str


PARTS = {
    "own_stages": Part(
        "own stages", "as running, but slots are free: later stages wait for those that run"
    ),
    "running": Part("running", "a task runs, not yet longer than its stage's median"),
    "stragglers": Part("stragglers", "a task runs, longer than its stage's median"),
    "failed": Part(
        "failed work",
        "a task runs for longer than its successful attempt: retries, lost executors, stages done "
        "again, overtaken copies",
    ),
    "executors": Part("executors", "tasks wait, and too few executors are there"),
    "other_jobs": Part("other jobs", "tasks wait, and other jobs hold the slots"),
    "driver": Part("driver", "nothing runs, nor waits for a slot: planning, sending, merging"),
}
"""by the name of the field of `Breakdown`, without its unit; at each instant the first that holds
counts"""


class Room(NamedTuple):
    """Cumulative time without a free slot, and without any slot, for tasks of one kind."""

    full: tuple[Float64, Float64]
    """(M,) times, and (M,) milliseconds until then without a slot that was free"""
    none: tuple[Float64, Float64]
    """the same for slots that were there, free or not"""


class Attempts(NamedTuple):
    """A attempts at the tasks of one stage, in the order of their ends."""

    partition: Int64  # (A,)
    launch_ms: Int64  # (A,)
    finish_ms: Int64  # (A,)
    won: Bool  # (A,) whether it succeeded


class StageRecord(NamedTuple):
    """One stage of a job as it ran."""

    attempts: Attempts
    since_ms: float
    """from when on its tasks may start"""
    last_ms: float
    """when it was complete"""
    room: Room
    """of its tasks"""


class _Spans(NamedTuple):
    """Begin and end of times of A attempts at the tasks of a stage, (A, 2) each."""

    usual: Float64  # up to the stage's median
    straggling: Float64  # then up to the task's success
    failed: Float64  # beyond
    needless: Float64  # after the stage was complete
    waiting: Float64  # before the attempt, from when on it may start


def breakdown(begin_ms: float, end_ms: float, stages: Sequence[StageRecord]) -> Breakdown:
    """Divide the time from a job's submission to its end."""
    parts = [_spans(stage) for stage in stages]
    first_ms = np.array([stage.attempts.launch_ms.min() for stage in stages], np.float64)
    since_ms = np.minimum([stage.since_ms for stage in stages], first_ms)
    blocked = np.stack([np.full(len(stages), begin_ms), since_ms], axis=1)
    spans = [
        np.clip(kind, begin_ms, end_ms)
        for kind in (*map(np.concatenate, zip(*parts, strict=True)), blocked)
    ]
    marks = np.unique(np.concatenate([[begin_ms, end_ms], *(kind.ravel() for kind in spans)]))
    runs, straggles, fails, is_needless, may_start, is_blocked = (
        _covers(kind, marks) for kind in spans
    )
    length_ms = np.diff(marks)
    full_ms, none_ms = _without_room(marks, stages)
    quiet = ~(runs | straggles | fails)
    waits, waits_for_own = quiet & may_start, runs & is_blocked & ~may_start
    full_while_waiting_ms = np.where(waits, full_ms, 0.0)
    executors_ms = np.where(waits, none_ms, 0.0)
    held_ms = full_while_waiting_ms - executors_ms
    own_stages_ms = np.where(waits_for_own, length_ms - full_ms, 0.0)
    by_interval_ms = (
        own_stages_ms,
        np.where(runs, length_ms, 0.0) - own_stages_ms,
        np.where(~runs & straggles, length_ms, 0.0),
        np.where(~runs & ~straggles & fails, length_ms, 0.0) + np.where(is_needless, held_ms, 0.0),
        executors_ms,
        np.where(is_needless, 0.0, held_ms),
        np.where(quiet, length_ms, 0.0) - full_while_waiting_ms,
    )
    return Breakdown._make(float(part_ms.sum()) for part_ms in by_interval_ms)


def first_successes(attempts: Attempts) -> Int64:
    """(T,) rows of the first successful attempt at each of the T partitions that have one."""
    rows = np.flatnonzero(attempts.won)
    _, first = np.unique(attempts.partition[rows], return_index=True)
    successes: Int64 = rows[first]
    return successes


def _spans(stage: StageRecord) -> _Spans:
    """Divide the time of each task.

    Attempts at one task that overlap count once, and those of one task one after the other.
    """
    attempts = stage.attempts
    successes = first_successes(attempts)
    taken_ms = (attempts.finish_ms - attempts.launch_ms)[successes].astype(np.float64)
    median_ms = float(np.median(taken_ms)) if len(taken_ms) else 0.0
    order = np.lexsort((attempts.launch_ms, attempts.partition))
    launch = attempts.launch_ms[order].astype(np.float64)
    finish = attempts.finish_ms[order].astype(np.float64)
    won = attempts.won[order]
    partitions, task = np.unique(attempts.partition[order], return_inverse=True)
    needed_ms = np.zeros(len(partitions))
    needed_ms[np.searchsorted(partitions, attempts.partition[successes])] = taken_ms
    needed_ms = needed_ms[task]
    begin, until = launch.copy(), np.minimum(finish, stage.last_ms)
    since = np.full(len(order), stage.since_ms)
    held_ms = np.zeros(len(order))  # by earlier attempts at the same task
    latest = until.copy()
    for row in (np.flatnonzero(task[1:] == task[:-1]) + 1).tolist():
        held_ms[row] = held_ms[row - 1] + max(0.0, until[row - 1] - begin[row - 1])
        begin[row] = max(launch[row], latest[row - 1])
        # What is lost after a success is known to be so only as it runs again.
        since[row] = launch[row] if won[row - 1] else latest[row - 1]
        latest[row] = max(latest[row], latest[row - 1])
    until = np.maximum(until, begin)
    usual = np.minimum(begin + np.maximum(np.minimum(needed_ms, median_ms) - held_ms, 0.0), until)
    needed = np.minimum(begin + np.maximum(needed_ms - held_ms, 0.0), until)
    over = np.maximum(launch, stage.last_ms)
    ends = (
        (begin, usual),
        (usual, needed),
        (needed, until),
        (over, np.maximum(over, finish)),
        (np.minimum(since, launch), launch),
    )
    return _Spans._make(np.stack(both, axis=1) for both in ends)


def _covers(spans: Float64, marks: Float64) -> Bool:
    """(M - 1,) whether any of the (P, 2) spans covers each interval between the M marks."""
    begin, end = (np.searchsorted(marks, spans[:, column]) for column in (0, 1))
    count = len(marks)
    change = np.bincount(begin, minlength=count) - np.bincount(end, minlength=count)
    is_covered: Bool = change.cumsum()[:-1] > 0
    return is_covered


def _without_room(marks: Float64, stages: Sequence[StageRecord]) -> tuple[Float64, Float64]:
    """(M - 1,) how long between the marks no slot was free, and how long none was there.

    For the task that the job starts next.
    """
    launch = np.concatenate([stage.attempts.launch_ms for stage in stages])
    order = np.argsort(launch, kind="stable")
    stage_of = np.repeat(
        np.arange(len(stages)), [len(stage.attempts.launch_ms) for stage in stages]
    )
    following = np.minimum(np.searchsorted(launch[order], marks[:-1]), len(launch) - 1)
    next_stage = stage_of[order][following]
    kinds: dict[int, list[int]] = {}  # rows of the stages by the identity of their room
    for row, stage in enumerate(stages):
        kinds.setdefault(id(stage.room), []).append(row)
    full_ms, none_ms = np.zeros(len(next_stage)), np.zeros(len(next_stage))
    for rows in kinds.values():
        room, chosen = stages[rows[0]].room, np.isin(next_stage, rows)
        full_ms[chosen] = np.diff(np.interp(marks, *room.full))[chosen]
        none_ms[chosen] = np.diff(np.interp(marks, *room.none))[chosen]
    full_ms = np.clip(full_ms, 0.0, np.diff(marks))
    return full_ms, np.clip(none_ms, 0.0, full_ms)
