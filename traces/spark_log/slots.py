"""Assignment of tasks to slots, which gives each task's wave and the time it held its slot.

First, by Spark's resource profiles: slots of executors, and how many of them a task takes. A task
takes cores and other resources (GPUs) of its executor. Those of most stages are in the
application's settings, the *default profile* (number 0). A stage may have another profile: with
requests for tasks alone, which runs on the same executors, or with executors of its own. A *slot*
is the part of an executor that the narrowest task takes, so an executor has as many slots as such
tasks fit. A task of another profile takes several. Slots are one number where Spark counts each
resource by itself: beside a task that takes the only GPU and one of eight cores, the other cores
count as taken if tasks without a GPU are among the stages.

The log names a task's executor, not its slots, and it need not: slots of one executor are alike.
Tasks are placed in the order of their launch on a slot that is free by then; among several on one
whose last task was of the same stage, else on one used last, else on one never used. A task is then

* ``fresh``, if its slot was never used and no task had yet finished on its executor: the process
  still loads classes. Slots first used later find the process warm and count as ``first``;
* ``rest``, if the last task of its slot was of the same stage;
* ``first`` otherwise.

A task holds its slot from its launch to its finish, both on the driver's clock, so sending,
loading, running and reporting are all inside, as they are for the next task that waits for the
slot. The driver stamps the finish some milliseconds after it has given the slot away: a task whose
executor has no slot left is taken as proof that the task that finishes next had finished by then.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from traces.arrays import FIRST, FRESH, REST
from traces.spark_log.application import Application, Executor, Profile
from traces.spark_log.events import LEAST_AMOUNT, RESOURCE_AMOUNT, TASK_CPUS

DEFAULT = 0
"""number of the profile that the settings make"""
_CPUS = "cpus"
_ROUNDING = 1e-9  # of shares, which are quotients
SHORTEST_MS = 1  # duration of a task that starts and ends in the same millisecond: the clock's step
MAX_LAG_MS = 1000
"""a longer lag of a finish stamp means that the executor has more slots than its cores give
(stage-level scheduling, a lost event)"""


@dataclass(frozen=True)
class Needs:
    """Slots of executors and of tasks of one application."""

    capacity: tuple[int | None, ...]
    """(executors,) slots of each; None where the log lacks its cores"""
    slots: Mapping[int, int]
    """slots that a task takes, by profile; 1 for those that are missing"""
    own_executors: frozenset[int]
    """profiles with executors of their own"""

    def of_stage(self, application: Application, stage: int) -> int:
        """Return the slots that a task of `stage` takes."""
        info = application.listed.get(stage)
        return 1 if info is None else self.slots.get(info.profile, 1)


def needs_of(application: Application) -> Needs:
    """Slots of an application's executors, and of the tasks of each profile that stages have."""
    used = {DEFAULT, *(info.profile for info in application.listed.values())}
    profiles = _profiles(application)
    used_profiles = {number: profiles.get(number, profiles[DEFAULT]) for number in used}
    capacity: list[int | None] = []
    slots: dict[int, int] = {}
    for executor in application.executors:
        if executor.cores is None:
            capacity.append(None)
            continue
        units = {
            number: _units(executor, executor.cores, profile)
            for number, profile in used_profiles.items()
            # Executors that were requested for a profile run it alone.
            if (
                executor.profile == number
                if executor.profile != DEFAULT
                else not profile.has_own_executors
            )
        }
        at_once = {number: min(counts) for number, counts in units.items()}
        most = max(1, max((math.floor(count) for count in at_once.values()), default=1))
        capacity.append(most)
        for number, count in at_once.items():
            if count >= 1:
                slots[number] = max(slots.get(number, 1), _slots_of_task(most, count))
    own_executors = frozenset(
        number for number, profile in used_profiles.items() if profile.has_own_executors
    )
    return Needs(tuple(capacity), slots, own_executors)


