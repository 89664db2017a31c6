"""Longest paths in a DAG."""

from __future__ import annotations

from collections.abc import Sequence


def longest_paths(children: Sequence[Sequence[int]], weight: Sequence[float]) -> list[float]:
    """Return, for each node, the largest sum of weights on a path that begins there, its own
    included.

    .. math:: c_v = w_v + \\max_{u \\in children(v)} c_u

    Not by recursion: jobs of iterative programs are thousands of stages deep.

    Args:
        children: (V,) rows of nodes, without a cycle.
        weight: (V,) not negative.
    """
    parents: list[list[int]] = [[] for _ in children]
    for node, row in enumerate(children):
        for child in row:
            parents[child].append(node)
    missing = [len(row) for row in children]
    longest = [0.0] * len(children)
    ready = [node for node, count in enumerate(missing) if count == 0]
    for node in ready:  # grows while it is walked
        longest[node] += weight[node]
        for parent in parents[node]:
            longest[parent] = max(longest[parent], longest[node])
            missing[parent] -= 1
            if missing[parent] == 0:
                ready.append(parent)
    return longest
