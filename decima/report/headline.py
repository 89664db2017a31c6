"""The result of a comparison in a sentence or two, which stands above its table."""

from __future__ import annotations

from collections.abc import Mapping

from decima.objectives import AVG_JCT
from decima.report.results import Results, difference_to
from decima.rl.statistics import Estimate
from traces.files.names import counted


def headline(results: Results) -> str:
    """Sentence with the policy of the lowest objective, its difference and its certainty."""
    order = sorted(results.policies, key=lambda name: _mean(results, name))
    best = order[0]
    title = results.title
    average = f"{_mean(results, best):,.1f} s"
    if results.objective != AVG_JCT:
        average = f"{_mean(results, best):,.4g}"
    sequences = counted(len(results.sequences), "sequence")
    if len(order) == 1:
        found = (
            f"{best} has {_article(title)} {title} of {average} over {sequences}; there is no "
            "other policy to compare it with."
        )
    else:
        whose = "The baseline " if best == results.reference else ""
        found = (
            f"{whose}{best} has the lowest {title} of {len(order)} policies over {sequences}: "
            f"{average}{_below(results, best)}.{_next(results, order)}"
        )
    if any(one.unfinished for one in results.policies.values()):
        found += " Jobs that were unfinished when the time limit came count with their age."
    return found


def _below(results: Results, best: str) -> str:
    """Clause with the best policy's distance below the baseline."""
    found = None if best == results.reference else _difference(results, best, results.reference)
    if found is None:
        return ""
    return f", {-found.mean:.1f} % below the baseline {results.reference} ({_interval(found)})"


def _next(results: Results, order: list[str]) -> str:
    """Clause with the second best policy's distance, unless it is the baseline of `_below`."""
    best, other = order[:2]
    if other == results.reference:
        return ""
    found = _difference(results, other, best)
    if found is None:
        return ""
    return f" The next, {other}, is {found.mean:.1f} % above it ({_interval(found)})."


def _difference(results: Results, name: str, reference: str) -> Estimate | None:
    figures = [results.policies[one].objective for one in (name, reference)]
    return difference_to(figures[0], figures[1])


def _interval(found: Estimate) -> str:
    """The interval of a difference, and whether it leaves the sign open."""
    if found.ci95 is None:
        return "no interval"
    low, high = found.ci95
    words = f"95 % interval of the difference {low:+.1f} to {high:+.1f} %"
    return words if low > 0 or high < 0 else f"{words}: it includes zero"


def summary_headline(
    rows: Mapping[str, tuple[float, int, int]], reference: str, settings: int, title: str
) -> str:
    """The best policy over several settings, from the rows of `summary`; "" without rows."""
    if not rows:
        return ""
    best = min(rows, key=lambda name: rows[name][0])
    percent, below, above = rows[best]
    if percent < 0:
        return (
            f"Over {settings} settings, {best} has the lowest {title}: {-percent:.1f} % below "
            f"the baseline {reference}. In {below} of them the interval is below zero, in {above} "
            "above."
        )
    return (
        f"Over {settings} settings, no policy has a lower {title} than the baseline "
        f"{reference}. The next, {best}, is {percent:.1f} % above it."
    )


def _mean(results: Results, name: str) -> float:
    return float(results.policies[name].objective.mean())


def _article(title: str) -> str:
    return "an" if title[0] in "aeiou" else "a"
