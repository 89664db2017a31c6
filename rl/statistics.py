"""Bootstrap intervals over test inputs and trainings.

Both are drawn at random, so both are resampled: what happens within one input, and all that one
training does, is not independent.

Letters: P trainings (1 for a heuristic), S inputs (such as job sets) that all are measured on.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rl.returns import Floats

Ints = NDArray[np.int64]

RESAMPLES = 2_000
_SEED = 20_161_109
# Fixed: the interval of given figures must not depend on when it is computed.


class Estimate(NamedTuple):
    """A mean with its 95 % interval."""

    mean: float
    low: float
    high: float

    def to_json(self) -> dict[str, Any]:
        """As plain JSON."""
        return {"mean": self.mean, "ci95": [self.low, self.high]}


def mean_of(values: Floats) -> Estimate:
    """Mean of (P, S) values with its percentile bootstrap interval."""
    trainings, sets = _resample(*values.shape)
    means = values[trainings[:, :, None], sets[:, None, :]].mean(axis=(1, 2))
    return _estimate(float(values.mean()), means)


def difference_percent(values: Floats, reference: Floats) -> Estimate:
    """By how many percent the mean of (P, S) values lies above that of the reference, paired.

    Args:
        values: (P, S) of some trainings.
        reference: (S,) of one alternative on the same inputs; their mean must not be 0.
    """
    mean = 100.0 * (float(values.mean()) / float(reference.mean()) - 1.0)
    trainings, sets = _resample(*values.shape)
    found = values[trainings[:, :, None], sets[:, None, :]].mean(axis=(1, 2))
    return _estimate(mean, 100.0 * (found / reference[sets].mean(axis=1) - 1.0))


def _resample(count: int, sets: int) -> tuple[Ints, Ints]:
    """(RESAMPLES, P) trainings and (RESAMPLES, S) inputs, drawn with replacement."""
    rng = np.random.default_rng(_SEED)
    chosen = rng.integers(sets, size=(RESAMPLES, sets))
    return rng.integers(count, size=(RESAMPLES, count)), chosen


def _estimate(mean: float, means: Floats) -> Estimate:
    low, high = np.percentile(means, [2.5, 97.5])
    return Estimate(mean, float(low), float(high))
