"""Slots of executors, and how many of them a task takes, by Spark's resource profiles.

A task takes cores and other resources (GPUs) of its executor. Those of most stages are in the
application's settings, the *default profile* (number 0). A stage may have another profile: with
requests for tasks alone, which runs on the same executors, or with executors of its own.

A *slot* is the part of an executor that the narrowest task takes, so an executor has as many slots
as such tasks fit. A task of another profile takes several. Slots are one number where Spark counts
each resource by itself: beside a task that takes the only GPU and one of eight cores, the other
cores count as taken if tasks without a GPU are among the stages.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from traces.spark_log.application import Application, Executor
from traces.spark_log.events import LEAST_AMOUNT, RESOURCE_AMOUNT, TASK_CPUS

DEFAULT = 0
"""number of the profile that the settings make"""
_CPUS = "cpus"
_ROUNDING = 1e-9  # of shares, which are quotients


@dataclass(frozen=True)
class Profile:
    """Requests of one resource profile."""

    task: Mapping[str, float] = field(default_factory=dict)
    """what each task takes, cores as `cpus`"""
    executor: Mapping[str, float] = field(default_factory=dict)
    """what an executor has beside its cores, as far as it is requested"""
    has_own_executors: bool = False
    """whether executors are requested for it, so that it runs on no other"""


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
    """Cores that each task takes."""
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
    for added in application.profiles.values():
        if added.profile == DEFAULT:
            continue
        # What a profile does not request is as by default, but for resources of tasks.
        task = {_CPUS: requests["task"][_CPUS], **added.task}
        executor = {**requests["executor"], **added.executor}
        profiles[added.profile] = Profile(task, executor, bool(added.executor))
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
