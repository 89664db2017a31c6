"""Spark's FAIR scheduler with one pool for each job (minShare 0, equal weights).

Spark gives each free slot to the pool with the fewest running tasks: the
shares are max-min fair and no slot stays idle while a job wants one.
"""

from __future__ import annotations

from decima.heuristics.compiled import Numbers, Scratch
from decima.heuristics.rounds import has_room, heapify, is_new, sift_down
from decima.heuristics.stages import on_critical_path
from decima.kernels import inlined_kernel, kernel
from spark_sim.observation import Observation
from spark_sim.tables import NONE
from traces.numbers import Int64

_SESSION = 1
"""`Protocol.SESSION`, as a plain number for the compiler"""
_FEW_JOBS = 16
"""so many are searched for a single choice more quickly than they are stored"""
_LEVEL, _SPARE, _SIZE = 1, 2, 3
"""places in `Scratch.stored`: the water level, executors on offer beyond it, entries of the heap"""
_HELD, _USABLE, _HEAP = 0, 1, 2
"""rows of `Scratch.counts`; the heap has the places of jobs with open stages, fewest held first"""


@kernel
def decide(seen: Observation, _parameters: Numbers, scratch: Scratch) -> tuple[int, int]:
    """The job with the fewest executors, up to the level that all those on offer would fill."""
    is_quick = seen.protocol != _SESSION and len(seen.active) <= _FEW_JOBS
    if is_quick or not has_room(seen, scratch):
        return _search(seen)
    stored, held, heap = scratch.stored, scratch.counts[_HELD], scratch.counts[_HEAP]
    if is_new(seen, scratch):
        _look(seen, scratch)
    elif stored[_SIZE] > 0:
        _count_choice(seen, scratch)
    # Slots left over by rounding go to the jobs with the fewest slots, the oldest first.
    level = int(stored[_LEVEL] + (stored[_SPARE] > 0))
    limit = min(seen.num_executors, level)
    if stored[_SIZE] == 0 or held[heap[0]] >= level:
        return NONE, limit
    return on_critical_path(seen, seen.active[heap[0]]), limit


@kernel
def _look(seen: Observation, scratch: Scratch) -> None:
    """Look at all jobs: what they hold and can use, and the level that follows."""
    stored = scratch.stored
    held, usable, heap = scratch.counts[_HELD], scratch.counts[_USABLE], scratch.counts[_HEAP]
    size = 0
    for place in range(len(seen.active)):
        job = seen.active[place]
        if seen.jobs[job]["open_stages"] > 0:
            held[place] = seen.jobs[job]["held"]
            usable[place] = _usable(seen, job)
            heap[size] = place
            size += 1
    stored[_SIZE] = size
    stored[_LEVEL] = _level(held, usable, heap[:size], seen.on_offer, seen.num_executors)
    stored[_SPARE] = seen.on_offer - _sum_to(held, usable, heap[:size], stored[_LEVEL])
    heapify(held, heap, size)


@kernel
def _count_choice(seen: Observation, scratch: Scratch) -> None:
    """Note what the last choice gave to the job on top of the heap.

    The level stays: what a job gets up to it fills a part of its share, and one more is spare.
    """
    stored, held, heap = scratch.stored, scratch.counts[_HELD], scratch.counts[_HEAP]
    row = seen.jobs[seen.active[heap[0]]]
    held[heap[0]] = row["held"]
    stored[_SPARE] -= max(0, row["held"] - stored[_LEVEL])
    if row["open_stages"] == 0:
        stored[_SIZE] -= 1
        heap[0] = heap[stored[_SIZE]]
    if stored[_SIZE] > 0:
        sift_down(held, heap, stored[_SIZE], 0)


@kernel
def _level(held: Int64, usable: Int64, places: Int64, on_offer: int, most: int) -> int:
    """The largest level to which all jobs that can use it are raised by what is on offer."""
    if _sum_to(held, usable, places, most) <= on_offer:
        return most
    low = on_offer // len(places)
    high = most - 1
    while low < high:
        middle = (low + high + 1) // 2
        if _sum_to(held, usable, places, middle) <= on_offer:
            low = middle
        else:
            high = middle - 1
    return low


@inlined_kernel
def _sum_to(held: Int64, usable: Int64, places: Int64, level: int) -> int:
    """Executors that bring every job up to `level`, as far as its open stages can use them."""
    needed = 0
    for place in places:
        needed += max(0, min(usable[place], level - held[place]))
    return needed


@inlined_kernel
def _usable(seen: Observation, job: int) -> int:
    """Tasks of the job's open stages that no executor covers."""
    row = seen.jobs[job]
    usable = 0
    for stage in range(row["first_stage"], row["first_stage"] + row["num_stages"]):
        candidate = seen.stages[stage]
        if candidate["open"] == 1:
            usable += candidate["num_tasks"] - candidate["covered"]
    return usable


# --- one choice, storing nothing ------------------------------------------------------------------


@kernel
def _search(seen: Observation) -> tuple[int, int]:
    level = water_level(seen)
    if _needed(seen, level) < seen.on_offer:
        level += 1
    best = NONE
    fewest = 0
    for job in seen.active:
        held = seen.jobs[job]["held"]
        if held >= level or (best != NONE and held >= fewest):
            continue
        stage = on_critical_path(seen, job)
        if stage != NONE:
            best = stage
            fewest = held
    return best, min(seen.num_executors, level)


@kernel
def water_level(seen: Observation) -> int:
    """The largest level to which all jobs that can use it are raised by what is on offer."""
    low = 0
    high = seen.num_executors
    while low < high:
        middle = (low + high + 1) // 2
        if _needed(seen, middle) <= seen.on_offer:
            low = middle
        else:
            high = middle - 1
    return low


@kernel
def _needed(seen: Observation, level: int) -> int:
    """Executors that bring every job up to `level`, as far as its open stages can use them."""
    needed = 0
    for job in seen.active:
        row = seen.jobs[job]
        if row["open_stages"] > 0 and row["held"] < level:
            needed += min(_usable(seen, job), level - row["held"])
    return needed
