"""Notes on a workload: settings that hardly fit its trace, or the shipped network's training."""

from __future__ import annotations

from collections.abc import Mapping

from decima.evaluation.config import EvaluationConfig, mean_work_s
from decima.policy_names import SHIPPED_MODEL, is_learned, model_path
from spark_sim import Protocol
from traces import Trace
from traces.arrivals import ARRIVALS

_LITTLE_LOAD = 0.2
_LONG_MOVE = 4.0  # times a task


TRAINED: Mapping[str, tuple[float, float]] = {
    "executors": (8.0, 280.0),
    "load": (0.05, 1.1),
    "tasks of a job": (9.07, 2040.0),
    "seconds of a task": (0.0406, 606.0),
    "tasks as long as a move": (0.000493, 127.0),
}
"""lowest and highest value in the middle 96 % of the settings in the shipped network's card"""


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


def notes_of(config: EvaluationConfig, trace: Trace) -> list[str]:
    """Warnings where settings hardly fit the trace, or what the shipped network was trained for."""
    workload, notes = properties(config, trace), list[str]()
    load, task_s = workload.get("load"), workload["seconds of a task"]
    if load is not None and load < _LITTLE_LOAD:
        notes.append(
            f"note: {config.executors} executors would be {100 * load:.1f} % busy with these jobs "
            f"at a mean gap of {config.interarrival_s:g} s: jobs hardly overlap, so their order "
            "hardly matters. Choose --executors and --interarrival."
        )
    if config.protocol == "executors" and config.moving_delay_s >= _LONG_MOVE * task_s:
        notes.append(
            f"note: an executor takes {config.moving_delay_s:g} s to move to another job, and a "
            f"task {task_s:.2g} s on average: most of the time would go into moving. Jobs of one "
            "Spark session share its slots: --protocol session."
        )
    learned = [model_path(name) for name in config.policies if is_learned(name)]
    unlike = unlike_training(config, trace)
    if unlike and model_path(SHIPPED_MODEL) in learned:
        notes.append(
            f"note: {SHIPPED_MODEL} was hardly trained for such a workload: {', '.join(unlike)}. "
            "Train for it first (`decima train`), or take it only if its interval is below zero."
        )
    return notes


def unlike_training(config: EvaluationConfig, trace: Trace) -> list[str]:
    """What is outside of the range of the training, in words; nothing if all is inside."""

    def digits(value: float) -> str:
        return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"

    values = properties(config, trace)
    return [
        f"{name} {digits(values[name])} (in training {digits(low)} to {digits(high)})"
        for name, (low, high) in TRAINED.items()
        if name in values and not low * 0.995 <= values[name] <= high * 1.005
    ]
