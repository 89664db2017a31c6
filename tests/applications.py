"""Applications as drivers report them, for tests of the coordinator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from decima.spark.coordinator.messages import Registration, Report, read_registration, read_report
from decima.spark.coordinator.planning import Coordinator
from decima.spark.coordinator.settings import CoordinatorSettings
from decima.spark.loading import ready_policy


def registration(key: str, **other: Any) -> dict[str, Any]:
    """The first message of a driver."""
    return {
        "id": key, "name": key, "user": "ann", "queue": "", "weight": 1.0, "most": 100, "tasks": 1,
        **other,
    }  # fmt: skip


def registered(key: str, **other: Any) -> Registration:
    return read_registration(registration(key, **other))


def columns(
    tasks: Sequence[int],
    launched: Sequence[int] = (),
    finished: Sequence[int] = (),
    task_ms: float = 10_000.0,
    age_ms: float = 0.0,
    jobs: int = 1,
) -> dict[str, Any]:
    """A chain of stages; a stage is runnable once the one before it has finished."""
    count = len(tasks)
    launched = [*launched, *[0] * (count - len(launched))]
    finished = [*finished, *[0] * (count - len(finished))]
    return {
        "time_ms": age_ms,
        "arrival_ms": [0.0] * jobs,
        "num_tasks": list(tasks),
        "launched": launched,
        "finished": finished,
        "runnable": [n == 0 or finished[n - 1] == tasks[n - 1] for n in range(count)],
        "mean_ms": [task_ms] * count,
        "critical_path_ms": [task_ms * (count - n) for n in range(count)],
        "first_child": [*range(count), count - 1],
        "children": list(range(1, count)),
    }


def report(registered: int, stages: dict[str, Any] | None = None) -> Report:
    return read_report({"stages": stages, "registered": registered, "number": 0})


def coordinator(slots: int, policy: str = "strict_fair", **settings: Any) -> Coordinator:
    return Coordinator(CoordinatorSettings(slots, policy, **settings), ready_policy(policy))


def join(
    made: Coordinator, key: str, stages: dict[str, Any] | None = None, held: int = 0, **other: Any
) -> None:
    """Register an application, which then reports what it was granted and its work."""
    made.register(registered(key, **other), held, 0.0)
    made.report(key, report(made.applications[key].granted, stages), 10.0)
