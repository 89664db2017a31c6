"""Returns and advantages: by hand, and against the laws that tie them to each other."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decima.rl.returns import (
    AverageRate,
    Floats,
    differential_reward,
    discounted,
)

numbers = st.floats(-100.0, 100.0)
times = st.floats(0.0, 50.0)
steps = st.lists(st.tuples(numbers, times, numbers), min_size=1, max_size=30)
Steps = list[tuple[float, float, float]]


def columns(rows: Steps) -> tuple[Floats, Floats, Floats]:
    """(K,) rewards, (K,) elapsed times and (K,) values."""
    reward, elapsed, value = np.array(rows, dtype=np.float64).T
    return reward, elapsed, value


def test_returns_of_three_decisions_by_hand() -> None:
    """Rewards -2, -6, -1 after 1, 2, 1 seconds, at an average of -2 for each second.

    With horizon 1 / ln 2 a second halves, two seconds quarter; without one all counts.
    """
    reward, elapsed = np.array([-2.0, -6.0, -1.0]), np.array([1.0, 2.0, 1.0])
    assert discounted(reward, elapsed, None).tolist() == [-9.0, -7.0, -1.0]
    assert discounted(reward, elapsed, math.inf).tolist() == [-9.0, -7.0, -1.0]
    halving = discounted(reward, elapsed, horizon=1.0 / math.log(2.0))
    assert halving == pytest.approx([-2.0 - 6.25 / 2.0, -6.0 - 1.0 / 4.0, -1.0])
    assert differential_reward(reward, elapsed, rate=-2.0).tolist() == [0.0, -2.0, 1.0]


@given(steps, st.floats(0.1, 1000.0), st.data())
def test_decisions_that_earn_nothing_in_no_time_change_no_return(
    rows: Steps, horizon: float, data: st.DataObject
) -> None:
    """Several decisions at one instant count as one: discount follows time, not steps."""
    reward, elapsed, _ = columns(rows)
    place = data.draw(st.integers(0, len(rows)))

    found = discounted(np.insert(reward, place, 0.0), np.insert(elapsed, place, 0.0), horizon)

    assert np.delete(found, place) == pytest.approx(discounted(reward, elapsed, horizon))


@given(steps)
def test_measured_at_its_own_rate_an_episode_earns_nothing(rows: Steps) -> None:
    """The differential return of the first decision is 0."""
    reward, elapsed, _ = columns([*rows, (1.0, 1.0, 0.0)])
    average = AverageRate()
    average.add(len(reward), float(reward.sum()), float(elapsed.sum()))

    earned = differential_reward(reward, elapsed, average.rate)
    assert discounted(earned, elapsed, None)[0] == pytest.approx(0.0, abs=1e-8)


def test_an_empty_episode_has_no_returns() -> None:
    """The clock may run out before the first decision."""
    assert len(discounted(np.zeros(0), np.zeros(0), 5.0)) == 0


@pytest.mark.parametrize(
    ("elapsed", "horizon", "message"),
    [
        ([1.0, 1.0], 0.0, "horizon"),
        ([1.0, 1.0], math.nan, "horizon"),
        ([1.0, -2.0], 5.0, r"-2\.0 is negative"),
        ([1.0], 5.0, r"\(2,\) and \(1,\)"),
    ],
)
def test_impossible_times_are_refused(elapsed: list[float], horizon: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        discounted(np.ones(2), np.array(elapsed), horizon)


def test_average_rate_is_a_ratio_of_sums_over_a_window() -> None:
    """-1 in 1 s and -30 in 9 s make -3.1 for each second, not the mean of -1 and -3.3.

    Whole batches go, once the newer ones fill the window by themselves.
    """
    average = AverageRate(window=3)
    assert average.rate == 0.0
    average.add(1, -1.0, 1.0)
    average.add(1, -30.0, 9.0)
    assert average.rate == pytest.approx(-3.1)
    average.add(3, -4.0, 2.0)
    assert average.rate == -2.0


@given(st.lists(steps, min_size=1, max_size=8), st.integers(1, 40))
def test_average_rate_goes_on_from_its_state(batches: list[Steps], window: int) -> None:
    """Saved and loaded between batches, it gives the same number to the last bit."""
    straight, broken = AverageRate(window), AverageRate(window)
    for batch in batches:
        reward, elapsed, _ = columns(batch)
        sums = len(reward), float(reward.sum()), float(elapsed.sum())
        straight.add(*sums)
        resumed = AverageRate(window)
        resumed.load(broken.state())
        resumed.add(*sums)
        broken = resumed

    assert broken.rate == straight.rate
    assert broken.state().tolist() == straight.state().tolist()


def test_average_rate_refuses_a_state_of_another_kind() -> None:
    """A window needs a step, a state three columns."""
    with pytest.raises(ValueError, match="at least 1"):
        AverageRate(window=0)
    with pytest.raises(ValueError, match=r"shape \(2, 2\)"):
        AverageRate().load(np.zeros((2, 2)))
    with pytest.raises(ValueError, match="-1 steps"):
        AverageRate().add(-1, 0.0, 1.0)
