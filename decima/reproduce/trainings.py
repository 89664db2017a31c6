"""Figures 13 to 15a, tables 2 and 3: networks trained for them, in minutes of one core each."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from decima.objectives import objective_named
from decima.reproduce.bench import BATCH_JOBS, EXECUTORS, LOAD, TRACE, Bench, batch, stream
from decima.reproduce.comparisons import (
    DECIMA,
    FAIR,
    TUNED,
    about,
    avg_jct_s,
    percent,
)
from decima.rl.drawing import Measured, errors, panels
from decima.rl.statistics import difference_percent
from decima.training.config import TrainConfig, read_config

OBJECTIVES = ("avg_jct", "makespan", "p95")
LOADS = (0.55, 0.65, 0.75, LOAD)
_ELSEWHERE = 0.6
"""of the test's load, as a gap of 75 s is of one of 45 s"""
_EPISODE_JOBS = 24
"""mean arrivals in an episode"""
_FEW = 5
"""executors of table 3"""
GRADIENT = "policy gradient"
_IMITATED: Mapping[str, tuple[str, ...]] = {
    "full": (),
    "no limits": ("network.limit_head=false",),
    "no messages": ("network.messages=false",),
    "one-level sums": ("network.two_level=false",),
    "trained on batches": ("workload.load=[]", f"workload.batch_jobs=[{BATCH_JOBS}]"),
}
"""changed settings of figure 14's trainings by imitation"""
_REINFORCED: Mapping[str, tuple[str, ...]] = {
    GRADIENT: (),
    "no baseline": ('credit.baseline="none"',),
    "no curriculum": (f"episodes.start_jobs={_EPISODE_JOBS}",),
}
"""and of those by policy gradient from nothing"""


def _config(bench: Bench, *changes: str) -> TrainConfig:
    """Return a training of a small network for continuous arrivals."""
    recipe = (
        f'workload.trace="{TRACE}"',
        f"workload.executors={EXECUTORS}",
        f"workload.load=[{LOAD}]",
        "workload.batch_jobs=[]",
        "episodes.settings=1",
        f"episodes.start_jobs={_EPISODE_JOBS}",
        f"episodes.end_jobs={_EPISODE_JOBS}",
        "episodes.backlog=6",
        "network.embedding=8",
        "network.hidden=[16, 8]",
        "network.head_hidden=[32, 16, 8]",
        "evolve.iterations=0",
        f"validation.sequences={bench.scale.validation}",
        "validation.jobs=60",
    )
    return read_config(None, (*recipe, *changes))


def imitated(bench: Bench, *changes: str) -> TrainConfig:
    """Return a training by imitation of the best heuristic, the first step of `decima train`."""
    iterations = bench.scale.imitate_iterations
    steps = (f"imitate.iterations={iterations}", _validated_thrice(iterations))
    return _config(bench, *steps, *changes)


def reinforced(bench: Bench, *changes: str) -> TrainConfig:
    """Return a policy gradient from random weights: the input-dependent baseline, no critic."""
    iterations = bench.scale.reinforce_iterations
    steps = (
        "imitate.iterations=0",
        f"reinforce.iterations={iterations}",
        "reinforce.sequences=2",
        "reinforce.learning_rate=3e-3",
        "reinforce.entropy_start=0.02",
        "credit.critic=false",
        "episodes.start_jobs=8",
        f"episodes.growth_iterations={max(1, iterations // 2)}",
        _validated_thrice(iterations),
    )
    return _config(bench, *steps, *changes)


def _validated_thrice(iterations: int) -> str:
    return f"validation.every={math.ceil(iterations / 3)}"


