"""DeepRM's heuristics and the exact bound, on instances solved with a pencil."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from decima.rl.errors import StudyError
from decima.rl.study.lockstep import play
from decima.rl.study.streams import Draws, Purpose
from deeprm.config import PAPER, RELEASED, Config
from deeprm.episodes import Episodes
from deeprm.evaluation import baselines, evaluate, tuned_hold, tuned_tetris
from deeprm.jobs import draw_jobs, job_set
from deeprm.objectives import Objective
from deeprm.schedulers import PACKER, SJF, RandomChoice, Scheduler, Scored
from deeprm.tables import Int32, Jobs
from tests.deeprm_clusters import TINY

ALL: dict[str, Scheduler] = {
    "sjf": SJF,
    "packer": PACKER,
    "tetris": Scored(0.5),
    "hold": Scored(1.0, 1),
    "random": RandomChoice(),
}


def starts(scheduler: Scheduler, config: Config, jobs: Jobs) -> list[int]:
    """When each job of the first set starts."""
    episodes = Episodes(config, jobs)
    play(scheduler, episodes, Draws(1, 1))
    return [int(start) for start in episodes.state.start[0, : jobs.number[0]]]


ONE_BY_ONE = [(0, 3, (4, 1)), (0, 1, (4, 1))]
"""both fill a resource, so one waits for the other"""
FIT_OR_SHORT = [(0, 1, (2, 1)), (0, 3, (4, 1))]
"""free are 4 and 4 of 4: scores 2/2 w + 3/4 (1 - w) and 1/3 w + 5/4 (1 - w), equal at w = 3/7"""
REFILLED = [(0, 1, (4, 1)), (0, 2, (4, 1)), (0, 2, (4, 1))]
"""of the equal jobs the second slot holds the older one; the first was refilled"""


@pytest.mark.parametrize(
    ("scheduler", "jobs", "expected"),
    [
        (SJF, ONE_BY_ONE, [1, 0]),
        (PACKER, FIT_OR_SHORT, [3, 0]),
        (Scored(0.42), FIT_OR_SHORT, [3, 0]),
        (Scored(0.44), FIT_OR_SHORT, [0, 1]),
        (SJF, REFILLED, [0, 1, 3]),
    ],
)
def test_the_job_of_the_highest_score_starts_first(
    scheduler: Scheduler, jobs: list[tuple[int, int, tuple[int, int]]], expected: list[int]
) -> None:
    """The shortest, the best fit, or between them; of equal ones the first that came."""
    assert starts(scheduler, TINY, job_set(TINY, jobs)) == expected


@pytest.mark.parametrize("name", ["sjf", "packer", "tetris"])
def test_heuristics_hold_nothing_back(name: str) -> None:
    """They are work-conserving, and place no job for later."""
    report = evaluate(ALL[name], PAPER.at_load(1.1), draw_jobs(PAPER, 5, 1, Purpose.TEST), 0)
    assert report.held_steps.tolist() == [0.0] * 5
    assert not report.held.any()
    assert report.cut == 0


def test_random_takes_every_allowed_action_alike_and_no_other() -> None:
    """Void, slot 1 and slot 3; slot 2 is empty."""
    config = replace(TINY, slots=3)
    episodes = Episodes(config, job_set(config, [(0, 1, (1, 1))] * 3), np.zeros(3_000, np.int32))
    rows = episodes.under_way()
    episodes.step(rows, np.full(3_000, 2, np.int32))

    chosen = RandomChoice().choose(episodes, rows, Draws(1, 3_000))
    assert np.bincount(chosen, minlength=4).tolist() == pytest.approx([1000, 1000, 0, 1000], abs=90)


def test_an_outcome_says_what_happened() -> None:
    """Two jobs of 4 units, 1 and 2 steps: 1/1 and 3/2, 1 and 3 steps, 3 in all."""
    report = evaluate(SJF, TINY, job_set(TINY, [(0, 2, (4, 1)), (0, 1, (4, 1))]), 0)

    assert report.slowdown.tolist() == [1.25]
    assert report.completion.tolist() == [2.0]
    assert report.makespan.tolist() == [3.0]
    assert report.utilisation.tolist() == [3 * 5 / 4 / 6 / 2]
    assert report.job_slowdown.tolist() == [[1.5, 1.0]]


def test_what_is_withheld_is_noted() -> None:
    """Void twice while a job could start, then it starts: it was held in two of four steps."""

    class Late:
        def choose(self, episodes: Episodes, rows: Int32, draws: Draws) -> Int32:
            return (episodes.state.time[rows] >= 2).astype(np.int32)

    report = evaluate(Late(), TINY, job_set(TINY, [(0, 2, (1, 1))]), 0)

    assert report.held_steps.tolist() == [0.5]
    assert report.held.tolist() == [[True]]
    assert report.slowdown.tolist() == [2.0]


def test_baselines_are_tuned_on_the_objective() -> None:
    """No candidate is better on the job sets that they were tuned on; `hold` lets every job start,
    and is shortest job first where the largest job needs all of a resource.
    """
    config = PAPER.at_load(1.1)
    jobs = draw_jobs(config, 20, 0, Purpose.TUNING)
    slowdown, makespan = Objective.SLOWDOWN, Objective.MAKESPAN
    hold = tuned_hold(config, jobs, slowdown)
    for objective, tuned, others in (
        (slowdown, hold, [Scored(1.0, theta) for theta in (0, 3, 10)]),
        (slowdown, tuned_tetris(config, jobs, slowdown), [Scored(n / 10) for n in (1, 5, 9)]),
        (makespan, tuned_tetris(config, jobs, makespan), [Scored(n / 10) for n in (1, 5, 9)]),
    ):
        best = evaluate(tuned, config, jobs, 0)
        for other in others:
            figures = evaluate(other, config, jobs, 0).measure(objective)
            assert best.measure(objective).mean() <= figures.mean()
    assert evaluate(hold, config, jobs, 0).cut == 0
    assert hold.weight == 1.0
    assert 0 < hold.theta <= config.capacity - config.max_demand
    few = draw_jobs(RELEASED, 3, 0, Purpose.TUNING)
    assert tuned_hold(RELEASED, few, Objective.SLOWDOWN) == SJF
    names = {"tetris", "hold", "sjf", "packer", "random"}
    assert set(baselines(config, jobs, Objective.SLOWDOWN)) == names
    with pytest.raises(StudyError, match=r"weight is 1\.5"):
        Scored(1.5)


def test_a_large_job_is_held_back_while_it_would_leave_too_little() -> None:
    """A small job may take the last units; a large one of 2 of 4 units may not, with theta 3."""
    small, large = (0, 1, (4, 4)), (0, 4, (2, 2))
    for theta, jobs, action in (
        (3, [large], 0),
        (2, [large], 1),
        (3, [small], 1),
        (3, [large, small], 2),
        (0, [large, small], 2),
    ):
        episodes = Episodes(TINY, job_set(TINY, jobs))
        chosen = Scored(1.0, theta).choose(episodes, episodes.under_way(), Draws(0, 1))
        assert chosen.tolist() == [action], (theta, jobs)
