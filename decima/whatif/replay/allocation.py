"""Slots that an application had over time, and its dynamic allocation, as its log shows them.

An executor counts from its start, but where stages waited for one at that moment, from its first
task: until then it was still setting up. Tasks of jobs that are not replayed take slots away.

A log has the settings and when executors came and went, but no requests. An executor's start is
measured from the first request after tasks began to wait, by Spark's rules, to the first executor.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spark_sim import Allocation, Slots
from spark_sim.cluster import MAX_EXECUTORS
from spark_sim.conditions import MAX_TIME_MS
from traces.errors import TraceError
from traces.numbers import MS_PER_S, Float64, Int64
from traces.spark_log.application import Application
from traces.spark_log.slots import Placement

PREFIX = "spark.dynamicAllocation."
ENABLED = f"{PREFIX}enabled"
BACKLOG, SUSTAINED = "schedulerBacklogTimeout", "sustainedSchedulerBacklogTimeout"
IDLE, RATIO = "executorIdleTimeout", "executorAllocationRatio"
LEAST, MOST, FIRST = "minExecutors", "maxExecutors", "initialExecutors"
EXECUTOR_SLOTS, START = "executorSlots", "executorStart"
NAMES = (LEAST, MOST, FIRST, BACKLOG, SUSTAINED, IDLE, RATIO, EXECUTOR_SLOTS, START)
"""what can be changed: Spark's settings, and of an executor its slots and the time to start it"""
_DEFAULT_TEXT = {BACKLOG: "1s", IDLE: "60s", LEAST: "0", MOST: "infinity", RATIO: "1"}
_START_MS = 2000.0  # where no executor came while jobs ran
_IDLE_AT_LEAST = 0.9  # of the idle timeout: an executor that goes before it was lost
_LONGER = 1.5
# An executor that stays for so many idle timeouts holds data: idle ones stay for ever.
_FAR_MORE = 4
# So many times the recorded executors are looked at, however many the settings allow.
_UNIT_MS = {"ms": 1.0, "s": 1e3, "m": 6e4, "min": 6e4, "h": 3.6e6, "d": 8.64e7}
_TIME = re.compile(r"(\d{1,9})\s{0,3}(ms|s|min|m|h|d)?")
_NEVER = np.iinfo(np.int64).max


class Changes(NamedTuple):
    """M changes of a number, by time."""

    time_ms: Int64  # (M,)
    by: Int64  # (M,)

    def then(self, other: Changes) -> Changes:
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
        return Executors._make(column[number : number + 1] for column in self)

    def changes(self) -> Changes:
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


@dataclass(frozen=True)
class Behaviour:
    """Measurements of how an application's executors came and went."""

    slots_each: int
    """slots of most executors"""
    start_ms: float | None
    """from a request to the executor; None where none came while tasks waited"""
    idle_ms: float | None
    """how long removed executors had been idle; infinity: idle ones stayed; None: unknown"""
    is_limited: bool
    """whether tasks waited on although more executors were allowed: the cluster had no more"""
    executors: int | None = None
    """that came, however short their stay; None where the log shows none"""

    @classmethod
    def of(cls, executors: Executors, waiting: Changes, settings: Mapping[str, str]) -> Behaviour:
        """Measure it in a log with these settings; `waiting` is the number of waiting tasks."""
        values, counts = np.unique(executors.slots[executors.slots > 0], return_counts=True)
        slots_each = int(values[np.argmax(counts)]) if len(values) else 1
        try:
            backlog_ms, idle_ms = (timeout_ms(settings, name) for name in (BACKLOG, IDLE))
        except TraceError:  # only the model needs them, and refuses them then
            backlog_ms, idle_ms = (timeout_ms({}, name) for name in (BACKLOG, IDLE))
        start_ms = _start_ms(executors.added_ms, waiting, backlog_ms)
        patience_ms = _LONGER * (backlog_ms + (_START_MS if start_ms is None else start_ms))
        return cls(
            slots_each,
            start_ms,
            _held_idle_ms(executors, idle_ms) if is_dynamic(settings) else None,
            _longest_wait_ms(executors.changes(), waiting) > patience_ms,
            int((executors.slots > 0).sum()) or None,
        )

    @classmethod
    def unknown(cls) -> Behaviour:
        """The behaviour of executors whose log shows none."""
        return cls(1, None, None, is_limited=False)


def is_dynamic(settings: Mapping[str, str]) -> bool:
    return settings.get(ENABLED, "").strip().lower() == "true"


