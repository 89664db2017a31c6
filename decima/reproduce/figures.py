"""How each figure of the paper is measured and drawn."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from matplotlib.figure import Figure

from decima.reproduce.bench import Bench
from decima.reproduce.comparisons import (
    draw_cdf,
    draw_figure_10,
    draw_figure_11,
    draw_figure_12,
    figure_9a,
    figure_9b,
    figure_10,
    figure_11,
    figure_12,
)
from decima.reproduce.critical_path import appendix_e, draw_appendix_e
from decima.reproduce.latency import draw_figure_15b, figure_15b
from decima.reproduce.trainings import (
    draw_figure_13,
    draw_figure_14,
    draw_figure_15a,
    draw_table,
    figure_13,
    figure_14,
    figure_15a,
    table_2,
    table_3,
)
from decima.rl.drawing import Measured

FIGURES: Mapping[str, tuple[Callable[[Bench], dict[str, Any]], Callable[[Measured], Figure]]] = {
    "figure9a": (figure_9a, draw_cdf),
    "figure9b": (figure_9b, draw_cdf),
    "figure10": (figure_10, draw_figure_10),
    "figure11": (figure_11, draw_figure_11),
    "figure12": (figure_12, draw_figure_12),
    "figure13": (figure_13, draw_figure_13),
    "figure14": (figure_14, draw_figure_14),
    "figure15a": (figure_15a, draw_figure_15a),
    "figure15b": (figure_15b, draw_figure_15b),
    "table2": (table_2, draw_table),
    "table3": (table_3, draw_table),
    "appendixE": (appendix_e, draw_appendix_e),
}
"""by name, as in `decima.reproduce.paper.PAPER`"""
