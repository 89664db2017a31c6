"""Parts of a page: sections of text and tables, forest plots, and charts that its script draws."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from decima.report.results import significant
from decima.rl.statistics import Estimate
from traces.numbers import Float64

_POINTS = 200  # points of a distribution
_PERCENTS = np.arange(1, 100)
_WIDEST = 4.0  # of the axis, in the median row's reach from zero: a longer row is cut, and marked
_TICKS = 5  # about so many on the axis
_MARGIN = 0.04  # of the axis on both sides


class Series(NamedTuple):
    """Common x, and y of each line by its name (None: nothing there)."""

    x: list[float]
    y: dict[str, list[float | None]]


class Lines(NamedTuple):
    """A chart of lines."""

    title: str
    series: Series
    x: str  # label of the axis, with its unit
    y: str
    log_x: bool = False
    log_y: bool = False
    stepped: bool = False
    marks: Sequence[tuple[float, str]] = ()  # places on the x axis, with a word for what begins
    spans_gaps: bool = False  # whether a line goes on where it has no value

    def to_json(self) -> dict[str, Any]:
        """Return the chart as `drawLines` of the page's script takes it."""
        return {"kind": "lines", **self._asdict(), "series": self.series._asdict()}


class Bars(NamedTuple):
    """A chart of bars that are divided into parts, which add up to 1."""

    title: str
    shares: Mapping[str, Mapping[str, float]]  # shares by bar, by part
    x: str  # what the whole bar is
    colours: Mapping[str, str | None]  # by part, in their order; None: that of the background

    def to_json(self) -> dict[str, Any]:
        """Return the chart as `drawParts` of the page's script takes it."""
        return {"kind": "parts", **self._asdict()}


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


class Section(NamedTuple):
    """A part of the page."""

    anchor: str
    heading: str
    template: str
    """file in `templates/`; it sees the section as `section`"""
    content: Mapping[str, Any]
    """data of the template"""
    forest: Forest | None = None
    """the result as a plot, which opens the section"""
    charts: Sequence[Lines | Bars] = ()
    timelines: Sequence[Mapping[str, Any]] = ()
    """from `decima.report.timelines.gantt`, in the order of the page's choices; in one section at
    most"""
    graphs: Mapping[str, Mapping[str, Any]] = {}
    """graphs of their jobs, from `decima.report.timelines.graphs`"""
    decisions: Sequence[Mapping[str, Any]] = ()
    """plans from `decima.report.decisions`; in one section at most"""

    @property
    def opening(self) -> Sequence[Mapping[str, Any]]:
        """The timelines that the page opens with: the first two, if they are of one sequence."""
        return [
            run for run in self.timelines[:2] if run["sequence"] == self.timelines[0]["sequence"]
        ]


def forest(title: str, differences: Mapping[str, Estimate | None]) -> Forest | None:
    """Return the plot of the differences that are known; None without any."""
    rows = [
        ForestRow(name, difference)
        for name, difference in differences.items()
        if difference is not None
    ]
    return Forest(title, rows) if rows else None


def series(x: Float64, y: Mapping[str, Float64]) -> Series:
    """Numbers as they are drawn: five digits, NaN as nothing."""
    return Series(
        [significant(float(value)) for value in x],
        {
            name: [None if np.isnan(value) else significant(float(value)) for value in values]
            for name, values in y.items()
        },
    )


def completion(jobs: str, jct_s: Mapping[str, Float64]) -> Lines:
    """Chart of the distribution of JCT; `jobs` says of which.

    Of one run it is the share of the jobs that are complete over time. Such curves of several runs
    lie on each other, so there it is how far each one's quantiles are from the first's.
    """
    if len(jct_s) == 1:
        title = f"Share of {jobs} complete within so many seconds"
        return Lines(title, share_complete(jct_s), "JCT, s", "share of jobs", log_x=True)
    first = next(iter(jct_s))
    return Lines(
        f"Quantiles of JCT against {first}, {jobs}",
        quantile_differences(jct_s),
        "share of the jobs with a shorter JCT, %",
        f"% against {first}; below 0 is better",
    )


def quantile_differences(jct_s: Mapping[str, Float64]) -> Series:
    """Percent by which each run's quantiles of JCT exceed those of the first run."""
    quantiles = {name: np.percentile(values, _PERCENTS) for name, values in jct_s.items()}
    base = next(iter(quantiles.values()))
    with np.errstate(divide="ignore", invalid="ignore"):
        percent = {name: 100 * (values / base - 1) for name, values in quantiles.items()}
    return series(
        _PERCENTS.astype(float),
        {name: np.where(base > 0, values, np.nan) for name, values in percent.items()},
    )


def share_complete(jct_s: Mapping[str, Float64]) -> Series:
    """Share of the jobs of each run that are complete within x seconds; x grows geometrically."""
    times_s = np.concatenate(list(jct_s.values()))
    times_s = np.unique(times_s[times_s > 0])
    if len(times_s) < 2:
        return series(times_s, {name: np.ones(len(times_s)) for name in jct_s})
    x = np.geomspace(float(times_s.min()), float(times_s.max()), _POINTS)
    x[-1] = float(times_s.max())  # not a rounding below the last job
    return series(
        x,
        {
            name: np.searchsorted(np.sort(values), x, side="right") / max(1, len(values))
            for name, values in jct_s.items()
        },
    )
