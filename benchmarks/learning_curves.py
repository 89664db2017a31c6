"""Learning curves of trainings, a panel for each group of runs.

    python -m benchmarks.learning_curves OUT.png "batches of 20=runs/b0,runs/b1" "gap 15 s=runs/s0"

Each line is a training: the average JCT of its likeliest plans on held-out sequences, against
strict fair. Dotted lines are the heuristics that the trainings were compared with.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from decima.rl.drawing import save_figure
from decima.rl.run_folder import read_run
from decima.training.play import ABOVE

HEURISTICS = ("tuned_weighted_fair", "tuned_srw", "es_rule")


def validations(run: Path) -> list[dict[str, Any]]:
    """Metrics of the iterations of a training that were validated."""
    return [row for row in read_run(run).metrics if "validation/score" in row]


def draw_scores(axes: Axes, runs: Sequence[Path], heuristics: Sequence[str]) -> None:
    """Scores of all validations of trainings in one setting, and levels of heuristics there."""
    rows: list[dict[str, Any]] = []
    for number, run in enumerate(runs):
        rows = validations(run)
        iteration = [row["iteration"] + 1 for row in rows]
        label = "likeliest plans" if number == 0 else None
        scores = [row["validation/score"] for row in rows]
        axes.plot(iteration, scores, marker="o", markersize=3, label=label)
    last = rows[-1]
    for name in heuristics:
        above = last[f"validation/{ABOVE}{name}"]
        level = 100 * ((1 + last["validation/score"] / 100) / (1 + above / 100) - 1)
        axes.axhline(level, linestyle=":", color="grey")
        where = (last["iteration"] + 1, level)
        axes.annotate(name, where, fontsize=8, ha="right", va="bottom")
    axes.axhline(0.0, color="grey", linewidth=0.8)
    axes.set(xlabel="iteration", ylabel="JCT against\nstrict fair, %")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("panels", nargs="+", metavar="TITLE=RUN[,RUN]")
    arguments = parser.parse_args()
    figure = Figure(figsize=(4 * len(arguments.panels), 3), layout="constrained")
    panels = np.atleast_1d(figure.subplots(1, len(arguments.panels)))
    for axes, panel in zip(panels, arguments.panels, strict=True):
        title, _, runs = panel.partition("=")
        draw_scores(axes, [Path(run) for run in runs.split(",")], HEURISTICS)
        axes.set_title(title, loc="left", fontsize=10)
    save_figure(figure, arguments.out, "png")


if __name__ == "__main__":
    main()
