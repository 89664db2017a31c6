r"""The paper's network: the image, one hidden layer of 20 rectifiers, a score for each action.

.. math:: \pi(\cdot \mid x) = \mathrm{softmax}(W_2 \max(W_1 x + b_1, 0) + b_2)

Its parameters are those of two ordinary linear layers. What is not ordinary is how the first is
computed: as an image is a few rectangles, :math:`W_1 x` is a sum of as many rows of a table of
summed weights. The table is made by sums along the axes, which torch differentiates.

Letters: n decisions, T rows and C columns of the image, K rectangles, R rows of the table, H hidden
units, A actions.

Source: DeepRM (HotNets 2016), sections 3.3 and 4.1: 20 hidden units, 89,451 parameters. Summed
area tables: Crow, SIGGRAPH 1984.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from deeprm import policy_kernels
from deeprm.config import Config
from deeprm.episodes import Episodes
from deeprm.image import ImageLayout
from deeprm.image_kernels import ARRIVAL_LEVELS, LONGEST_GAP
from deeprm.learned import Frozen
from deeprm.tables import Float32, Int16, Int32

HIDDEN = 20


def linear(inputs: int, outputs: int, generator: torch.Generator | None) -> nn.Linear:
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
        self.hidden = linear(inputs, HIDDEN, generator)
        self.score = linear(HIDDEN, config.actions, generator)

    def fits(self, config: Config) -> bool:
        """Return whether the policy can choose in such a cluster: one with the same image."""
        shape, mine = ImageLayout(config).shape, self.layout
        return (shape, config.capacities) == (mine.shape, mine.config.capacities)

    def forward(self, seen: Tensor) -> Tensor:
        """(n, A) scores for (n, K) observations, with graph."""
        hidden: Tensor = _TableSum.apply(self.table(), seen) + self.hidden.bias  # type: ignore[no-untyped-call]
        score = functional.linear(functional.relu(hidden), self.score.weight, self.score.bias)
        if self.mask_empty_slots:
            empty = torch.from_numpy(self.layout.empty_slots(seen.numpy()))
            score[:, 1:] = score[:, 1:].masked_fill(empty, -torch.inf)
        return score

    def frozen(self) -> Frozen:
        """The network as it is now, for many decisions."""
        return FrozenImagePolicy(self)

    def table(self) -> Tensor:
        """(R, H) for each rectangle the sum of the weights of its cells, with graph."""
        shape = self.layout.shape
        width = shape.cluster_columns * shape.pools
        weight = self.hidden.weight.view(HIDDEN, shape.horizon, self.layout.columns)
        slots_end = width + shape.slots * shape.resources * shape.slot_columns
        backlog_end = slots_end + shape.backlog_columns
        cluster = self._cluster_rows(weight[:, :, :width])
        slots = self._slot_rows(weight[:, :, width:slots_end])
        cells = weight[:, :, slots_end:backlog_end].reshape(HIDDEN, -1)[:, : shape.backlog]
        backlog = functional.pad(cells.cumsum(1), (1, 0))
        grey = torch.arange(ARRIVAL_LEVELS) / LONGEST_GAP
        arrival = weight[:, :, backlog_end:].sum((1, 2))[:, None] * grey
        return torch.cat([cluster, slots, backlog, arrival], 1).T.contiguous()

    def _cluster_rows(self, weight: Tensor) -> Tensor:
        """(H, T * P * levels) from the (H, T, P * columns) weights of the cluster's image."""
        shape, config = self.layout.shape, self.layout.config
        parts = weight.reshape(HIDDEN, shape.horizon, shape.pools, shape.cluster_columns)
        by_capacity = {units: parts @ self._covered(units).T for units in set(config.capacities)}
        capacities = config.capacities * config.machines
        rows = [by_capacity[units][:, :, pool] for pool, units in enumerate(capacities)]
        return torch.stack(rows, 2).reshape(HIDDEN, -1)

    def _covered(self, capacity: int) -> Tensor:
        """(levels, columns) share of each cell that the units in use of a resource cover."""
        shape = self.layout.shape
        units = torch.arange(shape.capacity + 1)[:, None] * shape.cluster_columns / capacity
        return (units - torch.arange(shape.cluster_columns)).clamp(0.0, 1.0)

    def _slot_rows(self, weight: Tensor) -> Tensor:
        """(H, M * d * durations * demands) from the (H, T, M * d * columns) weights of slots."""
        shape = self.layout.shape
        parts = weight.reshape(HIDDEN, shape.horizon, -1, shape.slot_columns)
        summed = parts[:, : shape.max_duration].cumsum(1).cumsum(3)
        return functional.pad(summed.transpose(1, 2), (1, 0, 1, 0)).reshape(HIDDEN, -1)


class FrozenImagePolicy:
    """A scheduler that does not learn: table and weights as plain arrays."""

    def __init__(self, network: ImagePolicy) -> None:
        self._layout = network.layout
        self._masks = network.mask_empty_slots
        with torch.no_grad():
            self._table = network.table().numpy()
            self._bias = network.hidden.bias.numpy().copy()
            self._weight = network.score.weight.numpy().copy()
            self._score_bias = network.score.bias.numpy().copy()

    def observe(self, episodes: Episodes, rows: Int32) -> Int16:
        """Return the network's input (n, K)."""
        return self._layout.read(episodes, rows)

    def scores(self, seen: Int16) -> Float32:
        """(n, A) scores; those of one decision do not depend on the others."""
        hidden = np.tile(self._bias, (len(seen), 1))
        policy_kernels.sum_rows(self._table, seen, hidden)
        found = np.empty((len(seen), len(self._score_bias)), np.float32)
        policy_kernels.scores(hidden, self._weight, self._score_bias, found)
        if self._masks:
            found[:, 1:][self._layout.empty_slots(seen)] = -np.inf
        return found


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
