"""One style for figures of what was measured: panels, error bars, SVG and PNG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")  # no window, wherever it runs

from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from decima.rl.errors import RunError
from traces.files.pictures import save_figure

Measured = Mapping[str, Any]


def panels(count: int) -> tuple[Figure, Sequence[Axes]]:
    """A figure with so many panels side by side."""
    figure, axes = pyplot.subplots(
        1, count, figsize=(4.6 * count, 3.6), squeeze=False, layout="constrained"
    )
    return figure, axes[0]


def errors(entries: Sequence[Measured]) -> list[list[float]]:
    """Lengths of error bars below and above the means of entries as `Estimate.to_json` gives."""
    intervals = [entry["ci95"] or (entry["mean"], entry["mean"]) for entry in entries]
    low = [max(0.0, entry["mean"] - ci[0]) for entry, ci in zip(entries, intervals, strict=True)]
    high = [max(0.0, ci[1] - entry["mean"]) for entry, ci in zip(entries, intervals, strict=True)]
    return [low, high]


def write_figure(figure: Figure, name: str, out: Path) -> list[Path]:
    """Write a figure as `NAME.svg` and `NAME.png` into the folder `out`, and close it."""
    paths = {kind: out / f"{name}.{kind}" for kind in ("svg", "png")}
    for kind, path in paths.items():
        save_figure(figure, path, kind, RunError)
    pyplot.close(figure)
    return list(paths.values())
