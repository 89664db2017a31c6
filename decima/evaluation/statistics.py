"""Bootstrap intervals over arrival sequences.

Sequences are drawn independently, so the sequence is the unit that is resampled: jobs of one
sequence wait on each other and are not independent.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from traces.numbers import Float64

RESAMPLES = 10_000
_SEED = 20_190_819
# Fixed: the interval of given figures must not depend on when it is computed.


@dataclass(frozen=True)
class Estimate:
    """A mean over sequences with its 95 % interval (None with fewer than two sequences)."""

    mean: float
    ci95: tuple[float, float] | None


def mean_of(values: Float64) -> Estimate:
    """Mean of (S,) values, one for each sequence, with its percentile bootstrap interval."""
    if len(values) < 2:
        return Estimate(float(values.mean()), None)
    return Estimate(float(values.mean()), _interval(values[_resample(len(values))].mean(axis=1)))


def difference_percent(values: Float64, reference: Float64) -> Estimate:
    """By how many percent the mean of `values` lies above that of `reference`, paired.

    Args:
        values: (S,) one for each sequence.
        reference: (S,) of the same sequences; their means must not be 0.
    """
    mean = 100.0 * (float(values.mean()) / float(reference.mean()) - 1.0)
    if len(values) < 2:
        return Estimate(mean, None)
    rows = _resample(len(values))
    ratios = values[rows].mean(axis=1) / reference[rows].mean(axis=1)
    return Estimate(mean, _interval(100.0 * (ratios - 1.0)))


def _resample(count: int) -> NDArray[np.int64]:
    """(RESAMPLES, count) row numbers drawn with replacement: equal for equal `count`."""
    return np.random.default_rng(_SEED).integers(count, size=(RESAMPLES, count))


def _interval(means: Float64) -> tuple[float, float]:
    low, high = np.percentile(means, [2.5, 97.5])
    return float(low), float(high)
