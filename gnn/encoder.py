r"""Node, job and cluster embeddings of DAG jobs (Decima, section 5.1).

.. math::
    e_v = g\Big(\sum_{u \in children(v)} f(e_u)\Big) + A x_v, \qquad
    y_i = g_2\Big(\sum_{v \in job\ i} f_2([x_v, e_v])\Big), \qquad
    z = g_3\Big(\frac{1}{J} \sum_i f_3(y_i)\Big)

The paper's z has a sum over the J jobs of an observation, not their mean; the mean keeps its size
where ten times as many jobs wait as in training, and how many there are the heads are told.

Letters: V nodes (stages), E edges, L levels, J jobs, B observations, F features of a node, D size
of an embedding. Each of the six transforms is a multilayer perceptron of its own; A lifts the
features to D. `gnn.reference` holds the same equations as textbook message passing.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import leaky_relu, linear
from torch_geometric.utils import scatter

from gnn.few import FewNodes, Flow
from gnn.levels import Levels

TensorFunction = Callable[[Tensor], Tensor]

NEGATIVE_SLOPE = 0.2
"""slope of LeakyReLU below zero"""

FEW_NODES = 1_000
"""so many are embedded in compiled code where no gradient is wanted (benchmark `encoder_speed`)"""

TYPICAL_CHILDREN = 2
TYPICAL_STAGES = 8
TYPICAL_JOBS = 16
"""how many terms the three sums typically have; only the initial weights depend on it"""


class Embedded(NamedTuple):
    """What an encoder makes of V nodes of J jobs."""

    e: Tensor  # (V, D) e_v, in the order of the nodes
    y: Tensor  # (J, D) y_i
    added: Tensor  # (J, D) f3(y_i), what each job brings to the mean of its observation


@dataclass(frozen=True)
class EncoderConfig:
    """Sizes of the encoder, and two ablations of the paper."""

    embedding: int = 16
    """D, the size of e_v, y_i and z"""
    hidden: tuple[int, ...] = (16,)
    """hidden layers of each of the six transforms; () makes all of them linear"""
    two_level: bool = True
    """False leaves out the second transform g of all three sums: it becomes the identity"""
    messages: bool = True
    """False leaves out the graph: e_v is the lifted x_v"""

    def __post_init__(self) -> None:
        if self.embedding < 1:
            raise ValueError(f"embedding {self.embedding} must be at least 1")
        if any(size < 1 for size in self.hidden):
            raise ValueError(f"hidden {self.hidden} must hold sizes of at least 1")


class Transform(nn.Module):
    """A multilayer perceptron: LeakyReLU between its layers, none after the last.

    Weights start orthogonal, biases at zero. Hidden layers keep the scale of what they read; the
    last one divides it by `summands`, so that a sum of so many outputs has the scale of one.
    """

    def __init__(self, inputs: int, config: EncoderConfig, summands: int = 1) -> None:
        super().__init__()
        sizes = (inputs, *config.hidden, config.embedding)
        layers = [nn.Linear(*pair) for pair in itertools.pairwise(sizes)]
        for layer in layers:
            nn.init.orthogonal_(layer.weight, math.sqrt(2 / (1 + NEGATIVE_SLOPE**2)))
            nn.init.zeros_(layer.bias)
        nn.init.orthogonal_(layers[-1].weight, 1 / summands)
        self.layers = nn.ModuleList(layers)

    def forward(self, values: Tensor) -> Tensor:
        """(N, inputs) -> (N, D)."""
        return self.function()(values)

    def function(self) -> TensorFunction:
        """The transform with its weights looked up, for many small calls.

        Torch's bookkeeping at each call of a module and each look-up of a weight would make a
        single job half as slow again (benchmark `encoder_speed`).
        """
        layers = cast(Iterable[nn.Linear], self.layers)
        *hidden, (last_weight, last_bias) = [(layer.weight, layer.bias) for layer in layers]

        def apply(values: Tensor) -> Tensor:
            for weight, bias in hidden:
                values = leaky_relu(linear(values, weight, bias), NEGATIVE_SLOPE)
            return linear(values, last_weight, last_bias)

        return apply


class Same(nn.Module):
    """What stands for the second transform where the ablation leaves it out."""

    def forward(self, values: Tensor) -> Tensor:
        """Return `values`."""
        return values

    def function(self) -> TensorFunction:
        """As `Transform.function`."""
        return self.forward


class Encoder(nn.Module):
    """The three sums, each over a whole batch at once.

    A method's rows depend on their own terms only: e_v on the nodes below v, y_i on job i. So a
    caller may keep the e, y and `summands` of every job that did not change.
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
        self.f_node = Transform(size, config, TYPICAL_CHILDREN)
        self.g_node = _second(config)
        self.f_job = Transform(num_features + size, config, TYPICAL_STAGES)
        self.g_job = _second(config)
        self.f_cluster = Transform(size, config, TYPICAL_JOBS)
        self.g_cluster = _second(config)
        self._few: tuple[tuple[int, torch.dtype], FewNodes] | None = None

    def embed(self, x: Tensor, levels: Levels, job: Tensor, num_jobs: int) -> Embedded:
        """`nodes`, `jobs` and `summands` of a batch.

        Args:
            x: (V, F) features, rows in the order of `levels`.
            levels: how messages flow.
            job: (V,) int64 job of each node.
            num_jobs: J.
        """
        _check_rows("x", x, self.num_features, levels.num_nodes)
        _check_index("job", job, len(x))
        few = self.few(len(x))
        if few is not None:
            flow = Flow(
                job.numpy(),
                np.array(levels.node_ptr),
                levels.child.numpy(),
                levels.parent.numpy(),
                np.array(levels.edge_ptr),
            )
            return Embedded(*map(torch.from_numpy, few.embed(x.numpy(), flow, num_jobs)))
        e = self.nodes(x, levels)
        y = self.jobs(x, e, job, num_jobs)
        return Embedded(e, y, self.summands(y))

    def few(self, rows: int) -> FewNodes | None:
        """Compiled code for so few nodes or jobs; None where torch is to do it.

        The weights where they are now: moving or casting a module gives it other memory.
        """
        if rows > FEW_NODES or torch.is_grad_enabled():
            return None
        first = self.lift.weight
        place = (first.data_ptr(), first.dtype)
        if self._few is None or self._few[0] != place:
            transforms = (
                self.f_node, self.g_node, self.f_job, self.g_job, self.f_cluster, self.g_cluster,
            )  # fmt: skip
            layers = (one.layers if isinstance(one, Transform) else None for one in transforms)
            self._few = place, FewNodes(self.lift, layers, self.config.messages, NEGATIVE_SLOPE)
        return self._few[1]

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
        lifted = linear(x, self.lift.weight, self.lift.bias)
        if not self.config.messages or levels.num_levels < 2:
            return lifted
        return self._climb(lifted, levels)

    def _climb(self, lifted: Tensor, levels: Levels) -> Tensor:
        """Level by level: finish the sums of one level, embed it, send to all levels above.

        Not written with PyG's `MessagePassing`, as `gnn.reference` is: one `propagate` a level
        makes a single job of 11 levels twice as slow (benchmark `encoder_speed`), and a rollout or
        a live decision embeds a few jobs at a time.
        """
        node_ptr, edge_ptr = levels.node_ptr, levels.edge_ptr
        f, g = self.f_node.function(), self.g_node.function()
        own = lifted.split_with_sizes([end - start for start, end in itertools.pairwise(node_ptr)])
        embedded = [own[0]]
        # Sums of the rows that are not embedded yet, from `first` on. A new tensor at each level:
        # in one buffer for all, the gradient of every level would cost a pass over all V rows.
        waiting = lifted.new_zeros(len(lifted) - node_ptr[1], lifted.size(1))
        for level in range(1, levels.num_levels):
            below, first = node_ptr[level - 1], node_ptr[level]
            edges = slice(edge_ptr[level - 1], edge_ptr[level])
            sent = f(embedded[-1]).index_select(0, levels.child[edges] - below)
            waiting = waiting.index_add(0, levels.parent[edges] - first, sent)
            size = len(own[level])
            sums, waiting = waiting.split_with_sizes((size, len(waiting) - size))
            embedded.append(g(sums) + own[level])
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
        _check_index("job", job, len(e))
        summed = scatter(self.f_job(torch.cat((x, e), dim=1)), job, dim_size=num_jobs)
        y: Tensor = self.g_job(summed)
        return y

    def summands(self, y: Tensor) -> Tensor:
        """(J, D) y_i -> (J, D) f3(y_i), what each job brings to the mean of its observation."""
        _check_rows("y", y, self.config.embedding, len(y))
        added: Tensor = self.f_cluster(y)
        return added

    def cluster(self, added: Tensor, observation: Tensor, num_observations: int) -> Tensor:
        """Summarise every observation's jobs.

        Args:
            added: (J, D) `summands` of the jobs.
            observation: (J,) int64 observation of each job, in any order.
            num_observations: B; an observation without jobs gets g3(0).

        Returns:
            (B, D) z.
        """
        _check_rows("added", added, self.config.embedding, len(added))
        _check_index("observation", observation, len(added))
        few = self.few(len(added))
        if few is not None:
            found = few.cluster(added.numpy(), observation.numpy(), num_observations)
            return torch.from_numpy(found)
        mean = scatter(added, observation, dim_size=num_observations, reduce="mean")
        z: Tensor = self.g_cluster(mean)
        return z


def _second(config: EncoderConfig) -> Transform | Same:
    return Transform(config.embedding, config) if config.two_level else Same()


def _check_rows(name: str, values: Tensor, columns: int, rows: int) -> None:
    if values.shape != (rows, columns):
        raise ValueError(f"{name} must have shape ({rows}, {columns}), got {tuple(values.shape)}")


def _check_index(name: str, index: Tensor, rows: int) -> None:
    if index.shape != (rows,) or index.dtype != torch.int64:
        raise ValueError(
            f"{name} must be int64 of shape ({rows},), got {index.dtype} of {tuple(index.shape)}"
        )
