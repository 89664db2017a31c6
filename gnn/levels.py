"""The order in which messages flow: nodes by height, so that children come before their parents.

V nodes, E edges, L levels. The *height* of a node is the number of edges on the longest chain below
it; level l holds the nodes of height l, so a graph's leaves are level 0 and L - 1 is its depth.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor


class Levels(NamedTuple):
    """V nodes sorted by height: leaves (no children) first; how messages flow, child to parent."""

    node_ptr: tuple[int, ...]
    """(L + 1,) level l is rows node_ptr[l]:node_ptr[l + 1]"""
    child: Tensor
    """(E,) int64 row of the child; edges are sorted by the height of their child"""
    parent: Tensor
    """(E,) int64 row of the parent"""
    edge_ptr: tuple[int, ...]
    """(L + 1,) edges edge_ptr[l]:edge_ptr[l + 1] are those whose child is in level l"""

    @property
    def num_nodes(self) -> int:
        """V"""
        return self.node_ptr[-1]

    @property
    def num_levels(self) -> int:
        """L"""
        return len(self.node_ptr) - 1


def levels_of(edges: Tensor, num_nodes: int) -> tuple[Levels, Tensor]:
    """Sort the nodes of a DAG, or of many at once, by height.

    Args:
        edges: (2, E) int64, row 0 the parents, row 1 the children, in any numbering below
            `num_nodes`.
        num_nodes: V.

    Returns:
        The levels, and order (V,) int64: row r of the sorted numbering is node order[r]. Nodes of
        one height, and edges with children of one height, keep the order in which they came.

    Raises:
        ValueError: (one line) `edges` has another shape or type, names a node that does not exist,
            or contains a cycle.
    """
    if edges.dtype != torch.int64 or edges.dim() != 2 or edges.size(0) != 2:
        raise ValueError(
            f"edges must be int64 of shape (2, E), got {edges.dtype} of {tuple(edges.shape)}"
        )
    if edges.numel() and not 0 <= int(edges.min()) <= int(edges.max()) < num_nodes:
        raise ValueError(
            f"edges name nodes {int(edges.min())} to {int(edges.max())}, there are {num_nodes}"
        )
    parent, child = edges
    height = edges.new_zeros(num_nodes)  # the longest chain below each node
    for _ in range(num_nodes + 1):
        higher = height.scatter_reduce(0, parent, height[child] + 1, "amax")
        if torch.equal(higher, height):
            return _by_height(height, parent, child)
        height = higher
    raise ValueError(f"the edges between {num_nodes} nodes contain a cycle")


def joined_levels(parts: Sequence[Levels]) -> tuple[Levels, Tensor]:
    """Put several DAGs, each in its order, beside each other.

    Returns:
        As `levels_of`, for the nodes of all parts one after the other.
    """
    first = _offsets(torch.tensor([part.num_nodes for part in parts]))
    height = torch.cat(
        [
            torch.arange(part.num_levels).repeat_interleave(torch.tensor(part.node_ptr).diff())
            for part in parts
        ]
    )
    parent, child = (
        torch.cat([getattr(part, end) + base for part, base in zip(parts, first, strict=False)])
        for end in ("parent", "child")
    )
    return _by_height(height, parent, child)


def _by_height(height: Tensor, parent: Tensor, child: Tensor) -> tuple[Levels, Tensor]:
    """Sort nodes of these (V,) heights, and the (E,) edges between them; as `levels_of` returns."""
    order = height.argsort(stable=True)
    row = torch.empty_like(order)
    row[order] = torch.arange(len(order), device=order.device)
    height_of_child = height[child]
    edge_order = height_of_child.argsort(stable=True)
    nodes = height.bincount()
    levels = Levels(
        node_ptr=_offsets(nodes),
        child=row[child[edge_order]],
        parent=row[parent[edge_order]],
        edge_ptr=_offsets(height_of_child.bincount(minlength=len(nodes))),
    )
    return levels, order


def _offsets(counts: Tensor) -> tuple[int, ...]:
    return (0, *counts.cumsum(0).tolist())
