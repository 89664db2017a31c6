"""Open stages of the default protocol: those that want executors which are available.

Also what several classes of executors change: a stage may fit none on offer, and executors that
finish their last tasks for a job count against its limit until they leave.
"""

from __future__ import annotations

from spark_sim.compile import inlined_kernel, kernel
from spark_sim.kernels.common import child_range
from spark_sim.tables import NONE, State, fits

HELD_BACK = 2
"""`released` of a stage whose last executors hold its job at a limit: if the job wants others, each
that leaves is an event. Only with several classes"""

can_hold = inlined_kernel(fits)


@kernel
def set_open(state: State, stage: int) -> None:
    """Open `stage`, which wants executors while no parent of it does any more."""
    row = state.stages[stage]
    if len(state.classes) > 1:
        # At the head of the stages that want executors, by its smallest class.
        size = state.classes[row["least_class"]]
        row["want_prev"] = NONE
        row["want_next"] = size["want_head"]
        if size["want_head"] != NONE:
            state.stages[size["want_head"]]["want_prev"] = stage
        size["want_head"] = stage
        if row["fits"] & state.clock[0]["offered"] == 0:
            _count_misfit(state, stage, 1)
            return
    _count_open(state, stage, 1)


@kernel
def clear_open(state: State, stage: int) -> None:
    """Close `stage`: it may not be chosen."""
    row = state.stages[stage]
    if len(state.classes) > 1 and row["open"] + row["misfit"] > 0:
        if row["want_prev"] == NONE:
            state.classes[row["least_class"]]["want_head"] = row["want_next"]
        else:
            state.stages[row["want_prev"]]["want_next"] = row["want_next"]
        if row["want_next"] != NONE:
            state.stages[row["want_next"]]["want_prev"] = row["want_prev"]
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


@kernel
def cover(state: State, stage: int) -> None:
    """Close `stage`, which wants no more executors, and open the children that now may get some."""
    clear_open(state, stage)
    first, last, offset = child_range(state, stage)
    for index in range(first, last):
        child = offset + state.trace.children[index]
        row = state.stages[child]
        row["parents_uncovered"] -= 1
        if row["parents_uncovered"] == 0 and row["covered"] < row["num_tasks"]:
            set_open(state, child)


@inlined_kernel
def set_aside(state: State, stage: int) -> None:
    """Close `stage` until the end of this round."""
    clock = state.clock[0]
    clear_open(state, stage)
    state.chosen[clock["num_chosen"]] = stage
    clock["num_chosen"] += 1


# --- classes of executors ------------------------------------------------------------------------


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
                row = state.stages[stage]
                is_misfit = row["fits"] & offered == 0
                if is_misfit and row["open"] == 1:
                    _count_misfit(state, stage, 1)
                    _count_open(state, stage, -1)
                elif row["misfit"] == 1 and not is_misfit:
                    _count_misfit(state, stage, -1)
                    _count_open(state, stage, 1)
                stage = row["want_next"]


@inlined_kernel
def is_on_offer(state: State, stage: int, kind: int) -> bool:
    """Return whether an executor on offer of the class can hold a task of `stage`."""
    if not 0 <= kind < len(state.classes) or state.classes[kind]["on_offer"] == 0:
        return False
    return bool(can_hold(state.stages[stage], kind))


@inlined_kernel
def room_under(state: State, job: int, limit: int) -> int:
    """Executors that may join those of `job` under the limit while its last tasks still run."""
    clock = state.clock[0]
    if len(state.classes) == 1:
        # Executors about to be free are given before any others.
        return int(clock["num_executors"])
    ending = clock["releasing"] if clock["source_job"] == job else 0
    return int(max(0, limit - state.jobs[job]["held"] - ending))


@inlined_kernel
def leaving(state: State, job: int, kind: int) -> int:
    """Executors of a class on offer that end their last tasks for `job`."""
    if state.clock[0]["source_job"] != job:
        return 0
    return int(state.classes[kind]["releasing"])
