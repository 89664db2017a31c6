"""The section that compares training runs: curves on one axis, and settings that differ."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from decima.report.section import Lines, Section, series
from decima.report.training import DRAWN, SCORE, best_validation, objective_of
from decima.rl.progress import duration_text
from decima.rl.run_folder import RunRecord, read_run
from traces.numbers import Float64

_SECONDS_A_MINUTE = 60.0


class RunRow(NamedTuple):
    """One run in the table."""

    name: str
    iterations: int
    duration: str
    best: float | None
    """percent against strict fair on its held-out sequences; None before the first validation"""
    best_iteration: int | None
    """from 1"""
    drawn: float | None
    """drawn plans at the same iteration"""


def runs_section(paths: Sequence[Path]) -> Section:
    """Section that compares the runs in several folders; RunError if one cannot be read."""
    runs = dict(zip(_names(paths), map(read_run, paths), strict=True))
    return Section(
        anchor="runs",
        heading="Training runs compared",
        template="runs.html",
        content={
            "rows": [_row(name, run) for name, run in runs.items()],
            "names": list(runs),
            "settings": different_settings({name: run.config for name, run in runs.items()}),
        },
        charts=_charts(runs),
    )


def _names(paths: Sequence[Path]) -> list[str]:
    """Folder names, or whole paths where two folders have the same name."""
    short = [path.resolve().name for path in paths]
    return short if len(set(short)) == len(short) else [str(path) for path in paths]


def _row(name: str, run: RunRecord) -> RunRow:
    best = best_validation(run)
    last_s = run.metrics[-1].get("elapsed_s", 0.0) if run.metrics else 0.0
    return RunRow(
        name,
        len(run.metrics),
        duration_text(last_s),
        None if best is None else best[SCORE],
        None if best is None else int(best["iteration"]) + 1,
        None if best is None else best.get(DRAWN),
    )


def different_settings(configs: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, list[str]]]:
    """Dotted key of each setting in which the runs differ, with its value in each run."""
    flat = {name: dict(_flattened("", config)) for name, config in configs.items()}
    keys = sorted({key for one in flat.values() for key in one})
    rows = [(key, [one.get(key, "") for one in flat.values()]) for key in keys]
    return [(key, values) for key, values in rows if len(set(values)) > 1]


def _flattened(prefix: str, value: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Dotted key and JSON text of every leaf; a list is a leaf, named by its length if long."""
    found = []
    for key, one in value.items():
        if isinstance(one, Mapping):
            found += _flattened(f"{prefix}{key}.", one)
        else:
            text = json.dumps(one)
            long = isinstance(one, list) and len(text) > 60
            found.append((f"{prefix}{key}", f"{len(one)} entries" if long else text))
    return found


def _charts(runs: Mapping[str, RunRecord]) -> list[Lines]:
    rows = {name: [row for row in run.metrics if SCORE in row] for name, run in runs.items()}
    scores = {name: np.array([row[SCORE] for row in own]) for name, own in rows.items()}
    objectives = {objective_of(run) for run in runs.values()}
    name = objectives.pop() if len(objectives) == 1 else "objective"
    title = f"{name[0].upper()}{name[1:]} against strict_fair on held-out sequences"
    places: dict[str, Callable[[dict[str, float]], float]] = {
        "iteration": lambda row: row["iteration"] + 1,
        "minutes of training": lambda row: row.get("elapsed_s", np.nan) / _SECONDS_A_MINUTE,
    }
    found = []
    for axis, place in places.items():
        at = {name: np.array([place(row) for row in own]) for name, own in rows.items()}
        x = np.unique(np.concatenate(list(at.values())))
        if not len(x) or np.isnan(x).any():
            continue
        lines = {name: _between(x, at[name], scores[name]) for name in runs if len(at[name])}
        found.append(Lines(f"{title}, by {axis}", series(x, lines), axis, "%"))
    return found


def _between(x: Float64, own_x: Float64, y: Float64) -> Float64:
    """A run's curve at the common `x`: straight between its own points, NaN beyond them."""
    found: Float64 = np.interp(x, own_x, y, left=np.nan, right=np.nan)
    return found
