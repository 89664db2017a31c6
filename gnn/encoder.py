r"""Node, job and cluster embeddings of DAG jobs by message passing (Decima, section 5.1).

.. math::
    e_v = g\Big(\sum_{u \in children(v)} f(e_u)\Big) + A x_v, \qquad
    y_i = g_2\Big(\sum_{v \in job\ i} f_2([x_v, e_v])\Big), \qquad
    z = g_3\Big(\frac{1}{J} \sum_i f_3(y_i)\Big)

The paper's z has a sum over the J jobs of an observation, not their mean; the mean keeps its size
where ten times as many jobs wait as in training. How many there are is an input of the heads.

Letters: V nodes (stages), E edges, L levels, J jobs, B observations, F features of a node, D size
of an embedding. Each of the six transforms is a multilayer perceptron of its own; A lifts the
features to D.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, nn

from gnn.config import EncoderConfig
from gnn.levels import Levels, levels_of

if TYPE_CHECKING:
    from torch_geometric.data import Data

    class MessagePassing(nn.Module):
        """The part of PyTorch Geometric's class in use here, which has no types."""

        def __init__(self, aggr: str) -> None: ...

        def propagate(self, edge_index: Tensor, **values: object) -> Tensor: ...

else:
    from torch_geometric.nn import MessagePassing

NEGATIVE_SLOPE = 0.2
"""slope of LeakyReLU below zero"""

TYPICAL_CHILDREN = 2
TYPICAL_STAGES = 8
TYPICAL_JOBS = 16
"""typical number of terms of the three sums; only the initial weights depend on it"""


class Transform(nn.Sequential):
    """Multilayer perceptron: LeakyReLU between its layers, none after the last.

    Weights start orthogonal, biases at zero. Hidden layers keep the scale of their inputs; the
    last one divides it by `summands`, so that a sum of so many outputs has the scale of one.
    """

    def __init__(self, inputs: int, config: EncoderConfig, summands: int = 1) -> None:
        sizes = (inputs, *config.hidden, config.embedding)
        layers = [nn.Linear(*pair) for pair in itertools.pairwise(sizes)]
        for layer in layers:
            nn.init.orthogonal_(layer.weight, math.sqrt(2 / (1 + NEGATIVE_SLOPE**2)))
            nn.init.zeros_(layer.bias)
        nn.init.orthogonal_(layers[-1].weight, 1 / summands)
        bends = [nn.LeakyReLU(NEGATIVE_SLOPE, inplace=True) for _ in layers[1:]]
        super().__init__(*itertools.chain(*zip(layers, bends)), layers[-1])  # noqa: B905 - one more layer than bends

    @property
    def layers(self) -> list[nn.Linear]:
        """The linear layers, first to last."""
        return [layer for layer in self if isinstance(layer, nn.Linear)]


class TwoLevelSum(MessagePassing):
    r"""Sum over senders: receiver v gets :math:`g(\sum_{u \to v} f(h_u))`, or of the mean."""

    def __init__(
        self, inputs: int, config: EncoderConfig, summands: int, aggr: str = "sum"
    ) -> None:
        super().__init__(aggr=aggr)
        self.f = Transform(inputs, config, summands)
        self.g: nn.Module = (
            Transform(config.embedding, config) if config.two_level else nn.Identity()
        )

    def forward(self, h: Tensor, edge_index: Tensor, receivers: int) -> Tensor:
        """Send along all edges once.

        Args:
            h: (N, K) inputs of the senders.
            edge_index: (2, M) int64, row 0 sender, row 1 receiver.
            receivers: R.

        Returns:
            (R, D); a receiver without senders gets g(0).
        """
        out: Tensor = self.g(self.total(h, edge_index, receivers))
        return out

    def total(self, h: Tensor, edge_index: Tensor, receivers: int) -> Tensor:
        """Return (R, D), the sums before the second transform."""
        return self.propagate(edge_index, x=(self.f(h), None), size=(len(h), receivers))


class Embeddings(NamedTuple):
    """What `Encoder` returns."""

    node: Tensor
    """(V, D) e_v, rows in the order of x"""
    job: Tensor
    """(J, D) y_i"""
    cluster: Tensor
    """(1, D) z of all jobs together"""


