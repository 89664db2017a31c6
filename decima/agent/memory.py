"""`Memory`: a layer around the network that keeps the embeddings of jobs which have not changed.

It can be taken off: `PolicyNetwork.forward` of `graph.whole_graph` gives the same scores, more
slowly.
"""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from decima.agent import columns, feature_kernels
from decima.agent.graph import Graph, GraphSorter, Legal, as_levels, describe, graph_of, units_of
from decima.agent.graph_kernels import LevelArrays
from decima.agent.network import PolicyNetwork
from decima.agent.scales import Scales
from decima.agent.scene import Scene
from decima.agent.scores import Embeddings, Scores
from gnn.few import Flow
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
        self._e, self._y, self._added = (np.empty((0, size), np.float32) for _ in range(3))

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
        first = scene.jobs["first_stage"][scene.rows]
        job = legal.open_job
        node = scene.memory_stage[job] + legal.open_stage - first[job]
        # `take` copies rows in a quarter of the time of an index.
        added = torch.from_numpy(self._added.take(scene.memory_job, axis=0))
        return Embeddings(
            torch.from_numpy(self._e.take(node, axis=0)),
            torch.from_numpy(self._y.take(scene.memory_job, axis=0)),
            network.encoder.cluster(added, graph.decision_of_job, decisions),
        )

    def _embed(self, scene: Scene, changed: Int64) -> None:
        sorted_ = self._sorter.sort(
            scene.jobs["template"][scene.rows[changed]].astype(np.int64),
            scene.memory_stage[changed],
        )
        found = self._found(self.node_x[sorted_.node], sorted_, len(changed))
        jobs = scene.memory_job[changed]
        self._e[sorted_.node], self._y[jobs], self._added[jobs] = found

    def _found(self, x: Float32, of: LevelArrays, jobs: int) -> tuple[Float32, Float32, Float32]:
        """e, y and `added`; without a way through tensors where compiled code does it."""
        encoder = self._network.encoder
        few = encoder.few(len(x))
        if few is not None:
            return few.embed(x, Flow(of.graph, of.node_ptr, of.child, of.parent, of.edge_ptr), jobs)
        nodes = torch.from_numpy(x)
        e, y, added = encoder.embed(nodes, as_levels(of), torch.from_numpy(of.graph), jobs)
        return e.numpy(), y.numpy(), added.numpy()


def _with_unknown(values: Numbers, rows: int) -> Numbers:
    grown = np.full((rows, values.shape[1]), np.nan, values.dtype)
    grown[: len(values)] = values
    return grown


def _grown(values: Float32, rows: int) -> Float32:
    grown = np.zeros((rows, values.shape[1]), np.float32)
    grown[: len(values)] = values
    return grown
