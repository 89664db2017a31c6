"""Returns, advantages and baselines: by hand, and against the laws that tie them together."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from decima.rl.baselines import TimedReturns, input_dependent_baseline, mean_baseline
from decima.rl.returns import AverageRate, differential_reward, discounted


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


# --- baselines ------------------------------------------------------------------------------------


def test_two_rollouts_by_hand() -> None:
    """One decides at 0 and 4, the other at 0, 2 and 6; they end at 8 and at 7."""
    first = TimedReturns(np.array([0.0, 4.0]), np.array([-8.0, -4.0]), end=8.0)
    second = TimedReturns(np.array([0.0, 2.0, 6.0]), np.array([-12.0, -10.0, -2.0]), end=7.0)

    of_first, of_second = input_dependent_baseline([first, second])

    # the second at 4 lies half way between -10 and -2
    assert of_first.tolist() == [(-8.0 - 12.0) / 2, (-4.0 - 6.0) / 2]
    # the first at 2 lies between -8 and -4, at 6 half way from -4 to the end
    assert of_second.tolist() == [(-8.0 - 12.0) / 2, (-6.0 - 10.0) / 2, (-2.0 - 2.0) / 2]


def test_left_out_itself_a_rollout_sees_the_others() -> None:
    """Of two, each has the other one's return for its baseline, 0 beyond its end."""
    short = TimedReturns(np.array([0.0]), np.array([-3.0]), end=2.0)
    long = TimedReturns(np.array([0.0, 1.0, 5.0]), np.array([-9.0, -7.0, -1.0]), end=6.0)

    of_short, of_long = input_dependent_baseline([short, long], leave_one_out=True)

    assert of_short.tolist() == [-9.0]
    assert of_long.tolist() == [-3.0, -1.5, 0.0]


def test_decisions_of_one_instant_have_one_baseline() -> None:
    """A scheduler decides several times before the clock moves on; nothing is earned between."""
    busy = TimedReturns(np.array([0.0, 0.0, 0.0, 3.0]), np.array([-6.0, -6.0, -6.0, -3.0]), 6.0)
    calm = TimedReturns(np.array([0.0, 3.0]), np.array([-4.0, -1.0]), 6.0)

    of_busy, of_calm = input_dependent_baseline([busy, calm])

    assert of_busy.tolist() == [-5.0, -5.0, -5.0, -2.0]
    assert of_calm.tolist() == [-5.0, -2.0]


def test_a_rollout_without_decisions_expects_nothing() -> None:
    """It takes part in the mean with 0 and has no baseline of its own."""
    empty = TimedReturns(np.zeros(0), np.zeros(0), end=3.0)
    other = TimedReturns(np.array([1.0]), np.array([-4.0]), end=3.0)

    assert [b.tolist() for b in input_dependent_baseline([empty, other])] == [[], [-2.0]]
    assert [b.tolist() for b in mean_baseline([empty.returns, other.returns])] == [[], [-2.0]]
    assert mean_baseline([]) == []


def test_mean_baseline_goes_by_step_number() -> None:
    """Times play no part; a rollout that has ended counts 0."""
    returns = [np.array([-6.0, -2.0]), np.array([-4.0]), np.array([-2.0, -1.0])]

    assert [b.tolist() for b in mean_baseline(returns)] == [[-4.0, -1.0], [-4.0], [-4.0, -1.0]]


@pytest.mark.parametrize("leave_one_out", [False, True])
def test_the_baseline_biases_no_gradient(leave_one_out: bool) -> None:
    """All outcomes of three rollouts of a two-armed bandit, weighted by their chance.

    Without itself the estimate is exactly the gradient; with itself (N - 1) / N of it.
    """
    chance = np.array([0.3, 0.7])
    payoff = np.array([-5.0, 2.0])
    # d/d theta of sum_a pi_a payoff_a for theta the logit of arm 1
    true_gradient = chance[0] * chance[1] * (payoff[1] - payoff[0])
    score = np.array([-chance[1], chance[0]])

    expected = 0.0
    for arms in itertools.product((0, 1), repeat=3):
        group = [TimedReturns(np.zeros(1), payoff[[arm]], end=1.0) for arm in arms]
        baselines = input_dependent_baseline(group, leave_one_out=leave_one_out)
        estimate = np.mean(
            [
                score[arm] * (payoff[arm] - baseline[0])
                for arm, baseline in zip(arms, baselines, strict=True)
            ]
        )
        expected += float(np.prod(chance[list(arms)]) * estimate)

    assert expected == pytest.approx(true_gradient * (1.0 if leave_one_out else 2.0 / 3.0))