def evolved(bench: Bench, objective: str) -> TrainConfig:
    """Return an evolution of the shipped network on batches, for an objective."""
    iterations = bench.scale.evolve_iterations
    recipe = (
        f'initial_model="{DECIMA}"',
        f'workload.trace="{TRACE}"',
        f"workload.executors={EXECUTORS}",
        "workload.interarrival_s=[]",
        f"workload.batch_jobs=[{BATCH_JOBS}]",
        "imitate.iterations=0",
        f"evolve.iterations={iterations}",
        f"evolve.pairs={bench.scale.evolve_pairs}",
        "evolve.cost=0.01",
        _validated_thrice(iterations),
        f"validation.sequences={bench.scale.validation}",
    )
    return read_config(None, recipe, objective=objective)


def figure_13(bench: Bench) -> dict[str, Any]:
    """Every network at every objective, on batches."""
    models = {
        objective: bench.model(f"objective {objective}", evolved(bench, objective))
        for objective in OBJECTIVES
    }
    report = bench.compared(batch(), (FAIR, DECIMA, *models.values()))
    label = {model: f"for {objective}" for objective, model in models.items()}
    values: dict[str, dict[str, Any]] = {}
    here = {}
    for objective, model in models.items():
        of_run = objective_named(objective).of
        figures = {
            policy: np.array([of_run(run.metrics) for run in result.runs])
            for policy, result in report.policies.items()
        }
        others = [other for other in models.values() if other != model]
        best = min((*others, DECIMA), key=lambda other: float(figures[other].mean()))
        below = percent(figures[model], figures[best])
        here[f"{objective}: its network against the best other network"] = (
            f"{below} ({label.get(best, best)})"
        )
        values[objective] = {
            label.get(policy, policy): {
                "mean": float(of_policy.mean()),
                "percent": difference_percent(of_policy, figures[DECIMA]).to_json(),
            }
            for policy, of_policy in figures.items()
        }
    return {**about(report), "objectives": values, "here": here}


def draw_figure_13(measured: Measured) -> Figure:
    """Every network relative to the shipped one, a panel for each objective."""
    figure, axes_of = panels(len(measured["objectives"]))
    for axes, (objective, networks) in zip(axes_of, measured["objectives"].items(), strict=True):
        shown = {name: entry["percent"] for name, entry in networks.items() if name != DECIMA}
        colours = ["tab:blue" if name == f"for {objective}" else "silver" for name in shown]
        _bars(axes, shown, f"{objective} against {DECIMA}, %", colours)
    return figure


def _bars(axes: Axes, entries: Measured, label: str, colours: Sequence[str] | None = None) -> None:
    """Draw differences in percent with their intervals."""
    means, reach = [entry["mean"] for entry in entries.values()], errors(list(entries.values()))
    axes.barh(list(entries), means, xerr=reach, color=colours)
    axes.axvline(0.0, color="black", linewidth=0.8)
    axes.invert_yaxis()
    axes.tick_params(axis="y", labelsize=7)
    axes.set(xlabel=label)


def _trained(bench: Bench) -> dict[str, str]:
    """Return the models of figure 14."""
    return {
        name: bench.model(name, recipe(bench, *changes))
        for recipe, variants in ((imitated, _IMITATED), (reinforced, _REINFORCED))
        for name, changes in variants.items()
    }


def figure_14(bench: Bench) -> dict[str, Any]:
    """Average JCT of each ablation against tuned weighted fair, by load."""
    models = _trained(bench)
    by_load: dict[str, Any] = {}
    sizes: dict[str, Any] = {}
    for load in LOADS:
        report = bench.compared(stream(load), (TUNED, DECIMA, *models.values()), is_short=True)
        sizes = about(report)
        jct_s = avg_jct_s(report)
        by_load[str(load)] = {
            name: difference_percent(jct_s[model], jct_s[TUNED]).to_json()
            for name, model in (*models.items(), (DECIMA, DECIMA))
        }
    here = {
        name: ", ".join(f"{of_load[name]['mean']:+.1f} %" for of_load in by_load.values())
        for name in models
    }
    return {**sizes, "percent": by_load, "here": here}


