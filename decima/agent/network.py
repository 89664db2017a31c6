r"""The network: from a `Graph` to the scores of all choices, in one pass.

.. math::
    q_v = \kappa_q r_v + q(e_v, y_i, z), \qquad w_i(l) = \kappa_w r_i(l) + w(y_i, z, l), \qquad
    u_v(c) = \kappa_u r_v(c) + u(e_v, y_i, z, c)

(Decima 5.2; 7.3 for the classes c of executors, where there are several), with the columns of
`decima.agent.columns` beside the embeddings. r is how the fitted rule prefers the choices
(`graph.Rule`): all heads start at zero, so learning starts as the rule, drawn with the sharpness
kappa. All logits of a decision are multiplied by 1 + log(1 + R) / 3, R the number of choices that
the rule would make: so a drawn plan departs from the likeliest in about as many places, however
long it is. B decisions, J jobs in their systems, O stages that may be chosen, M limits, K classes
that stages may be given, D size of an embedding.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from decima.agent import columns
from decima.agent.graph import Graph, Nodes
from decima.agent.scores import Embeddings, FewScores, Scores, are_few
from decima.heuristics.es_classes import ALL_PARAMETERS, CLASS_PARAMETERS, CLASS_WORLDS
from decima.heuristics.es_rule import PARAMETERS, WORLDS
from decima.policies import HEURISTICS
from gnn.encoder import Encoder, EncoderConfig
from gnn.heads import Head

SHARPNESS = 2.0
"""kappa: the odds of two neighbours in the rule's order are e to this"""
_SURE = 1e4
_PLANNED = columns.CLUSTER.index("planned")


@dataclass(frozen=True)
class NetworkConfig:
    """Sizes, and the parts that an ablation leaves out."""

    embedding: int = 16
    """D"""
    hidden: tuple[int, ...] = (16,)
    """hidden layers of the encoder's transforms"""
    head_hidden: tuple[int, ...] = (32, 16)
    """hidden layers of the heads"""
    rule: bool = True
    """False: nothing is known of the fitted rule, all choices start equally likely (the paper)"""
    two_level: bool = True
    """False: no second transform in the sums"""
    messages: bool = True
    """False: no message passing, a stage knows only itself (Decima fig. 14)"""
    embeddings: bool = True
    """False: the heads see no embedding at all, only their columns"""
    limit_head: bool = True
    """False: a job gets all it can use (Decima fig. 14, "no parallelism control")"""

    def __post_init__(self) -> None:
        self.encoder()
        if not self.head_hidden or any(size < 1 for size in self.head_hidden):
            raise ValueError(f"head_hidden {self.head_hidden} must hold sizes of at least 1")

    def encoder(self) -> EncoderConfig:
        """The encoder's part; refuses impossible sizes."""
        return EncoderConfig(self.embedding, self.hidden, self.two_level, self.messages)