def task_cpus(application: Application) -> int:
    text = application.properties.get(TASK_CPUS, "1")
    return max(1, int(text)) if text.isdecimal() else 1


def _profiles(application: Application) -> dict[int, Profile]:
    """The profiles that the log has, by number, and the default one."""
    properties = application.properties
    requests: dict[str, dict[str, float]] = {"task": {}, "executor": {}}
    requests["task"][_CPUS] = float(task_cpus(application))
    for key, text in properties.items():
        match = RESOURCE_AMOUNT.fullmatch(key)
        amount = _positive(text)
        if match is not None and amount is not None:
            requests[match[1]][match[2]] = amount
    default = Profile(requests["task"], requests["executor"])
    profiles = {DEFAULT: default}
    for number, added in application.profiles.items():
        if number == DEFAULT:
            continue
        # What a profile does not request is as by default, but for resources of tasks.
        task = {_CPUS: requests["task"][_CPUS], **added.task}
        executor = {**requests["executor"], **added.executor}
        profiles[number] = Profile(task, executor, bool(added.executor))
    return profiles


def _positive(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if LEAST_AMOUNT <= number < math.inf else None


def _units(executor: Executor, cores: int, profile: Profile) -> list[float]:
    """Return how many tasks each resource of `executor` suffices for, parts included."""
    units = [cores / profile.task[_CPUS]]
    for name, amount in profile.task.items():
        have = executor.resources.get(name, profile.executor.get(name))
        if name != _CPUS and have is not None:
            # Tasks share one GPU, or have whole ones.
            units.append(have * math.floor(1 / amount) if amount <= 1 else have / amount)
    return units


def _slots_of_task(slots: int, at_once: float) -> int:
    """Slots of an executor's `slots` that a task takes of which `at_once` fit, parts included."""
    fit = math.floor(at_once)
    share = math.ceil(slots / at_once - _ROUNDING)
    # With fewer, more tasks would fit than do; with more, fewer.
    least, most = slots // (fit + 1) + 1, slots // fit
    return max(least, min(most, share))


class Placement(NamedTuple):
    """Arrays with one entry for each task attempt, in the rows of `Application.tasks`."""

    wave: NDArray[np.int8]
    """(T,) column of `traces.arrays`: FRESH, FIRST or REST"""
    launch_ms: NDArray[np.int64]
    """(T,)"""
    finish_ms: NDArray[np.int64]
    """(T,) when the slot was free again, >= `launch_ms`"""
    clock_repairs: int
    """attempts that seem to end before they begin"""
    width: NDArray[np.int64]
    """(T,) slots that it took"""
    capacity: NDArray[np.int64]
    """(executors,) slots of each"""
    slots: int
    """largest number of slots that the application had at once"""
    is_inferred: bool
    """whether the log lacks the cores of an executor: its slots are then its tasks seen at once,
    and as a finish is stamped late, there may be fewer"""
    needs: Needs


@dataclass
class _Slots:
    """The slots of one executor."""

    capacity: int | None
    """None where the log lacks it"""
    used: int = 0
    """slots that ever ran a task"""
    warm: bool = False
    busy: list[tuple[int, int, int]] = field(default_factory=list)
    """heap of (finish, row, slots) of running tasks"""
    free: dict[int, int] = field(default_factory=dict)
    """stage of the last task -> number of free slots; the stage freed last comes last"""

    def lacks(self, count: int) -> bool:
        """Return whether fewer slots than `count` are free or were never used."""
        if self.capacity is None:
            return False
        return max(0, self.capacity - self.used) + sum(self.free.values()) < count


def place(application: Application) -> Placement:
    """Place every attempt of `application` on a slot."""
    tasks = application.tasks
    launch = np.array(tasks.launch_ms, np.int64)
    stages, stage_row = np.unique(np.array(tasks.stage, np.int64), return_inverse=True)
    # No task starts before its Spark job is submitted: where one seems to, the clock was set
    # between, and all tasks of its stage are moved until the first starts with the job.
    first = np.full(len(stages), np.iinfo(np.int64).max)
    np.minimum.at(first, stage_row, launch)
    late = np.zeros(len(stages), np.int64)
    for index, number in enumerate(stages.tolist()):
        job = application.first_job.get(number)
        if job is not None:
            late[index] = max(0, application.jobs[job].start_ms - int(first[index]))
    late_ms = late[stage_row]
    launch += late_ms
    stamped = np.array(tasks.finish_ms, np.int64) + late_ms
    finish = np.maximum(stamped, launch)
    wave = np.zeros(len(tasks), np.int8)
    needs = needs_of(application)
    widths = [needs.of_stage(application, number) for number in stages.tolist()]
    width = np.array(widths, np.int64)[stage_row]
    slots = [_Slots(capacity) for capacity in needs.capacity]
    for row in np.argsort(launch, kind="stable").tolist():
        executor = slots[tasks.executor[row]]
        wave[row] = _place_one(executor, row, int(width[row]), tasks.stage, launch, finish)
    repairs = int(((stamped < launch) | (late_ms > 0)).sum())
    capacity = np.array(
        [max(executor.capacity or 0, executor.used) for executor in slots], np.int64
    )
    is_inferred = any(executor.capacity is None and executor.used > 0 for executor in slots)
    most = _most_slots(application, capacity)
    return Placement(wave, launch, finish, repairs, width, capacity, most, is_inferred, needs)


def _place_one(
    slots: _Slots,
    row: int,
    width: int,
    stage: Sequence[int],
    launch: NDArray[np.int64],
    finish: NDArray[np.int64],
) -> int:
    now, own_stage = int(launch[row]), stage[row]
    while slots.busy and slots.busy[0][0] <= now:
        _, ended, count = heappop(slots.busy)
        _release(slots, stage[ended], count)
    while slots.lacks(width) and slots.busy and slots.busy[0][0] - now <= MAX_LAG_MS:
        stamped, early, count = heappop(slots.busy)
        _release(slots, stage[early], count)
        # A lag cannot be longer than the task: its slot is taken, its duration stays.
        if stamped - now <= now - launch[early]:
            finish[early] = now
    heappush(slots.busy, (int(finish[row]), row, width))
    wave = FIRST if slots.warm else FRESH
    if slots.free:
        wave = REST if own_stage in slots.free else FIRST
    while width > 0 and slots.free:
        last = own_stage if own_stage in slots.free else next(reversed(slots.free))
        taken = min(width, slots.free[last])
        width -= taken
        slots.free[last] -= taken
        if slots.free[last] == 0:
            del slots.free[last]
    slots.used += width
    return wave


def _release(slots: _Slots, stage: int, count: int) -> None:
    slots.warm = True
    slots.free[stage] = slots.free.pop(stage, 0) + count


def _most_slots(application: Application, each: NDArray[np.int64]) -> int:
    """Largest number of slots at once, over the executors' lives."""
    changes: list[tuple[int, int]] = []
    for executor, capacity in zip(application.executors, each.tolist(), strict=True):
        changes.append((executor.added_ms or 0, capacity))
        if executor.removed_ms is not None:
            changes.append((max(executor.removed_ms, executor.added_ms or 0), -capacity))
    changes.sort()
    return int(np.cumsum([change for _, change in changes]).max(initial=0))


def most_at_once(launch_ms: NDArray[np.int64], finish_ms: NDArray[np.int64]) -> int:
    """Largest number of tasks that ran at one moment, >= 1 for at least one task."""
    times = np.concatenate([launch_ms, np.maximum(finish_ms, launch_ms + SHORTEST_MS)])
    change = np.repeat(np.array([1, -1]), len(launch_ms))
    order = np.lexsort((change, times))  # ends before starts at the same time
    return int(np.cumsum(change[order]).max(initial=0))
