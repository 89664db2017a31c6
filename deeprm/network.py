r"""The two networks: on the paper's image, and on shares by job and resource.

`ImagePolicy` has one hidden layer of 20 rectifiers and a score for each action:

.. math:: \pi(\cdot \mid x) = \mathrm{softmax}(W_2 \max(W_1 x + b_1, 0) + b_2)

Its parameters are those of two ordinary linear layers. What is not ordinary is how the first is
computed: as an image is a few rectangles, :math:`W_1 x` is a sum of as many rows of a table of
summed weights. The table is made by sums along the axes, which torch differentiates.

`CompactPolicy` scores every job by the same weights, so it fits any number of slots:

.. math::
    s_0 &= u_0^\top \max(B_0 c + b_0, 0) \\
    s_m &= u^\top \max(A x_m + B c + b, 0)

with the shares :math:`x_m` of a slot and :math:`c` of the cluster. A job that does not fit has
probability zero. As it reads nothing but shares, it carries over to clusters of another capacity.

Letters: n decisions, T rows and C columns of the image, K rectangles, R rows of the table, F
shares, M slots, H hidden units, A actions.

Sources: DeepRM (HotNets 2016), sections 3.3 and 4.1: 20 hidden units, 89,451 parameters. Summed
area tables: Crow, SIGGRAPH 1984. The compact state: Zhang et al., arXiv 2109.03202.
"""

from __future__ import annotations

import math
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from deeprm import policy_kernels
from deeprm.config import Config
from deeprm.episodes import Episodes
from deeprm.observation_kernels import ARRIVAL_LEVELS, LONGEST_GAP, THERE, WAIT
from deeprm.observations import CompactLayout, ImageLayout
from deeprm.policy_kernels import Weights
from deeprm.tables import Float32, Int16, Int32

IMAGE_HIDDEN, COMPACT_HIDDEN = 20, 32

Input = NDArray[Any]
"""(n, ...) input of a network, a row for each decision: rectangles or shares"""


class Frozen(Protocol):
    """A network at one moment of its training, as plain arrays: quick to evaluate."""

    def observe(self, episodes: Episodes, rows: Int32) -> Input:
        """Return the network's input for the episodes `rows`."""
        ...

    def scores(self, inputs: Input) -> Float32:
        """(n, A) scores; those of a row do not depend on the other rows."""
        ...


def _linear(inputs: int, outputs: int, generator: torch.Generator | None) -> nn.Linear:
    """A linear layer whose first weights come from `generator`, drawn as torch does by itself."""
    with torch.random.fork_rng():
        layer = nn.Linear(inputs, outputs)
    bound = 1.0 / math.sqrt(inputs)
    with torch.no_grad():
        layer.weight.uniform_(-bound, bound, generator=generator)
        layer.bias.uniform_(-bound, bound, generator=generator)
    return layer


