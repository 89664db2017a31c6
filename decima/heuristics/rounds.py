"""Storage of a heuristic for the choices of one round, and a heap of jobs.

A decision never depends on what is stored: a look at all jobs would find the same again. In a
session a round plans for every slot, and a choice changes the chosen job alone: there a look at the
first choice is enough. In the default protocol, choices start tasks and open stages elsewhere.
"""

from __future__ import annotations

from decima.heuristics.spec import Numbers, Scratch
from decima.kernels import inlined_kernel, kernel
from spark_sim.observation import Observation
from spark_sim.tables import SESSION
from traces.numbers import Int64

_ROUND, _JOBS = 0, 7
"""places of the round's number and of its jobs' in `Scratch.stored`; the others are the
heuristic's"""


@inlined_kernel
def has_room(observation: Observation, scratch: Scratch) -> bool:
    """Return whether the scratch has a place for every job."""
    return bool(scratch.counts.shape[1] >= len(observation.active) > 0)


@inlined_kernel
def is_new(observation: Observation, scratch: Scratch) -> bool:
    """Return whether nothing is stored of the open round yet."""
    stored = scratch.stored
    is_same = stored[_ROUND] == observation.round_number and stored[_JOBS] == len(
        observation.active
    )
    if observation.protocol == SESSION and is_same:
        return False
    stored[_ROUND] = observation.round_number
    stored[_JOBS] = len(observation.active)
    return True


# --- a heap of places, the least key on top, of equal keys the first place ------------------------


@kernel
def heapify(keys: Int64 | Numbers, heap: Int64, size: int) -> None:
    """Order the first `size` entries of `heap`, which are places in `keys`."""
    for entry in range(size // 2 - 1, -1, -1):
        sift_down(keys, heap, size, entry)


@kernel
def sift_down(keys: Int64 | Numbers, heap: Int64, size: int, entry: int) -> None:
    """Move the entry down to where no entry below it goes before it."""
    moved = heap[entry]
    while 2 * entry + 1 < size:
        below = 2 * entry + 1
        if below + 1 < size and _goes_first(keys, heap[below + 1], heap[below]):
            below += 1
        if not _goes_first(keys, heap[below], moved):
            break
        heap[entry] = heap[below]
        entry = below
    heap[entry] = moved


@kernel
def sift_up(keys: Int64 | Numbers, heap: Int64, entry: int) -> None:
    """Move the entry up to where it does not go before the entry above it."""
    moved = heap[entry]
    while entry > 0 and _goes_first(keys, moved, heap[(entry - 1) // 2]):
        heap[entry] = heap[(entry - 1) // 2]
        entry = (entry - 1) // 2
    heap[entry] = moved


@inlined_kernel
def _goes_first(keys: Int64 | Numbers, first: int, second: int) -> bool:
    if keys[first] == keys[second]:
        return first < second
    return bool(keys[first] < keys[second])
