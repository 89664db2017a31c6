"""One step of Adam or RMSProp for a gradient that was summed elsewhere, as one flat vector.

A vector is what processes send each other and what a checkpoint holds. Letters: P parameters of the
module, in the order of `module.parameters()`.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping

import torch
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector

from decima.rl.errors import NotFiniteError

_SMALLEST = 1e-8


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Let torch compute with one thread, inside the block.

    The matrices of these networks are so small that threads spend more time waiting for each other
    than they save, ten times as much beside other work.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def flat_parameters(module: nn.Module) -> Tensor:
    """(P,) copy of all parameters, one after another."""
    return parameters_to_vector(module.parameters()).detach().clone()


def set_flat_parameters(module: nn.Module, flat: Tensor) -> None:
    """Copy a (P,) vector into the parameters, in place; ValueError if it has another length."""
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

    _KEPT: Mapping[str, str] = {"step": "step", "mean": "exp_avg", "mean_square": "exp_avg_sq"}
    """tensors of the state, and what the rule calls them; all but `step` are (P,)"""

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
        # The rule works on one vector: elementwise, hence the same as on the parameters one by
        # one, and its state is a few tensors whatever the module.
        self._vector = nn.Parameter(flat_parameters(module))
        self._rule = self._new_rule()

    def _new_rule(self) -> torch.optim.Optimizer:
        return torch.optim.Adam([self._vector])

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
        rate = self.learning_rate if learning_rate is None else learning_rate
        self._rule.param_groups[0]["lr"] = rate
        self._rule.step()
        set_flat_parameters(self._module, self._vector.detach())
        return norm

    def state(self) -> dict[str, Tensor]:
        """Copies of what it remembers: `mean_square` (P,); Adam's `step` () and `mean` (P,) too."""
        held = self._rule.state.get(self._vector)
        if held:
            return {name: held[theirs].detach().clone() for name, theirs in self._KEPT.items()}
        zeros = torch.zeros_like(self._vector.detach())
        return {n: torch.tensor(0.0) if n == "step" else zeros.clone() for n in self._KEPT}

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Continue from what `state` gave; the parameters themselves are the module's.

        Raises ValueError if a tensor is missing or has another length.
        """
        if missing := self._KEPT.keys() - state.keys():
            raise ValueError(f"state of an optimiser lacks {', '.join(sorted(missing))}")
        held = {}
        for name, theirs in self._KEPT.items():
            if name == "step":
                held[theirs] = state[name].detach().clone().cpu()
                continue
            _check_length(state[name], self._vector.numel())
            held[theirs] = state[name].detach().to(self._vector, copy=True)
        self._rule.state[self._vector] = held


class RmsProp(Optimiser):
    r"""Each parameter moves by its gradient over the size that its gradient usually has.

    .. math::
        v &\leftarrow \rho v + (1 - \rho) g^2 \\
        \theta &\leftarrow \theta - \alpha \, g / (\sqrt{v} + \epsilon)

    Source: Hinton, Srivastava and Swersky, Neural Networks for Machine Learning, lecture 6e, 2012.

    Args:
        module: whose parameters to improve; all float32 and on the CPU.
        learning_rate: alpha, above 0.
        decay: rho, in [0, 1); weight of the old mean of squares.
    """

    _KEPT: Mapping[str, str] = {"mean_square": "square_avg"}

    def __init__(self, module: nn.Module, learning_rate: float, decay: float = 0.9) -> None:
        if not 0.0 <= decay < 1.0:
            raise ValueError(f"the decay is {decay}: it must lie in [0, 1)")
        self.decay = decay
        super().__init__(module, learning_rate)

    def _new_rule(self) -> torch.optim.Optimizer:
        return _RmsPropRule([self._vector], {"lr": 0.0, "alpha": self.decay})


class _RmsPropRule(torch.optim.Optimizer):
    """`torch.optim.RMSprop` but for the last bit: that multiplies by the rate before it divides.

    Trained models and their figures come from this order.
    """

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Move the one vector; torch's own rules take a closure too."""
        group = self.param_groups[0]
        (vector,) = group["params"]
        square = self.state[vector].setdefault("square_avg", torch.zeros_like(vector))
        square.mul_(group["alpha"]).addcmul_(vector.grad, vector.grad, value=1 - group["alpha"])
        vector.sub_(group["lr"] * (vector.grad / (square.sqrt() + _SMALLEST)))


def _check_length(vector: Tensor, length: int) -> None:
    if vector.shape != (length,):
        raise ValueError(f"a vector of shape {tuple(vector.shape)}: the module needs ({length},)")
