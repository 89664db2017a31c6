"""Room for stages whose tasks take several slots, or start all at once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spark_sim.cluster import Cluster, Protocol
from spark_sim.conditions import Conditions
from traces.arrays import TraceArrays
from traces.columns import Columns
from traces.files.names import counted


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


def why_impossible(
    trace: TraceArrays, cluster: Cluster, conditions: Conditions
) -> tuple[int, str] | None:
    """Return a stage that the run has no room for, and why; None: there is room for all."""
    special = special_stages(trace)
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
    found = neediest_stage(trace, each)
    if found is None or (found.slots is not None and found.slots <= slots):
        return None
    width = int(trace.slots[found.stage])
    tasks = f"{counted(found.tasks, 'task')} of {counted(width, 'slot')}"
    return found.stage, (
        f"it is impossible on {counted(slots, 'slot')}, on executors of {each:,}: {tasks} must "
        "start at once"
    )
