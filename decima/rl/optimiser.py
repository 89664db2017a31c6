"""One Adam step for a gradient that was summed elsewhere, as one flat vector.

A vector is what processes send each other and what a checkpoint holds. Letters: P parameters of the
module, in the order of `module.parameters()`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector

from decima.rl.errors import NotFiniteError


def flat_parameters(module: nn.Module) -> Tensor:
    """(P,) copy of all parameters, one after another."""
    return parameters_to_vector(module.parameters()).detach().clone()


def set_flat_parameters(module: nn.Module, flat: Tensor) -> None:
    """Copy a (P,) vector into the parameters, in place.

    Raises:
        ValueError: the vector has another length.
    """
    _check_length(flat, sum(parameter.numel() for parameter in module.parameters()))
    with torch.no_grad():
        offset = 0
        for parameter in module.parameters():
            part = flat[offset : offset + parameter.numel()]
            parameter.copy_(part.view_as(parameter))
            offset += parameter.numel()


def flat_gradient(module: nn.Module) -> Tensor:
    """(P,) copy of the gradients held by the parameters; 0 where a parameter holds none."""
    return torch.cat(
        [
            (torch.zeros_like(p) if p.grad is None else p.grad).detach().reshape(-1)
            for p in module.parameters()
        ]
    )


class Optimiser:
    r"""Adam on a clipped gradient.

    .. math:: g \leftarrow g \cdot \min(1,\; c / \lVert g \rVert_2)

    followed by `torch.optim.Adam`.

    Source: Kingma and Ba 2015; Pascanu et al. 2013 for the clipping.

    Args:
        module: whose parameters to improve; all float32 and on one device, where it stays.
        learning_rate: step size, above 0.
        max_norm: c, the largest gradient norm applied; None does not clip.
    """

    def __init__(
        self, module: nn.Module, learning_rate: float, max_norm: float | None = None
    ) -> None:
        if not learning_rate > 0.0:
            raise ValueError(f"the learning rate is {learning_rate}: it must be above 0")
        if max_norm is not None and not max_norm > 0.0:
            raise ValueError(f"gradients are clipped at norm {max_norm}: it must be above 0")
        self.learning_rate = learning_rate
        self.max_norm = max_norm
        self._module = module
        # Adam works on one vector: elementwise, hence the same as on the parameters one by one,
        # and its state is three tensors whatever the module.
        self._vector = nn.Parameter(flat_parameters(module))
        self._adam = torch.optim.Adam([self._vector], lr=learning_rate)

    def step(self, gradient: Tensor, *, learning_rate: float | None = None) -> float:
        """Move the parameters of the module against a (P,) gradient.

        Args:
            gradient: (P,) float32 gradient of what is minimised; it is not changed.
            learning_rate: step size of this step alone, if not the usual one.

        Returns:
            the norm of the gradient before clipping.

        Raises:
            NotFiniteError: the norm is infinite or not a number; nothing has changed.
            ValueError: the gradient has another length.
        """
        _check_length(gradient, self._vector.numel())
        norm = float(torch.linalg.vector_norm(gradient))
        if not math.isfinite(norm):
            raise NotFiniteError(f"gradient norm is {norm}: it must be finite")
        excess = 1.0 if self.max_norm is None else max(1.0, norm / self.max_norm)
        self._vector.data = flat_parameters(self._module)
        self._vector.grad = gradient.detach().to(self._vector) / excess
        for group in self._adam.param_groups:
            group["lr"] = self.learning_rate if learning_rate is None else learning_rate
        self._adam.step()
        set_flat_parameters(self._module, self._vector.detach())
        return norm

    def state(self) -> dict[str, Tensor]:
        """Copies of what Adam remembers: `step` (), `mean` (P,) and `mean_square` (P,)."""
        held = self._adam.state.get(self._vector)
        if not held:
            zeros = torch.zeros_like(self._vector.detach())
            return {"step": torch.tensor(0.0), "mean": zeros, "mean_square": zeros.clone()}
        return {
            "step": held["step"].detach().clone(),
            "mean": held["exp_avg"].detach().clone(),
            "mean_square": held["exp_avg_sq"].detach().clone(),
        }

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Continue from what `state` gave; the parameters themselves are the module's.

        Raises:
            ValueError: a tensor is missing or has another length.
        """
        missing = {"step", "mean", "mean_square"} - state.keys()
        if missing:
            raise ValueError(f"state of an optimiser lacks {', '.join(sorted(missing))}")
        _check_length(state["mean"], self._vector.numel())
        _check_length(state["mean_square"], self._vector.numel())
        self._adam.state[self._vector] = {
            "step": state["step"].detach().clone().cpu(),
            "exp_avg": state["mean"].detach().to(self._vector, copy=True),
            "exp_avg_sq": state["mean_square"].detach().to(self._vector, copy=True),
        }


def _check_length(vector: Tensor, length: int) -> None:
    if vector.shape != (length,):
        raise ValueError(f"a vector of shape {tuple(vector.shape)}: the module needs ({length},)")
