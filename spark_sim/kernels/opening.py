"""Open stages of the default protocol: those that want executors which are available."""

from __future__ import annotations

from spark_sim.compile import inlined_kernel, kernel
from spark_sim.kernels.common import child_range
from spark_sim.tables import State


@kernel
def set_open(state: State, stage: int) -> None:
    """`stage` wants executors, and no parent of it does any more."""
    row = state.stages[stage]
    row["open"] = 1
    state.jobs[row["job"]]["open_stages"] += 1
    state.clock[0]["open_stages"] += 1


@kernel
def clear_open(state: State, stage: int) -> None:
    """`stage` may not be chosen."""
    row = state.stages[stage]
    if row["open"] == 1:
        row["open"] = 0
        state.jobs[row["job"]]["open_stages"] -= 1
        state.clock[0]["open_stages"] -= 1


@kernel
def cover(state: State, stage: int) -> None:
    """`stage` wants no more executors, so its children may be given some ahead of time."""
    clear_open(state, stage)
    first, last, offset = child_range(state, stage)
    for index in range(first, last):
        child = offset + state.trace.children[index]
        row = state.stages[child]
        row["parents_uncovered"] -= 1
        if row["parents_uncovered"] == 0 and row["covered"] < row["num_tasks"]:
            set_open(state, child)


@kernel
def set_misfits_aside(state: State) -> None:
    """Exclude, until the round ends, the stages that fit no executor left on offer."""
    if len(state.classes) == 1:
        return
    offered = 0
    for kind in range(len(state.classes)):
        if state.classes[kind]["on_offer"] > 0:
            offered |= 1 << kind
    clock = state.clock[0]
    for index in range(clock["num_active"]):
        job = state.jobs[state.active[index]]
        if job["open_stages"] == 0:
            continue
        for stage in range(job["first_stage"], job["first_stage"] + job["num_stages"]):
            if state.stages[stage]["open"] == 1 and state.stages[stage]["fits"] & offered == 0:
                set_aside(state, stage)


@inlined_kernel
def is_on_offer(state: State, stage: int, kind: int) -> bool:
    """Return whether an executor of the class can hold a task of `stage`."""
    if not 0 <= kind < len(state.classes) or state.classes[kind]["on_offer"] == 0:
        return False
    return bool(state.stages[stage]["fits"] & (1 << kind))


@inlined_kernel
def set_aside(state: State, stage: int) -> None:
    """`stage` may not be chosen again in this round."""
    clock = state.clock[0]
    clear_open(state, stage)
    state.chosen[clock["num_chosen"]] = stage
    clock["num_chosen"] += 1
