"""Searching a heuristic's parameters with few runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from decima.policies import HEURISTICS, Parameters

_COARSE = 8
"""about as many values of a parameter are tried over its whole range"""

DescentProgress = Callable[[int, Parameters, float], None]
"""told the number of scores so far, the best parameters and their score"""


@dataclass(frozen=True)
class Found:
    """The best parameters, and what they cost."""

    parameters: Parameters
    score: float
    scores: int
    """how many parameters were scored"""


def descend(
    policy: str,
    score: Callable[[Parameters], float],
    *,
    rounds: int = 2,
    progress: DescentProgress | None = None,
) -> Found:
    """The parameters of `policy` with the least `score`: first over a coarse grid, then around it.

    One parameter after the other (coordinate descent) over the values of `HeuristicSpec.search`,
    from the shipped ones; after the first round only over neighbours of the best so far. No
    parameters are scored twice.

    Args:
        policy: a heuristic with parameters to search.
        score: of given parameters; less is better.
        rounds: over all parameters, fewer if one brings nothing.
        progress: told after each candidate.
    """
    known: dict[tuple[float, ...], float] = {}

    def scored(parameters: Parameters) -> float:
        key = tuple(parameters.values())
        if key not in known:
            known[key] = score(parameters)
        return known[key]

    best: Parameters = dict(HEURISTICS[policy].defaults)
    scored(best)
    for number in range(rounds):
        before = best
        for label, values in HEURISTICS[policy].search.items():
            candidates = _neighbours if number else _coarse
            for value in candidates(values, best[label]):
                best = min(best, {**best, label: value}, key=scored)  # a tie keeps the first
                if progress is not None:
                    progress(len(known), best, scored(best))
        if number > 0 and best == before:
            break
    return Found(best, scored(best), len(known))


def max_scores(policy: str, *, rounds: int = 2) -> int:
    """`descend` scores no more parameters than this."""
    values = HEURISTICS[policy].search.values()
    coarse = sum(len(_coarse(row, row[0])) + 1 for row in values)
    return 1 + coarse + sum(2 * _step(row) for row in values) * (rounds - 1)


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
