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
_GUESSES = 6
"""passes over the jobs until the level is halved for"""
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
    if _finds_enough(seen, held, heap):
        stored[_SIZE] = stored[_SPARE] = seen.on_offer
        stored[_LEVEL] = 0
        return
    size = 0
    jobs = len(seen.active)
    for place in range(jobs):
        job = seen.active[place]
        held[place] = seen.jobs[job]["held"]
        usable[place] = 0
        if seen.jobs[job]["open_stages"] > 0:
            usable[place] = _usable(seen, job)
            heap[size] = place
            size += 1
    level = _level(held[:jobs], usable[:jobs], size, seen.on_offer, seen.num_executors)
    stored[_LEVEL] = level
    stored[_SPARE] = seen.on_offer - _filled(held[:jobs], usable[:jobs], level)[0]
    # No other job is chosen.
    below = 0
    for entry in range(size):
        if held[heap[entry]] <= level:
            heap[below] = heap[entry]
            below += 1
    stored[_SIZE] = below
    heapify(held, heap, below)


@kernel
def _finds_enough(seen: Observation, held: Int64, heap: Int64) -> bool:
    """Fill the heap with jobs that hold nothing, if there are more than executors on offer.

    The first of them get one each: however many jobs wait, there is no need to look at the others.
    """
    size = 0
    for place in range(len(seen.active)):
        job = seen.jobs[seen.active[place]]
        if job["open_stages"] > 0 and job["held"] == 0:
            if size == seen.on_offer:
                return True
            held[place] = 0
            heap[size] = place
            size += 1
    return False


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
def _level(held: Int64, usable: Int64, jobs: int, on_offer: int, most: int) -> int:
    """The largest level to which all jobs that can use it are raised by what is on offer.

    `jobs` of them have open stages. What is left at a level goes to those that can use more: the
    first guesses suppose that they can use all of it, the others halve what is between.
    """
    if _filled(held, usable, most)[0] <= on_offer:
        return most
    low = on_offer // jobs
    high = most - 1
    needed, growing = _filled(held, usable, low)
    guesses = 0
    while low < high and on_offer - needed >= growing:
        guess = (low + high + 1) // 2
        if guesses < _GUESSES:
            guess = min(high, low + max(1, (on_offer - needed) // max(1, growing)))
        guesses += 1
        then_needed, then_growing = _filled(held, usable, guess)
        if then_needed <= on_offer:
            low, needed, growing = guess, then_needed, then_growing
        else:
            high = guess - 1
    return low


@inlined_kernel
def _filled(held: Int64, usable: Int64, level: int) -> tuple[int, int]:
    """Executors that bring every job up to `level`, as far as its open stages can use them.

    And how many jobs would take one more at the next level.
    """
    needed = 0
    growing = 0
    for place in range(len(held)):
        room = level - held[place]
        needed += max(0, min(usable[place], room))
        growing += int(0 <= room < usable[place])
    return needed, growing


@inlined_kernel
def _usable(seen: Observation, job: int) -> int:
    """Tasks of the job's open stages that no executor covers."""
    row = seen.jobs[job]
    usable = 0
    if seen.protocol == _SESSION:
        return int(row["uncovered"])
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
