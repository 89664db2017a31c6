r"""Reasons for a decision, found by ablating inputs of the network.

A reason is a group of input columns with one meaning, such as the work left. Ablating it gives all
choices the same value in each of its columns: their mean. The network then scores the decision
again. The weight of reason r in a choice is

.. math::
    w_r = \log p(\mathit{choice}) - \log p_r(\mathit{choice})

where p_r is the probability with r ablated. With a weight of 0.7 the reason doubles the
probability. Weights need not add up, because several columns may carry the same information.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch_geometric.utils import scatter

from decima.agent import columns
from decima.agent.graph import Graph
from decima.agent.network import PolicyNetwork
from decima.agent.plan_probabilities import log_softmax
from gnn.levels import Levels
from traces.numbers import Float64

LEAST_WEIGHT = 0.1
"""smallest absolute weight of a reason that is shown: a change of the probability by a tenth"""

TABLES: Mapping[str, tuple[str, ...]] = {
    "node": columns.NODE,
    "job": columns.JOB,
    "stage": columns.STAGE,
    "cluster": columns.CLUSTER,
    "limit": columns.LIMIT,
    "class": columns.CLASS,
}
"""names of the input columns by table"""

Group = Mapping[str, Sequence[str]]  # columns of several tables

MESSAGES = "messages"
"""the reason that is ablated by embedding every stage without the edges of its job"""

REASONS: Mapping[str, Group] = {
    "work left": {"job": ("remaining", "relative", "shorter", "typical"), "node": ("left", "work")},
    "executors held": {"job": ("held", "share", "idle"), "node": ("working",)},
    "tasks waiting": {
        "stage": ("demand", "covering", "part", "waves"),
        "job": ("wanted", "leading waves"),
        "limit": ("covering", "waves"),
    },
    "task length": {
        "stage": ("duration", "blocking"),
        "job": ("leading blocking",),
        "node": ("duration",),
    },
    "critical path": {"stage": ("path", "critical"), "job": ("width",)},
    "readiness": {
        "stage": ("runnable", "wait"),
        "job": ("leading runnable", "leading wait"),
        "node": ("runnable",),
    },
    "progress": {"job": ("undone",)},
    "age": {"job": ("age",)},
    "moving cost": {
        "stage": ("moving",),
        "job": ("local", "source", "leading moving"),
        "limit": ("moved",),
    },
    "memory": {"stage": ("scarce", "need"), "node": ("scarce",), "class": columns.CLASS},
    "limit": {"limit": ("limit", "share", "added", "count", "left", "free")},
    "cluster": {"cluster": columns.CLUSTER},
    MESSAGES: {},
}
"""columns of each reason; every column has exactly one reason"""
SINGLE_COLUMNS: Mapping[str, Group] = {
    f"{table}.{name}": {table: (name,)} for table, names in TABLES.items() for name in names
}


@dataclass(frozen=True)
class Reason:
    """Weight of a reason in each part of a choice."""

    name: str
    """key of `REASONS`, or ``table.column`` for a single column"""
    stage: float
    """weight in the log-probability that the stage, or the end of the round, comes first"""
    limit: float
    """weight in the log-probability of the parallelism limit"""
    executor_class: float
    """weight in the log-probability of the class of executors"""

    @property
    def weight(self) -> float:
        """Weight in the log-probability of the whole choice."""
        return self.stage + self.limit + self.executor_class


class Choice(NamedTuple):
    """Rows of a decision's graph that a choice consists of."""

    entry: int  # row of the stage; the number of stages stands for the end of the round
    limit: int | None
    kind: int | None


class LogProbs(NamedTuple):
    """Log-probabilities of everything that can be chosen in one decision."""

    entry: Tensor  # (O + 1,) of each stage, and of the end of the round, coming first
    limit: Tensor  # (M,) among the limits of one job
    kind: Tensor  # (K,) among the classes of one stage


@torch.no_grad()
def log_probs(network: PolicyNetwork, graph: Graph) -> LogProbs:
    """Score a graph of one decision."""
    scores = network(graph)
    entry = torch.cat((scores.stage, scores.end)).double()
    limits, _ = log_softmax(scores.limit.double(), graph.job_of_limit, len(graph.job_x))
    kinds, _ = log_softmax(scores.kind.double(), graph.stage_of_class, len(graph.stage_x))
    return LogProbs(entry.log_softmax(0), limits, kinds)


def reasons_of(
    network: PolicyNetwork,
    graph: Graph,
    cluster_mean: Float64,
    choice: Choice,
    groups: Mapping[str, Group] = REASONS,
) -> tuple[Reason, ...]:
    """Return the reasons of at least `LEAST_WEIGHT` for a choice, the heaviest first.

    Args:
        network: the policy's.
        graph: of a decision with at least one stage.
        cluster_mean: (len(CLUSTER),) columns of the cluster that ablate those of the graph.
        choice: what was chosen.
        groups: what is ablated by name: `REASONS`, or `SINGLE_COLUMNS`.
    """

    def parts(ablated: Graph) -> tuple[float, float, float]:
        """Return the log-probabilities of the choice's stage, limit and class."""
        log_prob, (entry, limit, kind) = log_probs(network, ablated), choice
        return (
            float(log_prob.entry[entry]),
            0.0 if limit is None else float(log_prob.limit[limit]),
            0.0 if kind is None else float(log_prob.kind[kind]),
        )

    means, whole, reasons = _means(graph, cluster_mean), parts(graph), []
    for name, group in groups.items():
        ablated = _ablated(graph, means, group)
        if name == MESSAGES:
            none = torch.empty(0, dtype=torch.int64)
            levels = Levels((0, len(graph.nodes.x)), none, none, (0, 0))
            ablated = graph._replace(nodes=graph.nodes._replace(levels=levels))
        weights = (a - b for a, b in zip(whole, parts(ablated), strict=True))
        reasons.append(Reason(name, *weights))
    shown = (reason for reason in reasons if abs(reason.weight) >= LEAST_WEIGHT)
    return tuple(sorted(shown, key=lambda reason: -abs(reason.weight)))


def _means(graph: Graph, cluster_mean: Float64) -> dict[str, Tensor]:
    """Return each table with the mean of the choices in every row.

    A job counts once for each stage that may be chosen. Limits are averaged over those of a job,
    classes over those of a stage.
    """
    of_limit, of_class = graph.job_of_limit, graph.stage_of_class
    limits = scatter(graph.limit_x, of_limit, dim_size=len(graph.job_x), reduce="mean")
    kinds = scatter(graph.class_x, of_class, dim_size=len(graph.stage_x), reduce="mean")
    return {
        "node": graph.nodes.x.mean(0).expand_as(graph.nodes.x),
        "job": graph.job_x[graph.job_of_stage].mean(0).expand_as(graph.job_x),
        "stage": graph.stage_x.mean(0).expand_as(graph.stage_x),
        "cluster": torch.from_numpy(cluster_mean).float().expand_as(graph.cluster_x),
        "limit": limits[of_limit],
        "class": kinds[of_class],
    }


def _ablated(graph: Graph, means: Mapping[str, Tensor], group: Group) -> Graph:
    """Return the graph with the means in the columns of `group`."""
    for table, names in group.items():
        x = graph.nodes.x if table == "node" else getattr(graph, f"{table}_x")
        is_ablated = torch.tensor([name in names for name in TABLES[table]])
        x = torch.where(is_ablated, means[table], x)
        if table == "node":
            graph = graph._replace(nodes=graph.nodes._replace(x=x))
        else:
            graph = Graph(**graph._asdict() | {f"{table}_x": x})
    return graph
