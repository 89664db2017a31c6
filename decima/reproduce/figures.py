"""How each figure of the paper is measured and drawn."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from matplotlib.figure import Figure

from decima.reproduce import comparisons, critical_path, latency, trainings
from decima.reproduce.bench import Bench
from decima.rl.drawing import Measured

FIGURES: Mapping[str, tuple[Callable[[Bench], dict[str, Any]], Callable[[Measured], Figure]]] = {
    "figure9a": (comparisons.figure_9a, comparisons.draw_cdf),
    "figure9b": (comparisons.figure_9b, comparisons.draw_cdf),
    "figure10": (comparisons.figure_10, comparisons.draw_figure_10),
    "figure11": (comparisons.figure_11, comparisons.draw_figure_11),
    "figure12": (comparisons.figure_12, comparisons.draw_figure_12),
    "figure13": (trainings.figure_13, trainings.draw_figure_13),
    "figure14": (trainings.figure_14, trainings.draw_figure_14),
    "figure15a": (trainings.figure_15a, trainings.draw_figure_15a),
    "figure15b": (latency.figure_15b, latency.draw_figure_15b),
    "table2": (trainings.table_2, trainings.draw_table),
    "table3": (trainings.table_3, trainings.draw_table),
    "appendixE": (critical_path.appendix_e, critical_path.draw_appendix_e),
}
"""by name, as in `decima.reproduce.paper.PAPER`"""
