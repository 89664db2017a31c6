"""The event queue: a four-way heap ordered by (time, rank).

`rank` is unique, so the order is total. An executor has at most one event, and handling one nearly
always pushes the next for the same executor: `take` therefore leaves the root's slot free for
`push` to reuse (one sift instead of two; `benchmarks/simulator_speed.py`).
"""

from __future__ import annotations

from spark_sim.compile import inlined_kernel
from spark_sim.tables import State, Table

KIND_SHIFT = 56
"""the kind of an event stands above the sequence number in `rank`"""


@inlined_kernel
def push(state: State, executor: int, time_ms: float, kind: int) -> None:
    """Add the event of `executor`; at equal times the lower kind, then the earlier push wins."""
    clock = state.clock[0]
    rank = (kind << KIND_SHIFT) | clock["sequence"]
    clock["sequence"] += 1
    if clock["root_is_free"] == 1:
        clock["root_is_free"] = 0
        _sift_down(state.events, clock["num_events"], time_ms, rank, executor)
    else:
        hole = clock["num_events"]
        clock["num_events"] += 1
        _sift_up(state.events, hole, time_ms, rank, executor)


@inlined_kernel
def settle(state: State) -> None:
    """Fill the slot of an event that was taken and not replaced, before the root is looked at."""
    clock = state.clock[0]
    if clock["root_is_free"] == 1:
        clock["root_is_free"] = 0
        clock["num_events"] -= 1
        last = clock["num_events"]
        if last > 0:
            event = state.events[last]
            _sift_down(state.events, last, event["time_ms"], event["rank"], event["executor"])


@inlined_kernel
def take(state: State) -> int:
    """Remove the first event and return its executor. `settle` must have been called."""
    state.clock[0]["root_is_free"] = 1
    executor: int = state.events[0]["executor"]
    return executor


@inlined_kernel
def _sift_up(events: Table, hole: int, time_ms: float, rank: int, executor: int) -> None:
    while hole > 0:
        parent = (hole - 1) >> 2
        above = events[parent]
        if above["time_ms"] < time_ms or (above["time_ms"] == time_ms and above["rank"] < rank):
            break
        _copy(events, hole, parent)
        hole = parent
    _place(events, hole, time_ms, rank, executor)


@inlined_kernel
def _sift_down(events: Table, count: int, time_ms: float, rank: int, executor: int) -> None:
    hole = 0
    while True:
        first = (hole << 2) + 1
        if first >= count:
            break
        best = first
        for child in range(first + 1, min(first + 4, count)):
            if _before(events, child, best):
                best = child
        event = events[best]
        if time_ms < event["time_ms"] or (time_ms == event["time_ms"] and rank < event["rank"]):
            break
        _copy(events, hole, best)
        hole = best
    _place(events, hole, time_ms, rank, executor)


@inlined_kernel
def _before(events: Table, left: int, right: int) -> bool:
    one = events[left]
    other = events[right]
    if one["time_ms"] != other["time_ms"]:
        return bool(one["time_ms"] < other["time_ms"])
    return bool(one["rank"] < other["rank"])


@inlined_kernel
def _copy(events: Table, to: int, source: int) -> None:
    events[to]["time_ms"] = events[source]["time_ms"]
    events[to]["rank"] = events[source]["rank"]
    events[to]["executor"] = events[source]["executor"]


@inlined_kernel
def _place(events: Table, slot: int, time_ms: float, rank: int, executor: int) -> None:
    events[slot]["time_ms"] = time_ms
    events[slot]["rank"] = rank
    events[slot]["executor"] = executor
