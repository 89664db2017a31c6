r"""`PolicyNetwork`: scores of all choices from a `Graph`, in one pass.

.. math::
    q_v = q(e_v, y_i, z), \qquad w_i(l) = w(y_i, z, l), \qquad u_v(c) = u(e_v, y_i, z, c)

(Decima 5.2; 7.3 for the classes c of executors, where there are several), with the columns of
`decima.agent.columns` beside the embeddings. q orders the stages, w chooses the parallelism limit
of a job and u the class of executors of a stage. B decisions, J jobs in their systems, O stages
that may be chosen, M limits, K classes that stages may be given, D size of an embedding.

This is the forward pass of training. `decima.agent.scorer` computes the same numbers in compiled
code, for decisions.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from decima.agent import columns
from decima.agent.forward_kernels import CERTAIN, Scores
from decima.agent.graph import Graph
from decima.agent.weights import NetworkConfig, NetworkWeights
from gnn.encoder import Encoder
from gnn.heads import Head


class PolicyNetwork(nn.Module):
    """Encoder and heads; one set of weights for any number of jobs, stages and executors."""

    seen_stage_columns: Tensor  # (len(STAGE),) 1, or 0 for the columns that an ablation leaves out

    def __init__(self, config: NetworkConfig) -> None:
        """Draw the initial weights from torch's global generator."""
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
        is_observed = [config.path_columns or name not in columns.PATH for name in columns.STAGE]
        self.register_buffer(
            "seen_stage_columns", torch.tensor(is_observed, dtype=torch.float32), persistent=False
        )

    def forward(self, graph: Graph) -> Scores[Tensor]:
        """Score every choice of the B decisions of a graph."""
        decisions, nodes, size = len(graph.cluster_x), graph.nodes, self.config.embedding
        if self.config.embeddings:
            e = self.encoder.nodes(nodes.x, nodes.levels)
            y = self.encoder.jobs(nodes.x, e, nodes.graph, nodes.num_graphs)
            edges = torch.stack((nodes.graph_of_job, graph.decision_of_job))
            z = self.encoder.cluster(y, edges, decisions)
            e = e.index_select(0, nodes.node_of_stage)
            y = y.index_select(0, nodes.graph_of_job)
        else:
            rows = (len(graph.stage_x), len(graph.job_x), decisions)
            e, y, z = (graph.job_x.new_zeros(count, size) for count in rows)
        stages = torch.cat((e, graph.stage_x * self.seen_stage_columns), dim=1)
        jobs = torch.cat((y, graph.job_x), dim=1)
        clusters = torch.cat((z, graph.cluster_x), dim=1)
        of_stage = (stages, graph.job_of_stage)
        of_job = (jobs, graph.decision_of_job)
        of_cluster = (clusters, None)
        if self.config.limit_head:
            limit = self.limit_head((graph.limit_x, graph.job_of_limit), of_job, of_cluster)
        else:
            limit = CERTAIN * graph.limit_x[:, columns.LIMIT.index("limit")]
        kind = graph.class_x.new_empty(0)
        if len(graph.class_x):
            of_kind = (graph.class_x, graph.stage_of_class)
            kind = self.class_head(of_kind, of_stage, of_job, of_cluster)
        return Scores(
            self.stage_head(of_stage, of_job, of_cluster),
            self.end_head(of_cluster),
            limit,
            kind,
            self.value_head(of_cluster),
        )

    def weights(self) -> NetworkWeights:
        """Return a copy of the weights, for decisions."""
        tensors = self.state_dict().items()
        arrays = {name: values.detach().float().numpy().copy() for name, values in tensors}
        return NetworkWeights(self.config, arrays)
