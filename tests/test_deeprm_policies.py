"""DeepRM's networks: the paper's size, tables instead of pixels, drawing, files."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Literal

import numpy as np
import pytest
import torch
from torch import Tensor

from decima.rl.errors import StudyError
from decima.rl.study.streams import Draws, Purpose
from deeprm import policy_kernels
from deeprm.config import PAPER, RELEASED, Config
from deeprm.episodes import Episodes
from deeprm.jobs import draw_jobs
from deeprm.network import CompactPolicy, ImagePolicy
from deeprm.observations import ImageLayout
from deeprm.schedulers import Learned, new_network
from deeprm.tables import NONE, Int32
from deeprm.training_config import TrainConfig
from tests.deeprm_clusters import TINY, random_actions

CONFIGS = {
    "paper": PAPER.at_load(1.5),
    "released": RELEASED,
    "tiny": TINY,
    "three resources": replace(PAPER, resources=3, horizon=25, backlog=33),
}


Policy = Literal["image", "compact"]


def generator(seed: int = 1) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def some_states(config: Config, steps: int = 25) -> tuple[Episodes, Int32]:
    """Episodes under way, after random actions."""
    episodes = Episodes(config, draw_jobs(config, 30, 4, Purpose.TEST))
    for step in range(steps):
        if len(rows := episodes.under_way()) > 5:
            episodes.step(rows, random_actions(episodes, step))
    return episodes, episodes.under_way()


def gradients(network: torch.nn.Module, scores: Tensor) -> list[Tensor]:
    weight = torch.randn(scores.shape, generator=generator(7))
    gradients = torch.autograd.grad((scores * weight).sum(), tuple(network.parameters()))
    return list(gradients)


def test_the_network_has_exactly_the_papers_number_of_parameters() -> None:
    """223 columns of 20 cells, 20 hidden units, 11 actions (section 4.1: 89,451)."""
    assert ImageLayout(PAPER).columns == 2 * 10 + 10 * 2 * 10 + 3 == 223
    assert sum(parameter.numel() for parameter in ImagePolicy(PAPER).parameters()) == 89_451


@pytest.mark.parametrize("name", CONFIGS)
def test_sums_of_rectangles_are_what_the_pixels_give(name: str) -> None:
    """Scores and gradients of every weight, by the table and by the linear layer itself."""
    config = CONFIGS[name]
    network = ImagePolicy(config, generator())
    episodes, rows = some_states(config)

    seen = torch.from_numpy(network.layout.read(episodes, rows))
    pixels = torch.from_numpy(network.layout.pixels(episodes, rows))

    assert pixels.min() == 0.0
    assert pixels.max() == 1.0
    expected = network.score(network.hidden(pixels.flatten(1)).relu())  # as the paper has it
    logits = network(seen)
    torch.testing.assert_close(logits, expected, rtol=1e-4, atol=1e-6)
    for gradient, other in zip(
        gradients(network, logits), gradients(network, expected), strict=True
    ):
        torch.testing.assert_close(gradient, other, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("policy", ["image", "compact"])
def test_a_frozen_network_scores_as_the_one_that_learns(policy: Policy) -> None:
    """And a row does not depend on its company, to the last bit."""
    network = new_network(TrainConfig(policy=policy), generator())
    episodes, rows = some_states(PAPER.at_load(1.5))
    frozen = network.frozen()

    seen = frozen.observe(episodes, rows)
    together = frozen.scores(seen)

    expected = network(torch.from_numpy(seen)).detach().numpy()
    np.testing.assert_allclose(together, expected, rtol=1e-4, atol=1e-5)
    apart = np.concatenate([frozen.scores(seen[i : i + 1]) for i in range(len(rows))])
    assert (apart == together).all()


def test_empty_slots_can_be_masked() -> None:
    """They alone have probability 0, in the network that learns and in the frozen one."""
    config = TrainConfig(cluster=PAPER.at_load(0.5), mask_empty_slots=True)
    masked, plain = new_network(config, generator()), new_network(TrainConfig(), generator())
    episodes, rows = some_states(config.cluster)
    seen = plain.frozen().observe(episodes, rows)
    empty = np.zeros((len(rows), config.cluster.actions), np.bool_)
    empty[:, 1:] = episodes.state.slot[rows] == NONE
    assert empty.any()
    assert not empty.all()

    expected = np.where(empty, -np.inf, plain.frozen().scores(seen))
    assert (masked.frozen().scores(seen) == expected).all()
    learning = masked(torch.from_numpy(seen))
    assert (learning.isinf().numpy() == empty).all()
    learning.log_softmax(1)[:, 0].sum().backward()
    assert all(
        bool(parameter.grad.isfinite().all())
        for parameter in masked.parameters()
        if parameter.grad is not None
    )


def test_actions_are_drawn_as_often_as_their_probability_says() -> None:
    """Softmax of 0, log 2, log 5 and minus infinity: 1/8, 2/8, 5/8 and never."""
    logits = [0.0, math.log(2.0), math.log(5.0), -math.inf]
    score = np.array([logits], np.float32).repeat(8_000, 0)
    chance = (np.arange(8_000) + 0.5) / 8_000
    action = np.empty(8_000, np.int32)

    policy_kernels.draw_action(score, chance, action)

    assert np.bincount(action, minlength=4).tolist() == pytest.approx([1000, 2000, 5000, 0], abs=1)
    policy_kernels.draw_action(score, np.full(8_000, -1.0), action)
    assert set(action.tolist()) == {2}


def test_a_job_that_does_not_fit_has_no_probability() -> None:
    """The compact network's scores are finite where the mask is set, and nowhere else."""
    config = PAPER.at_load(1.9)
    episodes, rows = some_states(config, 60)
    frozen = CompactPolicy(config, generator()).frozen()

    finite = np.isfinite(frozen.scores(frozen.observe(episodes, rows)))

    assert (finite == episodes.masks(rows)).all()
    assert 0.0 < finite.mean() < 1.0


def test_a_compact_network_fits_clusters_of_other_sizes() -> None:
    """Twice the capacity, three times the slots; a frozen one chooses there as it is."""
    network = CompactPolicy(PAPER, generator())
    larger = replace(PAPER, capacity=40, slots=30)

    assert network.fits(larger)
    assert not network.fits(replace(PAPER, horizon=25))
    assert not ImagePolicy(PAPER).fits(larger)
    episodes, rows = some_states(larger)
    assert Learned(network.frozen()).choose(episodes, rows, Draws(0, 30)).max() <= 30


def test_an_image_with_too_many_rectangles_is_refused() -> None:
    """They are told by 16-bit numbers."""
    with pytest.raises(StudyError, match="at most 32767"):
        ImageLayout(replace(PAPER, slots=100))
