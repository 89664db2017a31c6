"""Room for stages whose tasks take several slots, or start all at once."""

from __future__ import annotations

import numpy as np

from spark_sim.cluster import Cluster, Protocol
from spark_sim.conditions import Conditions
from traces.arrays import TraceArrays
from traces.files.names import counted


def least_slots(tasks: int, slots: int, each: int) -> int | None:
    """Return how many slots tasks of `slots` slots need to run at once on executors of `each`.

    None where no executor has room for one.
    """
    if slots > each:
        return None
    full, rest = divmod(tasks, each // slots)
    return full * each + rest * slots


def at_once(trace: TraceArrays, stage: int) -> int:
    """Return how many tasks of a stage must start at once."""
    return int(trace.num_tasks[stage]) if trace.barrier[stage] else 1


def neediest(trace: TraceArrays, each: int) -> tuple[int, int | None] | None:
    """The special stage that needs the most slots, and how many; None: there is none."""
    needs = [
        (least_slots(at_once(trace, stage), int(trace.slots[stage]), each), stage)
        for stage in trace.special_stages().tolist()
    ]
    if not needs:
        return None
    most, stage = max(needs, key=lambda need: np.inf if need[0] is None else need[0])
    return stage, most


def why_impossible(
    trace: TraceArrays, cluster: Cluster, conditions: Conditions
) -> tuple[int, str] | None:
    """A stage that the run has no room for, and why; None: there is room for all."""
    special = trace.special_stages()
    if len(special) == 0:
        return None
    if cluster.protocol is not Protocol.SESSION:
        stage = int(special[0])
        what = (
            "its tasks start all at once"
            if trace.slots[stage] == 1
            else f"each of its tasks takes {trace.slots[stage]} slots"
        )
        return stage, (
            f"{what}, which only the protocol {Protocol.SESSION.label!r} simulates, not "
            f"{cluster.protocol.label!r}"
        )
    slots = cluster.num_executors if conditions.slots is None else int(conditions.slots.count[-1])
    each = slots if conditions.slots_each is None else conditions.slots_each
    found = neediest(trace, each)
    if found is None:
        return None
    stage, least = found
    if conditions.allocation is not None and trace.barrier[special].any():
        return int(special[trace.barrier[special]][0]), (
            "its tasks start all at once, and Spark runs no such stage under dynamic allocation"
        )
    if least is not None and least <= slots:
        return None
    tasks = at_once(trace, stage)
    words = f"{counted(tasks, 'task')} of {counted(int(trace.slots[stage]), 'slot')} each"
    return stage, (
        f"it needs room for {words} at once, which {counted(slots, 'slot')} on executors of "
        f"{each:,} lack: Spark would fail the job"
        if trace.barrier[stage]
        else f"a task takes {counted(int(trace.slots[stage]), 'slot')} of one executor; there are "
        f"{counted(slots, 'slot')} on executors of {each:,}: it would wait for ever"
    )
