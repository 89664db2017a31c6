"""Jobs of simple shapes.

Tasks have a fixed duration, the same in every wave and at every executor level, so that schedules
can be computed by hand.
"""

from __future__ import annotations

from collections.abc import Sequence

from traces import Job, Stage


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
    parents: dict[str, list[int]] = {"top": [], "left": [0], "right": [0], "bottom": [1, 2]}
    stages = zip(parents, tasks, parents.values(), strict=True)
    return Job(
        name, tuple(Stage.fixed(stage, count, task_ms, above) for stage, count, above in stages)
    )
