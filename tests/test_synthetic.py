"""Made-up jobs: shapes, answers on paper, and the figures of the TPC-H-like workload."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from traces import Trace, TraceError, load_trace, tpch_like
from traces.graph import depth, layers
from traces.inflation import PUBLIC_INFLATION
from traces.synthetic import (
    LayeredShape,
    chain_trace,
    heavy_trace,
    layered_job,
    layered_trace,
    short_trace,
)


@settings(max_examples=50)
@given(seed=st.integers(0, 2**32 - 1), stages=st.integers(1, 30), width=st.integers(1, 6))
def test_layered_jobs_keep_to_their_shape(seed: int, stages: int, width: int) -> None:
    """Counts, widths, durations and parents stay in their ranges, and edges join neighbours."""
    shape = LayeredShape((1, stages), (1, width), (1, 2), (3, 9), (10.0, 20.0))
    job = layered_job("j", np.random.default_rng(seed), shape)
    layer = layers(job)
    assert len(job.stages) <= stages
    assert max(np.bincount(layer)) <= width
    assert depth(job) == max(layer) + 1
    for index, stage in enumerate(job.stages):
        assert 3 <= stage.num_tasks <= 9
        assert 10.0 <= stage.mean_ms <= 20.0
        assert len(stage.parents) == 0 if layer[index] == 0 else 1 <= len(stage.parents) <= 2
        assert all(layer[parent] == layer[index] - 1 for parent in stage.parents)


def fingerprint(trace: Trace) -> list[object]:
    """What tells two generated traces apart."""
    return [
        (job.name, job.work_ms, [(s.num_tasks, s.parents) for s in job.stages])
        for job in trace.jobs
    ]


def test_few_jobs_of_the_heavy_trace_hold_most_of_the_work() -> None:
    """1 % of them about half of it, 5 % most of it; half of the jobs a hundredth."""
    work_ms = np.sort([job.work_ms for job in load_trace("heavy-dag").jobs])[::-1]
    share = np.cumsum(work_ms) / work_ms.sum()
    assert 0.4 < share[2] < 0.6
    assert share[14] > 0.75
    assert share[149] > 0.99


def test_a_move_is_dear_beside_a_short_job() -> None:
    """Two seconds are some 6 % of a typical one's work; of `tpch` less than 1 %."""
    for name, least, most in (
        ("short-dag", 0.04, 0.1),
        ("chain-dag", 0.02, 0.05),
        ("tpch", 0.004, 0.01),
    ):
        works_ms = [job.work_ms for job in load_trace(name).jobs]
        assert least < 2_000 / math.exp(np.log(works_ms).mean()) < most


@pytest.mark.parametrize(
    "generate", [tpch_like, layered_trace, heavy_trace, short_trace, chain_trace]
)
def test_the_seed_decides_everything(generate: Callable[[np.random.Generator], Trace]) -> None:
    """Same seed, same trace; another seed, another trace; the global state plays no part."""
    traces = [generate(np.random.default_rng(seed)) for seed in (1, 1, 2)]
    first, again, other = map(fingerprint, traces)
    assert first == again
    assert first != other


def test_impossible_settings_are_refused() -> None:
    with pytest.raises(TraceError, match=r"stages \(5, 2\) must be a range"):
        LayeredShape(stages=(5, 2))
    with pytest.raises(TraceError, match=r"task_ms \(0, 2\)"):
        LayeredShape(task_ms=(0, 2))
    with pytest.raises(TraceError, match="queries 0"):
        tpch_like(np.random.default_rng(0), queries=0)
    with pytest.raises(TraceError, match="sizes"):
        tpch_like(np.random.default_rng(0), sizes_gb=())


@pytest.fixture(scope="module", params=[0, 1, 2], ids="seed {}".format)
def workload(request: pytest.FixtureRequest) -> Trace:
    return tpch_like(np.random.default_rng(request.param))


