"""Jobs of simple shapes, and instances whose optimum is known.

Tasks have a fixed duration, the same in every wave and at every executor level, so that schedules
can be computed by hand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from traces import Job, Stage, Trace


def chain(name: str, tasks: Sequence[int], task_ms: float = 1_000.0) -> Job:
    """Stages one after the other, with `tasks[i]` tasks in stage i."""
    stages = (
        Stage.fixed(f"s{index}", count, task_ms, [index - 1] if index else [])
        for index, count in enumerate(tasks)
    )
    return Job(name, tuple(stages))


def fork_join(name: str, branches: Sequence[int], task_ms: float = 1_000.0) -> Job:
    """A fork of one task, then `branches[i]` tasks in branch i, then a join of one task."""
    middle = [
        Stage.fixed(f"branch{index}", count, task_ms, [0]) for index, count in enumerate(branches)
    ]
    fork = Stage.fixed("fork", 1, task_ms)
    join = Stage.fixed("join", 1, task_ms, range(1, len(middle) + 1))
    return Job(name, (fork, *middle, join))


def diamond(name: str, tasks: tuple[int, int, int, int], task_ms: float = 1_000.0) -> Job:
    """Four stages: top, left and right below it, bottom below both."""
    parents = {"top": [], "left": [0], "right": [0], "bottom": [1, 2]}
    stages = zip(parents, tasks, parents.values(), strict=True)
    return Job(name, tuple(Stage.fixed(place, count, task_ms, up) for place, count, up in stages))


@dataclass(frozen=True)
class KnownOptimum:
    """A problem with its answer: all jobs arrive at 0, and moving and warm-up take no time."""

    trace: Trace
    executors: int
    makespan_ms: float  # the smallest possible time of the last completion


def known_chain() -> KnownOptimum:
    """Chain of 4, 1 and 3 one-second tasks on 2 executors: 5 s.

    Each stage waits for the whole one before: ceil(4/2) + ceil(1/2) + ceil(3/2) = 2 + 1 + 2.
    """
    return _alone(chain("chain", (4, 1, 3)), executors=2, optimum_ms=5_000.0)


def known_fork_join() -> KnownOptimum:
    """Fork, branches of 1, 2 and 3 one-second tasks, join, on 3 executors: 4 s.

    Fork and join take 1 s each and nothing runs beside them. The 6 tasks between need at least
    6 / 3 = 2 s, and reach that in any order that keeps the executors busy.
    """
    return _alone(fork_join("fork-join", (1, 2, 3)), executors=3, optimum_ms=4_000.0)


KNOWN_OPTIMA: Mapping[str, Callable[[], KnownOptimum]] = {
    "chain": known_chain,
    "fork-join": known_fork_join,
}


def _alone(job: Job, *, executors: int, optimum_ms: float) -> KnownOptimum:
    trace = Trace(job.name, (job,), {"format": "synthetic"})
    return KnownOptimum(trace, executors, makespan_ms=optimum_ms)
