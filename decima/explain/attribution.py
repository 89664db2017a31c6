r"""Which columns made a choice likely: integrated gradients (Sundararajan et al. 2017).

.. math::
    A_c = (x_c - x'_c) \int_0^1 \frac{\partial F}{\partial x_c}\big(x' + t (x - x')\big) \, dt,
    \qquad \sum_c A_c = F(x) - F(x')

F is the log-probability that one choice of a decision (a stage, or the end of the round) is taken
first, x all columns of the decision and the rule's order (`decima.agent.graph.Rule`), which is an
input like any other. At the baseline x' no choice differs from another but by the graph of its job:
every stage that may be chosen has their mean columns, its job those of their jobs (a job counts
once for each of its stages), every node the mean columns of all nodes, every choice the mean place
in the rule's order. The cluster, of which there is only one, has its mean over the run's plans up
to this one. So A_c is the part that column c has in making the choice more likely, or less, than it
would be among average alternatives.

O stages that may be chosen, J jobs with V nodes in all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from decima.agent import columns
from decima.agent.graph import Graph, Nodes
from decima.agent.network import PolicyNetwork
from traces.numbers import Float64

STEPS = 128
"""points at which the integral is evaluated, by the midpoint rule"""


class Columns(NamedTuple):
    """All that the order of a decision's choices depends on; or one number for each."""

    stage: Tensor  # (O, len(STAGE))
    job: Tensor  # (J, len(JOB))
    cluster: Tensor  # (1, len(CLUSTER))
    node: Tensor  # (V, len(NODE)), in the order in which messages flow
    rule: Tensor  # (O + 1, 1) how the rule prefers each stage, and the end


LEVELS = Columns._fields
NAMES = (columns.STAGE, columns.JOB, columns.CLUSTER, columns.NODE, ("order",))
"""of the columns of each level"""


@dataclass(frozen=True)
class Attribution:
    """The part of one column in the log-probability of a choice."""

    level: str
    """one of `LEVELS`; "node": the columns behind the embeddings; "rule": the rule's own order"""
    column: str
    value: float | None
    """of the choice, on average over its job's nodes; None where the end of the round has none"""
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
    """Which choice is taken first, as a function of a decision's columns."""

    def __init__(self, network: PolicyNetwork, graph: Graph) -> None:
        """Args:
        network: scores.
        graph: one decision, with all nodes of its J >= 1 jobs, a graph for each.

        Raises:
            ValueError: the graph has no nodes.
        """
        if graph.nodes is None:
            raise ValueError("a graph without nodes cannot be explained")
        self._network = network
        self._graph = graph
        self._nodes: Nodes = graph.nodes
        self.job_of_stage = graph.job_of_stage
        self.job_of_node = graph.nodes.graph

    def columns(self) -> Columns:
        """The decision's own."""
        graph = self._graph
        order = torch.cat((graph.rule.stage, graph.rule.end)).unsqueeze(1)
        return Columns(graph.stage_x, graph.job_x, graph.cluster_x, self._nodes.x, order)

    def __call__(self, at: Columns) -> Tensor:
        """(O + 1,) log-probabilities of the stages, and of the end of the round."""
        stages = len(at.stage)
        order = at.rule.squeeze(1)
        graph = self._graph._replace(
            stage_x=at.stage,
            job_x=at.job,
            cluster_x=at.cluster,
            nodes=self._nodes._replace(x=at.node),
            rule=self._graph.rule._replace(stage=order[:stages], end=order[stages:]),
        )
        scores = self._network(graph)
        return torch.cat((scores.stage, scores.end)).log_softmax(0)


def attribute(
    function: DecisionFunction, cluster_mean: Float64, choice: int, steps: int = STEPS
) -> Attributed:
    """The parts of all columns in the log-probability of a choice.

    Args:
        function: of the decision, with O >= 1.
        cluster_mean: (len(CLUSTER),) baseline of the cluster's columns.
        choice: index among the stages that may be chosen; their number for the end of the round.
        steps: points at which the integral is evaluated.
    """
    at = function.columns()
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


def _baseline(function: DecisionFunction, at: Columns, cluster_mean: Float64) -> Columns:
    jobs = at.job.index_select(0, function.job_of_stage)
    return Columns(
        stage=_mean_everywhere(at.stage, at.stage),
        job=_mean_everywhere(jobs, at.job),
        cluster=torch.from_numpy(cluster_mean).float().unsqueeze(0),
        node=_mean_everywhere(at.node, at.node),
        rule=_mean_everywhere(at.rule, at.rule),
    )


def _mean_everywhere(values: Tensor, like: Tensor) -> Tensor:
    """The mean row of `values` in each row of `like`."""
    return values.mean(0, keepdim=True).expand_as(like)


def _own_rows(function: DecisionFunction, at: Columns, choice: int) -> list[Tensor]:
    """For each level, which rows are the choice's own: (rows,) bool."""
    job = int(function.job_of_stage[choice]) if choice < len(at.stage) else -1
    return [
        torch.arange(len(at.stage)) == choice,
        torch.arange(len(at.job)) == job,
        torch.ones(1, dtype=torch.bool),
        function.job_of_node == job,
        torch.arange(len(at.rule)) == choice,
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
