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
    return _diamond(name, tasks, (task_ms,) * 4)


def _diamond(name: str, tasks: Sequence[int], task_ms: Sequence[float]) -> Job:
    parents = {"top": [], "left": [0], "right": [0], "bottom": [1, 2]}
    stages = zip(parents, tasks, task_ms, parents.values(), strict=True)
    return Job(name, tuple(Stage.fixed(*stage) for stage in stages))


@dataclass(frozen=True)
class KnownOptimum:
    """A problem with its answer: all jobs arrive at 0, and moving and warm-up take no time."""

    trace: Trace
    executors: int
    makespan_ms: float  # the smallest possible time of the last completion
    average_jct_ms: float  # the smallest possible mean job completion time


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


def known_diamond() -> KnownOptimum:
    """Diamond where preferring the wide branch costs a third, on 2 executors: 6 s.

    Top is one task of 1 s; left one task of 4 s; right 4 tasks of 1 s; bottom one task of 1 s.
    No schedule beats the chain top, left, bottom: 1 + 4 + 1 = 6 s. It is reached by starting left
    at 1 s and running right beside it (1..5 s). Both executors on right first: left runs 3..7 s
    and the job ends at 8 s.
    """
    job = _diamond("diamond", (1, 1, 4, 1), (1_000.0, 4_000.0, 1_000.0, 1_000.0))
    return _alone(job, executors=2, optimum_ms=6_000.0)


def known_two_jobs() -> KnownOptimum:
    """A job of 1 s and one of 9 s on a single executor: 5.5 s on average, shortest first.

    Shortest first completes at 1 s and 10 s, mean 5.5 s; longest first at 9 s and 10 s, mean
    9.5 s. The makespan is 10 s in either order. The long job comes first in the trace, so that a
    policy in order of arrival gets it wrong.
    """
    long, short = chain("long", (9,)), chain("short", (1,))
    trace = Trace("two-jobs", (long, short), {"format": "synthetic"})
    return KnownOptimum(trace, executors=1, makespan_ms=10_000.0, average_jct_ms=5_500.0)


KNOWN_OPTIMA: Mapping[str, Callable[[], KnownOptimum]] = {
    "chain": known_chain,
    "fork-join": known_fork_join,
    "diamond": known_diamond,
    "two-jobs": known_two_jobs,
}


def _alone(job: Job, *, executors: int, optimum_ms: float) -> KnownOptimum:
    trace = Trace(job.name, (job,), {"format": "synthetic"})
    return KnownOptimum(trace, executors, makespan_ms=optimum_ms, average_jct_ms=optimum_ms)
