"""Harmony's networks and trainings: masks, returns by hand, resuming, learning."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from decima.rl.errors import StudyError
from decima.rl.study.streams import Draws, Purpose
from harmony.clusters import Clusters
from harmony.config import PAPER
from harmony.evaluation import completion_of
from harmony.interference import draw_samples, fit_pairs
from harmony.jobs import draw_jobs
from harmony.learner import HarmonyLearner, RewardLearner, predict
from harmony.models import (
    Learned,
    PredictedSpeeds,
    drawn,
    load_reward_model,
    new_network,
    new_reward_model,
)
from harmony.network import Size, attention_mask
from harmony.rollouts import VALUE_SCALE, Played, Sure, advantages_of, returns_of, roll_out
from harmony.schedulers import LoadBalance, Lookahead, RandomChoice
from harmony.session import new_run, run_training
from harmony.tokens import Scene, see
from harmony.training_config import RewardConfig, TrainConfig
from tests.harmony_clusters import TINY, save_model
from tests.studies import HARMONY, REWARD

torch.set_num_threads(1)  # more wait for each other, which takes ten times as long
SMALL: TrainConfig = HARMONY.training


def some_scene(config: Any = PAPER, count: int = 6, steps: int = 40) -> tuple[Clusters, Scene]:
    """States some way into episodes."""
    clusters = Clusters(config, draw_jobs(config, count, 1, Purpose.TEST))
    for number in range(steps):
        rows = clusters.under_way()
        clusters.step(rows, RandomChoice().choose(clusters, rows, Draws(number, count)))
    return clusters, see(clusters, clusters.under_way())


# --- networks ------------------------------------------------------------------------------------


def test_near_heads_look_at_neighbours_and_far_ones_at_all_jobs() -> None:
    """Two heads, the second far; one head alone is near. Row 2 is no job."""
    near = torch.tensor([[[True, False, False], [False, True, False], [False, False, True]]])
    seen = torch.tensor([[True, True, False]])
    mask = attention_mask(near, seen, 2)
    assert (mask[0] == 0).tolist() == near[0].tolist()
    assert (mask[1] == 0).tolist() == [[True, True, False], [True, True, False], [True] * 3]
    assert (attention_mask(near, seen, 1) == 0).tolist() == near.tolist()


@pytest.mark.parametrize("heads", [1, 8])
def test_servers_have_no_numbers(heads: int) -> None:
    """Servers, jobs and padding in another order: the same scores in that order."""
    network = new_network(Size(heads=heads)).policy.eval()
    _, scene = some_scene()
    order = np.random.default_rng(1).permutation(6)
    jobs = np.concatenate([[0], 1 + np.random.default_rng(2).permutation(scene.job.shape[1] - 1)])
    other = Scene(
        scene.job[:, jobs],
        scene.is_job[:, jobs],
        scene.beside[:, jobs][:, :, jobs],
        scene.server[:, order],
        scene.holds[:, order][:, :, jobs],
        scene.allowed.reshape(-1, 2, 6)[:, :, order].reshape(-1, 12),
    )
    with torch.no_grad():
        expected = network(scene).reshape(-1, 2, 6)[:, :, order].reshape(-1, 12)
        torch.testing.assert_close(network(other), expected, rtol=1e-4, atol=1e-5)


def test_an_action_without_room_has_no_probability() -> None:
    """And never is the choice."""
    clusters, scene = some_scene()
    network = new_network(SMALL.size)
    scores = network.policy(scene)
    assert (torch.isfinite(scores).numpy() == scene.allowed).all()
    rows = clusters.under_way()
    for greedy in (True, False):
        action = Learned(network.policy, PAPER, greedy=greedy).choose(
            clusters, rows, Draws(1, len(rows))
        )
        assert scene.allowed[np.arange(len(rows)), action].all()


def test_actions_are_drawn_as_often_as_their_probability_says() -> None:
    """1/8, 2/8, 5/8 and never."""
    probability = np.array([[1, 2, 5, 0]]).repeat(8_000, 0) / 8
    chance = (np.arange(8_000) + 0.5) / 8_000
    assert np.bincount(drawn(probability, chance), minlength=4).tolist() == [1000, 2000, 5000, 0]


# --- credit --------------------------------------------------------------------------------------


def story() -> Played:
    """Two episodes: rewards 0, 2 after one interval, 3 after two; then 1 after one."""
    count = 4
    scene = Scene(*(np.zeros((count, 1), np.float32) for _ in range(6)))  # type: ignore[arg-type]
    zeros = np.zeros(count)
    action = np.zeros(count, np.int32)
    return Played(
        scene,
        action,
        np.zeros((count, 1), np.float32),
        zeros,
        np.array([0.1, 0.2, 0.3, 0.4]),
        np.array([0.0, 2.0, 3.0, 1.0]),
        np.array([0, 1, 2, 1], np.int32),
        np.array([0, 0, 0, 1], np.int32),
    )


def test_in_full_an_advantage_is_the_return_over_what_was_expected() -> None:
    """And with lambda 0 what was surprising at the choice itself. Returns with gamma 0.5: 3;
    2 + 0.5 x 3 = 3.5, twice, as choices of one interval are credited alike; 1.
    """
    played = story()
    assert returns_of(played, 0.5).tolist() == [3.5, 3.5, 3.0, 1.0]
    full = advantages_of(played, 0.5, 1.0)
    assert full == pytest.approx(returns_of(played, 0.5) - VALUE_SCALE * played.value)
    own = advantages_of(played, 0.5, 0.0)
    assert own[1:].tolist() == pytest.approx([2 + 0.5 * 3 - 2, 3 - 3, 1 - 4])
    # no interval passed after the first choice, so it shares in the surprise of the second
    assert own[0] == pytest.approx((2 - 1) + own[1])


def test_rollouts_hold_every_choice_of_every_episode() -> None:
    """In order, with the rewards of the episodes; the teacher's answers where there is one."""
    clusters = Clusters(TINY, draw_jobs(TINY, 3, 1, Purpose.TRAINING))
    played = roll_out(new_network(SMALL.size), clusters, Draws(1, 3), 0.3, Sure(LoadBalance()))

    tasks = clusters.jobs.workers.sum() + clusters.jobs.ps.sum()
    assert len(played.action) == tasks
    assert (np.diff(played.episode) >= 0).all()
    assert played.reward.sum() == pytest.approx(3 * TINY.jobs)
    rows = np.arange(tasks)
    assert played.target.sum(axis=1).tolist() == [1.0] * tasks
    label = played.target.argmax(axis=1)
    assert played.scene.allowed[rows, label].all()
    assert 0.5 < (label == played.action).mean() < 1.0


