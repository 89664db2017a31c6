"""The slots that an application had over time, as its log records them.

An executor counts from its start, but where stages waited for one at that moment, from its first
task: until then it was still setting up. Tasks of jobs that are not replayed take slots away.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spark_sim import Slots
from traces.numbers import Float64, Int64
from traces.spark_log.application import Application
from traces.spark_log.slots import Placement

_NEVER = np.iinfo(np.int64).max


class Changes(NamedTuple):
    """M changes of a number, by time."""

    time_ms: Int64  # (M,)
    by: Int64  # (M,)

    def then(self, other: Changes) -> Changes:
        """Return both, one after the other."""
        return Changes(*(np.concatenate(pair) for pair in zip(self, other, strict=True)))

    def steps(self) -> tuple[Int64, Int64]:
        """(N,) times at which the number changes, and (N,) the number from then on."""
        times, row = np.unique(self.time_ms, return_inverse=True)
        total: Int64 = np.bincount(row, weights=self.by, minlength=len(times)).cumsum()
        return times, total.astype(np.int64)


class Executors(NamedTuple):
    """E executors of an application; times are on the log's clock."""

    slots: Int64  # (E,)
    added_ms: Int64  # (E,) from when on each could run tasks
    gone_ms: Int64  # (E,) when it went, or the log ended
    is_removed: NDArray[np.bool_]  # (E,) whether the log has it removed
    last_task_ms: Int64  # (E,) end of its last task, or `added_ms`

    def only(self, number: int) -> Executors:
        """Return one of them."""
        return Executors._make(column[number : number + 1] for column in self)

    def changes(self) -> Changes:
        """Return the times at which slots came and went."""
        times = np.concatenate([[0], self.added_ms, np.maximum(self.gone_ms, self.added_ms)])
        return Changes(times, np.concatenate([[0], self.slots, -self.slots]))


def executors_of(
    application: Application, placement: Placement, waiting: tuple[Int64, Int64]
) -> Executors:
    """Return the executors; `waiting` is (W,) from when and until when stages waited."""
    executor_of_task = np.array(application.tasks.executor, np.int64)
    first_ms = np.full(len(application.executors), _NEVER, np.int64)
    np.minimum.at(first_ms, executor_of_task, placement.launch_ms)
    begin, end = (np.sort(times) for times in waiting)
    closed_ms = max(application.end_ms or 0, int(placement.finish_ms.max(initial=0)))
    added, gone = [], []
    for executor, launch_ms in zip(application.executors, first_ms.tolist(), strict=True):
        added_ms = executor.added_ms or 0
        since = np.searchsorted(begin, added_ms, side="left")
        is_wanted = since > np.searchsorted(end, added_ms, side="right")
        if is_wanted or launch_ms < added_ms:
            added_ms = launch_ms if launch_ms < _NEVER else added_ms
        added.append(added_ms)
        gone.append(closed_ms if executor.removed_ms is None else executor.removed_ms)
    added_at = np.array(added, np.int64)
    last = added_at.copy()
    np.maximum.at(last, executor_of_task, placement.finish_ms)
    return Executors(
        placement.capacity,
        added_at,
        np.array(gone, np.int64),
        np.array([executor.removed_ms is not None for executor in application.executors], bool),
        last,
    )


def task_changes(placement: Placement, rows: NDArray[np.bool_] | Int64) -> Changes:
    """Return the times at which the tasks in `rows` took and gave back slots."""
    launch, finish = placement.launch_ms[rows], placement.finish_ms[rows]
    width = placement.width[rows]
    return Changes(np.concatenate([launch, finish]), np.concatenate([-width, width]))


def curve(changes: Changes, origin_ms: float, end_ms: float) -> Slots:
    """The slots from `origin_ms` on, on the clock that starts there.

    After `end_ms`, when the last job ends, they stay at their last number above zero.
    """
    times, count = changes.steps()
    shifted = times - origin_ms
    begun = max(0, int(np.searchsorted(shifted, 0.0, side="right")) - 1)
    until = int(np.searchsorted(shifted, end_ms - origin_ms, side="left"))
    inside = slice(begun, max(until, begun + 1))
    time_ms, slots = np.maximum(shifted[inside], 0.0), np.maximum(count[inside], 0)
    if slots[-1] == 0:
        above = slots[slots > 0]
        slots[-1] = above[-1] if len(above) else 1
    changed = np.flatnonzero(np.diff(slots, prepend=-1) != 0)
    return Slots(time_ms[changed], slots[changed])


def mean_slots(slots: Slots, begin_ms: Float64, end_ms: Float64) -> float:
    """The average over the times in which at least one of the jobs from begin to end ran."""
    marks = np.unique(np.concatenate([slots.time_ms, begin_ms, end_ms]))
    middle = (marks[1:] + marks[:-1]) / 2
    running = np.searchsorted(np.sort(begin_ms), middle) > np.searchsorted(np.sort(end_ms), middle)
    length = np.diff(marks) * running
    total = float(length.sum())
    return float((slots.at(middle) * length).sum()) / total if total > 0 else float(slots.most)
