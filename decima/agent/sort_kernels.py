"""Compiled: a stable sort that allocates nothing (benchmark `policy_speed`)."""

from __future__ import annotations

from decima.agent.kernels import inlined_kernel
from traces.numbers import Float64, Int64


@inlined_kernel
def sort_descending(height: Float64, order: Int64, scratch: Int64) -> None:
    """Fill `order` (n,) with 0 .. n - 1, the highest first, ties in order."""
    for place in range(len(order)):
        order[place] = place
    sort_entries(height, order, scratch)


@inlined_kernel
def sort_entries(height: Float64, order: Int64, scratch: Int64) -> None:
    """Sort entries, the highest first, ties in order. A bottom-up merge sort that skips sorted
    runs, so nearly sorted entries cost little.
    """
    count = len(order)
    width = 1
    while width < count:
        for first in range(0, count - width, 2 * width):
            middle, last = first + width, min(first + 2 * width, count)
            if height[order[middle - 1]] < height[order[middle]]:
                _merge(height, order, scratch, (first, middle, last))
        width *= 2


@inlined_kernel
def _merge(height: Float64, order: Int64, scratch: Int64, cut: tuple[int, int, int]) -> None:
    """Merge order[first:middle] and order[middle:last], both sorted."""
    first, middle, last = cut
    for place in range(first, middle):
        scratch[place] = order[place]
    left, right = first, middle
    for place in range(first, last):
        if left == middle:
            return
        if right == last or height[scratch[left]] >= height[order[right]]:
            order[place] = scratch[left]
            left += 1
        else:
            order[place] = order[right]
            right += 1
