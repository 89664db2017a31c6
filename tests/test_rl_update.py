"""What changes parameters: losses and optimisers."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from decima.rl.errors import NotFiniteError
from decima.rl.losses import (
    clipped_ratio_loss,
    entropy_loss,
    normalised,
    policy_gradient_loss,
    value_loss,
)
from decima.rl.optimiser import (
    Optimiser,
    RmsProp,
    flat_gradient,
    flat_parameters,
    set_flat_parameters,
)


def small_network(seed: int = 3) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))


def inputs(seed: int, count: int = 8) -> Tensor:
    return torch.from_numpy(np.random.default_rng(seed).normal(size=(count, 3))).float()


def test_policy_gradient_by_hand() -> None:
    """The gradient with respect to each log-probability is minus its advantage over B."""
    log_prob = torch.tensor([-1.0, -2.0], requires_grad=True)

    loss = policy_gradient_loss(log_prob, torch.tensor([3.0, -1.0]))
    torch.autograd.backward(loss)

    assert loss.item() == pytest.approx((3.0 - 2.0) / 2.0)
    assert log_prob.grad is not None
    assert log_prob.grad.tolist() == [-1.5, 0.5]


def test_no_gradient_flows_into_advantages_or_targets() -> None:
    network = small_network()
    estimate = network(inputs(1))[:, 0]

    torch.autograd.backward(policy_gradient_loss(torch.zeros(8, requires_grad=True), estimate))
    torch.autograd.backward(value_loss(torch.zeros(8, requires_grad=True), estimate))

    assert flat_gradient(network).tolist() == [0.0] * flat_parameters(network).numel()


def test_clipped_ratios_by_hand() -> None:
    """Ratios 1.5 and 0.5 at clip 0.2: a gain already taken stops to pull, a loss does not."""
    old = torch.tensor([0.5, 0.5, 0.5]).log()
    log_prob = torch.tensor([0.75, 0.25, 0.75]).log().requires_grad_()
    advantage = torch.tensor([1.0, 1.0, -1.0])

    loss = clipped_ratio_loss(log_prob, old, advantage, 0.2)
    (gradient,) = torch.autograd.grad(loss.loss, log_prob)

    # min(1.5, 1.2), min(0.5, 0.8), min(-1.5, -1.2)
    assert loss.loss.item() == pytest.approx(-(1.2 + 0.5 - 1.5) / 3.0)
    assert gradient.tolist() == pytest.approx([0.0, -0.5 / 3.0, 1.5 / 3.0])
    assert loss.clip_fraction.item() == pytest.approx(1.0)
    twice, once = 0.5 - math.log(1.5), -0.5 - math.log(0.5)
    assert loss.approximate_kl.item() == pytest.approx((2.0 * twice + once) / 3.0)


def test_gradients_of_chunks_add_up() -> None:
    """With the total given, an update may be cut into chunks, and into processes."""
    advantage = torch.from_numpy(np.random.default_rng(2).normal(size=8)).float()
    network = small_network()

    def gradient(rows: slice) -> Tensor:
        logits = network(inputs(1)[rows])
        log_prob = logits.log_softmax(dim=1)[:, 0]
        entropy = -(logits.softmax(dim=1) * logits.log_softmax(dim=1)).sum(dim=1)
        loss = policy_gradient_loss(log_prob, advantage[rows], total=8)
        loss = loss + clipped_ratio_loss(log_prob, -log_prob, advantage[rows], 0.2, total=8).loss
        loss = loss + entropy_loss(entropy, 0.1, total=8)
        loss = loss + value_loss(logits[:, 1], advantage[rows], total=8)
        network.zero_grad()
        torch.autograd.backward(loss)
        return flat_gradient(network)

    whole = gradient(slice(0, 8))
    parts = gradient(slice(0, 3)) + gradient(slice(3, 8))

    assert float(whole.norm()) > 0.1
    assert parts.tolist() == pytest.approx(whole.tolist(), abs=1e-6)


def test_other_losses_by_hand() -> None:
    """Half the mean square; minus the weighted mean; advantages of mean 0 and deviation 1 or 0."""
    assert value_loss(torch.tensor([1.0, 2.0]), torch.tensor([3.0, 2.0])).item() == 1.0
    assert entropy_loss(torch.tensor([1.0, 3.0]), 0.5).item() == -1.0
    advantage = torch.tensor([1.0, 5.0])
    assert normalised(advantage, 3.0, 2.0).tolist() == pytest.approx([-1.0, 1.0])
    assert normalised(torch.full((3,), 2.0), 2.0, 0.0).tolist() == [0.0, 0.0, 0.0]


def test_a_column_beside_a_row_is_refused() -> None:
    """(B, 1) and (B,) would broadcast to (B, B) and train on nonsense."""
    row, column = torch.zeros(3), torch.zeros(3, 1)
    with pytest.raises(ValueError, match=r"\(3, 1\)"):
        policy_gradient_loss(column, row)
    with pytest.raises(ValueError, match=r"\(3, 1\)"):
        clipped_ratio_loss(row, column, row, 0.2)
    with pytest.raises(ValueError, match=r"\(3, 1\)"):
        value_loss(column, row)
    with pytest.raises(ValueError, match="above 0"):
        clipped_ratio_loss(row, row, row, 0.0)


def test_parameters_go_through_a_vector_and_back() -> None:
    network, other = small_network(seed=1), small_network(seed=2)
    vector = flat_parameters(network)

    set_flat_parameters(other, vector)
    vector.zero_()

    assert flat_parameters(other).tolist() == flat_parameters(network).tolist()
    assert vector.dtype == torch.float32
    with pytest.raises(ValueError, match=r"shape \(5,\)"):
        set_flat_parameters(other, torch.zeros(5))


@pytest.mark.parametrize("max_norm", [0.5, None])
def test_the_optimiser_is_adam_with_clipping(max_norm: float | None) -> None:
    """The same as torch's own two calls on the parameters one by one."""
    ours, theirs = small_network(), small_network()
    optimiser = Optimiser(ours, 0.01, max_norm=max_norm)
    assert_as_torch(optimiser, ours, theirs, torch.optim.Adam(theirs.parameters(), lr=0.01))


