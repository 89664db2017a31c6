r"""Which columns made a choice likely: integrated gradients (Sundararajan et al. 2017).

.. math::
    A_c = (x_c - x'_c) \int_0^1 \frac{\partial F}{\partial x_c}\big(x' + t (x - x')\big) \, dt,
    \qquad \sum_c A_c = F(x) - F(x')

F is the log-probability of one choice of a decision (a stage, or passing), x all columns of the
decision. At the baseline x' no choice differs from another but by the graph of its job: every stage
that may be chosen has their mean columns, its job those of their jobs (a job counts once for each
of its stages), every node the mean columns of all nodes. The cluster, of which there is only one,
has its mean over the run's decisions up to this one. So A_c is the part that column c has in
making the choice more likely, or less, than it would be among average alternatives.

O stages that may be chosen, J jobs with V nodes in all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from decima.agent import columns
from decima.agent.acting import pass_logits
from decima.agent.memory import GraphSorter, Seen, as_levels, cluster_embedding
from decima.agent.network import Embeddings, HeadInputs, PolicyNetwork
from traces.numbers import Float32

STEPS = 128
"""points at which the integral is evaluated, by the midpoint rule"""


class Columns(NamedTuple):
    """All that the network is told of one decision; or one number for each."""

    stage: Tensor  # (O, len(STAGE))
    job: Tensor  # (J, len(JOB))
    cluster: Tensor  # (1, len(CLUSTER))
    node: Tensor  # (V, len(NODE)), job by job


LEVELS = Columns._fields
NAMES = (columns.STAGE, columns.JOB, columns.CLUSTER, columns.NODE)
"""of the columns of each level"""


@dataclass(frozen=True)
class Attribution:
    """The part of one column in the log-probability of a choice."""

    level: str
    """one of `LEVELS`; "node": the columns behind the embeddings"""
    column: str
    value: float | None
    """of the choice, on average over its job's nodes; None where passing has none"""
    baseline: float
    own: float
    """A_c of the choice's own stage, job and nodes, and of the cluster"""
    others: float
    """A_c of the stages, jobs and nodes of all other choices"""

    @property
    def total(self) -> float:
        return self.own + self.others


class Attributed(NamedTuple):
    """The parts of all columns; they add up to `log_prob` - `baseline`, but for the integral."""

    log_prob: float
    """of the choice, F(x)"""
    baseline: float
    """F(x')"""
    parts: tuple[Attribution, ...]


class DecisionFunction:
    """The probabilities of a decision's choices, as a function of its columns."""

    def __init__(self, network: PolicyNetwork, sorter: GraphSorter, seen: Seen) -> None:
        """Args:
        network: scores.
        sorter: of the trace.
        seen: one decision with J >= 1 jobs.
        """
        scene, features = seen.scene, seen.features
        table = scene.jobs[scene.rows]
        size = table["num_stages"].astype(np.int64)
        first = np.cumsum(size) - size
        arrays = sorter.sort(table["template"].astype(np.int64), first)
        self._network = network
        self._levels = as_levels(arrays)
        self._node = torch.from_numpy(arrays.node)
        self._graph = torch.from_numpy(arrays.graph)
        local = features.open_node - scene.memory_stage[features.open_job]
        self._place = torch.from_numpy(arrays.place[first[features.open_job] + local])
        self._inputs = seen.inputs
        never = np.zeros(1, np.float32)
        passing = pass_logits(never, features.may_pass, features.open_ptr, network)
        self._may_pass = bool(np.isfinite(passing[0]))
        self.job_of_stage = features.open_job
        self.job_of_node = np.repeat(np.arange(len(size)), size)
        self._node_row = np.repeat(scene.memory_stage - first, size) + np.arange(size.sum())

    def columns(self, node_x: Float32) -> Columns:
        """The decision's columns; `node_x` are the memory's features."""
        seen = self._inputs
        nodes = torch.from_numpy(node_x[self._node_row])
        return Columns(seen.stage_x, seen.job_x, seen.cluster_x, nodes)

    def __call__(self, at: Columns) -> Tensor:
        """(O,) log-probabilities of the stages; one more for passing where that is a choice."""
        inputs = HeadInputs(
            at.stage, at.job, at.cluster, self._inputs.job_of_stage, self._inputs.decision_of_stage
        )
        logits, passing = self._network.stage_logits(self._embed(at), inputs)
        choices = torch.cat((logits, passing)) if self._may_pass else logits
        return choices.log_softmax(0)

    def _embed(self, at: Columns) -> Embeddings:
        encoder, jobs = self._network.encoder, len(at.job)
        size = self._network.config.embedding
        if not self._network.config.embeddings:
            return Embeddings(*(torch.zeros((len(rows), size)) for rows in at[:3]))
        x = at.node.index_select(0, self._node)
        e = encoder.nodes(x, self._levels)
        y = encoder.jobs(x, e, self._graph, jobs)
        sums = encoder.summands(y).sum(0, keepdim=True)
        z = cluster_embedding(self._network, sums, torch.tensor([jobs]))
        return Embeddings(e.index_select(0, self._place), y, z)


