"""Who is imitated: branches of an episode, and what they say of its actions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from decima.rl.study.lockstep import play
from decima.rl.study.streams import Draws, Purpose
from harmony.clusters import Clusters
from harmony.config import PAPER
from harmony.jobs import draw_jobs
from harmony.learner import HarmonyLearner
from harmony.schedulers import Lookahead, RandomChoice
from harmony.tables import Float64, Int32, Jobs
from harmony.teachers import Branches
from tests.harmony_clusters import TINY
from tests.harmony_exact import least_completion
from tests.test_harmony_training import SMALL

KNOWING = Lookahead(None)


class ByBranches:
    """Takes the best of the branches."""

    def priority(self, jobs: Jobs) -> Float64 | None:
        return None

    def choose(self, clusters: Clusters, rows: Int32, draws: Draws) -> Int32:
        best = Branches(KNOWING, 0.1).outcomes(clusters, rows).argmin(axis=1)
        return np.asarray(best.astype(np.int32))


def some_way(clusters: Clusters, steps: int) -> Int32:
    """Choices at random; who is still under way."""
    for number in range(steps):
        rows = clusters.under_way()
        clusters.step(rows, RandomChoice().choose(clusters, rows, Draws(number, len(clusters))))
    return clusters.under_way()


@pytest.mark.parametrize("noise", [0.0, 0.2])
def test_branches_go_on_as_their_episode_does_and_leave_it_alone(noise: float) -> None:
    """Under the same choices all end alike, in the same noise, and the episode is where it was."""
    config = replace(PAPER, noise=noise, jobs=20)
    clusters = Clusters(config, draw_jobs(config, 3, 1, Purpose.TEST), seed=4)
    rows = some_way(clusters, 30)
    before = [column.copy() for column in clusters.state]
    branches = clusters.fork(np.repeat(rows, 2))
    play(KNOWING, branches, Draws(0, len(branches)))
    assert all((old == new).all() for old, new in zip(before, clusters.state, strict=True))
    play(KNOWING, clusters, Draws(0, len(clusters)))
    ends = branches.completion_min().reshape(len(rows), 2, -1)
    assert (ends == clusters.completion_min()[rows][:, None]).all()


def test_what_branches_prefer_is_what_ends_soonest() -> None:
    """Probabilities fall with the time that an action costs; what is not allowed has none."""
    clusters = Clusters(PAPER, draw_jobs(PAPER, 4, 1, Purpose.TEST))
    rows = some_way(clusters, 25)
    allowed = clusters.masks(rows)
    teacher = Branches(KNOWING, 0.5)
    total = teacher.outcomes(clusters, rows)
    target = teacher.targets(clusters, rows, Draws(0, len(clusters)))
    assert (np.isfinite(total) == allowed).all()
    assert (target[~allowed] == 0.0).all()
    assert target.sum(axis=1) == pytest.approx(np.ones(len(rows)))
    best = total.argmin(axis=1)
    for row, first in enumerate(best):
        for action in np.nonzero(allowed[row])[0]:
            ratio = np.exp((total[row, first] - total[row, action]) / 0.5)
            assert target[row, action] / target[row, first] == pytest.approx(ratio)


def test_whoever_goes_by_branches_is_between_their_scheduler_and_the_best() -> None:
    """On sequences small enough to try everything, and strictly better on most of a few more."""
    config = replace(TINY, jobs=3)
    for seed in range(4):
        jobs = draw_jobs(config, 1, seed, Purpose.TEST)
        found = []
        for scheduler in (KNOWING, ByBranches()):
            clusters = Clusters(config, jobs)
            play(scheduler, clusters, Draws(0, 1))
            found.append(float(clusters.mean_completion()[0]))
        least = least_completion(config, jobs)
        assert least - 1e-9 <= found[1] <= found[0] + 1e-9

    config = replace(PAPER, jobs=30)
    jobs = draw_jobs(config, 3, 2, Purpose.TEST)
    ends = []
    for scheduler in (KNOWING, ByBranches()):
        clusters = Clusters(config, jobs)
        play(scheduler, clusters, Draws(0, 3))
        ends.append(clusters.mean_completion())
    assert (ends[1] < ends[0]).all()


def test_a_training_imitates_branches() -> None:
    """With `tau` above 0; the loss is that of their probabilities."""
    config = replace(SMALL, tau=0.5, imitation=10, iterations=10, replay=300, learning_rate=3e-3)
    learner = HarmonyLearner(config)
    losses = [learner.iterate(iteration)["imitation_loss"] for iteration in range(10)]
    assert losses[-1] < losses[0]
