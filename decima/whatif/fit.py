"""Fitting a heuristic's parameters with few runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from decima.policies import HEURISTICS, Parameters

_COARSE = 8
"""about as many values of a parameter are tried over its whole range"""


def fit(policy: str, score: Callable[[Parameters], float]) -> dict[str, float]:
    """The parameters of `policy` with the least `score`: first over a coarse grid, then around it.

    One parameter after the other (coordinate descent) over the values that `decima tune` lists, in
    the second pass only over neighbours: some 40 scores, where `decima tune` takes hundreds.

    Args:
        policy: a heuristic with parameters to search.
        score: average JCT with given parameters.
    """
    search = HEURISTICS[policy].search
    best = dict(HEURISTICS[policy].defaults)
    best_score = score(best)
    for candidates in (_coarse, _neighbours):
        for label, values in search.items():
            for value in candidates(values, best[label]):
                candidate = {**best, label: value}
                found = score(candidate)
                if found < best_score:
                    best, best_score = candidate, found
    return best


def max_trials(policy: str) -> int:
    """No more scores than this are computed for `policy`."""
    values = HEURISTICS[policy].search.values()
    return 1 + sum(len(_coarse(row, row[0])) + 2 * _step(row) for row in values)


def _step(values: Sequence[float]) -> int:
    return max(1, round(len(values) / _COARSE))


def _coarse(values: Sequence[float], current: float) -> list[float]:
    return [value for value in values[:: _step(values)] if value != current]


def _neighbours(values: Sequence[float], current: float) -> list[float]:
    """The values between `current` and the next ones of the coarse grid."""
    centre = min(range(len(values)), key=lambda index: abs(values[index] - current))
    step = _step(values)
    near = values[max(0, centre - step + 1) : centre + step]
    return [value for value in near if value != current]