# --- trainings -----------------------------------------------------------------------------------


def test_a_training_on_a_reward_model_asks_it(tmp_path: Path) -> None:
    """It needs one, and a training on the clusters none; their own speeds are not used."""
    model = tmp_path / "reward.safetensors"
    save_model(model, REWARD, new_reward_model(REWARD.size).state_dict(), {})
    config = replace(SMALL, world="model", iterations=1)
    with pytest.raises(StudyError, match="a reward model is needed"):
        new_run(tmp_path / "run", config)
    with pytest.raises(StudyError, match="and nowhere else"):
        new_run(tmp_path / "run", SMALL, reward=model)
    with pytest.raises(StudyError, match="weights of its own"):
        new_run(tmp_path / "run", REWARD, model)
    with new_run(tmp_path / "run", config, reward=model) as folder:
        run_training(folder)

    predictor = PredictedSpeeds(load_reward_model(model).network)
    jobs = draw_jobs(TINY, 2, 1, Purpose.TEST)
    analytic = replace(TINY, speed="analytic")
    ends = []
    for cluster in (TINY, analytic):
        clusters = Clusters(cluster, jobs, predictor=predictor)
        while len(rows := clusters.under_way()) > 0:
            clusters.step(rows, clusters.masks(rows).argmax(axis=1).astype(np.int32))
        ends.append(clusters.state.end_min)
    assert (ends[0] == ends[1]).all()


@pytest.mark.slow
def test_imitation_approaches_the_teacher() -> None:
    """On a small cluster, in a few iterations: closer to it than to random choices."""
    config = replace(SMALL, imitation=12, iterations=12, replay=300, learning_rate=3e-3, tau=0.0)
    learner = HarmonyLearner(config)
    losses = [learner.iterate(iteration)["imitation_loss"] for iteration in range(12)]
    assert losses[-1] < 0.8 * losses[0]
    jobs = draw_jobs(TINY, 60, 9, Purpose.TEST)
    student = Learned(learner.network.policy, TINY)
    teacher = Lookahead(fit_pairs(TINY, draw_samples(TINY, config.samples, config.seed)))
    completions = [
        completion_of(scheduler, TINY, jobs, 0).mean()
        for scheduler in (student, teacher, RandomChoice())
    ]
    assert completions[0] < completions[1] + 0.3 * (completions[2] - completions[1])


@pytest.mark.slow
def test_a_reward_model_learns_speeds() -> None:
    """In a few passes over few samples well below where it began."""
    config = RewardConfig(cluster=PAPER, size=Size(width=32, heads=4), samples=1_500, iterations=6)
    learner = RewardLearner(config)
    first = learner.validate()["score"]
    for iteration in range(6):
        learner.iterate(iteration)
    figures = learner.validate()
    assert figures["score"] < 0.7 * first
    speed = predict(learner.network, learner._held_out)
    assert (speed[learner._held_out.running.is_job] > 0).all()
