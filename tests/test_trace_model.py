"""What a trace may be, its flat arrays, and its graph as people see it."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.shapes import diamond
from traces import Job, LevelDurations, Stage, Trace, TraceError, to_arrays
from traces.arrays import FIRST, FRESH, REST
from traces.graph import critical_path, depth, layers
from traces.synthetic import LayeredShape, layered_job


def job_of(*parents: tuple[int, ...]) -> Job:
    """A job whose stage i has `parents[i]`, each of one task of i + 1 seconds."""
    return Job(
        "job",
        tuple(
            Stage.fixed(f"s{index}", 1, 1_000.0 * (index + 1), above)
            for index, above in enumerate(parents)
        ),
    )


@pytest.mark.parametrize("duration_ms", [0.0, -1.0, math.nan, math.inf, 1e39, 1e-60])
@pytest.mark.parametrize("wave", ["fresh_ms", "first_ms", "rest_ms"])
def test_durations_are_positive_and_finite(wave: str, duration_ms: float) -> None:
    """Also numbers that only become zero or infinite as 32-bit floats are refused."""
    rule = "at most" if duration_ms > 1 else "positive$"
    with pytest.raises(TraceError, match=f"must be {rule}"):
        LevelDurations.of(1, **{wave: [duration_ms]})


def test_samples_cannot_be_changed_after_they_were_checked() -> None:
    """A frozen trace owns its arrays: neither its own nor the caller's copy can alter it."""
    mine = np.array([5.0, 6.0], np.float32)
    level = LevelDurations.of(1, rest_ms=mine)
    mine[0] = -1.0
    assert level.rest_ms.tolist() == [5.0, 6.0]
    with pytest.raises(ValueError, match="read-only"):
        level.rest_ms[0] = -1.0


def test_parents_may_come_after_their_children() -> None:
    """Order in the file is free; the topological order is not."""
    job = job_of((2,), (0,), ())
    assert job.topological_order == (2, 0, 1)
    assert job.children == ((1,), (), (0,))
    assert layers(job) == (1, 2, 0)


def test_mean_and_work_weigh_samples_and_levels_as_documented() -> None:
    """The mean is over all samples of all levels; work is taken at the smallest level."""
    low = LevelDurations.of(5, first_ms=[2.0], rest_ms=[1.0, 3.0])
    high = LevelDurations.of(10, rest_ms=[10.0])
    stage = Stage("s", 7, (), (low, high))
    assert low.mean_ms == 2.0
    assert stage.mean_ms == 4.0
    assert stage.work_ms == 14.0


def test_missing_waves_borrow_the_samples_of_the_nearest_one() -> None:
    """Rest borrows first, first borrows fresh; the arrays say where fresh was not measured."""
    stages = (
        Stage("only-rest", 1, (), (LevelDurations.of(1, rest_ms=[3.0, 1.0, 2.0]),)),
        Stage("only-fresh", 1, (0,), (LevelDurations.of(1, fresh_ms=[9.0]),)),
        Stage("no-fresh", 1, (0,), (LevelDurations.of(1, first_ms=[5.0], rest_ms=[4.0]),)),
    )
    flat = to_arrays(Trace("t", (Job("j", stages),)))

    def samples(level: int, wave: int) -> list[float]:
        start = flat.wave_start[level, wave]
        values: list[float] = flat.samples_ms[start : start + flat.wave_count[level, wave]].tolist()
        return values

    assert [samples(0, wave) for wave in (FRESH, FIRST, REST)] == [[1.0, 2.0, 3.0]] * 3
    assert [samples(1, wave) for wave in (FRESH, FIRST, REST)] == [[9.0]] * 3
    assert [samples(2, wave) for wave in (FRESH, FIRST, REST)] == [[5.0], [5.0], [4.0]]
    assert flat.fresh_is_measured.tolist() == [False, True, False]


def test_arrays_of_two_jobs_keep_rows_apart() -> None:
    trace = Trace("t", (job_of((), (0,)), diamond("diamond", (1, 2, 3, 4))))
    flat = to_arrays(trace)
    assert flat.num_jobs == 2
    assert flat.first_stage.tolist() == [0, 2, 6]
    assert flat.num_tasks.tolist() == [1, 1, 1, 2, 3, 4]
    assert flat.num_parents.tolist() == [0, 1, 0, 1, 1, 2]
    assert flat.first_child.tolist() == [0, 1, 1, 3, 4, 5, 5]
    assert flat.children.tolist() == [1, 1, 2, 3, 3]


@settings(max_examples=40)
@given(seed=st.integers(0, 2**32 - 1))
def test_graph_view_agrees_with_an_independent_library(seed: int) -> None:
    """networkx finds the same order, depth and longest weighted path on random jobs."""
    job = layered_job("j", np.random.default_rng(seed), LayeredShape(stages=(1, 20)))
    graph = nx.DiGraph()
    for index, stage in enumerate(job.stages):
        graph.add_node(index, mean_ms=stage.mean_ms)
        graph.add_edges_from((parent, index) for parent in stage.parents)
    assert nx.is_directed_acyclic_graph(graph)
    assert graph.number_of_edges() == job.num_edges
    assert nx.dag_longest_path_length(graph) + 1 == depth(job)
    weighted = nx.DiGraph()
    weighted.add_nodes_from(graph)
    weighted.add_weighted_edges_from(
        (parent, child, graph.nodes[parent]["mean_ms"]) for parent, child in graph.edges
    )
    ends = {node: graph.nodes[node]["mean_ms"] for node in graph if graph.out_degree(node) == 0}
    weighted.add_weighted_edges_from((node, "end", mean_ms) for node, mean_ms in ends.items())
    longest = nx.dag_longest_path_length(weighted)
    assert max(job.critical_path_ms) == pytest.approx(longest)
    assert sum(job.stages[s].mean_ms for s in critical_path(job)) == pytest.approx(longest)
    place = {stage: order for order, stage in enumerate(job.topological_order)}
    assert all(place[parent] < place[child] for parent, child in graph.edges)


def test_a_trace_as_a_table_has_a_row_for_each_stage() -> None:
    first, last = job_of((), (0,)).stages
    last = replace(last, cpu=2.0, memory_mb=512.0)
    jobs = (Job("job", (first, last), arrival_ms=5.0), diamond("d", (1, 2, 3, 4)))
    table = Trace("t", jobs).to_arrow()
    rows = table.to_pylist()
    assert [row["job"] for row in rows] == ["job"] * 2 + ["d"] * 4
    assert rows[1] == {
        "job": "job", "arrival_ms": 5.0, "stage": "s1", "num_tasks": 1, "mean_ms": 2_000.0,
        "cpu": 2.0, "memory_mb": 512.0, "parents": ["s0"],
    }  # fmt: skip
    assert rows[2]["arrival_ms"] is rows[2]["cpu"] is rows[2]["memory_mb"] is None
    assert sum(row["num_tasks"] for row in rows) == 12
    assert Trace("t", jobs[1:]).to_arrow().schema == table.schema, "whatever is known"


def test_asking_for_an_unknown_job_names_some_known_ones() -> None:
    trace = Trace("t", (diamond("left", (1, 1, 1, 1)), diamond("right", (1, 1, 1, 1))))
    assert trace.job("right") is trace.jobs[1]
    with pytest.raises(TraceError, match=re.escape("no job 'up' (it has left, right")):
        trace.job("up")
