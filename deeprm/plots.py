"""Drawings of the paper's figures, from what `deeprm.figures` measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from matplotlib.figure import Figure

from decima.rl.drawing import Found, errors, panels

LABELS = {
    "on branches": "DeepRM on branches",
    "tetris": "Tetris*",
    "hold": "hold",
    "sjf": "SJF",
    "packer": "Packer",
    "random": "random",
}
COLOURS = {
    "deeprm": "tab:blue",
    "on branches": "tab:purple",
    "tetris": "tab:orange",
    "hold": "black",
    "sjf": "tab:green",
    "packer": "tab:red",
    "random": "tab:gray",
}


def _figure_4(found: Found) -> Figure:
    return _lines(found["loads"], "load in percent", "DeepRM", int)


def _lines(table: Found, label: str, ours: str, at: Callable[[str], int | str]) -> Figure:
    """Slowdown of each scheduler along the table, whose keys `at` places."""
    figure, (axes,) = panels(1)
    for name, colour in COLOURS.items():
        keys = [key for key, entry in table.items() if name in entry]
        entries = [table[key][name] for key in keys]
        means = [entry["mean"] for entry in entries]
        style: dict[str, Any] = {"color": colour, "capsize": 2, "lw": 1.2}
        name_shown = LABELS.get(name, ours)
        axes.errorbar([at(key) for key in keys], means, errors(entries), label=name_shown, **style)
    axes.set(xlabel=label, ylabel="average slowdown", ylim=(0, None))
    axes.legend()
    return figure


def _figure_5(found: Found) -> Figure:
    units = {
        "slowdown": "average slowdown",
        "completion": "average completion time, steps",
        "utilisation": "utilisation while jobs arrive",
        "makespan": "makespan, steps",
    }
    figure, axes_of = panels(len(units))
    for axes, (measure, label) in zip(axes_of, units.items(), strict=True):
        entries = found["measures"][measure]
        names = [LABELS.get(name, name.replace("deeprm", "DeepRM")) for name in entries]
        colours = [COLOURS.get(name, COLOURS["deeprm"]) for name in entries]
        means = [entry["mean"] for entry in entries.values()]
        axes.barh(names, means, xerr=errors(list(entries.values())), color=colours, capsize=2)
        axes.invert_yaxis()
        axes.set(xlabel=label)
    return figure


def _figure_6(found: Found) -> Figure:
    figure, (slowdown, reward) = panels(2)
    for number, rows in enumerate(found["curves"].values()):
        checked = [row for row in rows if "slowdown" in row]
        at = [row["iteration"] + 1 for row in checked]
        values = [row["slowdown"] for row in checked]
        label = "DeepRM, each training" if number == 0 else None
        slowdown.plot(at, values, color=COLOURS["deeprm"], lw=0.9, label=label)
        for key, colour in (("max_reward", "tab:purple"), ("mean_reward", COLOURS["deeprm"])):
            kept = [row for row in rows if key in row]
            line = [row["iteration"] + 1 for row in kept], [row[key] for row in kept]
            name = key.replace("_", " ") if number == 0 else None
            reward.plot(*line, color=colour, lw=0.7, label=name)
    for name, values in found["heuristics_by_seed"].items():
        mean = sum(values) / len(values)
        slowdown.axhline(mean, color=COLOURS[name], ls="--", lw=1, label=LABELS[name])
    slowdown.set(xlabel="iteration", ylabel="average slowdown, held-back job sets")
    reward.set(xlabel="iteration", ylabel="total reward")
    slowdown.legend()
    if reward.lines:
        reward.legend()
    return figure


def _figure_7(found: Found) -> Figure:
    figure, (withheld, slowdown) = panels(2)
    counts = found["withheld_jobs_by_duration"]
    total = sum(counts.values())
    shares = [count / total for count in counts.values()]
    withheld.bar([int(steps) for steps in counts], shares, color=COLOURS["deeprm"])
    withheld.set(xlabel="duration of withheld jobs, steps", ylabel="share of them")
    for shift, name in ((-0.26, "deeprm"), (0.0, "hold"), (0.26, "tetris")):
        entries = [found["slowdown"][size][name] for size in ("small", "large")]
        at = [shift, 1 + shift]
        means = [entry["mean"] for entry in entries]
        label = LABELS.get(name, "DeepRM")
        slowdown.bar(at, means, 0.24, yerr=errors(entries), color=COLOURS[name], label=label)
    slowdown.set_xticks([0, 1], ["small jobs", "large jobs"])
    slowdown.set(ylabel="average slowdown")
    slowdown.legend()
    return figure


def _sizes(found: Found) -> Figure:
    label = "size of the cluster (trained at 1)"
    return _lines(found["sizes"], label, "DeepRM on numbers", str)


DRAWN: Mapping[str, Callable[[Found], Figure]] = {
    "figure4": _figure_4,
    "figure5": _figure_5,
    "figure6": _figure_6,
    "figure7": _figure_7,
    "sizes": _sizes,
}
"""by the name in `deeprm.figures.FIGURES`"""
