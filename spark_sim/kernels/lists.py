"""Lists of executors (idle, waiting) and of promises, threaded through the tables; the event queue.

The queue is a winner tree over the executors, ordered by (time, rank). An executor has at most one
pending event, so each owns a leaf; every inner node repeats the earlier of its two children, and
the root is the next event. Handling an event nearly always gives the same executor its next one:
that is a single walk from leaf to root, without the unpredictable branches of a heap
(`benchmarks/simulator_speed.py`). `rank` is unique, so the order is total.
"""

from __future__ import annotations

import numpy as np

from spark_sim.compile import inlined_kernel, kernel
from spark_sim.tables import NONE, State, Table


@inlined_kernel
def first_idle(state: State, job: int, kind: int) -> int:
    """The first executor of a class that is idle in `job`, or in NONE; NONE if there is none."""
    executor: int = state.idle[job + 1, kind]["head"]
    return executor


@inlined_kernel
def append_idle(state: State, job: int, executor: int) -> None:
    """Put `executor` at the end of the idle list of its class in `job`, or in NONE."""
    row = state.executors[executor]
    ends = state.idle[job + 1, row["kind"]]
    row["next"] = NONE
    row["prev"] = ends["tail"]
    if ends["tail"] == NONE:
        ends["head"] = executor
    else:
        state.executors[ends["tail"]]["next"] = executor
    ends["tail"] = executor


@inlined_kernel
def prepend_idle(state: State, job: int, executor: int) -> None:
    """Put `executor` at the head of that list: it is the next to be used."""
    row = state.executors[executor]
    ends = state.idle[job + 1, row["kind"]]
    row["prev"] = NONE
    row["next"] = ends["head"]
    if ends["head"] == NONE:
        ends["tail"] = executor
    else:
        state.executors[ends["head"]]["prev"] = executor
    ends["head"] = executor


@inlined_kernel
def remove_idle(state: State, job: int, executor: int) -> None:
    """Take `executor` out of the idle list of its class in `job`, or in NONE."""
    row = state.executors[executor]
    ends = state.idle[job + 1, row["kind"]]
    if row["prev"] == NONE:
        ends["head"] = row["next"]
    else:
        state.executors[row["prev"]]["next"] = row["next"]
    if row["next"] == NONE:
        ends["tail"] = row["prev"]
    else:
        state.executors[row["next"]]["prev"] = row["prev"]
    row["next"] = NONE
    row["prev"] = NONE


@inlined_kernel
def append_waiting(state: State, stage: int, executor: int) -> None:
    """Put `executor` at the end of those that wait for `stage` to become runnable."""
    row = state.stages[stage]
    state.executors[executor]["next"] = NONE
    if row["wait_tail"] == NONE:
        row["wait_head"] = executor
    else:
        state.executors[row["wait_tail"]]["next"] = executor
    row["wait_tail"] = executor


@inlined_kernel
def take_waiting(state: State, stage: int) -> int:
    """Remove and return the first executor that waits for `stage`; NONE if there is none."""
    row = state.stages[stage]
    executor: int = row["wait_head"]
    if executor != NONE:
        row["wait_head"] = state.executors[executor]["next"]
        if row["wait_head"] == NONE:
            row["wait_tail"] = NONE
        state.executors[executor]["next"] = NONE
    return executor


@kernel
def add_promise(state: State, owner: Table, stage: int, kind: int, count: int) -> None:
    """Promise `count` executors of a class of `owner` (a STAGE, JOB or CLOCK row) to `stage`."""
    entry = owner["commit_head"]
    while entry != NONE:
        row = state.commits[entry]
        if row["stage"] == stage and row["kind"] == kind and row["count"] > 0:
            row["count"] += count
            return
        entry = row["next"]
    clock = state.clock[0]
    entry = clock["free_commit"]
    clock["free_commit"] = state.commits[entry]["next"]
    row = state.commits[entry]
    row["stage"] = stage
    row["kind"] = kind
    row["count"] = count
    row["next"] = NONE
    if owner["commit_tail"] == NONE:
        owner["commit_head"] = entry
    else:
        state.commits[owner["commit_tail"]]["next"] = entry
    owner["commit_tail"] = entry


