"""95 % intervals over test inputs, such as arrival sequences, and over trainings.

Both are drawn at random, so both are resampled: what happens within one input (jobs wait for each
other), and all that one training does, is not independent. From `FEWEST` inputs on it is the
percentile bootstrap. Resampling fewer is too narrow (of normal data its interval holds the mean
in 57 % of cases with 2 inputs, 87 % with 5, 92 % with 10): there it is Student's t. Inputs that all
give the same are repeats of one: they have no interval, however many there are.

Letters: P trainings (1 for a heuristic), S inputs that all are measured on.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

RESAMPLES = 10_000
FEWEST = 10
"""inputs that are resampled; of fewer the interval is Student's"""
_SEED = 20_190_819
# Fixed: the interval of given figures must not depend on when it is computed.
_STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306)
"""97.5 % quantiles of Student's t with 1, 2, ... degrees of freedom"""


@dataclass(frozen=True)
class Estimate:
    """A mean with its 95 % interval; None with fewer than two inputs or repeats of one."""

    mean: float
    ci95: tuple[float, float] | None

    def within(self, least: float, greatest: float) -> Estimate:
        """Return the same with an interval that ends where such a mean must end."""
        if self.ci95 is None:
            return self
        low, high = (min(max(end, least), greatest) for end in self.ci95)
        return Estimate(self.mean, (low, high))

    @property
    def upper(self) -> float:
        """The upper end of the interval; the mean where there is none."""
        return self.mean if self.ci95 is None else self.ci95[1]

    def is_surely_below(self, value: float) -> bool:
        """Return whether the whole interval lies below `value`; without one nothing is sure."""
        return self.ci95 is not None and self.upper < value

    def to_json(self) -> dict[str, Any]:
        """Return the values as plain JSON."""
        return {"mean": self.mean, "ci95": None if self.ci95 is None else list(self.ci95)}

    def words(self, form: str, unit: str = "") -> str:
        """``56.5 s [52.1, 61.8]``, each number in a form such as ``.1f``."""
        mean = f"{self.mean:{form}}{unit}"
        if self.ci95 is None:
            return mean
        low, high = self.ci95
        return f"{mean} [{low:{form}}, {high:{form}}]"


def method(inputs: int) -> str:
    """Describe how an interval over that many inputs is computed."""
    return "bootstrap" if inputs >= FEWEST else "Student's t" if inputs > 1 else "none"


def are_repeats(*figures: Floats) -> bool:
    """Return whether all inputs have equal figures, so that they count as one.

    Args:
        figures: (S,) or (P, S) each.
    """
    return all(values.shape[-1] > 1 and values.min() == values.max() for values in figures)


def mean_of(values: Floats) -> Estimate:
    """Mean of (S,) or (P, S) values with its interval."""
    values = np.atleast_2d(values)
    mean = float(values.mean())
    if are_repeats(values):
        return Estimate(mean, None)
    if values.shape[1] < FEWEST:
        return Estimate(mean, _student(mean, values.mean(axis=0)))
    return Estimate(mean, _percentiles(_resampled(values)))


def mean_of_chosen(values: Floats, chosen: NDArray[np.bool_]) -> Floats:
    """(S,) mean of the chosen entries of each row of (S, J); a row without any has that of all."""
    count, total = chosen.sum(axis=1), np.where(chosen, values, 0.0).sum(axis=1)
    overall = total.sum() / max(1, count.sum())
    return np.asarray(np.where(count > 0, total / np.maximum(count, 1), overall))


def difference_percent(
    values: Floats, reference: Floats, *, same_trainings: bool = False
) -> Estimate:
    """Percent by which the mean of `values` exceeds that of `reference`, paired by input.

    Args:
        values: (S,) or (P, S).
        reference: (S,), or (Q, S) of Q trainings of its own, on the same inputs.
        same_trainings: whether row by row they belong to one training, so that those are paired.

    Raises:
        ValueError: the mean of the reference is 0.
    """
    values, reference = np.atleast_2d(values), np.atleast_2d(reference)
    base = float(reference.mean())
    if base == 0:
        raise ValueError("a difference in percent needs a reference whose mean is not 0")
    ratio = float(values.mean()) / base
    mean = 100.0 * (ratio - 1.0)
    if are_repeats(values, reference):
        return Estimate(mean, None)
    if values.shape[1] < FEWEST:
        # To first order the ratio of two means errs as the mean of these.
        apart = (values.mean(axis=0) - ratio * reference.mean(axis=0)) / base
        interval = _student(ratio, ratio + apart)
        return Estimate(mean, None if interval is None else _percent(interval))
    ratios = _resampled(values) / _resampled(reference, 0 if same_trainings else 1)
    return Estimate(mean, _percent(_percentiles(ratios)))


