"""`Memory`: a layer around the network that keeps the embeddings of jobs which have not changed.

It can be taken off: `PolicyNetwork.forward` of `graph.whole_graph` gives the same scores, more
slowly.
"""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from decima.agent import columns, feature_kernels
from decima.agent.graph import Graph, GraphSorter, Legal, as_levels, describe, graph_of, units_of
from decima.agent.network import Embeddings, PolicyNetwork, Scores
from decima.agent.scales import Scales
from decima.agent.scene import Scene
from traces.arrays import TraceArrays
from traces.numbers import Float32, Int64

Numbers = TypeVar("Numbers", NDArray[np.float32], NDArray[np.float64])


class Seen(NamedTuple):
    """What the network makes of a scene."""

    scene: Scene
    graph: Graph
    legal: Legal
    scores: Scores
    changed: Int64  # jobs, by index in the scene, that were embedded anew


class Memory:
    """The last features and embeddings of every job in sight."""

    def __init__(self, network: PolicyNetwork, trace: TraceArrays, scales: Scales) -> None:
        self._network = network
        self._units = units_of(scales, network.rule.numpy())
        self._sorter = GraphSorter(trace)
        size = network.config.embedding
        self.node_x: Float32 = np.empty((0, len(columns.NODE)), np.float32)
        self._known = np.empty((0, feature_kernels.KNOWN))
        self._e = torch.empty((0, size))
        self._y = torch.empty((0, size))
        self._added = torch.empty((0, size))

    def make_room(self, jobs: int, stages: int) -> None:
        """Have at least so many rows; what is remembered stays."""
        if jobs > len(self._y) or stages > len(self.node_x):
            jobs, stages = max(2 * len(self._y), jobs), max(2 * len(self.node_x), stages)
            self.node_x = _with_unknown(self.node_x, stages)
            self._known = _with_unknown(self._known, stages)
            self._e = _grown(self._e, stages)
            self._y = _grown(self._y, jobs)
            self._added = _grown(self._added, jobs)

    def forget(self) -> None:
        """Take every job for a new one."""
        self.node_x[:] = np.nan
        self._known[:] = np.nan

    @torch.no_grad()
    def look(self, scene: Scene) -> Seen:
        """Embed what has changed since the last look, and score all choices."""
        tables = describe(scene, self._units)
        changed = np.empty(len(scene.rows), np.int64)
        count = feature_kernels.remember_nodes(
            scene, self._units, self._known, self.node_x, changed
        )
        changed = changed[:count]
        graph = graph_of(tables, None)
        kept = self._embeddings(scene, graph, tables.legal, changed)
        return Seen(scene, graph, tables.legal, self._network(graph, kept), changed)

    def _embeddings(self, scene: Scene, graph: Graph, legal: Legal, changed: Int64) -> Embeddings:
        network, decisions = self._network, len(scene.time_ms)
        if not network.config.embeddings:
            return network.nothing(len(graph.stage_x), len(graph.job_x), decisions)
        if len(changed):
            self._embed(scene, changed)
        jobs = torch.from_numpy(scene.memory_job)
        first = scene.jobs["first_stage"][scene.rows]
        job = legal.open_job
        node = scene.memory_stage[job] + legal.open_stage - first[job]
        return Embeddings(
            self._e.index_select(0, torch.from_numpy(node)),
            self._y.index_select(0, jobs),
            network.encoder.cluster(
                self._added.index_select(0, jobs), graph.decision_of_job, decisions
            ),
        )

    def _embed(self, scene: Scene, changed: Int64) -> None:
        arrays = self._sorter.sort(
            scene.jobs["template"][scene.rows[changed]].astype(np.int64),
            scene.memory_stage[changed],
        )
        x = torch.from_numpy(self.node_x[arrays.node])
        job = torch.from_numpy(arrays.graph)
        found = self._network.encoder.embed(x, as_levels(arrays), job, len(changed))
        jobs = torch.from_numpy(scene.memory_job[changed])
        self._e.index_copy_(0, torch.from_numpy(arrays.node), found.e)
        self._y.index_copy_(0, jobs, found.y)
        self._added.index_copy_(0, jobs, found.added)


def _with_unknown(values: Numbers, rows: int) -> Numbers:
    grown = np.full((rows, values.shape[1]), np.nan, values.dtype)
    grown[: len(values)] = values
    return grown


def _grown(values: Tensor, rows: int) -> Tensor:
    grown = torch.zeros((rows, values.shape[1]))
    grown[: len(values)] = values
    return grown
