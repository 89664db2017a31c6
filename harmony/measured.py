"""Measured interference, of the package or of one's own models, and its interpolation.

DeepShare measured each model as jobs of 2, 4 and 8 GPUs at 1, 2 and 4 GPUs a server. A job is
placed on that grid by its number of workers and by its tasks per server; between the points the
logarithm of its speed is linear in both logarithms, beyond the last size it goes on as between the
last two. Four points are not measured and are filled in (`_filled`).

A file of one's own models is JSON: `models`, a list of objects, and `ratio`, a square table: what
share of its speed alone the job of the row keeps beside the one of the column. A model has the
fields of `OwnModel`.

Letters: L models, G sizes, D densities, C configurations.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np

from decima.rl.errors import StudyError
from decima.rl.study.settings import Range, Settings
from harmony.config import Config
from harmony.tables import PS, Float64, Int32, Types
from traces.files.names import is_clean
from traces.files.numbers import is_number
from traces.files.reading import read_json
from traces.files.settings import build

SIZES = (1, 2, 4, 8)
"""G, GPUs; single ones were not measured"""
DENSITIES = (1, 2, 4)
"""D, GPUs a server"""
EPOCHS_IN_AN_HOUR = 12.0
"""of a job of 2 GPUs alone: an epoch is what it trains in 5 minutes"""
_S_PER_MIN = 60.0
_SCHEMA = 1
MOST_MODELS = 64
_MOST_BYTES = 2**20
_MOST_UNITS = 1_000_000
_MAX_NAME = 100


Task = tuple[int, int, int, int]
"""GPUs, cores, GB and Gbit/s of a task"""


@dataclass(frozen=True)
class OwnModel(Settings):
    """A model of a file of one's own."""

    name: str = ""
    epochs_per_min: Annotated[float, Range(1e-6, 1e6)] = 0.0
    """of one worker alone; it must be given"""
    scaling: Annotated[float, Range(0.0, 2.0)] = 1.0
    """with twice the workers it is 2 to this power times as fast"""
    spread: Annotated[float, Range(0.01, 100.0)] = 1.0
    """share of its speed with one task on each server, over four on each"""
    worker: Task = (1, 2, 8, 5)
    ps: Task = (0, 1, 4, 5)
    cores: Annotated[float, Range(0.0, 1e6)] = 2.0
    """that a worker keeps busy, for `speed = "analytic"`"""
    gbps: Annotated[float, Range(0.0, 99.0)] = 5.0
    """that a worker sends, likewise"""
    largest_tensor: Annotated[float, Range(0.0, 1.0)] = 0.0
    """its share of the model; from 0.5 Tiresias puts workers together"""

    def check(self) -> None:
        """Refuse a name that cannot be shown, and tasks with impossible units."""
        is_name = bool(self.name) and is_clean(self.name, _MAX_NAME)
        rule = f"1 to {_MAX_NAME} printable characters"
        self.require(is_name, f"name is {self.name!r:.40}: {rule}")
        for units in (*self.worker, *self.ps):
            self.require(0 <= units <= _MOST_UNITS, f"a task has {units} units: 0 to {_MOST_UNITS}")
        gpus = self.worker[0]
        self.require(gpus >= 1, f"a worker has {gpus} GPUs: at least 1 is needed")


class Measured(NamedTuple):
    """The file's content as arrays."""

    models: tuple[str, ...]
    configuration: Int32
    """(C, 3) model, GPUs, GPUs a server"""
    alone: Float64
    """(L, G, D) epochs a minute; NaN where that many GPUs do not fill a server"""
    ratio: Float64
    """(C, C) speed of the row's job beside the column's, over its speed alone"""
    demand: Int32
    """(L, 2, K) of a worker and of a parameter server; assumed"""
    cpu_use: Float64
    """(L,) cores a worker keeps busy; assumed"""
    traffic_gbps: Float64
    """(L,) of a worker; assumed"""
    skew: Float64
    """(L,) share of the largest tensor; assumed"""


