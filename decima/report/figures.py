"""The figures of a report for papers: each as SVG and PNG, with what made it in the metadata."""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import hsv_to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from decima.report.section import Bars, Forest, Lines, Section
from decima.report.timelines import unpack
from spark_sim.render import raster
from traces.files.pictures import save_figure
from traces.numbers import MS_PER_S

_COLOURS = (
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#a0522d", "#8c8c8c",
)  # fmt: skip
"""Okabe and Ito's colours, distinguishable with colour blindness"""
_DASHES = ("-", "--", ":", "-.")
_BACKGROUND = "#e8eaed"  # of a bar
_FORMATS = ("svg", "png")
_DPI = 200
_LONGEST_NAME = 60
_MOST_NAMED = 12
_LONGEST_LABEL = 32  # longest label of the y axis in a line, to stay within the picture
_COLUMNS = 1_600
"""resolution of a timeline, which is a bitmap in the SVG too, as a path for each task is too
large"""
_GOLDEN = 0.381966
# Turns of the colour wheel from a job to the next: neighbours differ most.


def write_figures(folder: Path, sections: Sequence[Section], command: str) -> list[Path]:
    """Draw a page's charts and timelines into `folder`, as SECTION-TITLE.svg and .png."""
    written: list[Path] = []
    names: Counter[str] = Counter()
    for title, figure in _figures(sections):
        names[title] += 1
        name = title if names[title] == 1 else f"{title}-{names[title]}"
        for form in _FORMATS:
            path = folder / f"{name}.{form}"
            metadata = {"Description": command}
            if form == "svg":
                metadata["Creator"] = "decima report"
            save_figure(figure, path, form, dpi=_DPI, metadata=metadata)
            written.append(path)
    return written


def _figures(sections: Sequence[Section]) -> Iterator[tuple[str, Figure]]:
    """Yield (file stem, figure); stems may repeat."""
    for section in sections:
        if section.forest is not None:
            height = 0.9 + 0.28 * len(section.forest.rows)
            figure = Figure(figsize=(6.4, height), layout="constrained")
            figure.suptitle(_plain(section.forest.title), fontsize=9)
            _forest(figure.subplots(), section.forest)
            yield _name(section, section.forest.title), figure
        for chart in section.charts:
            figure = Figure(figsize=(4.6, 3.2), layout="constrained")
            axes = figure.subplots()
            if isinstance(chart, Lines):
                _lines(axes, chart)
            else:
                _bars(axes, chart)
            yield _name(section, chart.title), figure
        for run in section.opening:
            figure = Figure(figsize=(7.2, 2.4), layout="constrained")
            _timeline(figure.subplots(), run)
            yield _name(section, run["policy"]), figure


def _name(section: Section, title: str) -> str:
    """Words of the title, fit for a file."""
    words = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
    if len(words) > _LONGEST_NAME:
        words = words[:_LONGEST_NAME].rpartition("-")[0]
    return f"{section.anchor}-{words}"


