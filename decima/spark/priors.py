"""`Priors`: how long tasks took in earlier runs of the same job, from a trace of them."""

from __future__ import annotations

from traces import Trace


class Priors:
    """Durations by the job's name and the stage's shape.

    A job's name is what its application gave as ``decima.job`` or as job group (of SQL executions
    the description, which `decima traces import spark` also takes for a name). Inside a job, a
    stage is found by its place among the job's stages of the same number of tasks.
    """

    def __init__(self, trace: Trace) -> None:
        self._known: dict[str, dict[int, list[float]]] = {}
        for job in trace.jobs:
            shapes = self._known.setdefault(job.name, {})
            for stage in job.stages:
                shapes.setdefault(stage.num_tasks, []).append(stage.mean_ms)

    def mean_ms(self, name: str, num_tasks: int, place: int) -> float | None:
        """Expected duration of a stage's tasks; None if no such job or stage is known.

        Args:
            name: of the job.
            num_tasks: of the stage.
            place: how many earlier stages of the job have as many tasks.
        """
        found = self._known.get(name, {}).get(num_tasks)
        return None if found is None else found[min(place, len(found) - 1)]
