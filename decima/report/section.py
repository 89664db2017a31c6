"""Parts of a page: sections of text and tables, and charts that its script draws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from decima.report.forest import Forest
from decima.report.results import significant
from traces.numbers import Float64

_POINTS = 200  # points of a distribution
_PERCENTS = np.arange(1, 100)


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

    def to_json(self) -> dict[str, Any]:
        """Return the chart as `drawLines` of the page's script takes it."""
        return {"kind": "lines", **self._asdict(), "series": self.series._asdict()}


class Bars(NamedTuple):
    """A chart of bars that are divided into parts, which add up to 1."""

    title: str
    shares: Mapping[str, Mapping[str, float]]  # shares by bar, by part

    def to_json(self) -> dict[str, Any]:
        """Return the chart as `drawParts` of the page's script takes it."""
        return {"kind": "parts", **self._asdict()}


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
