"""Generated jobs: random graphs in layers, with tasks of fixed duration."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from traces.errors import TraceError
from traces.model import Job, Stage
from traces.trace import Trace

_HEAVY_SIGMA = 2.5  # standard deviation of the logarithm of a job's scale
_MOST_TASKS = 3_000


@dataclass(frozen=True)
class LayeredShape:
    """Ranges that `layered_job` draws from, both ends included."""

    stages: tuple[int, int] = (2, 16)
    width: tuple[int, int] = (1, 4)
    """stages in one layer"""
    parents: tuple[int, int] = (1, 3)
    """parents of a stage below the first layer, as far as the layer above has that many"""
    tasks: tuple[int, int] = (1, 200)
    """drawn log-uniformly, as is `task_ms`"""
    task_ms: tuple[float, float] = (50.0, 5_000.0)

    def __post_init__(self) -> None:
        for name in ("stages", "width", "parents", "tasks", "task_ms"):
            low, high = getattr(self, name)
            if not 0 < low <= high < float("inf"):
                raise TraceError(f"{name} ({low}, {high}) must be a range of positive numbers")


def layered_job(name: str, rng: np.random.Generator, shape: LayeredShape | None = None) -> Job:
    """A random DAG in layers: every stage below the first layer has parents in the layer above.

    Edges join neighbouring layers only, so the depth of the job is its number of layers.
    """
    shape = LayeredShape() if shape is None else shape
    num_stages = int(rng.integers(*shape.stages, endpoint=True))
    stages: list[Stage] = []
    above: list[int] = []
    while len(stages) < num_stages:
        width = min(int(rng.integers(*shape.width, endpoint=True)), num_stages - len(stages))
        layer = list(range(len(stages), len(stages) + width))
        for index in layer:
            wanted = min(int(rng.integers(*shape.parents, endpoint=True)), len(above))
            parents = sorted(rng.choice(above, wanted, replace=False).tolist()) if above else []
            tasks = round(_log_uniform(rng, *shape.tasks))
            stages.append(
                Stage.fixed(f"s{index}", tasks, _log_uniform(rng, *shape.task_ms), parents)
            )
        above = layer
    return Job(name, tuple(stages))


def layered_trace(
    rng: np.random.Generator, num_jobs: int = 100, shape: LayeredShape | None = None
) -> Trace:
    """`num_jobs` independent random jobs ``job0``, ``job1``, ..."""
    return _trace("random-dag", "layered_trace", rng, [shape] * num_jobs)


def heavy_trace(rng: np.random.Generator, num_jobs: int = 300) -> Trace:
    """Layered jobs of heavy-tailed sizes, as on shared clusters: a few hold most of the work.

    A job's scale is log-normal, cut off at three deviations; large jobs have more tasks and longer
    ones. On Alibaba's cluster 1 % of the jobs hold 82 % of the work; here they hold half.
    """

    def shape() -> LayeredShape:
        scale = _heavy_scale(rng, _HEAVY_SIGMA)
        longer = scale**0.5
        tasks = (1, max(1, round(min(20 * scale**0.6, _MOST_TASKS))))
        return LayeredShape(tasks=tasks, task_ms=(200.0 * longer, 5_000.0 * longer))

    return _trace("heavy-dag", "heavy_trace", rng, (shape() for _ in range(num_jobs)))


def short_trace(rng: np.random.Generator, num_jobs: int = 200) -> Trace:
    """Layered jobs of few and short tasks, beside which an executor's move takes long."""
    shape = LayeredShape(stages=(1, 12), width=(1, 3), tasks=(1, 50), task_ms=(50.0, 3_000.0))
    return _trace("short-dag", "short_trace", rng, [shape] * num_jobs)


def chain_trace(rng: np.random.Generator, num_jobs: int = 100) -> Trace:
    """Jobs of many stages one after the other, of few tasks each: little to do at once."""
    shape = LayeredShape(
        stages=(4, 16), width=(1, 1), parents=(1, 1), tasks=(1, 24), task_ms=(100.0, 4_000.0)
    )
    return _trace("chain-dag", "chain_trace", rng, [shape] * num_jobs)


def any_shape(rng: np.random.Generator) -> LayeredShape:
    """Ranges drawn at random: few stages or many, chains or wide, tasks few or many, of
    milliseconds or of minutes, alike or not.
    """
    stages = int(rng.integers(1, 6))
    tasks = round(_log_uniform(rng, 3.0, 300.0))
    task_ms = _log_uniform(rng, 20.0, 10_000.0)
    return LayeredShape(
        stages=(stages, stages + int(rng.integers(0, 20))),
        width=(1, int(rng.choice([1, 2, 3, 5]))),
        parents=(1, int(rng.integers(1, 4))),
        tasks=(max(1, round(tasks * float(rng.choice([0.02, 0.1, 0.5])))), tasks),
        task_ms=(task_ms, task_ms * _log_uniform(rng, 1.5, 30.0)),
    )


def any_trace(rng: np.random.Generator, num_jobs: int = 60) -> Trace:
    """Layered jobs of one shape that `any_shape` draws, for tests on arbitrary workloads."""
    return _trace("any-dag", "any_trace", rng, [any_shape(rng)] * num_jobs)


def any_heavy_trace(rng: np.random.Generator, num_jobs: int = 200) -> Trace:
    """Jobs of one shape that `any_shape` draws, with heavy-tailed sizes: large jobs have more
    tasks, longer ones, or both.
    """
    shape = any_shape(rng)
    sigma = float(rng.uniform(1.5, 4.0))
    in_tasks = float(rng.uniform(0.1, 0.9))
    scales = (_heavy_scale(rng, sigma) for _ in range(num_jobs))
    shapes = (_scaled(shape, scale**in_tasks, scale ** (1.0 - in_tasks)) for scale in scales)
    return _trace("any-heavy", "any_heavy_trace", rng, shapes)


def _trace(
    name: str, generator: str, rng: np.random.Generator, shapes: Iterable[LayeredShape | None]
) -> Trace:
    """Return a layered job of each shape; shapes may be drawn from `rng` one at a time."""
    jobs = tuple(layered_job(f"job{index}", rng, shape) for index, shape in enumerate(shapes))
    return Trace(name, jobs, {"format": "synthetic", "generator": generator})


def _heavy_scale(rng: np.random.Generator, sigma: float) -> float:
    """Log-normal, cut off at three deviations of its logarithm."""
    return math.exp(sigma * float(np.clip(rng.normal(), -3.0, 3.0)))


def _scaled(shape: LayeredShape, tasks: float, task_ms: float) -> LayeredShape:
    """Scale the shape's tasks and durations, up to `_MOST_TASKS` tasks."""
    low, high = (min(max(1, round(tasks * end)), _MOST_TASKS) for end in shape.tasks)
    shortest_ms, longest_ms = (task_ms * end for end in shape.task_ms)
    return replace(shape, tasks=(low, high), task_ms=(shortest_ms, longest_ms))


def _log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))
