"""One RMSProp step for a gradient that was summed elsewhere, as one flat vector.

Letters: P parameters of the module, in the order of `module.parameters()`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from decima.rl.errors import NotFiniteError
from decima.rl.optimiser import flat_parameters, set_flat_parameters

_SMALLEST = 1e-8


class RmsProp:
    r"""Each parameter moves by its gradient over the size that its gradient usually has.

    .. math::
        v &\leftarrow \rho v + (1 - \rho) g^2 \\
        \theta &\leftarrow \theta - \alpha \, g / (\sqrt{v} + \epsilon)

    Source: Hinton, Srivastava and Swersky, Neural Networks for Machine Learning, lecture 6e, 2012.

    Args:
        module: whose parameters to improve; all float32 and on the CPU.
        learning_rate: alpha, above 0.
        decay: rho, in [0, 1); decay of the square's mean.
    """

    def __init__(self, module: nn.Module, learning_rate: float, decay: float = 0.9) -> None:
        if not learning_rate > 0.0:
            raise ValueError(f"the learning rate is {learning_rate}: it must be above 0")
        if not 0.0 <= decay < 1.0:
            raise ValueError(f"the decay is {decay}: it must lie in [0, 1)")
        self.learning_rate = learning_rate
        self.decay = decay
        self._module = module
        self._mean_square = torch.zeros_like(flat_parameters(module))

    def step(self, gradient: Tensor, *, learning_rate: float | None = None) -> float:
        """Move the parameters of the module against a (P,) gradient.

        Args:
            gradient: (P,) float32 gradient of what is minimised; it is not changed.
            learning_rate: step size of this step alone, if not the usual one.

        Returns:
            the norm of the gradient.

        Raises:
            NotFiniteError: the norm is infinite or not a number; nothing has changed.
            ValueError: the gradient has another length.
        """
        if gradient.shape != self._mean_square.shape:
            raise ValueError(
                f"a gradient of shape {tuple(gradient.shape)}: the module needs "
                f"{tuple(self._mean_square.shape)}"
            )
        norm = float(torch.linalg.vector_norm(gradient))
        if not math.isfinite(norm):
            raise NotFiniteError(f"gradient norm is {norm}: it must be finite")
        rate = self.learning_rate if learning_rate is None else learning_rate
        self._mean_square.mul_(self.decay).addcmul_(gradient, gradient, value=1.0 - self.decay)
        moved = gradient / (self._mean_square.sqrt() + _SMALLEST)
        set_flat_parameters(self._module, flat_parameters(self._module) - rate * moved)
        return norm

    def state(self) -> dict[str, Tensor]:
        """Copy of what is remembered: `mean_square` (P,)."""
        return {"mean_square": self._mean_square.clone()}

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Continue from what `state` gave; the parameters themselves are the module's.

        Raises:
            ValueError: the tensor is missing or has another length.
        """
        found = state.get("mean_square")
        if found is None or found.shape != self._mean_square.shape:
            raise ValueError("state of RMSProp: mean_square is missing or has another length")
        self._mean_square = found.detach().clone()
