"""Forest plot: differences to a baseline with their intervals, a row each, drawn as HTML."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from decima.report.results import Results, difference_to
from decima.rl.statistics import Estimate

_WIDEST = 4.0  # of the axis, in the median row's reach from zero: a longer row is cut, and marked
_TICKS = 5  # about so many on the axis
_MARGIN = 0.04  # of the axis on both sides


class ForestRow(NamedTuple):
    """One difference, in percent."""

    label: str
    difference: Estimate

    @property
    def ends(self) -> tuple[float, float]:
        """Ends of the interval; the mean twice where there is none."""
        mean = self.difference.mean
        return self.difference.ci95 or (mean, mean)

    @property
    def verdict(self) -> str:
        """``below`` or ``above`` zero with its whole interval, or ``open``."""
        if self.difference.ci95 is None:
            return "open"
        low, high = self.ends
        return "below" if high < 0 else "above" if low > 0 else "open"


class Axis(NamedTuple):
    """Range of the plot, in percent."""

    low: float
    high: float
    ticks: Sequence[float]

    def share(self, value: float) -> float:
        """Return where a value lies, in percent of the width; beyond the range at its end."""
        return 100 * (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)


class Forest(NamedTuple):
    """Differences to one baseline; below zero is better."""

    title: str
    rows: Sequence[ForestRow]

    @property
    def axis(self) -> Axis:
        """A range with zero and all intervals, but for those much longer than the others."""
        reach = [max(map(abs, row.ends)) for row in self.rows]
        most = max(1e-3, _WIDEST * float(np.median(reach)))
        low = max(-most, min(0.0, *(row.ends[0] for row in self.rows)))
        high = min(most, max(0.0, *(row.ends[1] for row in self.rows)))
        margin = _MARGIN * max(high - low, 1e-3)
        # The next of 1, 2, 5, 10, ... at or above.
        rough = (high - low) / _TICKS
        power: float = 10.0 ** math.floor(math.log10(max(rough, 1e-9)))
        steps = (power, 2 * power, 5 * power, 10 * power)
        step = next(step for step in steps if step >= rough * 0.999)
        ticks = [number * step for number in range(math.ceil(low / step), int(high // step) + 1)]
        return Axis(low - margin, high + margin, ticks)


def forest(title: str, differences: Mapping[str, Estimate | None]) -> Forest | None:
    """Return the plot of the differences that are known; None without any."""
    rows = [
        ForestRow(name, difference)
        for name, difference in differences.items()
        if difference is not None
    ]
    return Forest(title, rows) if rows else None


def comparison_forest(all_results: Sequence[Results]) -> Forest | None:
    """The paired differences of the objective: a row for each policy, in each setting."""
    reference = all_results[0].reference
    title = all_results[0].title
    if any((results.reference, results.title) != (reference, title) for results in all_results):
        return None
    differences: dict[str, Estimate | None] = {}
    for name in dict.fromkeys(name for results in all_results for name in results.policies):
        for number, results in enumerate(all_results, start=1):
            if name == reference or name not in results.policies:
                continue
            base = results.policies[reference].objective
            label = f"{name}: {number}. {results.label}" if len(all_results) > 1 else name
            differences[label] = difference_to(results.policies[name].objective, base)
    title = f"{title[0].upper()}{title[1:]} against {reference}, paired by sequence"
    return forest(title, differences)
