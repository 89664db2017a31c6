"""The figures of a report for papers: each as SVG and PNG, with what made it in the metadata."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from decima.report.comparison import by_size, distribution, executor_time, in_system
from decima.report.results import Results
from decima.report.section import Series
from files.writing import write_whole

_COLOURS = (
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#a0522d", "#8c8c8c",
)  # fmt: skip
"""Okabe and Ito's, which the colour-blind tell apart"""
_DASHES = ("-", "--", ":", "-.")
_PARTS = {"work": "#0072b2", "first tasks": "#56b4e9", "moving": "#e69f00", "idle": "#e8eaed"}
_FORMATS = ("svg", "png")
_DPI = 200


def write_figures(folder: Path, results: Results, command: str) -> list[Path]:
    """Draw all figures of one evaluation into `folder`, which must be there.

    Args:
        folder: gets NAME.svg and NAME.png for each figure.
        results: what is drawn.
        command: what made them, for the metadata.

    Returns:
        the files.

    Raises:
        FileError: one cannot be written.
    """
    drawers: dict[str, Callable[[Axes, Results], None]] = {
        "distribution": _distribution,
        "size": _size,
        "system": _system,
        "executor-time": _executor_time,
    }
    written = []
    for name, draw in drawers.items():
        figure = Figure(figsize=(4.6, 3.2), layout="constrained")
        draw(figure.subplots(), results)
        for form in _FORMATS:
            path = folder / f"{name}.{form}"
            write_whole(path, _saved(figure, form, command))
            written.append(path)
    return written


def _saved(figure: Figure, form: str, command: str) -> bytes:
    """The same bytes for the same figure: no date, and names in the SVG that do not change."""
    memory = io.BytesIO()
    metadata = {"Description": command}
    if form == "svg":
        metadata |= {"Date": None, "Creator": "decima report"}  # type: ignore[dict-item]
    with mpl.rc_context({"svg.hashsalt": "decima", "svg.fonttype": "none"}):
        figure.savefig(memory, format=form, dpi=_DPI, metadata=metadata)
    return memory.getvalue()


def _lines(axes: Axes, series: Series, *, stepped: bool = False) -> None:
    for index, (name, values) in enumerate(series.y.items()):
        axes.plot(
            series.x,
            [float("nan") if value is None else value for value in values],
            label=name,
            color=_COLOURS[index % len(_COLOURS)],
            linestyle=_DASHES[index // len(_COLOURS) % len(_DASHES)],
            linewidth=1.3,
            drawstyle="steps-post" if stepped else "default",
        )
    axes.grid(color="#e6e9ed", linewidth=0.6)
    axes.legend(fontsize=7, frameon=False)


def _distribution(axes: Axes, results: Results) -> None:
    _lines(axes, distribution(results))
    axes.set(xscale="log", xlabel="job completion time, s", ylabel="share of jobs complete")


def _size(axes: Axes, results: Results) -> None:
    _lines(axes, by_size(results))
    axes.set(xscale="log", yscale="log", xlabel="work of a job, executor s", ylabel="mean JCT, s")


def _system(axes: Axes, results: Results) -> None:
    _lines(axes, in_system(results), stepped=True)
    axes.set(xlabel="time, s", ylabel="jobs in the system")


def _executor_time(axes: Axes, results: Results) -> None:
    shares = executor_time(results)
    names = list(shares)
    left = [0.0] * len(names)
    for part, colour in _PARTS.items():
        width = [100 * shares[name][part] for name in names]
        axes.barh(names, width, left=left, color=colour, label=part)
        left = [a + b for a, b in zip(left, width, strict=True)]
    axes.invert_yaxis()
    axes.set(xlabel="share of the executors' time, %", xlim=(0, 100))
    axes.legend(fontsize=7, ncols=4, frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0))
