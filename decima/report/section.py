"""What a page is made of: sections of words and tables, and charts that its script draws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from decima.report.results import significant
from traces.numbers import Float64


class Series(NamedTuple):
    """Common x, and y of each line by its name (None: nothing there)."""

    x: list[float]
    y: dict[str, list[float | None]]


class Lines(NamedTuple):
    """A chart of lines."""

    title: str
    series: Series
    x: str
    """what the axis is, with its unit"""
    y: str
    log_x: bool = False
    log_y: bool = False
    stepped: bool = False

    def to_json(self) -> dict[str, Any]:
        """As `drawLines` of the page's script takes it."""
        return {"kind": "lines", **self._asdict(), "series": self.series._asdict()}


class Bars(NamedTuple):
    """A chart of bars that are divided into parts, which add up to 1."""

    title: str
    shares: Mapping[str, Mapping[str, float]]
    """by bar, by part"""

    def to_json(self) -> dict[str, Any]:
        """As `drawParts` of the page's script takes it."""
        return {"kind": "parts", **self._asdict()}


class Section(NamedTuple):
    """A part of the page."""

    anchor: str
    heading: str
    template: str
    """in `templates/`; sees the section as `section`"""
    content: Mapping[str, Any]
    """what the template shows"""
    charts: Sequence[Lines | Bars] = ()
    timelines: Sequence[Mapping[str, Any]] = ()
    """as `gantt` gives them; of one section at most"""
    decisions: Sequence[Mapping[str, Any]] = ()
    """as `decima.report.decisions` gives them; of one section at most"""


def series(x: Float64, y: Mapping[str, Float64]) -> Series:
    """Numbers as they are drawn: five digits, NaN as nothing."""
    return Series(
        [significant(float(value)) for value in x],
        {
            name: [None if np.isnan(value) else significant(float(value)) for value in values]
            for name, values in y.items()
        },
    )