class ImagePolicy(nn.Module):
    """The network on images of one configuration.

    Args:
        config: of the cluster.
        generator: of the first weights, drawn as `torch.nn.Linear` does.
        mask_empty_slots: whether actions that pick an empty slot have probability 0.
    """

    def __init__(
        self,
        config: Config,
        generator: torch.Generator | None = None,
        *,
        mask_empty_slots: bool = False,
    ) -> None:
        super().__init__()
        self.mask_empty_slots = mask_empty_slots
        self.layout = ImageLayout(config)
        inputs = config.horizon * self.layout.columns
        self.hidden = _linear(inputs, IMAGE_HIDDEN, generator)
        self.score = _linear(IMAGE_HIDDEN, config.actions, generator)

    def fits(self, config: Config) -> bool:
        """Return whether the policy can choose in such a cluster: one with the same image."""
        same_shape = ImageLayout(config).shape == self.layout.shape
        return same_shape and config.capacities == self.layout.config.capacities

    def forward(self, inputs: Tensor) -> Tensor:
        """(n, A) scores for (n, K) observations, with graph."""
        hidden: Tensor = _TableSum.apply(self.table(), inputs) + self.hidden.bias  # type: ignore[no-untyped-call]
        score = functional.linear(functional.relu(hidden), self.score.weight, self.score.bias)
        if self.mask_empty_slots:
            empty = torch.from_numpy(self.layout.empty_slots(inputs.numpy()))
            score[:, 1:] = score[:, 1:].masked_fill(empty, -torch.inf)
        return score

    def frozen(self) -> Frozen:
        """The network as it is now, for many decisions."""
        return _FrozenImagePolicy(self)

    def table(self) -> Tensor:
        """(R, H) for each rectangle the sum of the weights of its cells, with graph."""
        shape = self.layout.shape
        width = shape.cluster_columns * shape.pools
        weight = self.hidden.weight.view(IMAGE_HIDDEN, shape.horizon, self.layout.columns)
        slots_end = width + shape.slots * shape.resources * shape.slot_columns
        backlog_end = slots_end + shape.backlog_columns
        cluster = self._cluster_rows(weight[:, :, :width])
        slots = self._slot_rows(weight[:, :, width:slots_end])
        cells = weight[:, :, slots_end:backlog_end].reshape(IMAGE_HIDDEN, -1)[:, : shape.backlog]
        backlog = functional.pad(cells.cumsum(1), (1, 0))
        grey = torch.arange(ARRIVAL_LEVELS) / LONGEST_GAP
        arrival = weight[:, :, backlog_end:].sum((1, 2))[:, None] * grey
        return torch.cat([cluster, slots, backlog, arrival], 1).T.contiguous()

    def _cluster_rows(self, weight: Tensor) -> Tensor:
        """(H, T * P * levels) from the (H, T, P * columns) weights of the cluster's image."""
        shape, config = self.layout.shape, self.layout.config
        parts = weight.reshape(IMAGE_HIDDEN, shape.horizon, shape.pools, shape.cluster_columns)
        by_capacity = {}
        for capacity in set(config.capacities):
            # (levels, columns) share of each cell that the units in use of a resource cover.
            units = torch.arange(shape.capacity + 1)[:, None] * shape.cluster_columns / capacity
            covered = (units - torch.arange(shape.cluster_columns)).clamp(0.0, 1.0)
            by_capacity[capacity] = parts @ covered.T
        capacities = config.capacities * config.machines
        rows = [by_capacity[capacity][:, :, pool] for pool, capacity in enumerate(capacities)]
        return torch.stack(rows, 2).reshape(IMAGE_HIDDEN, -1)

    def _slot_rows(self, weight: Tensor) -> Tensor:
        """(H, M * d * durations * demands) from the (H, T, M * d * columns) weights of slots."""
        shape = self.layout.shape
        parts = weight.reshape(IMAGE_HIDDEN, shape.horizon, -1, shape.slot_columns)
        summed = parts[:, : shape.max_duration].cumsum(1).cumsum(3)
        return functional.pad(summed.transpose(1, 2), (1, 0, 1, 0)).reshape(IMAGE_HIDDEN, -1)


class _FrozenImagePolicy:
    """Table and weights as plain arrays."""

    def __init__(self, network: ImagePolicy) -> None:
        self._layout = network.layout
        self._masks = network.mask_empty_slots
        with torch.no_grad():
            self._table = network.table().numpy()
            self._bias = network.hidden.bias.numpy().copy()
            self._weight = network.score.weight.numpy().copy()
            self._score_bias = network.score.bias.numpy().copy()

    def observe(self, episodes: Episodes, rows: Int32) -> Int16:
        return self._layout.read(episodes, rows)

    def scores(self, inputs: Int16) -> Float32:
        hidden = np.tile(self._bias, (len(inputs), 1))
        policy_kernels.sum_rows(self._table, inputs, hidden)
        score = np.empty((len(inputs), len(self._score_bias)), np.float32)
        policy_kernels.image_scores(hidden, self._weight, self._score_bias, score)
        if self._masks:
            score[:, 1:][self._layout.empty_slots(inputs)] = -np.inf
        return score


