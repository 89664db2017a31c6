"""Compiled: the nodes of many graphs in the order in which messages flow."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from decima.agent.kernels import kernel
from traces.arrays import TraceArrays
from traces.numbers import Int64


class Graphs(NamedTuple):
    """The graphs of T jobs with S stages in all, by rows of a trace."""

    first_stage: NDArray[np.int32]  # (T + 1,)
    first_child: NDArray[np.int32]  # (S + 1,)
    children: NDArray[np.int32]  # (edges,) stage index in the job
    height: NDArray[np.int32]  # (S,) edges on the longest way to a stage without children
    order: NDArray[np.int32]  # (S,) a job's stages by height, as indices inside the job


def graphs_of(trace: TraceArrays) -> Graphs:
    """Return the stages of all jobs with their children and heights."""
    height, order = np.zeros((2, len(trace.num_tasks)), np.int32)
    graphs = Graphs(trace.first_stage, trace.first_child, trace.children, height, order)
    _fill_heights(graphs)
    return graphs


@kernel
def _fill_heights(graphs: Graphs) -> None:
    """Fill `height` and `order`."""
    for template in range(len(graphs.first_stage) - 1):
        first, last = graphs.first_stage[template], graphs.first_stage[template + 1]
        for stage in range(first, last):
            graphs.height[stage] = 0
        changed = True
        while changed:
            changed = False
            for stage in range(first, last):
                for edge in range(graphs.first_child[stage], graphs.first_child[stage + 1]):
                    above = graphs.height[first + graphs.children[edge]] + 1
                    if above > graphs.height[stage]:
                        graphs.height[stage] = above
                        changed = True
        place = first
        height = 0
        while place < last:  # ties in the order of stages
            for stage in range(first, last):
                if graphs.height[stage] == height:
                    graphs.order[place] = stage - first
                    place += 1
            height += 1


# --- levels of many graphs -----------------------------------------------------------------------


class LevelArrays(NamedTuple):
    """V nodes of D graphs, sorted by height (`gnn.levels.Levels` as arrays)."""

    node: Int64  # (V,) row of the node features
    graph: Int64  # (V,) which of the D graphs
    place: Int64  # (V,) where the nodes went: graph by graph, stage by stage
    child: Int64  # (E,) rows in the sorted numbering
    parent: Int64  # (E,)
    node_ptr: Int64  # (L + 1,)
    edge_ptr: Int64  # (L + 1,)


@kernel
def sort_by_height(graphs: Graphs, template: Int64, first_node: Int64, out: LevelArrays) -> None:
    """Number the nodes of the graphs `template` (D,) by height, edges by the height of the child.

    The features of a graph's first stage are in the row `first_node` (D,).
    """
    out.node_ptr[:] = 0
    out.edge_ptr[:] = 0
    for job in template:
        first = graphs.first_stage[job]
        for stage in range(first, graphs.first_stage[job + 1]):
            out.node_ptr[graphs.height[stage] + 1] += 1
            for edge in range(graphs.first_child[stage], graphs.first_child[stage + 1]):
                out.edge_ptr[graphs.height[first + graphs.children[edge]] + 1] += 1
    for level in range(1, len(out.node_ptr)):
        out.node_ptr[level] += out.node_ptr[level - 1]
        out.edge_ptr[level] += out.edge_ptr[level - 1]
    base = 0
    for graph in range(len(template)):
        first = graphs.first_stage[template[graph]]
        count = graphs.first_stage[template[graph] + 1] - first
        for local in range(count):
            level = graphs.height[first + local]
            place = out.node_ptr[level]
            out.node_ptr[level] += 1
            out.place[base + local] = place
            out.node[place] = first_node[graph] + local
            out.graph[place] = graph
        for local in range(count):
            stage = first + local
            for edge in range(graphs.first_child[stage], graphs.first_child[stage + 1]):
                child = graphs.children[edge]
                level = graphs.height[first + child]
                place = out.edge_ptr[level]
                out.edge_ptr[level] += 1
                out.child[place] = out.place[base + child]
                out.parent[place] = out.place[base + local]
        base += count
    # Filling moved each level's start to the next one's.
    for ends in (out.node_ptr, out.edge_ptr):
        for level in range(len(ends) - 1, 0, -1):
            ends[level] = ends[level - 1]
        ends[0] = 0
