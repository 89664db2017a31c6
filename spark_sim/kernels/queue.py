"""The event queue: a winner tree over the executors, ordered by (time, rank).

An executor has at most one pending event, so each owns a leaf; every inner node repeats the earlier
of its two children, and the root is the next event. Handling an event nearly always gives the same
executor its next one: that is a single walk from leaf to root, without the unpredictable branches
of a heap (`benchmarks/simulator_speed.py`). `rank` is unique, so the order is total.
"""

from __future__ import annotations

import numpy as np

from spark_sim.compile import inlined_kernel
from spark_sim.tables import NONE, State

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
    """Return whether `one` wins the tie; empty leaves tie at infinity and may go either way."""
    return bool(state.executors[executor]["rank"] < state.executors[other]["rank"])