def comparison(values: Floats, others: Mapping[str, Floats]) -> dict[str, Any]:
    """Mean of (P, S) values of P trainings, and how far it is from each of the others, as JSON."""
    against = {
        name: difference_percent(values, reference).to_json() for name, reference in others.items()
    }
    return {**mean_of(values).to_json(), "trainings": len(values), "percent_against": against}


def compared(
    heuristics: Mapping[str, Floats], learned: Mapping[str, Sequence[Floats]]
) -> dict[str, Any]:
    """Means of heuristics and of trainings by name, and how far the latter are from the former.

    Args:
        heuristics: (S,) figures of each.
        learned: (S,) figures of each training; a name without any is left out.
    """
    means = {name: mean_of(figures).to_json() for name, figures in heuristics.items()}
    for name, trainings in learned.items():
        if trainings:
            means[name] = comparison(np.stack(trainings), heuristics)
    return means


def _percent(ratios: tuple[float, float]) -> tuple[float, float]:
    low, high = ratios
    return 100.0 * (low - 1.0), 100.0 * (high - 1.0)


def geometric_percent(logs: Floats) -> Estimate:
    """Geometric mean of ratios as a difference in percent, with its interval.

    Args:
        logs: (S,) logarithms of the ratios.
    """
    mean = float(logs.mean())
    if 1 < len(logs) < FEWEST and not are_repeats(logs):
        reach = _reach(logs)
        low, high = mean - reach, mean + reach  # logarithms of one sign are no times
    elif (ends := mean_of(logs).ci95) is not None:
        low, high = ends
    else:
        return Estimate(100 * math.expm1(mean), None)
    return Estimate(100 * math.expm1(mean), (100 * math.expm1(low), 100 * math.expm1(high)))


def neighbours_difference_percent(values: Floats, reference: Floats) -> Estimate:
    """Percent by which values exceed `reference` within one input, resampled in `stretches`.

    Args:
        values: (K,) in order of time.
        reference: (K,) of the same entries.

    Raises:
        ValueError: the mean of the reference is 0.
    """
    mean = difference_percent(values, reference).mean
    if len(values) < 2:
        return Estimate(mean, None)
    rows = stretches(len(values), RESAMPLES, np.random.default_rng(_SEED))
    ratios = values[rows].mean(axis=1) / reference[rows].mean(axis=1)
    return Estimate(mean, _percent(_percentiles(ratios)))


def stretches(count: int, times: int, rng: np.random.Generator) -> Ints:
    """(times, count) row numbers for a circular block bootstrap.

    Each row joins stretches of about sqrt(count) neighbours, which begin at random places, until
    there are `count`. So long, and not count^(1/3) as where only near neighbours are alike, since
    what stands in one queue is alike over many arrivals. No longer, since an interval needs several
    stretches: there are as many as each has entries. Of few entries, and where one queue outlasts a
    stretch, intervals are still too narrow, but less so than over single ones.

    Args:
        count: what there is to resample, in order of time.
        times: how often.
        rng: source of all randomness.
    """
    block = max(1, round(math.sqrt(count)))
    starts = rng.integers(count, size=(times, math.ceil(count / block)))
    rows: Ints = (starts[..., None] + np.arange(block)) % count
    return rows.reshape(times, -1)[:, :count]


def _resampled(values: Floats, stream: int = 0) -> Floats:
    """(RESAMPLES,) means of (P, S) values, of trainings and inputs drawn with replacement.

    The same inputs for any values of equal S, so that differences are paired; trainings by a
    stream of their own, since those of two alternatives are no pairs.
    """
    trainings, inputs = values.shape
    chosen = np.random.default_rng(_SEED).integers(inputs, size=(RESAMPLES, inputs))
    if trainings == 1:
        return np.asarray(values[0, chosen].mean(axis=1))
    rng = np.random.default_rng((_SEED, stream))
    drawn = rng.integers(trainings, size=(RESAMPLES, trainings))
    of_drawn = np.eye(trainings)[drawn].mean(axis=1) @ values
    return np.asarray(np.take_along_axis(of_drawn, chosen, axis=1).mean(axis=1))


def _student(mean: float, values: Floats) -> tuple[float, float] | None:
    """The interval of a mean that errs as that of (S,) values does.

    Of what is always positive (times) it is taken in logarithms, as a time below 0 is impossible.
    """
    if len(values) < 2:
        return None
    reach = _reach(values)
    if values.min() <= 0:
        return mean - reach, mean + reach
    factor = math.exp(reach / mean)
    return mean / factor, mean * factor


def _reach(values: Floats) -> float:
    """Half of the interval of the mean of (S,) values."""
    count = len(values)
    return _STUDENT[count - 2] * float(values.std(ddof=1)) / math.sqrt(count)


def _percentiles(means: Floats) -> tuple[float, float]:
    low, high = np.percentile(means, [2.5, 97.5])
    return float(low), float(high)
