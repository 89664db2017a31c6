"""Drawings of the paper's figures, from what `harmony.figures` measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from decima.rl.drawing import Found, errors, panels

LABELS = {
    "lb": "LB",
    "tetris": "Tetris",
    "tiresias": "Tiresias",
    "tiresias_las": "Tiresias, LAS",
    "lif_linear": "LIF-Linear",
    "lif_quad": "LIF-Quad",
    "lookahead": "lookahead (added)",
    "lb_gittins": "LB, Gittins",
    "tetris_gittins": "Tetris, Gittins",
    "lif_linear_gittins": "LIF-Linear, Gittins",
    "lif_quad_gittins": "LIF-Quad, Gittins",
    "lookahead_gittins": "lookahead, Gittins",
    "harmony": "Harmony",
    "harmony for 6 servers": "Harmony for 6 servers",
    "harmony on the reward model": "Harmony on the reward model",
    "no_critic": "no critic",
    "no_exploration": "no exploration",
    "one_head": "one head",
    "no_replay": "no replay",
}
_TITLES = {
    "patterns": "",
    "worst": "only the worst neighbour counts",
    "analytic": "analytic model of speeds",
}


def _bars(axes: Axes, entries: Found, at: float, width: float, label: str | None) -> None:
    """A group of bars with their intervals, one for each name."""
    means = [entry["mean"] for entry in entries.values()]
    places = [number + at for number in range(len(means))]
    axes.bar(places, means, width, yerr=errors(list(entries.values())), label=label, capsize=2)


def _named(axes: Axes, names: list[str], label: str) -> None:
    axes.set_xticks(range(len(names)), [LABELS.get(one, one) for one in names], rotation=60)
    axes.tick_params(axis="x", labelsize=7)
    axes.set(ylabel=label, ylim=(0, None))


def _patterns(found: Found) -> Figure:
    """One panel for each group of the figure, one colour for each pattern of arrival."""
    groups = {name: found[name] for name in _TITLES if name in found}
    figure, axes_of = panels(len(groups))
    for axes, (group, patterns) in zip(axes_of, groups.items(), strict=True):
        for number, (pattern, entries) in enumerate(patterns.items()):
            _bars(axes, entries, 0.27 * (number - 1), 0.27, pattern)
        _named(axes, list(next(iter(patterns.values()))), "average completion time, intervals")
        axes.set_title(_TITLES[group])
    axes_of[0].legend()  # the colours of all panels
    return figure


def _figure_11(found: Found) -> Figure:
    figure, (axes,) = panels(1)
    shown = ("harmony", "tiresias", "lookahead_gittins")
    for number, name in enumerate(shown):
        entries = {kind: one[name] for kind, one in found["types"].items() if name in one}
        _bars(axes, entries, 0.27 * (number - 1), 0.27, LABELS[name])
    _named(axes, list(found["types"]), "average completion time, intervals")
    axes.legend()
    return figure


def _figure_12(found: Found) -> Figure:
    figure, (axes,) = panels(1)
    minutes = [int(one) for one in found["minutes"]]
    entries = list(found["minutes"].values())
    axes.errorbar(minutes, [one["mean"] for one in entries], errors(entries), capsize=2, lw=1.2)
    axes.set(xlabel="interval, minutes", ylabel="average completion time, minutes", ylim=(0, None))
    return figure


def _figure_13(found: Found) -> Figure:
    figure, (error, close, by_model) = panels(3)
    for number, (servers, entries) in enumerate(found["servers"].items()):
        for axes, key in ((error, "error"), (close, "close")):
            chosen = {name: entry[key] for name, entry in entries.items()}
            _bars(axes, chosen, 0.4 * number, 0.4, f"{servers} servers")
            _named(axes, list(entries), {"error": "relative error", "close": "within 10 %"}[key])
            axes.legend()
    for number, (name, entry) in enumerate(found["servers"].get("6", {}).items()):
        places = [place + 0.27 * (number - 1) for place in range(len(found["models"]))]
        by_model.bar(places, entry["error_by_model"], 0.27, label=LABELS.get(name, name))
    _named(by_model, list(found["models"]), "relative error, 6 servers")
    if by_model.patches:
        by_model.legend()
    return figure


def _variants(found: Found) -> Figure:
    figure, (axes,) = panels(1)
    entries = found["rows"] if "rows" in found else found["sizes"]
    _bars(axes, entries, 0.0, 0.7, None)
    _named(axes, list(entries), "average completion time, intervals")
    return figure


DRAWN: Mapping[str, Callable[[Found], Figure]] = {
    "figure10": _patterns,
    "figure11": _figure_11,
    "figure12": _figure_12,
    "figure13": _figure_13,
    "figure14": _patterns,
    "figure15": _variants,
    "table2": _variants,
}
"""by the name in `harmony.figures.FIGURES`"""
