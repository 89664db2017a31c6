"""DeepRM as Gymnasium environment: the contract, observations, pictures."""

from __future__ import annotations

import numpy as np
import pytest

from deeprm.config import PAPER, RELEASED
from deeprm.env import DeepRmEnv
from deeprm.episodes import Episodes
from deeprm.jobs import job_set
from deeprm.observations import CompactLayout, ImageLayout
from tests.deeprm_clusters import FIRST, TINY, act
from tests.studies import episode


@pytest.mark.parametrize("objective", ["slowdown", "completion", "makespan"])
def test_rewards_sum_to_the_objective(objective: str) -> None:
    """What passes before the first choice is part of it."""
    rewards, info = episode(DeepRmEnv("paper", objective=objective, load=0.3), 4)

    jobs = 1 if objective == "makespan" else info["jobs"]
    assert -sum(rewards) == pytest.approx(info[objective] * jobs, rel=1e-12)


def test_masks_say_what_places_a_job() -> None:
    """Slot 1 fits, slot 2 is too long for the horizon behind it, void is always there."""
    env = DeepRmEnv(TINY)
    _, info = env.reset(options={"jobs": job_set(TINY, [(0, 4, (4, 1)), (0, 4, (4, 1))])})
    assert info["action_mask"].tolist() == [1, 1, 1]

    *_, info = env.step(np.int64(1))
    assert info["action_mask"].tolist() == [1, 0, 0]
    assert env.action_masks().tolist() == [True, False, False]


def test_the_image_shows_the_cluster_the_slots_and_the_backlog() -> None:
    """Two jobs run, two wait in slots, two beyond: every cell by hand."""
    jobs = [(0, 2, (2, 1)), (0, 1, (3, 1)), *[(0, 3, (4, 2)), (0, 1, (2, 1))] * 2]
    episodes = Episodes(TINY, job_set(TINY, jobs))
    act(episodes, 1, 2)

    pixels = ImageLayout(TINY).pixels(episodes, FIRST)[0]

    # 2 units for 2 steps, and behind them 3 for 1: columns 0-3 and 4-7 are the cluster's
    assert pixels[:, :4].sum(axis=1).tolist() == [2, 2, 3, 0, 0, 0]
    assert pixels[:, 4:8].sum(axis=1).tolist() == [1, 1, 1, 0, 0, 0]
    assert pixels[:, 8:12].tolist() == [[1, 1, 1, 1]] * 3 + [[0] * 4] * 3
    assert pixels[:, 12:16].tolist() == [[1, 1, 0, 0]] * 3 + [[0] * 4] * 3
    assert pixels[0, 16:].tolist() == [1, 1, 0, 0, 1, 0, 0, 0, 1]
    assert pixels[1, 16:].tolist() == [0] * 8 + [1]
    assert pixels.shape == (6, 2 * 4 + 2 * 2 * 4 + 1)


def test_cells_may_be_grey() -> None:
    """The paper's cluster has 10 columns for 20 units; the released one's last is a time in tenths.

    That is how long no job has come, in each row.
    """
    episodes = Episodes(PAPER, job_set(PAPER, [(0, 1, (5, 1)), (0, 1, (1, 1))]))
    act(episodes, 1)
    pixels = ImageLayout(PAPER).pixels(episodes, FIRST)[0]
    assert pixels[0, :10].tolist() == [1, 1, 0.5, *[0] * 7]
    assert pixels[0, 10:20].tolist() == [0.5, *[0] * 9]

    episodes = Episodes(RELEASED, job_set(RELEASED, [(0, 1, (5, 1))]))
    act(episodes, 0, 0, 0)
    pixels = ImageLayout(RELEASED).pixels(episodes, FIRST)[0]
    assert pixels[:, -1].tolist() == pytest.approx([0.3] * 20)


def test_numbers_are_shares() -> None:
    """Slot 1: there, 3 of 6 steps, could start in 2, all and half of a resource."""
    episodes = Episodes(TINY, job_set(TINY, [(0, 2, (2, 1)), (0, 3, (4, 2)), (0, 1, (2, 2))]))
    act(episodes, 1)

    seen = CompactLayout(TINY).read(episodes, FIRST)[0]

    assert seen[:5].tolist() == pytest.approx([1, 1 / 6, 0, 0.5, 0.5])
    assert seen[5:10].tolist() == pytest.approx([1, 3 / 6, 2 / 6, 1, 0.5])
    assert seen[10:16].tolist() == [0.5, 0.75, 0.5, 0.75, 1, 1]
    assert seen[-1] == 0.0
