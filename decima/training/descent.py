"""Searching a heuristic's parameters with few runs."""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from decima.registry import HEURISTICS, Parameters

K = TypeVar("K", bound=Hashable)

_COARSE = 8  # approximate number of values that are tried over a parameter's range

DescentProgress = Callable[[int, Parameters, float], None]
"""called with the number of scores so far, the best parameters and their score"""


@dataclass(frozen=True)
class Best:
    """The best parameters, and what they cost."""

    parameters: Parameters
    score: float
    scores: int  # number of scored parameters


Descent = Generator[list[Parameters], list[float], Best]
"""a search under way: yields parameters, is sent their scores"""

Scores = Callable[[list[Parameters]], list[float]]
"""function from parameters to their cost; less is better"""


def descend(
    policy: str, scores: Scores, *, rounds: int = 2, progress: DescentProgress | None = None
) -> Best:
    """The parameters of `policy` with the least score: `descent`, from its begin to its end."""
    (result,) = descend_together(
        {policy: descent(policy, rounds=rounds, progress=progress)},
        lambda candidates: {key: scores(tried) for key, tried in candidates.items()},
    ).values()
    return result


def descend_together(
    searches: Mapping[K, Descent],
    scores: Callable[[Mapping[K, list[Parameters]]], Mapping[K, list[float]]],
) -> dict[K, Best]:
    """Run several searches side by side; their candidates are scored together."""
    waiting = {key: next(search) for key, search in searches.items()}
    results: dict[K, Best] = {}
    while waiting:
        for key, values in scores(waiting).items():
            try:
                waiting[key] = searches[key].send(values)
            except StopIteration as end:
                del waiting[key]
                results[key] = end.value
    return {key: results[key] for key in searches}


def descent(policy: str, *, rounds: int = 2, progress: DescentProgress | None = None) -> Descent:
    """Search the parameters of `policy`: first over a coarse grid, then around the best of it.

    One parameter after the other (coordinate descent) over the values of `HeuristicSpec.search`,
    from the shipped ones; after the first round only over neighbours of the best so far. No
    parameters are scored twice.
    """
    best: Parameters = dict(HEURISTICS[policy].defaults)
    scored = {_key(best): (yield [best])[0]}
    for number in range(rounds):
        before = best
        for label, values in HEURISTICS[policy].search.items():
            near = (_neighbours if number else _coarse)(values, best[label])
            tried: list[Parameters] = [{**best, label: value} for value in near]
            new = [parameters for parameters in tried if _key(parameters) not in scored]
            scores = iter((yield new) if new else [])
            for parameters in tried:
                if _key(parameters) not in scored:
                    scored[_key(parameters)] = next(scores)
                if scored[_key(parameters)] < scored[_key(best)]:  # a tie keeps the first
                    best = parameters
                if progress is not None:
                    progress(len(scored), best, scored[_key(best)])
        if number > 0 and best == before:
            break
    return Best(best, scored[_key(best)], len(scored))


def _key(parameters: Parameters) -> tuple[float, ...]:
    return tuple(parameters.values())


def max_scores(policy: str, *, rounds: int = 2) -> int:
    """Upper bound of the parameters that `descend` scores."""
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
