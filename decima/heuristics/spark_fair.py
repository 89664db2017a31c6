"""Spark's FAIR scheduler with one pool for each job (minShare 0, equal weights).

Spark gives each free slot to the pool with the fewest running tasks: the
shares are max-min fair and no slot stays idle while a job wants one.
"""

from __future__ import annotations

from decima.heuristics.rounds import has_room, heapify, is_new, sift_down
from decima.heuristics.spec import HeuristicSpec, Numbers, Scratch
from decima.heuristics.stages import on_critical_path
from decima.kernels import inlined_kernel, kernel
from spark_sim.observation import Observation
from spark_sim.tables import ANY, FULL_LIMIT, NONE, SESSION
from traces.numbers import Int64

_FEW_JOBS = 16
"""so many are searched for a single choice more quickly than they are stored"""
_GUESSES = 6
"""passes over the jobs until the level is halved for"""
_LEVEL, _SPARE, _SIZE = 1, 2, 3
"""places in `Scratch.stored`: the water level, executors on offer beyond it, entries of the heap"""
_JOB, _HELD, _USABLE, _HEAP = range(4)
"""rows of `Scratch.counts`, for the jobs with open stages alone; the heap has places among those,
fewest held first"""


@kernel
def decide(
    observation: Observation, _parameters: Numbers, scratch: Scratch
) -> tuple[int, int, int]:
    """The job with the fewest executors, up to the level that all those on offer would fill."""
    is_quick = observation.protocol != SESSION and len(observation.active) <= _FEW_JOBS
    if is_quick or not has_room(observation, scratch):
        return _search(observation)
    stored, held, heap = scratch.stored, scratch.counts[_HELD], scratch.counts[_HEAP]
    job = scratch.counts[_JOB]
    if is_new(observation, scratch):
        _look(observation, scratch)
    elif stored[_SIZE] > 0:
        _count_choice(observation, scratch)
    # Slots left over by rounding go to the jobs with the fewest slots, the oldest first.
    level = int(stored[_LEVEL] + (stored[_SPARE] > 0))
    limit = min(observation.num_executors, level)
    if stored[_SIZE] == 0 or held[heap[0]] >= level:
        return NONE, limit, ANY
    return on_critical_path(observation, job[heap[0]]), limit, ANY


@kernel
def _look(observation: Observation, scratch: Scratch) -> None:
    """Look at all jobs: what those with open stages hold and can use, and the level."""
    stored = scratch.stored
    job, held, heap = scratch.counts[_JOB], scratch.counts[_HELD], scratch.counts[_HEAP]
    size = _list_open(observation, job, held, heap)
    if size == NONE:
        stored[_SIZE] = stored[_SPARE] = observation.on_offer
        stored[_LEVEL] = 0
        return
    usable = scratch.counts[_USABLE]
    most = observation.num_executors
    if observation.on_offer < size:
        # Each job below the level gets one at least, so at most `on_offer` jobs are below it.
        for place in range(size):
            heap[place] = held[place]
        most = min(most, _smallest(heap[:size], observation.on_offer))
        few = 0  # jobs that hold at most so many
        for place in range(size):
            if held[place] <= most:
                job[few], held[few] = job[place], held[place]
                few += 1
        size = few
    for place in range(size):
        usable[place] = _usable(observation, job[place]) if held[place] < most else 0
    level = _level(held[:size], usable[:size], observation.on_offer, most)
    stored[_LEVEL] = level
    stored[_SPARE] = observation.on_offer - _filled(held[:size], usable[:size], level)[0]
    # No other job is chosen.
    below = 0
    for place in range(size):
        if held[place] <= level:
            heap[below] = place
            below += 1
    stored[_SIZE] = below
    heapify(held, heap, below)