class Encoder(nn.Module):
    """The three sums, each over a whole batch at once.

    `encoder(data)` or `encoder(x, edge_index, batch)` embeds graphs of PyTorch Geometric, nodes in
    any order. Who embeds the same graphs again and again sorts their nodes once (`levels_of`) and
    calls `nodes`, `jobs` and `cluster`. Their rows depend on their own terms only: e_v on the nodes
    below v, y_i on job i.
    """

    def __init__(self, num_features: int, config: EncoderConfig) -> None:
        """Draw the initial weights from torch's global generator.

        Args:
            num_features: F.
            config: sizes and ablations.
        """
        super().__init__()
        if num_features < 1:
            raise ValueError(f"num_features {num_features} must be at least 1")
        size = config.embedding
        self.num_features = num_features
        self.config = config
        self.lift = nn.Linear(num_features, size)
        nn.init.orthogonal_(self.lift.weight)
        nn.init.zeros_(self.lift.bias)
        self.node_sum = TwoLevelSum(size, config, TYPICAL_CHILDREN)
        self.job_sum = TwoLevelSum(num_features + size, config, TYPICAL_STAGES)
        self.cluster_sum = TwoLevelSum(size, config, TYPICAL_JOBS, "mean")

    def forward(
        self, x: Tensor | Data, edge_index: Tensor | None = None, batch: Tensor | None = None
    ) -> Embeddings:
        """Embed nodes, jobs and the cluster.

        Args:
            x: (V, F) features, nodes in any order; or a `Data` or `Batch` that has all three.
            edge_index: (2, E) int64, row 0 the parents, row 1 the children. Messages flow from
                children to parents, against the edges (Decima 5.1).
            batch: (V,) int64 job of each node, as in a `Batch`; None if all belong to one job.

        Raises:
            ValueError: (one line) a tensor has another shape or type, the edges name nodes that do
                not exist or contain a cycle, or a job number is negative.
        """
        if not isinstance(x, Tensor):
            x, edge_index, batch = x.x, x.edge_index, x.batch
        if x is None or edge_index is None:
            raise ValueError("the encoder needs x and edge_index, or a Data that has both")
        if batch is None:
            batch = torch.zeros(len(x), dtype=torch.int64, device=x.device)
        if batch.numel() and int(batch.min()) < 0:
            raise ValueError(f"batch names job {int(batch.min())}; jobs count from 0")
        levels, order = levels_of(edge_index, len(x))
        e = self.nodes(x[order], levels)[order.argsort()]
        num_jobs = int(batch.max()) + 1 if batch.numel() else 0
        y = self.jobs(x, e, batch, num_jobs)
        jobs = torch.arange(num_jobs, device=x.device)
        return Embeddings(e, y, self.cluster(y, torch.stack((jobs, torch.zeros_like(jobs))), 1))

    def nodes(self, x: Tensor, levels: Levels) -> Tensor:
        """Embed every node from its own features and the nodes below it.

        A leaf has nothing to add up and nothing to transform: its e_v is the lifted x_v.

        Args:
            x: (V, F) features, rows in the order of `levels`.
            levels: how messages flow.

        Returns:
            (V, D) e_v, rows in the same order.
        """
        _check_rows("x", x, self.num_features, levels.num_nodes)
        lifted: Tensor = self.lift(x)
        if not self.config.messages or levels.num_levels < 2:
            return lifted
        # Level by level: finish the sums of one level, embed it, send to all levels above.
        node_ptr, edge_ptr = levels.node_ptr, levels.edge_ptr
        sizes = [end - start for start, end in itertools.pairwise(node_ptr)]
        lifted_by_level = lifted.split_with_sizes(sizes)
        embedded = [lifted_by_level[0]]
        # Sums of the rows that are not embedded yet, from `first` on. A new tensor at each level:
        # in one buffer for all, the gradient of every level would cost a pass over all V rows.
        waiting = lifted.new_zeros(len(lifted) - node_ptr[1], lifted.size(1))
        for level in range(1, levels.num_levels):
            below, first = node_ptr[level - 1], node_ptr[level]
            edges = slice(edge_ptr[level - 1], edge_ptr[level])
            up = torch.stack((levels.child[edges] - below, levels.parent[edges] - first))
            waiting = waiting + self.node_sum.total(embedded[-1], up, len(waiting))
            split = (sizes[level], len(waiting) - sizes[level])
            sums, waiting = waiting.split_with_sizes(split)
            embedded.append(self.node_sum.g(sums) + lifted_by_level[level])
        return torch.cat(embedded)

    def jobs(self, x: Tensor, e: Tensor, job: Tensor, num_jobs: int) -> Tensor:
        """Summarise every job's nodes.

        Args:
            x: (V, F) features.
            e: (V, D) embeddings of the same nodes, in the same order.
            job: (V,) int64 job of each node, in any order.
            num_jobs: J; a job without nodes gets g2(0).

        Returns:
            (J, D) y_i.
        """
        _check_rows("x", x, self.num_features, len(e))
        _check_rows("e", e, self.config.embedding, len(e))
        if job.shape != (len(e),) or job.dtype != torch.int64:
            raise ValueError(
                f"job must be int64 of shape ({len(e)},), got {job.dtype} of {tuple(job.shape)}"
            )
        edges = torch.stack((torch.arange(len(job), device=job.device), job))
        y: Tensor = self.job_sum(torch.cat((x, e), dim=1), edges, num_jobs)
        return y

    def cluster(self, y: Tensor, edges: Tensor, num_observations: int) -> Tensor:
        """Summarise every observation's jobs.

        Args:
            y: (J, D) embeddings of jobs.
            edges: (2, M) int64, row 0 a job, row 1 an observation that it is part of; several
                observations may share a job's embedding.
            num_observations: B; an observation without jobs gets g3(0).

        Returns:
            (B, D) z.
        """
        _check_rows("y", y, self.config.embedding, len(y))
        z: Tensor = self.cluster_sum(y, edges, num_observations)
        return z


def _check_rows(name: str, values: Tensor, columns: int, rows: int) -> None:
    if values.shape != (rows, columns):
        raise ValueError(f"{name} must have shape ({rows}, {columns}), got {tuple(values.shape)}")
