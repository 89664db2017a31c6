"""DeepRM's training: returns and baselines by hand, resuming, imitation, learning."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import torch

from decima.rl.baselines import TimedReturns, input_dependent_baseline, mean_baseline
from decima.rl.returns import accumulated
from decima.rl.study.lockstep import play
from decima.rl.study.streams import Draws, Purpose
from deeprm.config import PAPER
from deeprm.episodes import Episodes
from deeprm.evaluation import evaluate
from deeprm.jobs import draw_jobs
from deeprm.learner import DeepRmLearner
from deeprm.network import Frozen
from deeprm.objectives import Objective
from deeprm.rollouts import SHARE, Rollouts, branched, roll_out
from deeprm.schedulers import (
    SJF,
    Learned,
    RandomChoice,
    load_model,
    new_network,
    save_model,
    scheduler_of,
)
from deeprm.training_config import TrainConfig
from tests.deeprm_clusters import TINY
from tests.studies import DEEPRM

SMALL: TrainConfig = DEEPRM.training


def rollouts(moment: Literal["step", "time"], size: int = 3, discount: float = 1.0) -> Rollouts:
    """Episodes of `begun`, played."""
    network, episodes, draws = begun(size)
    return roll_out(network, episodes, draws, Objective.SLOWDOWN, size, moment, discount)


def begun(size: int) -> tuple[Frozen, Episodes, Draws]:
    """A network that has learned nothing, two job sets, some episodes of each."""
    jobs = draw_jobs(TINY, 2, 8, Purpose.TRAINING)
    episodes = Episodes(TINY, jobs, np.repeat(np.arange(2, dtype=np.int32), size))
    network = new_network(TrainConfig(cluster=TINY), torch.Generator().manual_seed(3))
    return network.frozen(), episodes, Draws(1, 2 * size)


@pytest.mark.parametrize(("moment", "discount"), [("time", 1.0), ("step", 0.5)])
def test_advantages_are_those_of_the_library(
    moment: Literal["step", "time"], discount: float
) -> None:
    """Rewards taken down one by one; each step of time halves what follows, others do not."""
    played = rollouts(moment, discount=discount)
    episodes = histories(size=3)
    expected = []
    for group in (episodes[:3], episodes[3:]):
        if moment == "time":
            timed = [history.returns() for history in group]
            returns, baselines = (
                [episode.returns for episode in timed],
                input_dependent_baseline(timed),
            )
        else:
            gaps = [np.diff([*history.time, history.end]) for history in group]
            returns = [
                accumulated(np.array(history.reward), discount**gap)
                for history, gap in zip(group, gaps, strict=True)
            ]
            baselines = mean_baseline(returns)
        expected += [own - base for own, base in zip(returns, baselines, strict=True)]
    rounds = max(len(episode) for episode in expected)
    in_order = [episode[k] for k in range(rounds) for episode in expected if k < len(episode)]
    assert played.advantage == pytest.approx(np.array(in_order))


@dataclass
class History:
    """When an episode's actions were taken, and what each earned."""

    time: list[float] = field(default_factory=list)
    reward: list[float] = field(default_factory=list)
    end: float = 0.0

    def returns(self) -> TimedReturns:
        """From each action to the end."""
        return TimedReturns(np.array(self.time), np.cumsum(self.reward[::-1])[::-1], self.end)


def histories(size: int) -> list[History]:
    """The episodes of `rollouts`, played again."""
    network, episodes, draws = begun(size)
    histories = [History() for _ in range(2 * size)]
    scheduler = Learned(network)
    while len(rows := episodes.under_way()) > 0:
        for e in rows:
            histories[e].time.append(float(episodes.state.time[e]))
        steps = episodes.step(rows, scheduler.choose(episodes, rows, draws))
        reward = Objective.SLOWDOWN.reward(TINY, steps.cost)
        for e, earned in zip(rows, reward.tolist(), strict=True):
            histories[e].reward.append(earned)
            histories[e].end = float(episodes.state.time[e])
    return histories


def test_imitation_approaches_the_teacher() -> None:
    """The likeliest action is then mostly that of shortest job first."""
    config = replace(SMALL, policy="compact", imitation=80, job_sets=30, learning_rate=1e-2)
    learner = DeepRmLearner(replace(config, final_learning_rate=1e-2, iterations=80))
    losses = [learner.iterate(iteration)["imitation_loss"] for iteration in range(80)]
    assert losses[-1] < 0.5 * losses[0]

    jobs = draw_jobs(TINY, 40, 9, Purpose.TEST)
    student = Learned(learner.network.frozen(), greedy=True)
    slowdowns = [
        evaluate(scheduler, TINY, jobs, 0).slowdown.mean()
        for scheduler in (student, SJF, RandomChoice())
    ]
    assert slowdowns[0] < slowdowns[1] + 0.25 * (slowdowns[2] - slowdowns[1])


