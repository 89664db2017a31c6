"""A network that learns by one optimiser, as the training loop asks for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, TypeVar

from torch import Tensor, nn

from decima.rl.optimiser import Optimiser, flat_gradient, flat_parameters, set_flat_parameters

LOWEST = -1e9
"""in place of the logarithm of 0"""

N = TypeVar("N", bound=nn.Module)


class NetworkLearner(Generic[N]):
    """Base of learners: the part of `decima.rl.loop.Learner` that is about weights."""

    def __init__(self, network: N, optimiser: Optimiser) -> None:
        self.network = network
        self._optimiser = optimiser

    def begin_with(self, network: N) -> None:
        """Take over the weights of a network of the same size."""
        self.network.load_state_dict(network.state_dict())

    def state(self) -> dict[str, Tensor]:
        """Parameters and what the optimiser remembers."""
        return {"parameters": flat_parameters(self.network), **self._optimiser.state()}

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Continue from what `state` gave; ValueError if it is of another network."""
        set_flat_parameters(self.network, state["parameters"])
        self._optimiser.load(state)
        self.network.zero_grad()

    def model_state(self) -> dict[str, Tensor]:
        """The weights by name."""
        return dict(self.network.state_dict())

    def _move(self, rate: float) -> float:
        """Move the weights against the gradient that they hold; return its norm."""
        norm = self._optimiser.step(flat_gradient(self.network), learning_rate=rate)
        self.network.zero_grad()
        return norm


def taken_of(log_prob: Tensor, action: Tensor) -> Tensor:
    """(B,) log-probabilities of (B,) actions among (B, A)."""
    return log_prob.gather(1, action.long()[:, None])[:, 0]


def entropy_of(log_prob: Tensor) -> Tensor:
    """(B,) entropies of (B, A) log-probabilities; forbidden actions, with -inf, count nothing."""
    return -(log_prob.exp() * log_prob.clamp(min=LOWEST)).sum(1)
