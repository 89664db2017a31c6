"""`Graph`: the input of `PolicyNetwork.forward`, for updates.

B decisions, each about all choices of one scheduling event; J jobs in their systems; O stages that
may be chosen; M limits; K classes of executors that stages may be given, none where there is one
class; D different job graphs with V nodes in all (the same graph may be seen by several decisions).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from decima.agent import graph_kernels
from decima.agent.graph_kernels import LevelArrays, graphs_of
from gnn.levels import Levels, joined_levels
from traces.arrays import TraceArrays
from traces.numbers import Float32, Int64


class Nodes(NamedTuple):
    """The encoder's part of a graph."""

    x: Tensor  # (V, len(NODE)) in the order of `levels`
    levels: Levels
    graph: Tensor  # (V,) int64, which of the D graphs
    graph_of_job: Tensor  # (J,) int64
    node_of_stage: Tensor  # (O,) int64, rows of `x`

    @property
    def num_graphs(self) -> int:
        """D"""
        return int(self.graph.max()) + 1 if len(self.graph) else 0


class Graph(NamedTuple):
    """B decisions."""

    stage_x: Tensor  # (O, len(STAGE))
    job_x: Tensor  # (J, len(JOB))
    cluster_x: Tensor  # (B, len(CLUSTER))
    limit_x: Tensor  # (M, len(LIMIT))
    class_x: Tensor  # (K, len(CLASS))
    job_of_stage: Tensor  # (O,) int64
    job_of_limit: Tensor  # (M,) int64
    stage_of_class: Tensor  # (K,) int64
    decision_of_job: Tensor  # (J,) int64
    nodes: Nodes

    @property
    def decision_of_stage(self) -> Tensor:
        """(O,) int64"""
        return self.decision_of_job.index_select(0, self.job_of_stage)


def joined_graphs(parts: Sequence[Graph]) -> Graph:
    """Join several batches of decisions into one, in their order."""
    if len(parts) == 1:
        return parts[0]
    levels, order = joined_levels([part.nodes.levels for part in parts])
    row = torch.empty_like(order)
    row[order] = torch.arange(len(order))
    nodes = [part.nodes for part in parts]
    num_graphs = [part.num_graphs for part in nodes]
    graph = _numbered([part.graph for part in nodes], num_graphs)
    jobs = [len(part.job_x) for part in parts]
    return Graph(
        stage_x=torch.cat([part.stage_x for part in parts]),
        job_x=torch.cat([part.job_x for part in parts]),
        cluster_x=torch.cat([part.cluster_x for part in parts]),
        limit_x=torch.cat([part.limit_x for part in parts]),
        class_x=torch.cat([part.class_x for part in parts]),
        job_of_stage=_numbered([part.job_of_stage for part in parts], jobs),
        job_of_limit=_numbered([part.job_of_limit for part in parts], jobs),
        stage_of_class=_numbered(
            [part.stage_of_class for part in parts], [len(part.stage_x) for part in parts]
        ),
        decision_of_job=_numbered(
            [part.decision_of_job for part in parts], [len(part.cluster_x) for part in parts]
        ),
        nodes=Nodes(
            torch.cat([part.x for part in nodes])[order],
            levels,
            graph[order],
            _numbered([part.graph_of_job for part in nodes], num_graphs),
            row[_numbered([part.node_of_stage for part in nodes], [len(part.x) for part in nodes])],
        ),
    )


def _numbered(parts: Sequence[Tensor], counts: Sequence[int]) -> Tensor:
    """Renumber the rows of several tables as rows of their concatenation."""
    first = np.cumsum(counts) - counts
    return torch.cat([part + int(base) for part, base in zip(parts, first, strict=True)])


class GraphSorter:
    """Sorter of graph nodes into the order in which messages flow."""

    def __init__(self, trace: TraceArrays) -> None:
        self.graphs = graphs_of(trace)
        first = trace.first_stage
        self.num_stages: Int64 = np.diff(first).astype(np.int64)
        self._num_edges = np.diff(trace.first_child[first]).astype(np.int64)
        self._num_levels = np.maximum.reduceat(self.graphs.height, first[:-1]).astype(np.int64) + 1

    def nodes(
        self,
        template: Int64,
        first_node: Int64,
        node_x: Float32,
        graph_of_job: Int64,
        stages: tuple[Int64, Int64],
    ) -> Nodes:
        """The encoder's part of a graph: jobs' `template` (D,), first rows of `node_x` (D,),
        `graph_of_job` (J,), and for each stage that may be chosen its job and its number there,
        (O,) each.
        """
        nodes = int(self.num_stages[template].sum())
        edges = int(self._num_edges[template].sum())
        levels = int(self._num_levels[template].max())
        arrays = LevelArrays(
            *(np.empty(nodes, np.int64) for _ in range(3)),
            *(np.empty(edges, np.int64) for _ in range(2)),
            *(np.zeros(levels + 1, np.int64) for _ in range(2)),
        )
        graph_kernels.sort_by_height(self.graphs, template, first_node, arrays)
        size = self.num_stages[template]
        first_place = np.cumsum(size) - size
        job, local = stages
        return Nodes(
            torch.from_numpy(node_x[arrays.node]),
            Levels(
                tuple(arrays.node_ptr.tolist()),
                torch.from_numpy(arrays.child),
                torch.from_numpy(arrays.parent),
                tuple(arrays.edge_ptr.tolist()),
            ),
            torch.from_numpy(arrays.graph),
            torch.from_numpy(graph_of_job),
            torch.from_numpy(arrays.place[first_place[graph_of_job[job]] + local]),
        )
