"""Teachers: branches of an episode, and the targets that they give its actions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from decima.rl.study.lockstep import play
from decima.rl.study.streams import Draws, Purpose
from harmony.clusters import Clusters
from harmony.config import PAPER
from harmony.jobs import draw_jobs
from harmony.rollouts import Branches
from harmony.schedulers import LoadBalance, Lookahead, RandomChoice
from harmony.tables import Float64, Int32, Jobs

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


@pytest.mark.parametrize("scheduler", [LoadBalance(), Lookahead(None)])
def test_a_rule_that_plays_to_the_end_in_one_call_places_as_round_by_round(
    scheduler: LoadBalance | Lookahead,
) -> None:
    types = ("a:2:1", "b:4:2")
    config = replace(PAPER, noise=0.2, jobs=20, gpu_types=types, gpu_required_share=0.5)
    jobs = draw_jobs(config, 4, 1, Purpose.TEST)
    at_once, in_rounds = (Clusters(config, jobs, seed=4) for _ in range(2))
    scheduler.play_out(at_once)
    play(scheduler, in_rounds, Draws(0, 4))
    assert at_once.complete.all()
    # Speeds and the lists beyond their counts are what is left of the last interval.
    assert (at_once.completion_min() == in_rounds.completion_min()).all()
    assert (at_once.state.placed_in == in_rounds.state.placed_in).all()


def test_branches_may_end_before_all_jobs_have_come() -> None:
    """Each plays the jobs that are there and the next ones; the episode itself plays all."""
    clusters = Clusters(PAPER, draw_jobs(PAPER, 3, 1, Purpose.TEST))
    rows = some_way(clusters, 30)
    arrived = clusters.state.arrived[rows]
    assert (arrived < PAPER.jobs - 2).all()
    branches = clusters.fork_until(np.repeat(rows, 2), 2)
    KNOWING.play_out(branches)
    assert branches.complete.all()
    assert (branches.state.finished == np.repeat(arrived + 2, 2)).all()
    assert (clusters.jobs.number == PAPER.jobs).all()
    assert (clusters.fork_until(rows, PAPER.jobs).jobs.number == PAPER.jobs).all()


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


def test_the_best_branch_is_better_than_its_scheduler() -> None:
    """A learner of the best branch does better than what branches go on with."""
    config = replace(PAPER, jobs=30)
    jobs = draw_jobs(config, 3, 2, Purpose.TEST)
    ends = []
    for scheduler in (KNOWING, ByBranches()):
        clusters = Clusters(config, jobs)
        play(scheduler, clusters, Draws(0, 3))
        ends.append(clusters.mean_completion())
    assert (ends[1] < ends[0]).all()
