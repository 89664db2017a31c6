"""Measured interference, from the file in the package, and the interpolation between measurements.

DeepShare measured each model as jobs of 2, 4 and 8 GPUs at 1, 2 and 4 GPUs a server. A job is
placed on that grid by its number of workers and by its tasks per server; between the points the
logarithm of its speed is linear in both logarithms, beyond the last size it goes on as between the
last two. Four points are not measured and are filled in (`_filled`).

Letters: L models, G sizes, D densities, C configurations.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from decima.rl.errors import StudyError
from harmony.config import Config
from harmony.own_table import OwnTable, read_own_table
from harmony.tables import PS, Float64, Int32, Types
from traces.files.reading import read_json

SIZES = (1, 2, 4, 8)
"""G, GPUs; single ones were not measured"""
DENSITIES = (1, 2, 4)
"""D, GPUs a server"""
EPOCHS_IN_AN_HOUR = 12.0
"""of a job of 2 GPUs alone: an epoch is what it trains in 5 minutes"""
_S_PER_MIN = 60.0
_SCHEMA = 1


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

    Raises:
        StudyError: the file cannot be read, or holds something else.
    """
    return _from_own(read_own_table(Path(table))) if table else _published()


def _from_own(table: OwnTable) -> Measured:
    """Put one's own models on the grid; each has one configuration."""
    count, numbers = len(table.names), table.numbers
    shape = np.ones((count, 3), np.int32)
    shape[:, 0] = np.arange(count)
    size = numbers["epochs_per_min"][:, None] * np.array(SIZES) ** numbers["scaling"][:, None]
    apart = 1.0 - np.log2(DENSITIES) / np.log2(DENSITIES[-1])
    alone = size[:, :, None] * (numbers["spread"][:, None] ** apart)[:, None]
    alone[:, 0] = size[:, :1]
    return Measured(
        table.names,
        shape,
        alone,
        table.ratio,
        table.demand,
        numbers["cores"],
        numbers["gbps"],
        numbers["largest_tensor"],
    )


def _published() -> Measured:
    """Load the measurements of the package."""
    path = Path(str(files("harmony") / "data" / "interference.json"))
    content = read_json(path, StudyError)
    if content.get("schema") != _SCHEMA:
        raise StudyError(f"{path}: schema {content.get('schema')}, this reader knows {_SCHEMA}")
    found = content["deepshare"]
    models = tuple(found["models"])
    shape = np.array(found["configurations"], np.int32)
    configuration = np.stack([shape[:, 0], shape[:, 1], shape[:, 1] // shape[:, 2]], axis=1)
    hour = np.array(found["samples_in_all"]["2"])
    assumed = [content["assumed"][name] for name in models]
    per_min = _S_PER_MIN * np.array(found["samples_per_s"])
    epochs = per_min / (hour / EPOCHS_IN_AN_HOUR)[configuration[:, 0]]
    gains = [_gain_of_one_server(content["gavel"], row["like"]) for row in assumed]
    return Measured(
        models,
        configuration,
        _filled(configuration, epochs, gains),
        np.array(found["ratio"]),
        np.array([[row["worker"], row["ps"]] for row in assumed], np.int32),
        np.array([row["cpu"] for row in assumed]),
        np.array([row["traffic"] for row in assumed]),
        np.array([row["skew"] for row in assumed]),
    )


def _gain_of_one_server(gavel: Any, like: str | None) -> float | None:
    """Return the speed of 2 GPUs in one server over that of two, by Gavel; None without data."""
    if like is None:
        return None
    together, apart = gavel["steps_per_s_of_2_gpus"][like]
    return float(together / apart)


def _filled(configuration: Int32, epochs: Float64, gains: list[float | None]) -> Float64:
    """(L, G, D) measured speeds, and those of four points that were not measured.

    2 GPUs of one server: as much faster than of two as Gavel measured of a model that is alike, and
    without one as 4 GPUs on 2 servers than on 4. 2 or 4 GPUs at 4 a server: as much faster as 8
    were. One GPU: half the speed of two of one server.
    """
    alone = np.full((len(gains), len(SIZES), len(DENSITIES)), np.nan)
    for (model, gpus, density), speed in zip(configuration, epochs, strict=True):
        alone[model, SIZES.index(gpus), DENSITIES.index(density)] = speed
    own = alone[:, 2, 1] / alone[:, 2, 0]
    gain = np.array([one if one is not None else own[i] for i, one in enumerate(gains)])
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
    found = types(most, most, config.most_servers, config.table_file)
    return found._replace(gpu_speed=np.array([one.speed for one in config.gpu_table]))


def types(workers: int, ps: int, servers: int, table: str = "") -> Types:
    """Build the lookup tables of kernels, up to so many workers, parameter servers and servers."""
    found = measured(table)
    shape = (len(found.models), workers + 1, ps + 1, servers + 1)
    alone, measured_as = np.zeros(shape), np.zeros(shape, np.int32)
    for model, w, p, n in np.ndindex(shape):
        if w > 0 and 0 < n <= w + p:
            alone[model, w, p, n] = _between(found.alone[model], w, (w + p) / n)
            measured_as[model, w, p, n] = _nearest(found.configuration, model, w, (w + p) / n)
    busy = np.stack([found.cpu_use, found.demand[:, PS, 1].astype(float)], axis=1)
    # A parameter server sends what its workers do: about as much as one of them.
    traffic = np.stack([found.traffic_gbps, found.traffic_gbps], axis=1)
    send_share = found.traffic_gbps / 100.0
    return Types(
        np.ascontiguousarray(found.demand),
        alone,
        measured_as,
        found.ratio,
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
    own = np.nonzero(configuration[:, 0] == model)[0]
    size = np.abs(np.log(configuration[own, 1] / gpus))
    ratio = np.abs(np.log(configuration[own, 2] / density))
    return int(own[np.lexsort((ratio, size))[0]])
