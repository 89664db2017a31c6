"""Files of settings: several traces, clusters and loads to compare or to fit together.

A file of settings is TOML. Keys at the top hold for every setting, those below ``[[setting]]`` for
one; names and units are those of `EvaluationConfig`. Instead of `interarrival_s` a setting may give
`load`, the work that arrives as a share of the executors' time:

    trace = "tpch"
    jobs = 100
    [[setting]]
    executors = 50
    load = 1.1
    [[setting]]
    executors = 16
    protocol = "session"
    arrivals = "batch"
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from decima.errors import ConfigError
from decima.evaluation.config import EvaluationConfig
from traces import Trace, load_trace
from traces.files.reading import read_toml
from traces.files.settings import build
from traces.numbers import MS_PER_S

_NOT_HERE = ("policies", "parameters", "sequences", "seed", "objective")
"""settings that belong to the command, not to the file"""


def read_settings(path: Path) -> tuple[EvaluationConfig, ...]:
    """The settings of a file, in its order; a ConfigError names the file and the setting."""
    content = read_toml(path, ConfigError)
    rows = content.pop("setting", None)
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
        raise ConfigError(f"{path}: there is no [[setting]]")
    settings = []
    for number, row in enumerate(rows, start=1):
        try:
            settings.append(setting_of({**content, **row}))
        except ValueError as error:
            raise ConfigError(f"{path}: setting {number}: {error}") from error
    return tuple(settings)


def setting_of(values: Mapping[str, Any]) -> EvaluationConfig:
    """One setting; ConfigError for an unknown key or a value that a setting refuses."""
    rest = dict(values)
    load = rest.pop("load", None)
    for key in _NOT_HERE:
        if key in rest:
            raise ConfigError(f"{key} belongs to the command, not to a setting")
    config = build(EvaluationConfig, rest, ConfigError)
    if load is None:
        return config
    if "interarrival_s" in rest:
        raise ConfigError("load and interarrival_s exclude each other: give one")
    return replace(config, interarrival_s=gap_at(config.trace, config.executors, load))


def gap_at(trace: str, executors: int, load: float) -> float:
    """Return the mean seconds between arrivals at which the work is `load` of the executors' time.

    Work is tasks x mean duration. Moving and first tasks come on top: at a load of 1 a queue grows.
    """
    if isinstance(load, bool) or not isinstance(load, int | float) or not 0 < load < math.inf:
        raise ConfigError(f"load must be a positive number, got {load!r}")
    return _mean_work_s(trace) / (executors * load)


def mean_work_s(trace: Trace) -> float:
    """Mean work of a job: tasks x mean duration, in executor-seconds."""
    columns = trace.columns
    # One after the other, as gaps between arrivals must not change in the last bit.
    total_ms = float(np.cumsum(columns.num_tasks * columns.mean_ms() * columns.slots)[-1])
    return total_ms / (MS_PER_S * columns.num_jobs)


@lru_cache
def _mean_work_s(trace: str) -> float:
    return mean_work_s(load_trace(trace))
