"""Needs of stages that a cluster may lack: slots of one executor, memory, cores."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spark_sim.cluster import Cluster, ExecutorClass, Protocol
from spark_sim.conditions import Conditions
from traces.arrays import TraceArrays
from traces.columns import Columns
from traces.files.names import counted
from traces.numbers import Bool, Float64, Int32


class Neediest(NamedTuple):
    """The stage that needs the most slots at once."""

    stage: int  # row of all stages
    tasks: int  # that must start at once
    slots: int | None  # that they need; None: no executor has room for one


def special_stages(trace: TraceArrays | Columns) -> NDArray[np.intp]:
    """Rows of the stages whose tasks take several slots, or start all at once."""
    return np.flatnonzero((trace.slots > 1) | trace.barrier)


def neediest_stage(trace: TraceArrays | Columns, each: int) -> Neediest | None:
    """Find the stage that needs the most slots at once on executors of `each` slots.

    None where every task takes any one slot.
    """
    special = special_stages(trace)
    if len(special) == 0:
        return None
    slots = trace.slots[special].astype(np.int64)
    tasks = np.where(trace.barrier[special], trace.num_tasks[special], 1).astype(np.int64)
    executors, rest = np.divmod(tasks, np.maximum(each // slots, 1))
    needed = np.where(slots > each, np.inf, executors * each + rest * slots)
    worst = int(np.argmax(needed))
    most = None if np.isinf(needed[worst]) else int(needed[worst])
    return Neediest(int(special[worst]), int(tasks[worst]), most)


class Misfit(NamedTuple):
    """A stage that cannot run on a cluster."""

    job: int  # row of the trace
    stage: int  # number in the job
    why: str


def first_misfit(
    trace: TraceArrays, cluster: Cluster, conditions: Conditions | None = None
) -> Misfit | None:
    """Find a stage that needs more slots than there are, else the first that fits no class.

    A missing demand fits everywhere. But with several classes memory is required, and must be above
    0.
    """
    special = special_stages(trace)
    misfit = _without_room(trace, special, cluster, conditions or Conditions())
    if misfit is None:
        misfit = _without_class(trace, cluster)
    if misfit is None:
        return None
    stage, why = misfit
    job = int(np.searchsorted(trace.first_stage, stage, side="right")) - 1
    return Misfit(job, stage - int(trace.first_stage[job]), why)


def _without_room(
    trace: TraceArrays, special: NDArray[np.intp], cluster: Cluster, conditions: Conditions
) -> tuple[int, str] | None:
    """Find a stage of `special_stages` that the run has no room for, and why."""
    if len(special) == 0:
        return None
    if cluster.protocol is not Protocol.SESSION:
        stage = int(special[0])
        each_takes = f"each of its tasks takes {counted(int(trace.slots[stage]), 'slot')}"
        what = "its tasks start all at once" if trace.barrier[stage] else each_takes
        return stage, (
            f"{what}, which only the protocol {Protocol.SESSION.label!r} simulates, not "
            f"{cluster.protocol.label!r}"
        )
    barrier = special[trace.barrier[special]]
    if conditions.allocation is not None and len(barrier):
        return int(barrier[0]), (
            "its tasks start all at once, and Spark runs no such stage under dynamic allocation"
        )
    slots = cluster.num_executors if conditions.slots is None else int(conditions.slots.count[-1])
    each = slots if conditions.slots_each is None else conditions.slots_each
    neediest = neediest_stage(trace, each)
    if neediest is None or (neediest.slots is not None and neediest.slots <= slots):
        return None
    width = int(trace.slots[neediest.stage])
    tasks = f"{counted(neediest.tasks, 'task')} of {counted(width, 'slot')}"
    return neediest.stage, (
        f"it is impossible on {counted(slots, 'slot')}, on executors of {each:,}: {tasks} must "
        "start at once"
    )


def _without_class(trace: TraceArrays, cluster: Cluster) -> tuple[int, str] | None:
    """Find the first stage that fits no class of executors, and why."""
    needs_memory = len(classes_of(cluster)) > 1
    lacks_memory = needs_memory & ~(trace.memory_mb > 0)
    stages = np.flatnonzero((fitting_classes(trace, cluster) == 0) | lacks_memory)
    if len(stages) == 0:
        return None
    stage = int(stages[0])
    if needs_memory and np.isnan(trace.memory_mb[stage]):
        return stage, "the trace lacks the memory of its tasks, which executor classes need"
    largest = classes_of(cluster)[-1]
    return stage, (
        f"its tasks need {trace.memory_mb[stage]:g} MB and {trace.cpu[stage]:g} cores; possible is "
        f"more than 0 MB and what some executor class has (the largest {largest.memory_mb:g} "
        f"MB and {largest.cpu:g} cores)"
    )


def fitting_classes(trace: TraceArrays, cluster: Cluster) -> Int32:
    """(S,) for each stage of the trace a bit for each executor class that can hold its tasks."""
    classes = classes_of(cluster)
    sizes_mb = np.array([kind.memory_mb for kind in classes])
    cores = np.array([kind.cpu for kind in classes])
    is_fitting = fitting(sizes_mb, cores, trace.memory_mb, trace.cpu)
    bits: Int32 = is_fitting @ (1 << np.arange(len(classes), dtype=np.int32))
    return bits


def fitting(sizes_mb: Float64, cores: Float64, memory_mb: Float64, cpu: Float64) -> Bool:
    """(S, C) whether executors of C classes can hold tasks with these demands of S stages.

    A missing demand (NaN) fits everywhere.
    """
    is_fitting: Bool = ~(memory_mb[:, None] > sizes_mb) & ~(cpu[:, None] > cores)
    return is_fitting


def classes_of(cluster: Cluster) -> tuple[ExecutorClass, ...]:
    """Return the cluster's classes, or one class that holds everything."""
    return cluster.classes or (ExecutorClass(cluster.num_executors),)
