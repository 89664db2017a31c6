"""RMSProp: the formula, against torch's, and its state."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from torch import nn

from decima.rl.errors import NotFiniteError
from decima.rl.optimiser import RmsProp, flat_gradient, flat_parameters


def linear() -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(3)
        return nn.Linear(3, 2)


def gradient(number: int) -> torch.Tensor:
    return torch.randn(8, generator=torch.Generator().manual_seed(number))


def test_a_first_step_by_hand() -> None:
    """v = 0.1 g^2, so every parameter moves by 0.01 / sqrt(0.1), whatever its gradient."""
    module = linear()
    before = flat_parameters(module)

    norm = RmsProp(module, 0.01).step(torch.full((8,), -4.0))

    moved = flat_parameters(module) - before
    torch.testing.assert_close(moved, torch.full((8,), 0.01 / math.sqrt(0.1)))
    assert norm == pytest.approx(4.0 * math.sqrt(8.0))


def test_it_is_torchs() -> None:
    """Five steps of `torch.optim.RMSprop` with the same numbers."""
    ours, theirs = linear(), linear()
    optimiser = RmsProp(ours, 0.02, 0.8)
    reference = torch.optim.RMSprop(theirs.parameters(), lr=0.02, alpha=0.8)
    for number in range(5):
        flat = gradient(number)
        optimiser.step(flat)
        offset = 0
        for parameter in theirs.parameters():
            parameter.grad = flat[offset : offset + parameter.numel()].view_as(parameter)
            offset += parameter.numel()
        assert flat_gradient(theirs).equal(flat)
        reference.step()
    torch.testing.assert_close(flat_parameters(ours), flat_parameters(theirs))


def test_it_goes_on_from_its_state() -> None:
    """As if it had never stopped."""
    module = linear()
    optimiser = RmsProp(module, 0.02)
    optimiser.step(gradient(1))
    again = copy.deepcopy(module)
    resumed = RmsProp(again, 0.02)
    resumed.load(optimiser.state())
    for one in (optimiser, resumed):
        one.step(gradient(2), learning_rate=0.01)
    assert flat_parameters(again).equal(flat_parameters(module))


def test_what_it_cannot_use_is_refused() -> None:
    """And changes nothing."""
    module = linear()
    before = flat_parameters(module)
    optimiser = RmsProp(module, 0.02)
    with pytest.raises(NotFiniteError, match="norm is nan"):
        optimiser.step(torch.full((8,), math.nan))
    with pytest.raises(ValueError, match=r"\(7,\)"):
        optimiser.step(torch.zeros(7))
    with pytest.raises(ValueError, match="mean_square"):
        optimiser.load({})
    with pytest.raises(ValueError, match="learning rate is 0"):
        RmsProp(module, 0.0)
    with pytest.raises(ValueError, match="decay is 1"):
        RmsProp(module, 0.1, 1.0)
    assert flat_parameters(module).equal(before)
    assert optimiser.state()["mean_square"].tolist() == [0.0] * 8