def test_rmsprop_is_torchs() -> None:
    ours, theirs = small_network(), small_network()
    reference = torch.optim.RMSprop(theirs.parameters(), lr=0.02, alpha=0.8)
    assert_as_torch(RmsProp(ours, 0.02, 0.8), ours, theirs, reference)


def assert_as_torch(
    optimiser: Optimiser, ours: nn.Module, theirs: nn.Module, reference: torch.optim.Optimizer
) -> None:
    """Ten steps give the same parameters."""
    max_norm = math.inf if optimiser.max_norm is None else optimiser.max_norm
    for step in range(10):
        for network in (ours, theirs):
            network.zero_grad()
            torch.autograd.backward(network(inputs(step)).square().sum())
        norm = optimiser.step(flat_gradient(ours))
        assert norm == pytest.approx(
            float(nn.utils.clip_grad_norm_(theirs.parameters(), max_norm)), rel=1e-5
        )
        reference.step()
    torch.testing.assert_close(flat_parameters(ours), flat_parameters(theirs))


@pytest.mark.parametrize("kind", [Optimiser, RmsProp])
def test_the_optimiser_goes_on_from_its_state(kind: type[Optimiser]) -> None:
    """Made anew before each step, it arrives at the same weights to the last bit."""
    straight = small_network()
    broken = copy.deepcopy(straight)
    optimiser = kind(straight, 0.01)
    state = kind(broken, 0.01).state()

    for step in range(5):
        gradient = inputs(step, 26)[:, 0]
        optimiser.step(gradient, learning_rate=0.01 / (step + 1))
        resumed = kind(broken, 0.01)
        resumed.load(state)
        resumed.step(gradient, learning_rate=0.01 / (step + 1))
        state = resumed.state()

    assert torch.equal(flat_parameters(straight), flat_parameters(broken))
    assert state.keys() == optimiser.state().keys()
    assert all(torch.equal(state[name], kept) for name, kept in optimiser.state().items())


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("kind", [Optimiser, RmsProp])
def test_a_gradient_that_is_not_finite_changes_nothing(kind: type[Optimiser], bad: float) -> None:
    network = small_network()
    optimiser = kind(network, 0.1)
    optimiser.step(torch.ones(26))
    before, remembered = flat_parameters(network), optimiser.state()

    gradient = torch.ones(26)
    gradient[3] = bad
    with pytest.raises(NotFiniteError, match="must be finite"):
        optimiser.step(gradient)

    assert torch.equal(flat_parameters(network), before)
    assert all(torch.equal(optimiser.state()[name], kept) for name, kept in remembered.items())
