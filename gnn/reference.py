"""The encoder as textbook message passing: slow, and plainly the equations of `gnn.encoder`.

Every sum is one PyTorch Geometric `MessagePassing` step, from children to parents, from nodes to
the summary node of their job, from jobs to that of their observation. Node embeddings take as many
steps over the *whole* graph as it has levels: after step k all nodes of height k are right, and no
order of the nodes is needed. Tests hold `Encoder` to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from gnn.encoder import Encoder

if TYPE_CHECKING:

    class MessagePassing(nn.Module):
        """What is used of PyTorch Geometric's class, which has no types."""

        def __init__(self, aggr: str) -> None: ...

        def propagate(self, edge_index: Tensor, **values: object) -> Tensor: ...

else:
    from torch_geometric.nn import MessagePassing


class TwoLevelSum(MessagePassing):
    r"""One of the three steps: receiver v gets :math:`g(\sum_{u \to v} f(h_u))`, or of the mean."""

    def __init__(self, f: nn.Module, g: nn.Module, aggr: str = "sum") -> None:
        super().__init__(aggr=aggr)
        self.f = f
        self.g = g

    def forward(self, h: Tensor, edge_index: Tensor, receivers: int) -> Tensor:
        """Send along all edges once.

        Args:
            h: (N, K) what the senders know.
            edge_index: (2, M) int64, row 0 sender, row 1 receiver.
            receivers: R.

        Returns:
            (R, D) what the receivers get; one without senders gets g(0).
        """
        summed = self.propagate(edge_index, h=(h, None), size=(len(h), receivers))
        out: Tensor = self.g(summed)
        return out

    def message(self, h_j: Tensor) -> Tensor:
        """(M, K) sender of each edge -> (M, D)."""
        sent: Tensor = self.f(h_j)
        return sent


class ReferenceEncoder:
    """Uses the weights of `encoder`; methods and shapes are its own, nodes in any order."""

    def __init__(self, encoder: Encoder) -> None:
        self.encoder = encoder
        self.node_sum = TwoLevelSum(encoder.f_node, encoder.g_node)
        self.job_sum = TwoLevelSum(encoder.f_job, encoder.g_job)
        self.cluster_sum = TwoLevelSum(encoder.f_cluster, encoder.g_cluster, "mean")

    def nodes(self, x: Tensor, edges: Tensor) -> Tensor:
        """Embed every node.

        Args:
            x: (V, F) features.
            edges: (2, E) int64 parent, child, without a cycle.

        Returns:
            (V, D) e_v.
        """
        lifted: Tensor = self.encoder.lift(x)
        if not self.encoder.config.messages:
            return lifted
        parent, child = edges
        has_children = torch.zeros(len(x), 1, dtype=torch.bool)
        has_children[parent] = True
        e = lifted
        for _ in range(len(x)):
            received = self.node_sum(e, torch.stack((child, parent)), len(x))
            following = torch.where(has_children, received, 0.0) + lifted
            if torch.equal(following, e):
                break
            e = following
        return e

    def jobs(self, x: Tensor, e: Tensor, job: Tensor, num_jobs: int) -> Tensor:
        """(V, F), (V, D), (V,) -> (J, D) y_i."""
        known = torch.cat((x, e), dim=1)
        return self._summary(self.job_sum, known, job, num_jobs)

    def cluster(self, y: Tensor, observation: Tensor, num_observations: int) -> Tensor:
        """(J, D), (J,) -> (B, D) z."""
        return self._summary(self.cluster_sum, y, observation, num_observations)

    @staticmethod
    def _summary(step: TwoLevelSum, h: Tensor, group: Tensor, num_groups: int) -> Tensor:
        summary: Tensor = step(h, torch.stack((torch.arange(len(h)), group)), num_groups)
        return summary
