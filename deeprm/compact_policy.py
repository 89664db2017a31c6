r"""A network on numbers: every job is scored by the same weights, so it fits any number of slots.

.. math::
    s_0 &= u_0^\top \max(B_0 c + b_0, 0) \\
    s_m &= u^\top \max(A x_m + B c + b, 0)

with the numbers :math:`x_m` of a slot and :math:`c` of the cluster (`deeprm.compact`). A job that
does not fit has probability zero.

As all it reads are shares, it carries over to clusters of another capacity and number of slots;
so does the state of Zhang et al. (arXiv 2109.03202), which set the question.

Letters: n decisions, M slots, F numbers, H hidden units.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from deeprm import compact_kernels
from deeprm.compact import CompactLayout
from deeprm.compact_kernels import THERE, WAIT, Weights
from deeprm.config import Config
from deeprm.episodes import Episodes
from deeprm.image_policy import linear
from deeprm.learned import Frozen
from deeprm.tables import Float32, Int32

HIDDEN = 32


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
        self.job = linear(self.layout.of_slot, HIDDEN, generator)
        self.around = linear(around, HIDDEN, generator)
        self.around_void = linear(around, HIDDEN, generator)
        self.score = linear(HIDDEN, 1, generator)
        self.score_void = linear(HIDDEN, 1, generator)

    def fits(self, config: Config) -> bool:
        """Return whether the policy can choose in such a cluster: any with its horizon and
        resources.
        """
        other = CompactLayout(config)
        return (other.of_slot, other.of_cluster) == (self.layout.of_slot, self.layout.of_cluster)

    def forward(self, seen: Tensor) -> Tensor:
        """(n, M + 1) scores for (n, F) observations, with graph."""
        split = seen.shape[1] - self.layout.of_cluster
        slots = seen[:, :split].view(len(seen), -1, self.layout.of_slot)
        around = seen[:, split:]
        hidden = functional.relu(self.job(slots) + self.around(around)[:, None])
        fits = (slots[:, :, THERE] > 0.0) & (slots[:, :, WAIT] < 1.0)
        score = self.score(hidden)[:, :, 0].masked_fill(~fits, -torch.inf)
        void = self.score_void(functional.relu(self.around_void(around)))
        return torch.cat([void, score], 1)

    def frozen(self) -> Frozen:
        """The network as it is now, for many decisions."""
        return FrozenCompactPolicy(self)


class FrozenCompactPolicy:
    """A network that does not learn, its weights as plain arrays.

    Args:
        network: which one; its configuration need not be that of the episodes.
    """

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
        """Return the network's input (n, F)."""
        return CompactLayout(episodes.config).read(episodes, rows)

    def scores(self, seen: Float32) -> Float32:
        """(n, M + 1) scores; those of one decision do not depend on the others."""
        of_slot, of_cluster = len(self._weights.job), len(self._weights.around)
        slots = (seen.shape[1] - of_cluster) // of_slot
        found = np.empty((len(seen), slots + 1), np.float32)
        scratch = np.empty((2, HIDDEN), np.float32)
        compact_kernels.compact_scores(self._weights, slots, seen, scratch, found)
        found[:, 1:] += self._score_bias[0]
        found[:, 0] += self._score_bias[1]
        return found