def allocation(
    settings: Mapping[str, str],
    behaviour: Behaviour,
    recorded: Slots,
    changes: Mapping[str, str] | None = None,
) -> Allocation:
    """The model of an application's dynamic allocation; TraceError for impossible settings.

    `changes` are other values for `NAMES`, as a person writes them; `recorded`: slots over time.
    """
    values = {**{name: _text(settings, name) for name in NAMES}, **(changes or {})}
    each = _count(EXECUTOR_SLOTS, values[EXECUTOR_SLOTS] or str(behaviour.slots_each), least=1)
    least = _count(LEAST, values[LEAST])
    if MOST in (changes or {}):
        most = _count(MOST, values[MOST], least=1)
    else:
        most = _most(values[MOST], -(-recorded.most // each), behaviour.is_limited)
    most = max(most, least)
    most = max(1, min(most, MAX_EXECUTORS // each))
    first = min(max(_count(FIRST, values[FIRST] or values[LEAST]), least), most)
    backlog_ms, idle_ms = (_timeout_ms(name, values[name]) for name in (BACKLOG, IDLE))
    extra_ms = 0.0
    if behaviour.idle_ms is not None:
        extra_ms = behaviour.idle_ms - timeout_ms(settings, IDLE)
    start_ms = _START_MS if behaviour.start_ms is None else behaviour.start_ms
    return Allocation(
        each,
        min(least, most),
        most,
        first,
        min(_present(settings, int(recorded.count[0]) // each, first), most),
        backlog_ms,
        _timeout_ms(SUSTAINED, values[SUSTAINED]) if values[SUSTAINED] else backlog_ms,
        min(max(idle_ms + extra_ms, 0.0), MAX_TIME_MS),
        _time_ms(START, values[START]) if values[START] else start_ms,
        _ratio(values[RATIO]),
    )


def timeout_ms(settings: Mapping[str, str], name: str) -> float:
    return _timeout_ms(name, _text(settings, name) or _text(settings, BACKLOG))


def parse_changes(text: str) -> dict[str, str]:
    """Changes from ``log`` (none) or ``NAME=VALUE,...``; TraceError if a name is not in `NAMES`."""
    if text.strip() == "log":
        return {}
    changes = {}
    for part in text.split(","):
        name, sign, value = (piece.strip() for piece in part.partition("="))
        name = name.removeprefix(PREFIX)
        if name not in NAMES or not sign:
            raise TraceError(
                f"allocation {part.strip()!r:.60}: write log, or NAME=VALUE with NAME one of "
                f"{', '.join(NAMES)}"
            )
        changes[name] = value
    return changes


def _text(settings: Mapping[str, str], name: str) -> str:
    return settings.get(f"{PREFIX}{name}", "").strip() or _DEFAULT_TEXT.get(name, "")


def _time_ms(name: str, text: str) -> float:
    match = _TIME.fullmatch(text.strip().lower())
    if match is None:
        raise TraceError(f"{name} {text!r:.40} must be a time such as 60s, 500ms or 2min")
    return int(match[1]) * _UNIT_MS[match[2] or "s"]


def _timeout_ms(name: str, text: str) -> float:
    """Spark rounds its timeouts down to whole seconds, and refuses 0."""
    found_ms = _time_ms(name, text) // MS_PER_S * MS_PER_S
    if found_ms == 0:
        raise TraceError(f"{name} {text!r:.40} must be 1s or more: Spark takes whole seconds")
    return found_ms


def _count(name: str, text: str, least: int = 0) -> int:
    if not text.isdecimal() or not least <= int(text[:12]) <= 2**31:
        raise TraceError(f"{name} {text!r:.40} must be a whole number, {least} or more")
    return min(int(text[:12]), MAX_EXECUTORS)


def _present(settings: Mapping[str, str], recorded: int, first: int) -> int:
    """Executors at the first job: all of the first, if so it was recorded or is assumed."""
    if not is_dynamic(settings):
        return first
    configured = max(_count(name, _text(settings, name) or "0") for name in (FIRST, LEAST))
    return first if 0 < configured <= recorded else recorded


def _most(text: str, recorded: int, is_limited: bool) -> int:
    """Executors at most: the setting's, where the cluster may have had so many."""
    if text.lower() == _DEFAULT_TEXT[MOST] or is_limited:
        return max(1, recorded)
    return min(_count(MOST, text, least=1), _FAR_MORE * recorded)


def _ratio(text: str) -> float:
    try:
        ratio = float(text)
    except ValueError:
        ratio = 0.0
    if not 0 < ratio <= 1:
        raise TraceError(f"{RATIO} {text!r:.40} must be a number above 0 and at most 1")
    return ratio


def _start_ms(added_ms: Int64, waiting: Changes, backlog_ms: float) -> float | None:
    """Median time from the first request of a time of waiting to the first executor."""
    times, tasks = waiting.steps()
    edges = np.diff((tasks > 0).astype(np.int64), prepend=0)
    added = np.sort(added_ms)
    delays_ms = []
    for begin, end in zip(times[edges > 0], times[edges < 0], strict=False):
        asked_ms = begin + backlog_ms
        place = int(np.searchsorted(added, asked_ms, side="right"))
        if place < len(added) and added[place] <= end:
            delays_ms.append(added[place] - asked_ms)
    return float(np.median(delays_ms)) if delays_ms else None


def _longest_wait_ms(slots: Changes, waiting: Changes) -> float:
    """Longest time for which tasks waited while there were the most slots that ever were."""
    times, counts = slots.steps()
    at, tasks = waiting.steps()
    marks = np.unique(np.concatenate([times, at]))
    most = counts[np.searchsorted(times, marks, side="right") - 1] == counts.max(initial=1)
    waits = tasks[np.maximum(np.searchsorted(at, marks, side="right") - 1, 0)] > 0
    waits &= marks >= at[0]
    edges = np.diff((most & waits).astype(np.int64), prepend=0, append=0)
    ends = np.append(marks, marks[-1])
    return float((ends[edges < 0] - marks[edges[:-1] > 0]).max(initial=0))


def _held_idle_ms(executors: Executors, idle_ms: float) -> float | None:
    """Median of how long removed executors were idle; see `Behaviour.idle_ms`."""
    idle = executors.gone_ms - executors.last_task_ms
    timed_out = executors.is_removed & (idle >= _IDLE_AT_LEAST * idle_ms)
    if timed_out.any():
        return float(np.median(idle[timed_out]))
    stayed = ~executors.is_removed & (idle > _LONGER * idle_ms + MS_PER_S)
    return MAX_TIME_MS if stayed.any() else None