@cache
def measured(table: str = "") -> Measured:
    """Load measurements: those of the package, or of a file of one's own.

    Raises StudyError if the file cannot be read, or holds something else.
    """
    return _read_own(Path(table)) if table else _published()


def _read_own(path: Path) -> Measured:
    """Read one's own models and put them on the grid; each has one configuration."""
    content = read_json(path, StudyError, _MOST_BYTES)
    models = content.get("models") if isinstance(content, dict) else None
    if not isinstance(models, list) or not 1 <= len(models) <= MOST_MODELS:
        raise StudyError(f"{path}: a list `models` of 1 to {MOST_MODELS} is needed")
    if unknown := set(content) - {"models", "ratio"}:
        raise StudyError(f"{path}: unknown key {min(unknown)!r:.40}; there are models, ratio")
    count = len(models)
    checked = []
    for number, model in enumerate(models):
        try:
            checked.append(build(OwnModel, model, StudyError))
        except StudyError as fault:
            raise StudyError(f"{path}: model {number}: {str(fault).strip()}") from fault
    names = tuple(model.name for model in checked)
    if len(set(names)) < count:
        raise StudyError(f"{path}: two models have one name")
    demand = np.array([[model.worker, model.ps] for model in checked], np.int32)
    ratio = _ratio(path, content.get("ratio"), count)

    configuration = np.ones((count, 3), np.int32)
    configuration[:, 0] = np.arange(count)
    scaling, spread = (
        np.array([[getattr(model, name)] for model in checked]) for name in ("scaling", "spread")
    )
    size = np.array([[model.epochs_per_min] for model in checked]) * np.array(SIZES) ** scaling
    apart = 1.0 - np.log2(DENSITIES) / np.log2(DENSITIES[-1])
    alone = size[:, :, None] * (spread**apart)[:, None]
    alone[:, 0] = size[:, :1]
    return Measured(
        names,
        configuration,
        alone,
        ratio,
        demand,
        np.array([model.cores for model in checked]),
        np.array([model.gbps for model in checked]),
        np.array([model.largest_tensor for model in checked]),
    )


def _ratio(path: Path, rows: Any, count: int) -> Float64:
    square = isinstance(rows, list) and all(isinstance(row, list) for row in rows)
    if not square or [len(row) for row in rows] != [count] * count:
        raise StudyError(f"{path}: ratio must be {count} rows of {count} numbers, as models are")
    for i, row in enumerate(rows):
        for j, value in enumerate(row):
            if not (is_number(value) and 0.0 < value <= 10.0):
                raise StudyError(
                    f"{path}: ratio of row {i}, column {j} is {value!r:.40}: above 0, at most 10"
                )
    return np.array(rows, float)