@kernel
def _list_open(observation: Observation, job: Int64, held: Int64, heap: Int64) -> int:
    """List the jobs with open stages, by arrival, and what they hold; returns how many.

    If more of them hold nothing than executors are on offer, it fills the heap with the first of
    those and returns NONE: they get one each, so there is no need to look at the others.
    """
    size = 0
    without = 0
    for number in observation.active:
        row = observation.jobs[number]
        if row["open_stages"] == 0:
            continue
        if row["held"] == 0:
            if without == observation.on_offer:
                return NONE
            heap[without] = size
            without += 1
        job[size] = number
        held[size] = row["held"]
        size += 1
    return size


@kernel
def _smallest(values: Int64, rank: int) -> int:
    """Return the value that `rank` others go before, reordering them (Hoare's selection)."""
    low, high = 0, len(values) - 1
    while low < high:
        pivot = values[(low + high) // 2]
        left, right = low, high
        while left <= right:
            while values[left] < pivot:
                left += 1
            while values[right] > pivot:
                right -= 1
            if left <= right:
                values[left], values[right] = values[right], values[left]
                left += 1
                right -= 1
        if rank <= right:
            high = right
        elif rank >= left:
            low = left
        else:
            break
    return int(values[rank])


@kernel
def _count_choice(observation: Observation, scratch: Scratch) -> None:
    """Note what the last choice gave to the job on top of the heap.

    The level stays: what a job gets up to it fills a part of its share, and one more is spare.
    """
    stored, held, heap = scratch.stored, scratch.counts[_HELD], scratch.counts[_HEAP]
    row = observation.jobs[scratch.counts[_JOB, heap[0]]]
    held[heap[0]] = row["held"]
    stored[_SPARE] -= max(0, row["held"] - stored[_LEVEL])
    if row["open_stages"] == 0:
        stored[_SIZE] -= 1
        heap[0] = heap[stored[_SIZE]]
    if stored[_SIZE] > 0:
        sift_down(held, heap, stored[_SIZE], 0)


@kernel
def _level(held: Int64, usable: Int64, on_offer: int, most: int) -> int:
    """The largest level to which all jobs that can use it are raised by what is on offer.

    What is left at a level goes to those that can use more: the
    first guesses suppose that they can use all of it, the others halve what is between.
    """
    if _filled(held, usable, most)[0] <= on_offer:
        return most
    low = on_offer // len(held)
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
def _usable(observation: Observation, job: int) -> int:
    """Tasks of the job's open stages that no executor covers."""
    row = observation.jobs[job]
    usable = 0
    if observation.protocol == SESSION:
        return int(row["uncovered"])
    for stage in range(row["first_stage"], row["first_stage"] + row["num_stages"]):
        candidate = observation.stages[stage]
        if candidate["open"] == 1:
            usable += candidate["num_tasks"] - candidate["covered"]
    return usable


# --- one choice, storing nothing ------------------------------------------------------------------


@kernel
def _search(observation: Observation) -> tuple[int, int, int]:
    level = water_level(observation)
    if _needed(observation, level) < observation.on_offer:
        level += 1
    best = NONE
    fewest = 0
    for job in observation.active:
        held = observation.jobs[job]["held"]
        if held >= level or (best != NONE and held >= fewest):
            continue
        stage = on_critical_path(observation, job)
        if stage != NONE:
            best = stage
            fewest = held
    return best, min(observation.num_executors, level), ANY


@kernel
def water_level(observation: Observation) -> int:
    """The largest level to which all jobs that can use it are raised by what is on offer."""
    low = 0
    high = observation.num_executors
    while low < high:
        middle = (low + high + 1) // 2
        if _needed(observation, middle) <= observation.on_offer:
            low = middle
        else:
            high = middle - 1
    return low


@kernel
def _needed(observation: Observation, level: int) -> int:
    """Executors that bring every job up to `level`, as far as its open stages can use them."""
    needed = 0
    for job in observation.active:
        row = observation.jobs[job]
        if row["open_stages"] > 0 and row["held"] < level:
            needed += min(_usable(observation, job), level - row["held"])
    return needed


HEURISTICS = {
    "spark_fair": HeuristicSpec(
        decide,
        "Spark's FAIR pools, one for each job, work conserving",
        place=50,
        idle_insensitive=True,
        limits=FULL_LIMIT,
    )
}
