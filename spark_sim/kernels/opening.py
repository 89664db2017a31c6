"""Open stages of the default protocol: those that want executors which are available."""

from __future__ import annotations

from spark_sim.compile import inlined_kernel, kernel
from spark_sim.kernels.common import child_range
from spark_sim.tables import NONE, State


@kernel
def set_open(state: State, stage: int) -> None:
    """`stage` wants executors, and no parent of it does any more."""
    row = state.stages[stage]
    if len(state.classes) > 1:
        _list_wanting(state, stage)
        if row["fits"] & state.clock[0]["offered"] == 0:
            _count_misfit(state, stage, 1)
            return
    _count_open(state, stage, 1)


@kernel
def clear_open(state: State, stage: int) -> None:
    """`stage` may not be chosen."""
    row = state.stages[stage]
    if len(state.classes) > 1 and row["open"] + row["misfit"] > 0:
        _unlist_wanting(state, stage)
    if row["misfit"] == 1:
        _count_misfit(state, stage, -1)
    if row["open"] == 1:
        _count_open(state, stage, -1)


@inlined_kernel
def _count_open(state: State, stage: int, change: int) -> None:
    row = state.stages[stage]
    row["open"] += change
    state.jobs[row["job"]]["open_stages"] += change
    state.clock[0]["open_stages"] += change


@inlined_kernel
def _count_misfit(state: State, stage: int, change: int) -> None:
    row = state.stages[stage]
    row["misfit"] += change
    state.jobs[row["job"]]["misfits"] += change


@inlined_kernel
def _list_wanting(state: State, stage: int) -> None:
    """Put `stage` at the head of those that want executors, by its smallest class."""
    row = state.stages[stage]
    size = state.classes[row["least_class"]]
    row["want_prev"] = NONE
    row["want_next"] = size["want_head"]
    if size["want_head"] != NONE:
        state.stages[size["want_head"]]["want_prev"] = stage
    size["want_head"] = stage


@inlined_kernel
def _unlist_wanting(state: State, stage: int) -> None:
    row = state.stages[stage]
    if row["want_prev"] == NONE:
        state.classes[row["least_class"]]["want_head"] = row["want_next"]
    else:
        state.stages[row["want_prev"]]["want_next"] = row["want_next"]
    if row["want_next"] != NONE:
        state.stages[row["want_next"]]["want_prev"] = row["want_prev"]


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
def set_misfits(state: State) -> None:
    """Exclude the stages that fit no executor on offer, until one that fits is.

    It looks only at stages of which some class that they may all use is on offer now and was not
    before, or the other way round (`benchmarks/executor_classes.py`).
    """
    if len(state.classes) == 1:
        return
    offered = 0
    for kind in range(len(state.classes)):
        if state.classes[kind]["on_offer"] > 0:
            offered |= 1 << kind
    before = state.clock[0]["offered"]
    state.clock[0]["offered"] = offered
    if offered == before:
        return
    for kind in range(len(state.classes)):
        size = state.classes[kind]
        if size["common"] & offered == 0 or size["common"] & before == 0:
            stage = size["want_head"]
            while stage != NONE:
                _set_misfit(state, stage, offered)
                stage = state.stages[stage]["want_next"]


@inlined_kernel
def _set_misfit(state: State, stage: int, offered: int) -> None:
    """Let `stage`, which wants executors, be chosen if it fits some that are on offer."""
    row = state.stages[stage]
    is_misfit = row["fits"] & offered == 0
    if is_misfit and row["open"] == 1:
        _count_misfit(state, stage, 1)
        _count_open(state, stage, -1)
    elif row["misfit"] == 1 and not is_misfit:
        _count_misfit(state, stage, -1)
        _count_open(state, stage, 1)


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
