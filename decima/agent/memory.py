"""`Memory`: embeddings that are computed once per change of a job and kept between decisions."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from decima.agent import columns, kernels
from decima.agent.kernels import Graphs, LevelArrays, SceneFeatures
from decima.agent.network import Embeddings, HeadInputs, PolicyNetwork
from decima.agent.scales import Scales
from decima.agent.scene import Scene
from gnn.levels import Levels
from traces.arrays import TraceArrays
from traces.numbers import Int64

Numbers = TypeVar("Numbers", NDArray[np.float32], NDArray[np.float64])

_CPU = torch.device("cpu")


def graphs_of(trace: TraceArrays) -> Graphs:
    """The graphs of the jobs of `trace`, with the height of every stage."""
    graphs = Graphs(
        trace.first_stage,
        trace.first_child,
        trace.children,
        np.zeros(len(trace.num_tasks), np.int32),
    )
    kernels.heights(graphs)
    return graphs


class GraphSorter:
    """Brings the nodes of any of a trace's graphs into the order in which messages flow."""

    def __init__(self, trace: TraceArrays) -> None:
        self.graphs = graphs_of(trace)
        first = trace.first_stage
        self._num_stages = np.diff(first).astype(np.int64)
        self._num_edges = np.diff(trace.first_child[first]).astype(np.int64)
        self._num_levels = np.maximum.reduceat(self.graphs.height, first[:-1]).astype(np.int64) + 1

    def sort(self, template: Int64, first_node: Int64) -> LevelArrays:
        """The nodes of D >= 1 graphs, whose features start at the rows `first_node`."""
        nodes = int(self._num_stages[template].sum())
        edges = int(self._num_edges[template].sum())
        levels = int(self._num_levels[template].max())
        out = LevelArrays(
            *(np.empty(nodes, np.int64) for _ in range(3)),
            *(np.empty(edges, np.int64) for _ in range(2)),
            *(np.zeros(levels + 1, np.int64) for _ in range(2)),
        )
        kernels.sort_by_height(self.graphs, template, first_node, out)
        return out


def as_levels(arrays: LevelArrays, device: torch.device = _CPU) -> Levels:
    """The same as the encoder's type; on the CPU it shares the memory."""
    return Levels(
        tuple(arrays.node_ptr.tolist()),
        torch.from_numpy(arrays.child).to(device),
        torch.from_numpy(arrays.parent).to(device),
        tuple(arrays.edge_ptr.tolist()),
    )


class Seen:
    """One scene, its columns and its embeddings."""

    def __init__(self, scene: Scene, features: SceneFeatures, embeddings: Embeddings) -> None:
        self.scene = scene
        self.features = features
        self.embeddings = embeddings
        decision_of_job = np.repeat(np.arange(len(scene.time_ms)), np.diff(scene.job_ptr))
        self.decision_of_stage = decision_of_job[features.open_job]
        self.inputs = HeadInputs(
            torch.from_numpy(features.stage_x),
            torch.from_numpy(features.job_x),
            torch.from_numpy(features.cluster_x),
            torch.from_numpy(features.open_job),
            torch.from_numpy(self.decision_of_stage),
        )


class Memory:
    """The last features and embeddings of every job in sight."""

    def __init__(self, network: PolicyNetwork, trace: TraceArrays, scales: Scales) -> None:
        self._network = network
        self._scales = scales
        self._sorter = GraphSorter(trace)
        size = network.config.embedding
        self.node_x: NDArray[np.float32] = np.empty((0, len(columns.NODE)), np.float32)
        self._known = np.empty((0, kernels.KNOWN))
        self._e = torch.empty((0, size))
        self._y = torch.empty((0, size))
        self._summand = torch.empty((0, size))

    def make_room(self, jobs: int, stages: int) -> None:
        """Have at least so many rows; what is remembered stays."""
        if jobs > len(self._y) or stages > len(self.node_x):
            jobs, stages = max(2 * len(self._y), jobs), max(2 * len(self.node_x), stages)
            self.node_x = _with_unknown(self.node_x, stages)
            self._known = _with_unknown(self._known, stages)
            self._e = _grown(self._e, stages)
            self._y = _grown(self._y, jobs)
            self._summand = _grown(self._summand, jobs)

    def forget(self, first_stage: int = 0, last_stage: int | None = None) -> None:
        """Take the jobs whose stages are remembered in these rows for new ones."""
        self.node_x[first_stage:last_stage] = np.nan
        self._known[first_stage:last_stage] = np.nan

    @torch.no_grad()
    def look(self, scene: Scene) -> Seen:
        """Embed what has changed since the last look, and gather the rest from memory."""
        always_one = self._network.config.always_one
        features = describe(scene, self._scales, self._known, self.node_x, always_one)
        if len(features.changed) and self._network.config.embeddings:
            self._embed(scene, features.changed)
        jobs = torch.from_numpy(scene.memory_job)
        decisions = len(scene.time_ms)
        y = self._y.index_select(0, jobs)
        if not self._network.config.embeddings:
            y = torch.zeros_like(y)
        counts = np.diff(scene.job_ptr)
        of_job = torch.from_numpy(np.repeat(np.arange(decisions), counts))
        sums = torch.zeros((decisions, y.shape[1]))
        sums.index_add_(0, of_job, self._summand.index_select(0, jobs))
        z = cluster_embedding(self._network, sums, torch.from_numpy(counts))
        e = self._e.index_select(0, torch.from_numpy(features.open_node))
        if not self._network.config.embeddings:
            e, z = torch.zeros_like(e), torch.zeros_like(z)
        return Seen(scene, features, Embeddings(e, y, z))

    def _embed(self, scene: Scene, changed: Int64) -> None:
        arrays = self._sorter.sort(
            scene.jobs["template"][scene.rows[changed]].astype(np.int64),
            scene.memory_stage[changed],
        )
        encoder = self._network.encoder
        node = torch.from_numpy(arrays.node)
        x = torch.from_numpy(self.node_x[arrays.node])
        e = encoder.nodes(x, as_levels(arrays))
        y = encoder.jobs(x, e, torch.from_numpy(arrays.graph), len(changed))
        jobs = torch.from_numpy(scene.memory_job[changed])
        self._e.index_copy_(0, node, e)
        self._y.index_copy_(0, jobs, y)
        self._summand.index_copy_(0, jobs, encoder.summands(y))