def draw_figure_14(measured: Measured) -> Figure:
    """Difference to tuned weighted fair over load, a line for each network."""
    figure, (axes,) = panels(1)
    loads = [float(load) for load in measured["percent"]]
    for name in next(iter(measured["percent"].values())):
        entries = [of_load[name] for of_load in measured["percent"].values()]
        axes.errorbar(
            loads,
            [entry["mean"] for entry in entries],
            errors(entries),
            label="shipped network" if name == DECIMA else name,
            color="black" if name == DECIMA else None,
            linewidth=1.2,
            capsize=2,
        )
    axes.axhline(0.0, color="black", linewidth=0.8)
    axes.set_yscale("symlog", linthresh=20.0)
    axes.set(xlabel="load", ylabel="average JCT against tuned weighted fair, %")
    figure.legend(loc="outside right upper", fontsize=7, frameon=False)
    return figure


def figure_15a(bench: Bench) -> dict[str, Any]:
    """Held-out scores while the networks of figure 14 learn."""
    curves: dict[str, list[tuple[float, float]]] = {}
    for name in _trained(bench):
        rows = bench.record(name).metrics
        curves[name] = [
            (row["iteration"] + 1, row["validation/score"])
            for row in rows
            if "validation/score" in row
        ]
    here = {
        f"score of {name}": ", ".join(f"{score:+.1f} %" for _, score in curves[name][-3:])
        for name in ("full", "no limits", GRADIENT)
    }
    return {"curves": curves, "here": here}


def draw_figure_15a(measured: Measured) -> Figure:
    """Score over iterations, a line for each training on streams."""
    figure, (axes,) = panels(1)
    for name, curve in measured["curves"].items():
        if name != "trained on batches":  # its held-out sequences are batches
            axes.plot(*zip(*curve, strict=True), label=name, linewidth=1.2)
    axes.set_yscale("symlog", linthresh=20.0)
    axes.set(xlabel="iteration", ylabel="average JCT against strict fair, %")
    figure.legend(loc="outside right upper", fontsize=7, frameon=False)
    return figure


def table_2(bench: Bench) -> dict[str, Any]:
    """Average JCT at one load of networks that were trained at others."""
    elsewhere = round(_ELSEWHERE * LOAD, 2)
    models = {
        "trained at the test's load": bench.model("full", imitated(bench)),
        "trained at 0.6 of the test's load": bench.model(
            "another load", imitated(bench, f"workload.load=[{elsewhere}]")
        ),
        "trained at both loads": bench.model(
            "both loads", imitated(bench, f"workload.load=[{elsewhere}, {LOAD}]")
        ),
        "shipped network": DECIMA,
    }
    report = bench.compared(stream(), (TUNED, *models.values()), is_short=True)
    jct_s = avg_jct_s(report)
    return {
        **about(report),
        **_against(jct_s[TUNED], {name: jct_s[model] for name, model in models.items()}),
    }


def table_3(bench: Bench) -> dict[str, Any]:
    """Average JCT on few executors of networks that were trained for many, and for few."""
    many = bench.model("full", imitated(bench))
    few = bench.model("few executors", imitated(bench, f"workload.executors={_FEW}"))
    report = bench.compared(stream(executors=_FEW), (few, many), is_short=True)
    jct_s = avg_jct_s(report)
    name = "average JCT of the network for 50 executors against the one for 5"
    return {**about(report), **_against(jct_s[few], {name: jct_s[many]})}


def _against(reference: Any, jct_s: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "percent": {
            name: difference_percent(values, reference).to_json() for name, values in jct_s.items()
        },
        "here": {name: percent(values, reference) for name, values in jct_s.items()},
    }


def draw_table(measured: Measured) -> Figure:
    """Differences in percent with their intervals."""
    figure, (axes,) = panels(1)
    _bars(axes, measured["percent"], "difference in average JCT, %")
    return figure
