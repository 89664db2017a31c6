"""Figures of a run, computed by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from spark_sim.metrics import jain_index, jobs_in_system, least_jct_s
from tests.stories import Story, greedy, job, stage, tell
from traces import LevelDurations, Stage


def two_jobs(**settings: Any) -> Story:
    """Two executors; a (x: 2 s twice, then y: 1 s) at 0, b (z: 3 s) at 1 s; strict fair.

    e0 and e1 move to a (0-2), run x (2-4); e0 runs y (4-5) warm; e1 moves to b (4-6), runs z (6-9).
    """
    a = job("a", stage("x", 2, 2000), stage("y", 1, 1000, [0]))
    b = job("b", stage("z", 1, 3000))
    return tell([a, b], "strict_fair", executors=2, arrival_ms=[0, 1000], **settings)


def test_a_run_of_two_jobs_by_hand() -> None:
    story = two_jobs()
    metrics = story.metrics

    assert story.completed == {"a": 5000.0, "b": 9000.0}
    assert metrics.jct_s.tolist() == [5.0, 8.0]
    assert metrics.avg_jct_s == 6.5
    assert metrics.makespan_s == 9.0
    assert metrics.busy_executor_s == 2 + 2 + 1 + 3
    assert metrics.moving_executor_s == 2 + 2 + 2
    assert metrics.idle_executor_s == 2 * 9 - 8 - 6
    assert metrics.utilisation == pytest.approx(8 / 18)
    assert metrics.task_events == 4
    assert (metrics.unfinished, metrics.not_arrived, metrics.forced) == (0, 0, 0)
    assert metrics.decisions == len(story.decisions) == 3


def test_jobs_that_never_arrived_count_nowhere() -> None:
    """At 6 s a is 6 s old, a third of its least 18 s; b and c were to come at 20 and 30 s."""
    jobs = [job(name, stage("x", 1, 18_000)) for name in "abc"]
    figures = tell(jobs, "fifo", arrival_ms=[0, 20_000, 30_000], time_limit_ms=6_000).metrics
    assert (figures.unfinished, figures.not_arrived, figures.num_jobs) == (1, 2, 3)
    assert figures.jct_s.tolist() == [6.0]
    assert figures.avg_jct_s == 6.0
    assert [figures.jct_percentile_s(percent) for percent in (50, 95)] == [6.0, 6.0]
    assert figures.slowdown.tolist() == [pytest.approx(1 / 3)]
    assert figures.avg_slowdown == pytest.approx(1 / 3)
    assert figures.fairness == pytest.approx(1.0)
    assert figures.makespan_s == 6.0


def test_a_run_that_nobody_came_to_has_no_averages() -> None:
    """NaN, not 0, which would be the best of all runs."""
    story = tell([job("a", stage("x", 1, 1000))], "fifo", arrival_ms=[9_000], time_limit_ms=6_000)
    metrics = story.metrics
    assert (metrics.unfinished, metrics.not_arrived) == (0, 1)
    figures = (metrics.avg_jct_s, metrics.jct_percentile_s(95), metrics.avg_slowdown)
    assert np.isnan([*figures, metrics.fairness]).all()


def test_slowdown_is_against_the_path_or_the_spread_work() -> None:
    """a: path 3 s beats 5 s of work on two executors; b: path 3 s; JCT 5 s and 8 s."""
    story = two_jobs()
    assert least_jct_s(story.simulator.state).tolist() == [3.0, 3.0]
    assert story.metrics.slowdown == pytest.approx([5 / 3, 8 / 3])

    wide = tell([job("wide", stage("x", 10, 1000))], "fifo", executors=2)
    assert least_jct_s(wide.simulator.state).tolist() == [5.0], "10 s of work on two executors"
    assert wide.metrics.slowdown.tolist() == [7 / 5]


def test_jobs_in_system_over_time() -> None:
    """One from 0, two from 1 s, one from 5 s, none from 9 s: 13 job-seconds in 9 s."""
    story = two_jobs()
    table = story.simulator.state.jobs
    times_ms, count = jobs_in_system(table["arrival_ms"], table["completion_ms"])
    assert times_ms.tolist() == [0.0, 1000.0, 5000.0, 9000.0]
    assert count.tolist() == [1, 2, 1, 0]
    assert story.metrics.mean_jobs_in_system == pytest.approx(13 / 9)


def test_inflation_is_busy_time_above_the_lowest_level() -> None:
    """Two executors in one job: levels 1 and 2, 1 s and 1.5 s; half a second for the second."""
    levels = tuple(LevelDurations.of(count, rest_ms=[ms]) for count, ms in ((1, 1000), (2, 1500)))
    inflated = tell([job("a", Stage("x", 2, (), levels))], greedy, executors=2, warmup_delay_ms=0)
    alone = tell([job("a", Stage("x", 2, (), levels))], greedy, executors=1, warmup_delay_ms=0)

    assert inflated.metrics.busy_executor_s == 2.5
    assert inflated.metrics.inflation_executor_s == 0.5
    assert alone.metrics.inflation_executor_s == 0.0


def test_fairness_is_jains_index_of_the_slowdowns() -> None:
    """Equal slowdowns give 1; 1, 1, 4 give 36 / (3 * 18)."""
    assert jain_index(np.full(4, 2.5)) == pytest.approx(1.0)
    assert jain_index(np.array([1.0, 1.0, 4.0])) == pytest.approx(36 / 54)
    assert jain_index(np.array([0.0, 0.0, 0.0, 7.0])) == pytest.approx(1 / 4)
    assert jain_index(np.zeros(3)) == 1.0, "all arrived at the time limit: all alike"