def cluster_embedding(network: PolicyNetwork, sums: Tensor, counts: Tensor) -> Tensor:
    """(B, D) z from the sums over jobs of f3(y_i).

    The sum is divided by the number of jobs, which the heads are told: so z keeps its size where
    ten times as many jobs wait as in training.
    """
    mean = sums / counts.clamp(min=1).unsqueeze(1).to(sums.dtype)
    z: Tensor = network.encoder.cluster_of_sum(mean)
    return z


def describe(
    scene: Scene,
    scales: Scales,
    known: NDArray[np.float64],
    node_x: NDArray[np.float32],
    always_one: bool,
) -> SceneFeatures:
    """All columns of `scene`; brings the nodes' columns in `node_x`, and `known`, up to date.

    `SceneFeatures.changed` lists the jobs with a node whose columns have changed.
    """
    decisions, jobs = len(scene.time_ms), len(scene.rows)
    most_open = int(scene.jobs["open_stages"][scene.rows].sum())
    out = SceneFeatures(
        job_x=np.zeros((jobs, len(columns.JOB)), np.float32),
        cluster_x=np.zeros((decisions, len(columns.CLUSTER)), np.float32),
        stage_x=np.empty((most_open, len(columns.STAGE)), np.float32),
        open_stage=np.empty(most_open, np.int64),
        open_job=np.empty(most_open, np.int64),
        open_node=np.empty(most_open, np.int64),
        open_ptr=np.empty(decisions + 1, np.int64),
        room=np.empty(most_open, np.int64),
        may_pass=np.empty(decisions, np.bool_),
        changed=np.empty(jobs, np.int64),
        changed_flag=np.empty(jobs, np.bool_),
    )
    changed = kernels.remember_nodes(scene, scales.task_ms, scales.work_ms, known, node_x, out)
    found = kernels.describe(scene, scales.task_ms, scales.work_ms, always_one, out)
    out.job_x[:, columns.JOB.index("shorter")] = _shorter(
        scene, scene.jobs["remaining_ms"][scene.rows]
    )
    return out._replace(
        stage_x=out.stage_x[:found],
        open_stage=out.open_stage[:found],
        open_job=out.open_job[:found],
        open_node=out.open_node[:found],
        room=out.room[:found],
        changed=out.changed[:changed],
    )


def _shorter(scene: Scene, remaining_ms: NDArray[np.float64]) -> NDArray[np.float64]:
    """(J,) share of the other jobs of the same decision that come first by work left."""
    counts = np.diff(scene.job_ptr)
    decision = np.repeat(np.arange(len(counts)), counts)
    order = np.argsort(remaining_ms, kind="stable")
    if len(counts) > 1:
        order = order[np.argsort(decision[order], kind="stable")]
    rank = np.empty(len(order))
    rank[order] = np.arange(len(order)) - np.repeat(scene.job_ptr[:-1], counts)
    share: NDArray[np.float64] = rank / np.maximum(np.repeat(counts, counts) - 1, 1)
    return share


def _with_unknown(values: Numbers, rows: int) -> Numbers:
    grown = np.full((rows, values.shape[1]), np.nan, values.dtype)
    grown[: len(values)] = values
    return grown


def _grown(values: Tensor, rows: int) -> Tensor:
    grown = torch.zeros((rows, values.shape[1]))
    grown[: len(values)] = values
    return grown