def _lines(axes: Axes, chart: Lines) -> None:
    for index, (name, every) in enumerate(chart.series.y.items()):
        points = list(zip(chart.series.x, every, strict=True))
        if chart.spans_gaps:
            points = [point for point in points if point[1] is not None]
        values = [value for _, value in points]
        axes.plot(
            [x for x, _ in points],
            [float("nan") if value is None else value for value in values],
            label=_plain(name),
            color=_COLOURS[index % len(_COLOURS)],
            linestyle=_DASHES[index // len(_COLOURS) % len(_DASHES)],
            linewidth=1.3,
            marker="o",
            markersize=3,
            markevery=lonely(values),
            drawstyle="steps-post" if chart.stepped else "default",
        )
    axes.set(xlabel=_plain(chart.x), ylabel=textwrap.fill(_plain(chart.y), _LONGEST_LABEL))
    axes.set(xscale="log" if chart.log_x else "linear", yscale="log" if chart.log_y else "linear")
    every_y = [value for values in chart.series.y.values() for value in values if value is not None]
    scales = ((axes.xaxis, chart.series.x, chart.log_x), (axes.yaxis, every_y, chart.log_y))
    for axis, numbers, is_log in scales:
        if not is_log and all(number.is_integer() for number in numbers):
            axis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    for place, words in chart.marks:
        axes.axvline(place, color="#8c8c8c", linewidth=0.8, linestyle="--")
        axes.annotate(
            words, (place, 1), (3, -3), xycoords=("data", "axes fraction"),
            textcoords="offset points", va="top", fontsize=7, color="#5b636e",
        )  # fmt: skip
    axes.grid(color="#e6e9ed", linewidth=0.6)
    if 1 < len(chart.series.y) <= _MOST_NAMED:
        axes.legend(fontsize=7, frameon=False)


def lonely(values: Sequence[float | None]) -> list[bool]:
    """Mask of the values without neighbours, which a line would not show."""
    is_drawn = [False, *(value is not None for value in values), False]
    return [
        here and not before and not after
        for before, here, after in zip(is_drawn, is_drawn[1:], is_drawn[2:], strict=False)
    ]


def _forest(axes: Axes, drawn: Forest) -> None:
    axis = drawn.axis
    for place, row in enumerate(drawn.rows):
        low, high = (min(max(end, axis.low), axis.high) for end in row.ends)
        colour = {"below": "#0072b2", "above": "#d55e00", "open": "#8c8c8c"}[row.verdict]
        axes.plot([low, high], [place, place], color=colour, linewidth=1.3)
        if axis.low <= row.difference.mean <= axis.high:
            axes.plot(row.difference.mean, place, "o", color=colour, markersize=4)
    axes.axvline(0, color="#5b636e", linewidth=0.8, linestyle="--")
    axes.set_yticks(range(len(drawn.rows)), [_plain(row.label) for row in drawn.rows], fontsize=8)
    axes.set(xlim=(axis.low, axis.high), xlabel="%")
    axes.invert_yaxis()


def _bars(axes: Axes, chart: Bars) -> None:
    names = list(chart.shares)
    begin = [0.0] * len(names)
    for part, colour in chart.colours.items():
        width = [100 * chart.shares[name][part] for name in names]
        axes.barh(
            [_plain(name) for name in names],
            width,
            left=begin,
            color=_BACKGROUND if colour is None else colour,
            label=part,
        )
        begin = [a + b for a, b in zip(begin, width, strict=True)]
    axes.invert_yaxis()
    axes.set(xlabel=chart.x, xlim=(0, 100))
    axes.legend(fontsize=7, ncols=4, frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0))


def _timeline(axes: Axes, run: Mapping[str, Any]) -> None:
    tasks = unpack(run)
    end_s = float(run["end_ms"]) / MS_PER_S
    job = np.array(run["stages"]["job"])[tasks.stage]
    shown = raster(
        tasks.executor, tasks.start_ms, tasks.finish_ms, job,
        int(run["executors"]), _COLUMNS, float(run["end_ms"]),
    )  # fmt: skip
    colours = np.ones((int(job.max()) + 2, 3))
    number = np.arange(len(colours) - 1)
    tones = np.stack([number * _GOLDEN % 1, np.full(len(number), 0.6), 0.55 + 0.15 * (number % 3)])
    colours[:-1] = hsv_to_rgb(tones.T)  # the last, which -1 reaches, stays white
    axes.imshow(
        colours[shown],
        aspect="auto",
        interpolation="nearest",
        extent=(0.0, end_s, float(run["executors"]), 0.0),
    )
    axes.set(xlabel="time, s", ylabel=run["row"], title=_plain(str(run["policy"])))
    axes.yaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    if len(run["jobs"]) <= _MOST_NAMED:
        patches = [
            Patch(
                color=tuple(colours[entry["number"]]),
                label=_plain(f"{entry['number']} {entry['name']}"),
            )
            for entry in run["jobs"]
        ]
        axes.legend(handles=patches, fontsize=6, frameon=False, loc="center left",
                    bbox_to_anchor=(1.0, 0.5))  # fmt: skip


def _plain(text: str) -> str:
    """Names as they are: a dollar sign would begin a formula."""
    return text.replace("$", r"\$")