class PolicyNetwork(nn.Module):
    """Encoder and heads; one set of weights for any number of jobs, stages and executors."""

    rule: Tensor
    """float64 it starts from, as `es_classes.ALL_PARAMETERS`"""
    sharpness: Tensor
    """(3,) kappa of stages, of limits and of classes"""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        self.config = config
        size = config.embedding
        node, job, stage = len(columns.NODE), len(columns.JOB), len(columns.STAGE)
        cluster, limit, kind = len(columns.CLUSTER), len(columns.LIMIT), len(columns.CLASS)
        self.encoder = Encoder(node, config.encoder())
        self.stage_head = Head((size + stage, size + job, size + cluster), config.head_hidden)
        self.end_head = Head((size + cluster,), config.head_hidden[-1:])
        self.limit_head = Head((limit, size + job, size + cluster), config.head_hidden)
        self.value_head = Head((size + cluster,), config.head_hidden)
        parts = (kind, size + stage, size + job, size + cluster)
        self.class_head = Head(parts, config.head_hidden)
        # Not learned: drawing less wildly would be the easiest way to better rollouts, and would
        # leave the likeliest plans as they are.
        self.register_buffer("sharpness", torch.full((3,), SHARPNESS if config.rule else 0.0))
        shipped = HEURISTICS["es_classes"].defaults
        weights = [shipped[name] for name in ALL_PARAMETERS]
        self.register_buffer("rule", torch.tensor(weights, dtype=torch.float64))
        self._few: tuple[int, FewScores] | None = None

    def follow_rule(self, weights: Mapping[str, float]) -> None:
        """Start from one rule in every world: weights by the names of `es_rule.PARAMETERS`."""
        one = torch.tensor([weights[name] for name in PARAMETERS], dtype=torch.float64)
        self.rule[len(CLASS_PARAMETERS) :] = one.repeat(len(CLASS_WORLDS) + len(WORLDS))

    def forward(self, graph: Graph, kept: Embeddings | None = None) -> Scores:
        """Score every choice.

        Args:
            graph: B decisions.
            kept: the embeddings, where somebody has kept them; None computes them.
        """
        if not self.config.rule:
            graph = without_rule(graph)
        seen = self.embed(graph) if kept is None else kept
        if are_few(graph) and self.config.limit_head and not torch.is_grad_enabled():
            return self._few_scores().of(graph, seen)
        jobs = torch.cat((seen.y, graph.job_x), dim=1)
        clusters = torch.cat((seen.z, graph.cluster_x), dim=1)
        decision = graph.decision_of_stage
        stages = torch.cat((seen.e, graph.stage_x), dim=1)
        stage = self.stage_head(
            (stages, graph.job_of_stage), (jobs, graph.decision_of_job), (clusters, None)
        )
        end = self.end_head((clusters, None))
        # The column is log(1 + R) / 4, and 0 for a network that knows of no rule.
        factor = 1 + graph.cluster_x[:, _PLANNED] * 4 / 3
        return Scores(
            (stage + self.sharpness[0] * graph.rule.stage) * factor.index_select(0, decision),
            (end + self.sharpness[0] * graph.rule.end) * factor,
            self._limits(graph, jobs, clusters, factor),
            self._classes(graph, (stages, jobs, clusters), factor),
            self.value_head((clusters, None)),
        )

    def _few_scores(self) -> FewScores:
        """The heads' weights where they are now: moving a module gives it other memory."""
        place = self.end_head.last.weight.data_ptr()
        if self._few is None or self._few[0] != place:
            heads = {
                "stage": self.stage_head,
                "end": self.end_head,
                "limit": self.limit_head,
                "kind": self.class_head,
                "value": self.value_head,
            }
            self._few = place, FewScores(heads, self.sharpness)
        return self._few[1]

    def _limits(self, graph: Graph, jobs: Tensor, clusters: Tensor, factor: Tensor) -> Tensor:
        if not self.config.limit_head:
            return _SURE * graph.limit_x[:, columns.LIMIT.index("limit")]
        found = torch.zeros_like(graph.rule.limit)
        rows = graph.limits_to_choose
        if len(rows) == 0:
            return found
        job = graph.job_of_limit.index_select(0, rows)
        scores: Tensor = self.limit_head(
            (graph.limit_x.index_select(0, rows), job),
            (jobs, graph.decision_of_job),
            (clusters, None),
        )
        ruled = self.sharpness[1] * graph.rule.limit.index_select(0, rows)
        decision = graph.decision_of_job.index_select(0, job)
        return found.index_copy(0, rows, (scores + ruled) * factor.index_select(0, decision))

    def _classes(
        self, graph: Graph, tables: tuple[Tensor, Tensor, Tensor], factor: Tensor
    ) -> Tensor:
        if len(graph.class_x) == 0:
            return graph.class_x.new_empty(0)
        stages, jobs, clusters = tables
        job = graph.job_of_stage.index_select(0, graph.stage_of_class)
        decision = graph.decision_of_job.index_select(0, job)
        found: Tensor = self.class_head(
            (graph.class_x, graph.stage_of_class),
            (stages, graph.job_of_stage),
            (jobs, graph.decision_of_job),
            (clusters, None),
        )
        ruled = self.sharpness[2] * graph.rule.kind
        return (found + ruled) * factor.index_select(0, decision)

    def embed(self, graph: Graph) -> Embeddings:
        """Run the encoder over the nodes of a graph, which must be there."""
        if graph.nodes is None:
            raise ValueError("a graph without nodes cannot be embedded")
        decisions = len(graph.cluster_x)
        if not self.config.embeddings:
            return self.nothing(len(graph.stage_x), len(graph.job_x), decisions)
        nodes: Nodes = graph.nodes
        found = self.encoder.embed(nodes.x, nodes.levels, nodes.graph, nodes.num_graphs)
        added = found.added.index_select(0, nodes.graph_of_job)
        return Embeddings(
            found.e.index_select(0, nodes.node_of_stage),
            found.y.index_select(0, nodes.graph_of_job),
            self.encoder.cluster(added, graph.decision_of_job, decisions),
        )

    def nothing(self, stages: int, jobs: int, decisions: int) -> Embeddings:
        """What stands for the embeddings where the ablation leaves them out."""
        size = self.config.embedding
        return Embeddings(*(torch.zeros((rows, size)) for rows in (stages, jobs, decisions)))

    @property
    def num_parameters(self) -> int:
        return sum(parameter.numel() for parameter in self.parameters())


_RULED = (
    ("job_x", columns.JOB, ("gate", "score", "given")),
    ("stage_x", columns.STAGE, ("planned", "place")),
    ("cluster_x", columns.CLUSTER, ("planned",)),
    ("limit_x", columns.LIMIT, ("ruled", "off")),
    ("class_x", columns.CLASS, ("ruled",)),
)


def without_rule(graph: Graph) -> Graph:
    """The graph with zeros in all columns that tell of the rule."""
    changed = {}
    for table, names, ruled in _RULED:
        values = getattr(graph, table).clone()
        values[:, [names.index(one) for one in ruled]] = 0.0
        changed[table] = values
    return graph._replace(**changed)