def _published() -> Measured:
    """Load the measurements of the package."""
    path = Path(str(files("harmony") / "data" / "interference.json"))
    content = read_json(path, StudyError)
    if content.get("schema") != _SCHEMA:
        raise StudyError(f"{path}: schema {content.get('schema')}, this reader knows {_SCHEMA}")
    deepshare = content["deepshare"]
    models = tuple(deepshare["models"])
    shape = np.array(deepshare["configurations"], np.int32)
    configuration = np.stack([shape[:, 0], shape[:, 1], shape[:, 1] // shape[:, 2]], axis=1)
    hour = np.array(deepshare["samples_in_all"]["2"])
    assumed = [content["assumed"][name] for name in models]
    per_min = _S_PER_MIN * np.array(deepshare["samples_per_s"])
    epochs = per_min / (hour / EPOCHS_IN_AN_HOUR)[configuration[:, 0]]
    # The speed of 2 GPUs in one server over that of two, by Gavel; None without data.
    pairs = content["gavel"]["steps_per_s_of_2_gpus"]
    gains = [
        None if row["like"] is None else float(pairs[row["like"]][0] / pairs[row["like"]][1])
        for row in assumed
    ]
    return Measured(
        models,
        configuration,
        _filled(configuration, epochs, gains),
        np.array(deepshare["ratio"]),
        np.array([[row["worker"], row["ps"]] for row in assumed], np.int32),
        np.array([row["cpu"] for row in assumed]),
        np.array([row["traffic"] for row in assumed]),
        np.array([row["skew"] for row in assumed]),
    )


def _filled(configuration: Int32, epochs: Float64, gains: list[float | None]) -> Float64:
    """(L, G, D) measured speeds, and those of four points that were not measured.

    2 GPUs of one server: as much faster than of two as Gavel measured of a model that is alike, and
    without one as 4 GPUs on 2 servers than on 4. 2 or 4 GPUs at 4 a server: as much faster as 8
    were. One GPU: half the speed of two of one server.
    """
    alone = np.full((len(gains), len(SIZES), len(DENSITIES)), np.nan)
    for (model, gpus, density), speed in zip(configuration, epochs, strict=True):
        alone[model, SIZES.index(gpus), DENSITIES.index(density)] = speed
    of_four = alone[:, 2, 1] / alone[:, 2, 0]
    gain = np.array([of_four[i] if gain is None else gain for i, gain in enumerate(gains)])
    alone[:, 1, 1] = alone[:, 1, 0] * gain
    denser = alone[:, 3, 2] / alone[:, 3, 1]
    alone[:, 1, 2] = alone[:, 1, 1] * denser
    alone[:, 2, 2] = alone[:, 2, 1] * denser
    alone[:, 0] = alone[:, 1, 1][:, None] / 2.0
    return alone


@cache
def types_of(config: Config) -> Types:
    """Return the properties of the types of jobs in such a cluster."""
    most = config.max_workers
    table = types(most, most, config.most_servers, config.table_file)
    return table._replace(gpu_speed=np.array([gpu.speed for gpu in config.gpu_table]))


def types(workers: int, ps: int, servers: int, table: str = "") -> Types:
    """Build the lookup tables of kernels, up to so many workers, parameter servers and servers."""
    speeds = measured(table)
    shape = (len(speeds.models), workers + 1, ps + 1, servers + 1)
    alone, measured_as = np.zeros(shape), np.zeros(shape, np.int32)
    for model, w, p, n in np.ndindex(shape):
        if w > 0 and 0 < n <= w + p:
            alone[model, w, p, n] = _between(speeds.alone[model], w, (w + p) / n)
            measured_as[model, w, p, n] = _nearest(speeds.configuration, model, w, (w + p) / n)
    busy = np.stack([speeds.cpu_use, speeds.demand[:, PS, 1].astype(float)], axis=1)
    # A parameter server sends what its workers do: about as much as one of them.
    traffic = np.stack([speeds.traffic_gbps, speeds.traffic_gbps], axis=1)
    send_share = speeds.traffic_gbps / 100.0
    return Types(
        np.ascontiguousarray(speeds.demand),
        alone,
        measured_as,
        speeds.ratio,
        busy,
        traffic,
        send_share,
        np.ones(1),
    )


def _between(alone: Float64, gpus: int, density: float) -> float:
    """Interpolate (G, D) speeds to any size and density, linear in logarithms."""
    size, ratio = np.log2(gpus), np.log2(np.clip(density, DENSITIES[0], DENSITIES[-1]))
    by_size = []
    for column in np.log(alone).T:
        last = column[-1] + (column[-1] - column[-2]) * (size - np.log2(SIZES[-1]))
        inside = np.interp(size, np.log2(SIZES), column)
        by_size.append(last if size > np.log2(SIZES[-1]) else inside)
    return float(np.exp(np.interp(ratio, np.log2(DENSITIES), by_size)))


def _nearest(configuration: Int32, model: int, gpus: int, density: float) -> int:
    """The measured configuration of a model with the nearest size, then the nearest density."""
    rows = np.nonzero(configuration[:, 0] == model)[0]
    size = np.abs(np.log(configuration[rows, 1] / gpus))
    ratio = np.abs(np.log(configuration[rows, 2] / density))
    return int(rows[np.lexsort((ratio, size))[0]])
