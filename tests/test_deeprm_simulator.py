"""DeepRM's cluster: stories solved on paper, and what holds whatever a scheduler does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from decima.rl.errors import StudyError
from decima.rl.study.streams import Purpose
from deeprm.config import PAPER, Config
from deeprm.episodes import Episodes
from deeprm.jobs import draw_jobs, job_set
from deeprm.objectives import Objective
from deeprm.tables import NONE, VOID
from tests.deeprm_clusters import FIRST, TINY, act, random_actions, tiny_configs


def objectives(episodes: Episodes) -> dict[str, float]:
    """Sum of the rewards of the first episode, by objective."""
    cost = episodes.state.cost[0]
    return {
        objective.value: float(objective.reward(episodes.config, cost)) for objective in Objective
    }


# --- stories -------------------------------------------------------------------------------------


FULL, HALF, UNIT = (4, 1), (2, 1), (1, 1)
"""demands for the two resources, of 4 units"""


@pytest.mark.parametrize(
    ("changes", "jobs", "actions", "starts", "totals"),
    [
        pytest.param(
            {}, [(0, 2, HALF), (0, 1, HALF)], (1, 2), [0, 0],
            {"slowdown": -2.0, "completion": -3.0, "makespan": -2.0,
             "utilisation": (2 + 2 + 1 + 1) / 4 + (2 + 1) / 4},
            id="two jobs fit side by side",
        ),
        pytest.param(
            {}, [(0, 2, FULL), (0, 1, HALF)], (1, 2), [0, 2], {"slowdown": -(1.0 + 3.0)},
            id="a job that does not fit now is placed behind",
        ),
        pytest.param(
            {"slots": 3}, [(0, 2, (3, 1)), (0, 2, FULL), (0, 2, UNIT)], (1, 2, 3), [0, 2, 0], {},
            id="a job fits into the gap that the first leaves before the turn of the second",
        ),
        pytest.param(
            {}, [(3, 2, UNIT), (5, 1, UNIT)], (1, 1), [3, 5],
            {"slowdown": -2.0, "completion": -3.0, "makespan": -6.0, "utilisation": 2 * 3 / 4},
            id="time passes by itself while no job waits",
        ),
        pytest.param(
            {}, [(0, 2, UNIT)], [VOID] * 40, [NONE], {"slowdown": -20.0},
            id="an episode is cut when the time is up: each step until then costs",
        ),
        pytest.param(
            {"capacity_by_resource": (8, 4), "slots": 3},
            [(0, 1, (2, 2)), (0, 1, (2, 2)), (0, 1, HALF)], (1, 2, 3), [0, 0, 1],
            {"utilisation": (4 / 8 + 4 / 4) + (2 / 8 + 1 / 4)},
            id="the second resource is full, of which there is less",
        ),
        pytest.param(
            {"end": "no_new_job"}, [(4, 1, UNIT)], (VOID, VOID), [NONE], {"slowdown": -2.0},
            id="an episode may end with the last arrival",
        ),
    ],
)  # fmt: skip
def test_a_story(
    changes: dict[str, Any],
    jobs: list[tuple[int, int, tuple[int, int]]],
    actions: Sequence[int],
    starts: list[int],
    totals: dict[str, float],
) -> None:
    config = replace(TINY, **changes)
    episodes = Episodes(config, job_set(config, jobs))
    act(episodes, *actions)
    assert episodes.state.start[0].tolist() == starts
    costs = objectives(episodes)
    assert {name: costs[name] for name in totals} == totals


def test_time_stands_still_until_void_or_an_invalid_pick() -> None:
    """An empty slot and a job that cannot end within the horizon count as void."""
    jobs = job_set(TINY, [(0, 4, (4, 1)), (0, 4, (4, 1)), (5, 1, (1, 1))])
    episodes = Episodes(TINY, jobs)

    times = []
    for action in (1, 1, 2, VOID):
        act(episodes, action)
        times.append(int(episodes.state.time[0]))

    # placed at 0; slot 1 is empty: to 1; 4 steps from 4 on end at 8, within 1 + 6 only from 2 on
    assert times == [0, 1, 2, 3]
    act(episodes, 2)
    assert episodes.state.start[0].tolist() == [0, 4, NONE]


def test_jobs_beyond_the_slots_wait_their_turn_and_are_not_lost() -> None:
    """Eight jobs at once, two slots, a backlog image of three: all count and come in order."""
    jobs = job_set(TINY, [(0, 1, (4, 1))] * 8)
    episodes = Episodes(TINY, jobs)

    assert episodes.backlog(FIRST).tolist() == [6]
    assert objectives(episodes)["completion"] == 0.0
    act(episodes, VOID)
    assert objectives(episodes)["completion"] == -8.0
    assert episodes.state.slot[0].tolist() == [0, 1]
    act(episodes, 1)
    assert episodes.state.slot[0].tolist() == [2, 1]
    while not episodes.over[0]:
        act(episodes, 1, 2)
    assert sorted(episodes.state.start[0].tolist()) == list(range(1, 9))


def test_a_job_goes_to_the_machine_where_it_starts_first() -> None:
    """Two machines of 4 units: two jobs beside each other, the third behind the shorter."""
    config = replace(TINY, machines=2, slots=3)
    episodes = Episodes(config, job_set(config, [(0, 2, (4, 1)), (0, 1, (4, 1)), (0, 1, (1, 1))]))

    act(episodes, 1, 2, 3)

    assert episodes.state.machine[0].tolist() == [0, 1, 1]
    assert episodes.state.start[0].tolist() == [0, 0, 1]
    assert episodes.state.used.shape == (1, 6, 4)


def test_the_released_code_leaves_the_last_step_of_the_horizon() -> None:
    """A job of 2 steps behind one of 4 ends at the horizon, 6: `allocate_job` refuses it."""
    jobs = [(0, 4, (4, 1)), (0, 2, (4, 1))]
    for unused, waits in ((0, 4), (1, NONE)):
        config = replace(TINY, unused_steps=unused)
        episodes = Episodes(config, job_set(config, jobs))
        act(episodes, 1)
        assert episodes.delays(FIRST)[0, 1] == waits


# --- what always holds ---------------------------------------------------------------------------


@given(tiny_configs, st.integers(0, 2**32))
@settings(max_examples=60)
def test_whatever_is_done_the_books_balance(config: Config, seed: int) -> None:
    """Capacity holds, every job is somewhere, time never falls, rewards sum to the objectives."""
    jobs = draw_jobs(config, 2, seed, Purpose.TEST)
    episodes = Episodes(config, jobs)
    state = episodes.state
    total = episodes.state.cost.copy()
    while len(rows := episodes.under_way()) > 0:
        before = state.time.copy()
        steps = episodes.step(rows, random_actions(episodes, seed + int(state.time.sum())))
        total[rows] += steps.cost

        assert (state.used <= config.capacities * config.machines).all()
        assert (state.used >= 0).all()
        assert (state.time >= before).all()
        for e in range(2):
            placed = int((state.start[e] != NONE).sum())
            waiting = int((state.slot[e] != NONE).sum()) + int(state.arrived[e] - state.entered[e])
            assert placed + waiting == state.arrived[e] <= jobs.number[e]
    assert (total == state.cost).all()
    for e in range(2):
        assert_costs_are_those_of_the_schedule(episodes, e)


def assert_costs_are_those_of_the_schedule(episodes: Episodes, e: int) -> None:
    """Recounts every objective from when each job started, in fractions."""
    config, state, jobs = episodes.config, episodes.state, episodes.jobs
    end = int(state.time[e])
    slowdown, completion, busy = Fraction(0), 0, Fraction(0)
    for job in range(int(state.arrived[e])):
        arrival, duration = int(jobs.arrival[e, job]), int(jobs.duration[e, job])
        start = int(state.start[e, job])
        left = end if start == NONE else min(end, start + duration)
        slowdown += Fraction(left - arrival, duration)
        completion += left - arrival
        if start != NONE:
            counted = max(0, min(left, config.arrival_steps) - start)
            demands = zip(jobs.demand[e, job].tolist(), config.capacities, strict=True)
            busy += counted * sum(Fraction(units, of) for units, of in demands)
    summed = {
        objective: -Fraction(int(state.cost[e, objective.column]), objective.unit(config))
        for objective in Objective
    }
    assert summed == {
        Objective.SLOWDOWN: -slowdown,
        Objective.COMPLETION: -completion,
        Objective.UTILISATION: busy,
        Objective.MAKESPAN: -end,
    }


# --- configuration and job sets ------------------------------------------------------------------


def test_the_papers_jobs_are_as_the_paper_says() -> None:
    """Section 4.1: durations, demands and load, over ten thousand job sets' worth of jobs."""
    config = PAPER.at_load(1.3)
    jobs = draw_jobs(config, 400, 5, Purpose.TEST)
    exists = jobs.duration > 0
    duration, demand = jobs.duration[exists], jobs.demand[exists] / config.capacity

    small = duration <= 3
    assert set(duration[small].tolist()) == {1, 2, 3}
    assert set(duration[~small].tolist()) == set(range(10, 16))
    assert small.mean() == pytest.approx(0.8, abs=0.01)
    assert demand.max(axis=1).min() == 0.25
    assert demand.max() == 0.5
    assert {0.05, 0.1} == set(demand.min(axis=1).tolist())
    work = (duration[:, None] * demand).sum(axis=0) / 400 / config.arrival_steps
    assert work.tolist() == pytest.approx([1.3, 1.3], rel=0.03)


@pytest.mark.parametrize(
    ("jobs", "words"),
    [
        ([], "without jobs"),
        ([(1, 1, (1, 1)), (0, 1, (1, 1))], "job 1 arrives at 0"),
        ([(0, 5, (1, 1))], "job 0 lasts 5 steps"),
        ([(0, 1, (1,))], "job 0 needs"),
        ([(0, 1, (1, 5))], "job 0 needs"),
        ([(40, 1, (1, 1))], "job 0 arrives at 40"),
    ],
)
def test_an_impossible_job_set_is_refused(
    jobs: list[tuple[int, int, tuple[int, ...]]], words: str
) -> None:
    with pytest.raises(StudyError, match=words):
        job_set(TINY, jobs)


def test_an_action_that_is_none_is_refused() -> None:
    episodes = Episodes(TINY, job_set(TINY, [(0, 1, (1, 1))]))
    with pytest.raises(StudyError, match=r"not in 0\.\.2"):
        act(episodes, 3)
