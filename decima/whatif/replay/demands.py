"""Other parts of executors that tasks take: `spark.task.cpus`, and the GPUs of an executor.

A question about a recorded application. Its executors come and go as recorded, and its tasks take
as long as recorded; but another number of them run at once on an executor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from decima.whatif.replay.allocation import Changes, Executors, task_changes
from traces import Job
from traces.errors import TraceError
from traces.files.names import counted
from traces.numbers import Bool
from traces.spark_log.application import Application
from traces.spark_log.events import TASK_CPUS
from traces.spark_log.slots import Placement, needs_of

GPU = "gpu"
_TASK_GPUS = f"spark.task.resource.{GPU}.amount"
_EXECUTOR_GPUS = f"spark.executor.resource.{GPU}.amount"


class Demands(NamedTuple):
    """Amounts to assume in place of the recorded ones; None: as recorded."""

    task_cpus: int | None
    """cores of each task, but of those whose resource profile has its own number"""
    gpus: int | None
    """GPUs of each executor"""

    def words(self) -> str:
        settings = {TASK_CPUS: self.task_cpus, _EXECUTOR_GPUS: self.gpus}
        return " and ".join(f"{key} {n}" for key, n in settings.items() if n is not None)


class OtherSlots(NamedTuple):
    """Slots of one log under other demands."""

    changes: Changes
    """slots that came and went, and those that jobs left out took and gave back"""
    each: int
    """slots of most executors"""
    of_tasks: Mapping[int, int]
    """by Spark's number of a stage, the slots that each of its tasks takes"""

    def applied(self, job: Job, numbers: Sequence[int]) -> Job:
        """Return a job whose tasks take these slots; `numbers` are Spark's of its stages."""
        stages = zip(job.stages, numbers, strict=True)
        return replace(
            job,
            stages=tuple(replace(stage, slots=self.of_tasks[number]) for stage, number in stages),
        )


def other_slots(
    application: Application,
    demands: Demands,
    placement: Placement,
    executors: Executors,
    left_out: Bool,
) -> OtherSlots:
    """The slots of an application under other demands, without the tasks `left_out` (T,).

    TraceError: the log lacks what the question is about, or an executor has no room for a task.
    """
    needs = needs_of(_changed(application, demands))
    capacity = np.array([slots or 0 for slots in needs.capacity], np.int64)
    stages = np.array(application.tasks.stage, np.int64)
    of_tasks = {
        number: needs.of_stage(application, number)
        for number in {*np.unique(stages).tolist(), *application.listed}
    }
    width = np.array([of_tasks[number] for number in stages.tolist()], np.int64)
    taken = task_changes(placement._replace(width=width), left_out)
    values, counts = np.unique(capacity[capacity > 0], return_counts=True)
    return OtherSlots(
        executors._replace(slots=capacity).changes().then(taken),
        int(values[np.argmax(counts)]),
        of_tasks,
    )


def _changed(application: Application, demands: Demands) -> Application:
    """Return the application with other demands, after checking that its tasks have room."""
    log, cores = application.path, [executor.cores for executor in application.executors]
    properties, executors = dict(application.properties), application.executors
    if demands.task_cpus is not None:
        properties[TASK_CPUS] = str(demands.task_cpus)
    if demands.gpus is not None:
        asking = [profile.task for profile in application.profiles.values()]
        if _TASK_GPUS not in properties and not any(GPU in task for task in asking):
            raise TraceError(f"{log}: its tasks ask for no GPU ({_TASK_GPUS})")
        properties[_EXECUTOR_GPUS] = str(demands.gpus)
        executors = [
            replace(executor, resources={**executor.resources, GPU: demands.gpus})
            for executor in executors
        ]
    if any(number is None for number in cores):
        raise TraceError(f"{log}: the log lacks the cores of an executor")
    changed = replace(application, properties=properties, executors=executors)
    least = min(number for number in cores if number is not None)
    has_room = needs_of(application).slots.keys() <= needs_of(changed).slots.keys()
    if not has_room or least < (demands.task_cpus or 0):
        raise TraceError(
            f"{log}: {demands.words()} is impossible: an executor of {counted(least, 'core')} has "
            "no room for a task"
        )
    return changed