def attribute(
    function: DecisionFunction,
    at: Columns,
    cluster_mean: NDArray[np.float64],
    choice: int,
    steps: int = STEPS,
) -> Attributed:
    """The parts of all columns in the log-probability of a choice.

    Args:
        function: of the decision, with O >= 1.
        at: its columns.
        cluster_mean: (len(CLUSTER),) baseline of the cluster's columns.
        choice: index among the stages that may be chosen; their number for passing.
        steps: points at which the integral is evaluated.
    """
    baseline = _baseline(function, at, cluster_mean)
    parts = integrated_gradients(lambda point: function(point)[choice], at, baseline, steps)
    with torch.no_grad():
        log_prob, before = float(function(at)[choice]), float(function(baseline)[choice])
    found: list[Attribution] = []
    for level, names, own, *tables in zip(
        LEVELS, NAMES, _own_rows(function, at, choice), at, baseline, parts, strict=True
    ):
        found.extend(_grouped(level, names, own, tables))
    return Attributed(log_prob, before, tuple(found))


def integrated_gradients(
    function: Callable[[Columns], Tensor], at: Columns, baseline: Columns, steps: int
) -> Columns:
    """The part of every single number in `function(at)` - `function(baseline)`."""
    change = [values - before for values, before in zip(at, baseline, strict=True)]
    total = [torch.zeros_like(values) for values in at]
    for step in range(steps):
        share = (step + 0.5) / steps
        point = Columns(
            *(
                (before + share * by).requires_grad_()
                for before, by in zip(baseline, change, strict=True)
            )
        )
        # Without embeddings nothing depends on the nodes.
        gradients = torch.autograd.grad(
            function(point), point, allow_unused=True, materialize_grads=True
        )
        total = [summed + one for summed, one in zip(total, gradients, strict=True)]
    return Columns(*(by * summed / steps for by, summed in zip(change, total, strict=True)))


def _baseline(
    function: DecisionFunction, at: Columns, cluster_mean: NDArray[np.float64]
) -> Columns:
    job_of_stage = torch.from_numpy(function.job_of_stage)
    return Columns(
        stage=at.stage.mean(0, keepdim=True).expand_as(at.stage),
        job=at.job.index_select(0, job_of_stage).mean(0, keepdim=True).expand_as(at.job),
        cluster=torch.from_numpy(cluster_mean.astype(np.float32)).unsqueeze(0),
        node=at.node.mean(0, keepdim=True).expand_as(at.node),
    )


def _own_rows(function: DecisionFunction, at: Columns, choice: int) -> list[Tensor]:
    """For each level, which rows are the choice's own: (rows,) bool."""
    job = int(function.job_of_stage[choice]) if choice < len(at.stage) else -1
    return [
        torch.arange(len(at.stage)) == choice,
        torch.arange(len(at.job)) == job,
        torch.ones(1, dtype=torch.bool),
        torch.from_numpy(function.job_of_node == job),
    ]


def _grouped(
    level: str, names: tuple[str, ...], own: Tensor, tables: list[Tensor]
) -> list[Attribution]:
    """One `Attribution` for each column of a level, from its values, baselines and parts."""
    values, baseline, parts = tables
    mean = values[own].mean(0).tolist() if bool(own.any()) else [None] * len(names)
    rows = zip(
        names,
        mean,
        baseline[0].tolist(),
        parts[own].sum(0).tolist(),
        parts[~own].sum(0).tolist(),
        strict=True,
    )
    return [Attribution(level, *row) for row in rows]
