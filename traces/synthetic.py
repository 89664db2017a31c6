"""Generated jobs: random graphs in layers, with tasks of fixed duration, and ``tpch-like``.

Nothing in ``tpch-like`` was measured. A query is a random tree of scans and joins that ends in an
aggregation; the ranges and the model of durations were chosen so that, over the seven public sizes,
these figures of decima-sim's 154 jobs are met: 2 to 18 stages per job (mean about 9), a median of
about 1,000 tasks, total work growing with the number of executors as in `PUBLIC_INFLATION` (the
median over jobs), the first task of a fresh executor taking about 2.3 times a later task (the
median over scans), and the largest 23 % of the jobs holding about 60 % of the work.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from traces.errors import TraceError
from traces.inflation import PUBLIC_INFLATION
from traces.model import Job, LevelDurations, Stage
from traces.trace import Trace

_HEAVY_SIGMA = 2.5  # standard deviation of the logarithm of a job's scale
_MOST_TASKS = 3_000
SIZES_GB = (2, 5, 10, 20, 50, 80, 100)
QUERIES = 22
_TASKS_PER_GB = (6.0, 1.3, 0.9, 0.2, 0.02)
"""scan tasks for each GB of data: one value for each table, large ones first"""
_SHUFFLE_TASKS = 200
_SCAN_MS = 1_600.0
_SMALL_SCAN_MS = 600.0
_SHUFFLE_MS = 45.0
_SHUFFLE_MS_PER_GB = 2.5
_STARTUP_MS = 2_000.0  # extra time of an executor's first task in a job
_STAGE_START_MS = 180.0  # extra time of an executor's first task in a stage
_QUERY_SPREAD = 0.28
_SIZE_EXPONENT = -0.22
"""small jobs lose more by many executors than large ones: inflation^(size / 20 GB)^exponent"""
_REFERENCE_GB = 20.0
_SAMPLES = {"fresh": 4, "first": 4, "rest": 24}
"""a level holds this many quantiles of each wave; most tasks of a stage are of the rest wave"""


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
    """Ranges at random: few stages or many, chains or wide, tasks few or many, long or short."""
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
    """Jobs of one shape of `any_shape` with heavy-tailed sizes: large ones have more work."""
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


@dataclass(frozen=True)
class _StagePlan:
    """Properties that a stage of a query has at all data sizes."""

    parents: tuple[int, ...]
    tasks_per_gb: float | None  # tasks of a scan; None for a stage that reads shuffled data
    tasks: int  # tasks of a stage that reads shuffled data; the fewest of a scan
    slowness: float
    spread: float  # log-normal sigma of the tasks of one wave


def tpch_like(
    rng: np.random.Generator, sizes_gb: tuple[int, ...] = SIZES_GB, queries: int = QUERIES
) -> Trace:
    """Jobs ``{size}g/q{query}``, the same query graph at every size.

    Over all queries the numbers of stages and the sensitivities to parallelism are quantiles of
    fixed distributions in random order, so the figures hold for every seed.
    """
    if queries < 1 or not sizes_gb or min(sizes_gb) < 1:
        raise TraceError(f"queries {queries} and sizes {sizes_gb} GB must be at least 1")
    quantile = (rng.permutation(queries) + 0.5) / queries
    num_stages = [2 + int(17 * share**1.2) for share in quantile]
    sensitivity = [NormalDist().inv_cdf(share) for share in rng.permutation(quantile)]
    plans = [_query(count, rng) for count in num_stages]
    jobs = tuple(
        _job(f"{size}g/q{query + 1}", plans[query], size, sensitivity[query])
        for size in sizes_gb
        for query in range(queries)
    )
    metadata = {
        "format": "synthetic",
        "generator": "tpch_like",
        "note": "made up to have the public TPC-H traces' statistics; nothing in it was measured",
    }
    return Trace("tpch-like", jobs, metadata)


def _query(num_stages: int, rng: np.random.Generator) -> tuple[_StagePlan, ...]:
    """A tree: scans, joins of two inputs, aggregations of one; the last stage is the result."""
    scans = max(1, round(0.4 * num_stages))
    # A result needs at least one stage above the joins; the rest are aggregations on the way.
    joins, spare = scans - 1, num_stages - 2 * scans
    plans = [_scan(rng, large=index == 0) for index in range(scans)]
    open_ends = list(range(scans))
    steps = rng.permutation([2] * joins + [1] * spare).tolist()
    for inputs in steps:
        # The newest result is the likeliest input: mostly left-deep trees, as planners make them.
        newest = len(open_ends) - 1 if rng.random() < 0.7 else int(rng.integers(len(open_ends)))
        parents = [open_ends.pop(newest)]
        if inputs == 2:
            parents.append(open_ends.pop(int(rng.integers(len(open_ends)))))
        open_ends.append(len(plans))
        plans.append(_shuffle(tuple(sorted(parents)), _SHUFFLE_TASKS, rng))
    plans.append(_shuffle(tuple(open_ends), int(rng.integers(1, 11)), rng))
    return tuple(plans)


def _scan(rng: np.random.Generator, *, large: bool) -> _StagePlan:
    """A scan of any table, or of one of the large ones, which every query reads."""
    share = (0.5, 0.5, 0.0, 0.0, 0.0) if large else (0.1, 0.15, 0.2, 0.2, 0.35)
    tasks_per_gb = float(rng.choice(_TASKS_PER_GB, p=share))
    usual_ms = _SMALL_SCAN_MS if tasks_per_gb == _TASKS_PER_GB[-1] else _SCAN_MS
    return _StagePlan(
        parents=(),
        tasks_per_gb=tasks_per_gb,
        tasks=int(rng.integers(1, 3)),
        slowness=usual_ms * float(rng.lognormal(0, 0.25)),
        spread=float(rng.uniform(0.1, 0.3)),
    )


def _shuffle(parents: tuple[int, ...], tasks: int, rng: np.random.Generator) -> _StagePlan:
    slowness, spread = float(rng.lognormal(0, 0.4)), float(rng.uniform(0.1, 0.6))
    return _StagePlan(parents, None, tasks, slowness, spread)


def _job(name: str, plans: tuple[_StagePlan, ...], size_gb: int, sensitivity: float) -> Job:
    exponent = np.exp(_QUERY_SPREAD * sensitivity) * (size_gb / _REFERENCE_GB) ** _SIZE_EXPONENT
    inflation = {level: float(usual**exponent) for level, usual in PUBLIC_INFLATION.items()}
    stages = tuple(
        _stage(f"s{index}", plan, size_gb, inflation) for index, plan in enumerate(plans)
    )
    return Job(name, stages)


def _stage(name: str, plan: _StagePlan, size_gb: int, inflation: dict[int, float]) -> Stage:
    if plan.tasks_per_gb is None:
        num_tasks = plan.tasks
        rest_ms = plan.slowness * (_SHUFFLE_MS + _SHUFFLE_MS_PER_GB * size_gb)
    else:
        num_tasks = max(plan.tasks, round(plan.tasks_per_gb * size_gb))
        rest_ms = plan.slowness
    first_ms = rest_ms + _STAGE_START_MS
    # Executors mostly start with scans, so recordings hold the fresh wave of few other stages;
    # elsewhere the simulator adds its warm-up delay to the first wave.
    fresh_ms = rest_ms + _STARTUP_MS if plan.tasks_per_gb is not None else None
    fresh, first, rest = (_quantiles(_SAMPLES[wave], plan.spread) for wave in _SAMPLES)
    levels = tuple(
        LevelDurations.of(
            executors,
            fresh_ms=() if fresh_ms is None else factor * fresh_ms * fresh,
            first_ms=factor * first_ms * first,
            rest_ms=factor * rest_ms * rest,
        )
        for executors, factor in inflation.items()
    )
    return Stage(name, num_tasks, plan.parents, levels)


def _quantiles(count: int, spread: float) -> NDArray[np.float64]:
    """Evenly spaced quantiles of a log-normal distribution, scaled to mean 1."""
    normal = np.array([NormalDist().inv_cdf((k + 0.5) / count) for k in range(count)])
    values = np.exp(spread * normal)
    return np.asarray(values / values.mean())