@inlined_kernel
def has_promise(state: State, owner: Table) -> bool:
    """Return whether `owner` has promises left; those to ended jobs (count 0) are dropped on the
    way.
    """
    while owner["commit_head"] != NONE:
        entry = owner["commit_head"]
        if state.commits[entry]["count"] > 0:
            return True
        _drop_first(state, owner)
    return False


@inlined_kernel
def take_promise(state: State, owner: Table) -> int:
    """The stage that the next free executor of `owner` is promised to. Needs `has_promise`."""
    entry = owner["commit_head"]
    row = state.commits[entry]
    stage: int = row["stage"]
    row["count"] -= 1
    if row["count"] == 0:
        _drop_first(state, owner)
    return stage


@inlined_kernel
def has_promise_for(state: State, owner: Table, kind: int) -> bool:
    """Return whether an executor of this class is promised; if so, the first such promise goes
    first.
    """
    before = NONE
    entry = int(owner["commit_head"])
    while entry != NONE:
        row = state.commits[entry]
        if row["kind"] == kind and row["count"] > 0:
            if before != NONE:
                state.commits[before]["next"] = row["next"]
                if row["next"] == NONE:
                    owner["commit_tail"] = before
                row["next"] = owner["commit_head"]
                owner["commit_head"] = entry
            return True
        before = entry
        entry = row["next"]
    return False


@inlined_kernel
def _drop_first(state: State, owner: Table) -> None:
    clock = state.clock[0]
    entry = owner["commit_head"]
    owner["commit_head"] = state.commits[entry]["next"]
    if owner["commit_head"] == NONE:
        owner["commit_tail"] = NONE
    state.commits[entry]["next"] = clock["free_commit"]
    clock["free_commit"] = entry


KIND_SHIFT = 56
"""shift of an event's kind above the sequence number in `rank`"""


@inlined_kernel
def push(state: State, executor: int, time_ms: float, kind: int) -> None:
    """Set the event of `executor`; at equal times the lower kind, then the earlier push wins."""
    clock = state.clock[0]
    state.executors[executor]["rank"] = (kind << KIND_SHIFT) | clock["sequence"]
    clock["sequence"] += 1
    if clock["taken"] == executor:
        clock["taken"] = NONE
    _replay(state, executor, time_ms)


@inlined_kernel
def take(state: State) -> int:
    """Remove the next event and return its executor. Call `next_event_ms` before."""
    executor: int = state.events[1]["executor"]
    state.clock[0]["taken"] = executor
    return executor


@inlined_kernel
def next_event_ms(state: State) -> float:
    """Time of the next event; infinity when none is pending."""
    clock = state.clock[0]
    if clock["taken"] != NONE:
        # The event that was taken last was not replaced, so its leaf is emptied now.
        _replay(state, clock["taken"], np.inf)
        clock["taken"] = NONE
    return float(state.events[1]["time_ms"])


@inlined_kernel
def _replay(state: State, executor: int, time_ms: float) -> None:
    """Write the leaf of `executor` and play its matches up to the root."""
    nodes = state.events
    node = (len(nodes) >> 1) + executor
    nodes[node]["time_ms"] = time_ms
    winner = executor
    while node > 1:
        other = nodes[node ^ 1]
        if other["time_ms"] < time_ms or (
            other["time_ms"] == time_ms and _goes_first(state, other["executor"], winner)
        ):
            time_ms = other["time_ms"]
            winner = other["executor"]
        node >>= 1
        nodes[node]["time_ms"] = time_ms
        nodes[node]["executor"] = winner


@inlined_kernel
def _goes_first(state: State, executor: int, other: int) -> bool:
    """Return whether `executor` wins the tie; of two empty leaves either may."""
    return bool(state.executors[executor]["rank"] < state.executors[other]["rank"])