class _TableSum(torch.autograd.Function):
    """(n, H) sums of the rows of an (R, H) table that an (n, K) tensor names."""

    @staticmethod
    def forward(ctx: Any, table: Tensor, chosen: Tensor) -> Tensor:
        ctx.save_for_backward(chosen)
        ctx.rows = len(table)
        total = torch.zeros(len(chosen), table.shape[1])
        policy_kernels.sum_rows(table.detach().numpy(), chosen.numpy(), total.numpy())
        return total

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (chosen,) = ctx.saved_tensors
        table = torch.zeros(ctx.rows, gradient.shape[1])
        policy_kernels.spread_rows(gradient.contiguous().numpy(), chosen.numpy(), table.numpy())
        return table, None


class CompactPolicy(nn.Module):
    """The network for clusters with the horizon and the number of resources of `config`.

    Args:
        config: of the cluster.
        generator: of the first weights.
    """

    def __init__(self, config: Config, generator: torch.Generator | None = None) -> None:
        super().__init__()
        self.layout = CompactLayout(config)
        around = self.layout.of_cluster
        self.job = _linear(self.layout.of_slot, COMPACT_HIDDEN, generator)
        self.around = _linear(around, COMPACT_HIDDEN, generator)
        self.around_void = _linear(around, COMPACT_HIDDEN, generator)
        self.score = _linear(COMPACT_HIDDEN, 1, generator)
        self.score_void = _linear(COMPACT_HIDDEN, 1, generator)

    def fits(self, config: Config) -> bool:
        """Return whether the policy can choose in such a cluster: any with its horizon and
        resources.
        """
        layout = CompactLayout(config)
        sizes = (layout.of_slot, layout.of_cluster)
        return sizes == (self.layout.of_slot, self.layout.of_cluster)

    def forward(self, inputs: Tensor) -> Tensor:
        """(n, M + 1) scores for (n, F) observations, with graph."""
        split = inputs.shape[1] - self.layout.of_cluster
        slots = inputs[:, :split].view(len(inputs), -1, self.layout.of_slot)
        around = inputs[:, split:]
        hidden = functional.relu(self.job(slots) + self.around(around)[:, None])
        fits = (slots[:, :, THERE] > 0.0) & (slots[:, :, WAIT] < 1.0)
        score = self.score(hidden)[:, :, 0].masked_fill(~fits, -torch.inf)
        void = self.score_void(functional.relu(self.around_void(around)))
        return torch.cat([void, score], 1)

    def frozen(self) -> Frozen:
        """The network as it is now, for many decisions."""
        return _FrozenCompactPolicy(self)


class _FrozenCompactPolicy:
    """Weights as plain arrays; the network's configuration need not be that of the episodes."""

    def __init__(self, network: CompactPolicy) -> None:
        def copied(tensor: Tensor) -> Float32:
            return tensor.detach().numpy().copy()

        self._weights = Weights(
            job=copied(network.job.weight.T.contiguous()),
            around=copied(network.around.weight.T.contiguous()),
            around_void=copied(network.around_void.weight.T.contiguous()),
            bias=copied(network.job.bias + network.around.bias),
            bias_void=copied(network.around_void.bias),
            score=copied(network.score.weight[0]),
            score_void=copied(network.score_void.weight[0]),
        )
        self._score_bias = network.score.bias.item(), network.score_void.bias.item()

    def observe(self, episodes: Episodes, rows: Int32) -> Float32:
        return CompactLayout(episodes.config).read(episodes, rows)

    def scores(self, inputs: Float32) -> Float32:
        of_slot, of_cluster = len(self._weights.job), len(self._weights.around)
        slots = (inputs.shape[1] - of_cluster) // of_slot
        score = np.empty((len(inputs), slots + 1), np.float32)
        scratch = np.empty((2, COMPACT_HIDDEN), np.float32)
        policy_kernels.compact_scores(self._weights, slots, inputs, scratch, score)
        score[:, 1:] += self._score_bias[0]
        score[:, 0] += self._score_bias[1]
        return score