def test_a_model_trained_on_branches_is_greedy(tmp_path: Path) -> None:
    """Two plays of its model are one, whatever is drawn; those of a policy gradient differ."""
    jobs = draw_jobs(TINY, 20, 9, Purpose.TEST)
    differ = {}
    for branches in (0, 1):
        config = replace(SMALL, policy="compact", branches=branches)
        network = new_network(config, torch.Generator().manual_seed(5))
        path = tmp_path / f"{branches}.safetensors"
        save_model(path, config, network.state_dict(), {})
        scheduler = scheduler_of(load_model(path))
        one, other = (evaluate(scheduler, TINY, jobs, seed).slowdown for seed in (1, 2))
        differ[branches] = bool((one != other).any())
    assert differ == {0: True, 1: False}


def test_branches_cost_what_the_heuristic_makes_of_them() -> None:
    """Each action, then SJF to the end, played one by one, less the mean over the actions."""
    jobs = draw_jobs(TINY, 1, 8, Purpose.TRAINING)
    network = new_network(TrainConfig(cluster=TINY, policy="compact")).frozen()
    branches = branched(network, SJF, Episodes(TINY, jobs), Draws(1, 1), Objective.SLOWDOWN)
    scheduler, draws, episodes = Learned(network), Draws(1, 1), Episodes(TINY, jobs)
    expected = []
    while len(rows := episodes.under_way()) > 0:
        action = scheduler.choose(episodes, rows, draws)
        allowed = np.nonzero(episodes.masks(rows)[0])[0].astype(np.int32)
        chance = draws.next(rows)[0]
        if len(allowed) > 1 and chance < SHARE:
            costs = []
            for one in allowed:
                branch = episodes.fork(rows)
                branch.step(np.zeros(1, np.int32), np.array([one], np.int32))
                play(SJF, branch, Draws(0, 1))
                costs.append(-float(Objective.SLOWDOWN.reward(TINY, branch.state.cost)[0]))
            row = np.zeros(TINY.actions)
            row[allowed] = np.array(costs) - np.mean(costs)
            expected.append(row)
        episodes.step(rows, action)
    assert len(expected) > 0
    assert branches.excess == pytest.approx(np.array(expected))


@pytest.mark.slow
def test_branches_lower_the_slowdown() -> None:
    """After a short imitation, in ten iterations, by a tenth."""
    cluster = replace(PAPER.at_load(0.9), arrival_steps=20, slots=4, max_steps=120)
    config = TrainConfig(cluster=cluster, policy="compact", teacher="hold", fresh_job_sets=True)
    config = replace(config, imitation=100, branches=10, branch_batch=128, iterations=110)
    learner = DeepRmLearner(replace(config, learning_rate=5e-3, final_learning_rate=5e-4))
    for iteration in range(100):
        learner.iterate(iteration)
    before = learner.validate()["score"]
    for iteration in range(100, 110):
        learner.iterate(iteration)
    assert learner.validate()["score"] < 0.9 * before


def test_utilisation_is_scored_the_other_way_round() -> None:
    """The loop keeps what has the lowest score."""
    figures = DeepRmLearner(replace(SMALL, objective="utilisation")).validate()
    assert figures["score"] == -figures["utilisation"] < 0.0


def test_what_is_validated_is_a_moving_mean() -> None:
    """Over two iterations: half of the newest weights, and it comes back from a checkpoint."""
    config = replace(SMALL, average_iterations=2)
    learner = DeepRmLearner(config)
    before = learner.state()["parameters"]
    learner.iterate(0)
    after = learner.state()
    assert torch.allclose(after["averaged"], (before + after["parameters"]) / 2)
    other = DeepRmLearner(config)
    other.load(after)
    assert all(
        torch.equal(other.model_state()[name], tensor)
        for name, tensor in learner.model_state().items()
    )
    assert other.validate() == learner.validate()
    plain = DeepRmLearner(SMALL)
    plain.iterate(0)
    assert torch.equal(plain.state()["averaged"], plain.state()["parameters"])
