"""Sections of training runs: the curves of one beside the references, and several compared."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from decima.errors import ConfigError
from decima.objectives import AVG_JCT, objective_title
from decima.report.section import Lines, Section, series
from decima.rl.errors import RunError
from decima.rl.progress import duration_text
from decima.rl.run_folder import RunRecord, read_run
from traces.numbers import Float64

if TYPE_CHECKING:
    from decima.training.config import TrainConfig

_VALIDATION = "validation/"
SCORE = "validation/score"
DRAWN = "validation/drawn"
_ABOVE = "validation/above_"
_SETTING = "_percent"
_NAMED = {
    "reward_rate": (
        "Average reward",
        "minus the cost of a second (avg_jct: jobs in the system)",
    ),
    "entropy": ("Entropy", "share of the greatest possible"),
    "divergence": ("How far an iteration moves the policy", "KL divergence"),
    "gradient_norm": ("Gradient norm", ""),
    "learning_rate": ("Learning rate", ""),
    "plans": ("Plans learned from", "an iteration"),
}
"""metrics with a chart of their own: title, axis"""
_SMOOTHED_FROM = 20  # iterations from which on a noisy curve has its moving mean beside it
_WINDOWS = 10  # a moving mean is over this part of the iterations


def training_section(path: Path, number: int = 0) -> Section:
    """The section of the run in a folder, which may be under way; RunError if it is none."""
    run = read_run(path)
    for row in run.metrics:
        for name, value in row.items():
            # A model that is 100 % or more below another policy takes no time.
            if name.startswith(_ABOVE) and not value > -100.0:
                raise RunError(f"{path}: {name[:60]!r} is {value:g} %: it must be above -100 %")
    best, config = best_validation(run), _config_of(run)
    return Section(
        anchor=f"training-{number}",
        heading=training_title(path),
        template="training.html",
        content={
            "iterations": len(run.metrics),
            "planned": None if config is None else config.iterations,
            "duration": _duration(run),
            "objective": objective_of(run),
            "best": best,
            "best_after": None if best is None else int(best["iteration"]) + 1,
            "references": [] if best is None else sorted(references(best).items()),
            "settings": [] if best is None else sorted(_settings(best).items()),
        },
        charts=_charts(run, config),
    )


def _duration(run: RunRecord) -> str:
    return duration_text(run.metrics[-1].get("elapsed_s", 0.0) if run.metrics else 0)


def training_title(path: Path) -> str:
    return f"Training run \u201c{path.resolve().name}\u201d"


def references(row: dict[str, float]) -> dict[str, float]:
    """Scores of other policies on the validation sequences, percent of the first reference.

    A row has the model's distance from strict fair (`score`) and from the others (`above_NAME`).
    """
    share = 1 + row[SCORE] / 100
    return {
        name.removeprefix(_ABOVE): 100 * (share / (1 + value / 100) - 1)
        for name, value in row.items()
        if name.startswith(_ABOVE)
    }


def _settings(row: dict[str, float]) -> dict[str, float]:
    return {
        name.removeprefix(_VALIDATION).removesuffix(_SETTING): value
        for name, value in row.items()
        if name.startswith(_VALIDATION) and name.endswith(_SETTING)
    }


def objective_of(run: RunRecord) -> str:
    name = str(run.config.get("objective", AVG_JCT))
    try:
        return objective_title(name)
    except ConfigError:  # of another agent, or of another release
        return name


def best_validation(run: RunRecord) -> dict[str, float] | None:
    """Metrics of the iteration with the lowest validation score; None before the first."""
    rows = [row for row in run.metrics if SCORE in row]
    return min(rows, key=lambda row: row[SCORE], default=None)


def _charts(run: RunRecord, config: TrainConfig | None) -> list[Lines]:
    rows = run.metrics
    if not rows:
        return []
    steps = _steps(config, rows)
    title = objective_of(run)
    title = title[0].upper() + title[1:]
    charts = []
    validated = [row for row in rows if SCORE in row]
    if validated:
        charts.append(_lines(f"{title} against strict_fair on held-out sequences", "%",
                            validated, _score_lines(validated)))  # fmt: skip
        by_setting: dict[str, Float64] = {
            name: np.array([_settings(row).get(name, np.nan) for row in validated])
            for name in _settings(validated[-1])
        }
        charts.append(_lines("The same in each setting", "%", validated, by_setting))
    metrics = {name for row in rows for name in row}  # a step may lack the metrics of another
    if "rollouts_percent" in metrics:
        charts.append(_column(steps, "rollouts_percent",
                             f"{title} of the rollouts, which explore, against strict_fair",
                             "%"))  # fmt: skip
    charts += [
        _column({name: step_rows}, "loss", f"Loss, {name}")  # each step has a loss of its own
        for name, step_rows in steps.items()
        if "loss" in step_rows[-1]
    ]
    charts += [_column(steps, name, *words) for name, words in _NAMED.items() if name in metrics]
    if {"elapsed_s", "plans"} <= metrics:
        elapsed_s = np.diff(np.array([row.get("elapsed_s", np.nan) for row in rows]), prepend=0.0)
        plans = np.array([row.get("plans", np.nan) for row in rows])
        with np.errstate(divide="ignore", invalid="ignore"):
            rates = np.where(elapsed_s > 0, plans / elapsed_s, np.nan)
        charts.append(_lines("Throughput", "plans a second", rows, {"": rates}))
    if config is not None:
        # Loads torch.
        from decima.training.episodes import mean_jobs

        means = np.array([mean_jobs(config, int(row["iteration"])) for row in rows])
        charts.append(_lines("Length of an episode", "mean arrivals", rows, {"": means}))
    begins = [
        (step_rows[0]["iteration"] + 0.5, f"{name} begins") for name, step_rows in steps.items()
    ][1:]
    return [
        chart._replace(
            marks=[mark for mark in begins if chart.series.x[0] < mark[0] < chart.series.x[-1]]
        )
        for chart in charts
    ]


def _steps(
    config: TrainConfig | None, rows: list[dict[str, float]]
) -> dict[str, list[dict[str, float]]]:
    """The rows of each step of the training, by its name in the settings."""
    if config is None:
        return {"training": rows}
    names = {id(getattr(config, field.name)): field.name for field in dataclasses.fields(config)}
    rows_of: dict[str, list[dict[str, float]]] = {}
    for row in rows:
        step, _ = config.step_at(int(row["iteration"]))
        rows_of.setdefault(names[id(step)], []).append(row)
    return rows_of


def _lines(
    title: str, axis: str, rows: list[dict[str, float]], values: dict[str, Float64]
) -> Lines:
    """A chart over iterations, from 1; the only line of one may go without a name."""
    x = np.array([row["iteration"] + 1 for row in rows], float)
    named = {name or title: column for name, column in values.items()}
    return Lines(title, series(x, named), "iteration", axis)


def _column(
    steps: dict[str, list[dict[str, float]]], name: str, title: str, axis: str = ""
) -> Lines:
    """A metric, beside its moving mean within each step."""
    rows = [row for step_rows in steps.values() for row in step_rows]
    values = [
        np.array([row.get(name, np.nan) for row in step_rows]) for step_rows in steps.values()
    ]
    lines = {"": np.concatenate(values)}
    if len(rows) >= _SMOOTHED_FROM:
        width = 1 + 2 * (len(rows) // (2 * _WINDOWS))  # odd: as many before as after
        means = [moving_mean(step_rows, width) for step_rows in values]
        lines["moving mean"] = np.concatenate(means)
    return _lines(title, axis, rows, lines)


def moving_mean(values: Float64, width: int) -> Float64:
    """Mean of the `width` values around each one, fewer at the ends; NaN values do not count."""
    number = np.arange(len(values))
    first = np.maximum(number - width // 2, 0)
    past = np.minimum(number + (width + 1) // 2, len(values))
    is_known = ~np.isnan(values)
    total = np.concatenate([[0.0], np.cumsum(np.where(is_known, values, 0.0))])
    count = np.concatenate([[0], np.cumsum(is_known)])
    with np.errstate(invalid="ignore"):
        means: Float64 = (total[past] - total[first]) / (count[past] - count[first])
    return means


def _score_lines(rows: list[dict[str, float]]) -> dict[str, Float64]:
    """The model, and where the references are on the same sequences."""
    lines = {"model": np.array([row[SCORE] for row in rows])}
    if DRAWN in rows[-1]:
        lines["model, drawn plans"] = np.array([row.get(DRAWN, np.nan) for row in rows])
    for name in references(rows[-1]):
        lines[name] = np.array([references(row).get(name, np.nan) for row in rows])
    return lines


def _config_of(run: RunRecord) -> TrainConfig | None:
    """The settings of a run; None if they are of another agent, or of another release."""
    # Loads torch.
    from decima.training.config import config_from

    try:
        return config_from(run.config)
    except ValueError:
        return None


def runs_section(paths: Sequence[Path]) -> Section:
    """Section that compares the runs in several folders; RunError if one cannot be read."""
    names = [path.resolve().name for path in paths]
    if len(set(names)) < len(names):
        names = [str(path) for path in paths]
    runs = dict(zip(names, map(read_run, paths), strict=True))
    return Section(
        anchor="runs",
        heading="Training runs compared",
        template="runs.html",
        content={
            "rows": [
                {
                    "name": name,
                    "iterations": len(run.metrics),
                    "duration": _duration(run),
                    "best": None if best is None else best[SCORE],
                    "best_iteration": None if best is None else int(best["iteration"]) + 1,
                    "drawn": None if best is None else best.get(DRAWN),
                }
                for name, run in runs.items()
                for best in (best_validation(run),)
            ],
            "names": list(runs),
            "settings": different_settings({name: run.config for name, run in runs.items()}),
        },
        charts=_score_charts(runs),
    )


def different_settings(configs: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, list[str]]]:
    """Dotted key of each setting in which the runs differ, with its value in each run."""
    flat = {name: dict(_flattened("", config)) for name, config in configs.items()}
    keys = sorted({key for leaves in flat.values() for key in leaves})
    rows = [(key, [leaves.get(key, "") for leaves in flat.values()]) for key in keys]
    return [(key, values) for key, values in rows if len(set(values)) > 1]


def _flattened(prefix: str, value: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Dotted key and JSON text of every leaf; a list is a leaf, named by its length if long."""
    leaves = []
    for key, entry in value.items():
        if isinstance(entry, Mapping):
            leaves += _flattened(f"{prefix}{key}.", entry)
        else:
            text = json.dumps(entry)
            long = isinstance(entry, list) and len(text) > 60
            leaves.append((f"{prefix}{key}", f"{len(entry)} entries" if long else text))
    return leaves


def _score_charts(runs: Mapping[str, RunRecord]) -> list[Lines]:
    rows = {name: [row for row in run.metrics if SCORE in row] for name, run in runs.items()}
    scores = {name: np.array([row[SCORE] for row in validated]) for name, validated in rows.items()}
    objectives = {objective_of(run) for run in runs.values()}
    name = objectives.pop() if len(objectives) == 1 else "objective"
    title = f"{name[0].upper()}{name[1:]} against strict_fair on held-out sequences"
    places: dict[str, Callable[[dict[str, float]], float]] = {
        "iteration": lambda row: row["iteration"] + 1,
        "minutes of training": lambda row: row.get("elapsed_s", np.nan) / 60,
    }
    charts = []
    for axis, place in places.items():
        at = {name: np.array([place(row) for row in validated]) for name, validated in rows.items()}
        x = np.unique(np.concatenate(list(at.values())))
        if not len(x) or np.isnan(x).any():
            continue
        # Straight between a run's own points, NaN beyond them.
        lines = {
            name: np.interp(x, at[name], scores[name], left=np.nan, right=np.nan)
            for name in runs
            if len(at[name])
        }
        charts.append(Lines(f"{title}, by {axis}", series(x, lines), axis, "%"))
    return charts
