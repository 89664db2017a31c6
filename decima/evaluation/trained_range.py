"""Properties of a workload, and the range of each that the shipped network was trained on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from decima.evaluation.config import EvaluationConfig
from decima.evaluation.settings_file import mean_work_s
from spark_sim import Protocol
from traces import Trace
from traces.arrivals import ARRIVALS


class Range(NamedTuple):
    """What the middle 96 % of the settings of the training had."""

    low: float
    high: float


TRAINED: Mapping[str, Range] = {
    "executors": Range(9.0, 275.0),
    "load": Range(0.4, 1.1),
    "tasks of a job": Range(13.5, 3370.0),
    "seconds of a task": Range(0.0857, 1060.0),
    "tasks as long as a move": Range(0.0, 22.1),
}
"""over the settings in the model's card"""


def properties(config: EvaluationConfig, trace: Trace) -> dict[str, float]:
    """The properties of a workload; jobs that come at once have no load, sessions no moves."""
    columns = trace.columns
    tasks = int(columns.num_tasks.sum())
    work_s = mean_work_s(trace)
    task_s = work_s * columns.num_jobs / tasks
    values = {
        "executors": float(config.executors),
        "tasks of a job": tasks / columns.num_jobs,
        "seconds of a task": task_s,
    }
    if config.arrivals in ARRIVALS and config.arrivals != "batch":
        values["load"] = work_s / (config.executors * config.interarrival_s)
    if Protocol.parse(config.protocol) is not Protocol.SESSION:
        values["tasks as long as a move"] = config.moving_delay_s / task_s
    return values


def unlike_training(config: EvaluationConfig, trace: Trace) -> list[str]:
    """What is outside of the range of the training, in words; nothing if all is inside."""
    values = properties(config, trace)
    return [
        f"{name} {_short(values[name])} (in training {_short(low)} to {_short(high)})"
        for name, (low, high) in TRAINED.items()
        if name in values and not low * 0.995 <= values[name] <= high * 1.005
    ]


def _short(value: float) -> str:
    """Three digits; whole numbers from 100 on."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