def level_work(trace: Trace, level: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """(J,) work of every job at the level with that index."""
    return np.array(
        [sum(s.num_tasks * s.durations[level].mean_ms for s in job.stages) for job in trace.jobs]
    )


def test_jobs_have_the_public_sizes(workload: Trace) -> None:
    """154 jobs of 2 to 18 stages (mean 9.18), a median of 1,018 tasks, the largest 3,717."""
    stages = [len(job.stages) for job in workload.jobs]
    tasks = [job.num_tasks for job in workload.jobs]
    assert len(stages) == 154
    assert (min(stages), max(stages)) == (2, 18)
    assert np.mean(stages) == pytest.approx(9.18, rel=0.05)
    assert np.median(tasks) == pytest.approx(1_018, rel=0.25)
    assert max(tasks) == pytest.approx(3_717, rel=0.25)
    assert np.mean([job.num_edges for job in workload.jobs]) == pytest.approx(8.5, rel=0.1)


def test_work_inflates_as_published(workload: Trace) -> None:
    """Total work relative to 5 executors, median over jobs, within 15 % at every level."""
    published = {10: 1.08, 20: 1.25, 40: 1.65, 50: 1.83, 80: 2.39, 100: 2.88}
    levels = [level.executors for level in workload.jobs[0].stages[0].durations]
    assert levels == [5, *published] == list(PUBLIC_INFLATION)
    base = level_work(workload, 0)
    for index, executors in enumerate(published, start=1):
        ratio = level_work(workload, index) / base
        assert np.median(ratio) == pytest.approx(published[executors], rel=0.15)
    assert np.percentile(ratio, 90) == pytest.approx(6.17, rel=0.15)
    assert ratio.mean() == pytest.approx(3.46, rel=0.15)


def test_fresh_and_first_tasks_cost_more_as_published(workload: Trace) -> None:
    """A fresh task takes 2.3 rest tasks at the median; first lies between where both exist."""
    levels = [level for job in workload.jobs for s in job.stages for level in s.durations]
    fresh = [v.fresh_ms.mean() / v.rest_ms.mean() for v in levels if len(v.fresh_ms)]
    assert np.median(fresh) == pytest.approx(2.3, rel=0.15)
    for level in levels:
        assert level.first_ms.mean() > level.rest_ms.mean()
        assert len(level.fresh_ms) == 0 or level.fresh_ms.mean() > level.first_ms.mean()


def test_few_jobs_hold_most_of_the_work(workload: Trace) -> None:
    """The largest 23 % of the jobs hold 59 to 71 % of the work in the public data."""
    work = np.sort(level_work(workload, 0))[::-1]
    assert 0.55 < work[:35].sum() / work.sum() < 0.75


def test_a_query_is_the_same_graph_at_every_size(workload: Trace) -> None:
    small, large = workload.job("2g/q7"), workload.job("100g/q7")
    assert [s.parents for s in small.stages] == [s.parents for s in large.stages]
    assert small.work_ms < large.work_ms
    assert all(a.num_tasks <= b.num_tasks for a, b in zip(small.stages, large.stages, strict=True))


def test_any_shape_can_be_had_by_its_number() -> None:
    """The same number is the same trace everywhere; others differ in shape and size."""
    every = [load_trace(f"any-dag-{number}") for number in (*range(40), 17)]
    assert every[17].name == "any-dag-17"
    assert load_trace("any-heavy-17").name == "any-heavy-17"
    work_ms = [[job.work_ms for job in trace.jobs] for trace in every]
    assert work_ms[17] == work_ms[-1] != work_ms[18]
    first_ms = [works_ms[0] for works_ms in work_ms]
    assert max(first_ms) > 1_000 * min(first_ms)


@pytest.mark.parametrize(
    "name", ["any-heavy-x", "any-heavy-", "any-dag-", "any-dag--1", "any-dag-1.5", "any-dag-x"]
)
def test_a_shape_has_a_plain_number(name: str) -> None:
    with pytest.raises(TraceError, match="no such file"):
        load_trace(name)
