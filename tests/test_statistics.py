"""Intervals: against slow ones, and how often they hold what they estimate."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from decima.rl.statistics import FEWEST, Estimate, difference_percent, geometric_percent, mean_of

VALUES = np.array([41.0, 52.0, 47.0, 60.0, 39.0, 55.0, 44.0, 49.0, 58.0, 43.0])
REFERENCE = np.array([40.0, 50.0, 49.0, 55.0, 41.0, 50.0, 45.0, 48.0, 52.0, 47.0])


def width(estimate: Estimate) -> float:
    assert estimate.ci95 is not None
    return estimate.ci95[1] - estimate.ci95[0]


def test_intervals_are_those_of_the_bootstrap() -> None:
    """Against an independent bootstrap: a loop over resamples with the standard generator."""
    assert len(VALUES) == FEWEST
    draw = random.Random(4)  # noqa: S311 - no secret
    means, differences = [], []
    for _ in range(20_000):
        rows = draw.choices(range(10), k=10)
        mean, other = (sum(array[row] for row in rows) / 10 for array in (VALUES, REFERENCE))
        means.append(mean)
        differences.append(100 * (mean / other - 1))
    means.sort()
    differences.sort()

    estimate = mean_of(VALUES)
    assert estimate.mean == pytest.approx(VALUES.mean())
    assert estimate.ci95 == pytest.approx((means[500], means[19_500]), abs=0.15)
    paired = difference_percent(VALUES, REFERENCE)
    assert paired.mean == pytest.approx(100 * (VALUES.mean() / REFERENCE.mean() - 1))
    assert paired.ci95 == pytest.approx((differences[500], differences[19_500]), abs=0.15)


@pytest.mark.parametrize("count", range(2, 10))
def test_of_few_inputs_the_interval_is_students(count: int) -> None:
    """Inputs of mean 0 with a standard error of 1: 95 % of Student's density is in the interval."""
    inputs = np.arange(count) - (count - 1) / 2
    estimate = mean_of(inputs * math.sqrt(count) / inputs.std(ddof=1))
    assert estimate.ci95 is not None
    low, high = estimate.ci95
    assert low == pytest.approx(-high)
    freedom = count - 1
    t = np.linspace(low, high, 100_001)
    scale = math.gamma(count / 2) / math.gamma(freedom / 2) / math.sqrt(freedom * math.pi)
    density = scale * (1 + t**2 / freedom) ** (-count / 2)
    assert np.trapezoid(density, t) == pytest.approx(0.95, abs=1e-4)


def test_times_have_no_interval_below_zero() -> None:
    """Two that differ widely: in logarithms, so that it stays a time; a difference above -100 %."""
    estimate = mean_of(np.array([10.0, 90.0]))
    assert estimate.ci95 is not None
    assert 0 < estimate.ci95[0] < 10
    against = difference_percent(np.array([10.0, 90.0]), np.array([60.0, 50.0]))
    assert against.ci95 is not None
    assert -100 < against.ci95[0] < 0 < against.ci95[1]


def test_ratios_above_one_are_no_different_from_those_below() -> None:
    """Their logarithms have one sign, which is no reason to take logarithms once more."""
    logs = np.array([0.55, 0.11])
    reach = 12.706 * 0.22
    for sign in (1, -1):
        estimate = geometric_percent(sign * logs)
        ends = (100 * math.expm1(sign * 0.33 - reach), 100 * math.expm1(sign * 0.33 + reach))
        assert estimate.ci95 == pytest.approx(ends)
    assert geometric_percent(logs[:1]).ci95 is None
    assert geometric_percent(np.full(3, 0.2)).ci95 is None


def test_a_difference_covers_the_true_one() -> None:
    """A tenth more, and noise of its own, on inputs that differ by more than that."""
    rng = np.random.default_rng(9)
    covered = 0
    for _ in range(400):
        reference = rng.normal(50, 10, 4)
        values = 1.1 * reference + rng.normal(0, 2, 4)
        estimate = difference_percent(values, reference)
        assert estimate.ci95 is not None
        covered += estimate.ci95[0] <= 10 <= estimate.ci95[1]
    assert 360 <= covered <= 392


@pytest.mark.parametrize("inputs", [4, 30])
def test_pairing_narrows_the_interval_of_the_difference(inputs: int) -> None:
    """Long and short inputs alike 10 % slower: the difference is certain, the means are not."""
    reference = np.random.default_rng(2).exponential(50.0, size=inputs)
    paired = difference_percent(1.1 * reference, reference)
    assert paired.mean == pytest.approx(10.0)
    assert paired.ci95 == pytest.approx((10.0, 10.0))
    assert width(mean_of(reference)) > 20


def test_trainings_that_differ_widen_the_interval() -> None:
    """Of equal inputs: what varies is the luck of the training, of either alternative."""
    trained = np.array([[1.0] * 20, [2.0] * 20, [3.0] * 20])
    estimate = mean_of(trained)
    assert estimate.mean == 2.0
    assert width(estimate) > 1.0
    fixed = np.full(20, 2.0)
    assert width(difference_percent(trained, fixed)) > 50
    assert width(difference_percent(fixed, trained)) > 50
    both = difference_percent(trained, trained)
    assert both.mean == 0.0
    assert width(both) > 50, "trainings of two alternatives are no pairs"


def test_what_has_no_interval_or_no_percentage() -> None:
    assert mean_of(np.array([3.0])) == Estimate(3.0, None)
    assert difference_percent(np.array([3.0]), np.array([2.0])).ci95 is None
    with pytest.raises(ValueError, match="mean is not 0"):
        difference_percent(np.ones(3), np.zeros(3))
