"""Every column that the network sees, against a slow oracle and against numbers on paper."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from decima.agent import columns, feature_kernels
from decima.agent.column_arrays import ClassColumns
from decima.agent.graph import GraphSorter, whole_graph
from decima.agent.scales import Scales
from decima.agent.scene import scene_of, scene_of_batch
from decima.agent.tables import describe
from spark_sim import PASS, Action, Cluster, ExecutorClass, Observation, Status
from spark_sim.observation import observe
from spark_sim.vector import Run, VectorSimulator
from tests.column_oracle import Oracle, StageNow
from tests.stories import build, job, stage
from tests.test_agent_support import (
    ARRAYS,
    CLUSTERS,
    SCALES,
    batch_run,
    each_protocol,
    run_of,
    simulator_of,
)
from tests.workloads import Arbitrary
from traces import Trace, to_arrays

SETTINGS: dict[str, tuple[Cluster, Run]] = {
    "executors that move for 2 s": (CLUSTERS["executors"], run_of(2, jobs=7)),
    "many executors that move at no cost": (
        Cluster(num_executors=90, moving_delay_ms=0.0),
        run_of(3, jobs=7),
    ),
    "a session": (CLUSTERS["session"], run_of(4, jobs=7)),
    "a batch": (Cluster(num_executors=20, moving_delay_ms=4_500.0), batch_run(1, jobs=9)),
    "decima-sim": (CLUSTERS["decima-sim"], run_of(2, jobs=5)),
    "executors of four classes": (CLUSTERS["classes"], run_of(2, jobs=7)),
    "many of three": (
        Cluster(
            num_executors=45,
            classes=tuple(ExecutorClass(15, memory_mb=size) for size in (300.0, 600.0, 1000.0)),
        ),
        batch_run(3, jobs=9),
    ),
}
each_setting = pytest.mark.parametrize(("cluster", "run"), SETTINGS.values(), ids=SETTINGS)


def states(cluster: Cluster, run: Run, seed: int = 0) -> Iterator[Observation]:
    """Decisions of a run under arbitrary actions, at which something can be chosen."""
    simulator = simulator_of(run, cluster)
    policy = Arbitrary(seed)
    while simulator.status is Status.DECIDE:
        seen = simulator.observation()
        if len(seen.active) > 0:
            yield seen
        simulator.step(policy.decide(seen))


def assert_row(
    found: NDArray[np.float32], names: tuple[str, ...], expected: Mapping[str, float]
) -> None:
    """All columns, by name."""
    assert list(expected) == list(names)
    named = dict(zip(names, found.tolist(), strict=True))
    assert named == pytest.approx(dict(expected), rel=1e-5, abs=1e-5)


# --- against the oracle --------------------------------------------------------------------------


@each_setting
def test_columns_are_what_a_slow_oracle_finds(cluster: Cluster, run: Run) -> None:
    """At every decision of a run: nodes, jobs, stages, limits, classes, cluster."""
    sorter = GraphSorter(ARRAYS)
    count = 0
    for seen in states(cluster, run):
        oracle = Oracle(seen, SCALES)
        found, legal = describe(scene_of(seen), SCALES)
        assert_row(found.cluster_x[0], columns.CLUSTER, oracle.cluster())
        expected_open = []
        for index, row in enumerate(oracle.rows):
            assert_row(found.job_x[index], columns.JOB, oracle.job(row))
            expected_open += [(one, index) for one in oracle.open[row]]
            own = slice(int(legal.limit_ptr[index]), int(legal.limit_ptr[index + 1]))
            expected = oracle.limits(row)
            assert legal.limit[own].tolist() == list(expected)
            for limit_x, values in zip(found.limit_x[own], expected.values(), strict=True):
                assert_row(limit_x, columns.LIMIT, values)
        assert [one.row for one, _ in expected_open] == legal.open_stage.tolist()
        assert [index for _, index in expected_open] == legal.open_job.tolist()
        for stage_x, (one, index) in zip(found.stage_x, expected_open, strict=True):
            assert_row(stage_x, columns.STAGE, oracle.stage(oracle.rows[index], one))
        assert_classes(found.classes, oracle, [one for one, _ in expected_open])
        count += 1
        if count % 5 == 0:
            assert_nodes(seen, oracle, sorter)
    assert count > 60


def assert_classes(found: ClassColumns, oracle: Oracle, stages: list[StageNow]) -> None:
    """Of every stage that may be chosen, in their order."""
    assert len(found.ptr) == len(stages) + 1
    for index, one in enumerate(stages):
        rows = slice(int(found.ptr[index]), int(found.ptr[index + 1]))
        expected = oracle.class_rows(one)
        assert found.kind[rows].tolist() == list(expected)
        assert (found.stage[rows] == index).all()
        for row, values in zip(found.x[rows], expected.values(), strict=True):
            assert_row(row, columns.CLASS, values)


def assert_nodes(seen: Observation, oracle: Oracle, sorter: GraphSorter) -> None:
    """The features of all stages of all jobs in sight, wherever sorting by height has put them."""
    graph, legal = whole_graph(scene_of(seen), sorter, SCALES)
    x, owner = graph.nodes.x.numpy(), graph.nodes.graph.numpy()
    for index, row in enumerate(oracle.rows):
        expected = sorted(list(oracle.node(number).values()) for number in oracle.stages_of(row))
        np.testing.assert_allclose(sorted(x[owner == index].tolist()), expected, 1e-5, 1e-6)
    places = graph.nodes.node_of_stage.tolist()
    for place, number in zip(places, legal.open_stage.tolist(), strict=True):
        assert_row(x[place], columns.NODE, oracle.node(number))


@each_protocol
def test_a_batch_tells_of_each_decision_what_it_tells_of_it_alone(cluster: Cluster) -> None:
    """Three simulations in one scene, one of them over, against the scenes of their own."""
    runs = [run_of(1), run_of(3, jobs=1, time_limit_ms=5_000.0), run_of(2, jobs=9)]
    simulators = VectorSimulator(ARRAYS, cluster, runs)
    compared = 0
    for _ in range(60):
        if not simulators.alive[[0, 2]].all():
            break
        batch = simulators.observation()
        together, legal = describe(scene_of_batch(batch, *simulators.capacity), SCALES)
        for index in (0, 2):
            alone, own = describe(scene_of(_observed(simulators, index)), SCALES)
            jobs = slice(legal.job_ptr[index], legal.job_ptr[index + 1])
            stages = slice(legal.open_ptr[index], legal.open_ptr[index + 1])
            limits = slice(legal.limit_ptr[jobs.start], legal.limit_ptr[jobs.stop])
            for name, rows in (
                ("job_x", jobs),
                ("stage_x", stages),
                ("limit_x", limits),
                ("cluster_x", slice(index, index + 1)),
            ):
                np.testing.assert_array_equal(getattr(together, name)[rows], getattr(alone, name))
            kinds = slice(legal.kind_ptr[stages.start], legal.kind_ptr[stages.stop])
            np.testing.assert_array_equal(together.classes.x[kinds], alone.classes.x)
            np.testing.assert_array_equal(legal.kind[kinds], own.kind)
            np.testing.assert_array_equal(legal.limit[limits], own.limit)
            compared += 1
        first = batch.first_open_stages()
        held = batch.jobs["held"][batch.stages["job"][first]]
        simulators.step(first, np.minimum(held + 3, batch.num_executors))
    assert compared > 20


def _observed(simulators: VectorSimulator, index: int) -> Observation:
    return observe(simulators.state(index))


# --- on paper ------------------------------------------------------------------------------------

SCALES_OF_TWO = Scales(task_ms=1_000, work_ms=8_000)


def two_jobs() -> Observation:
    """At 1 s, on eight executors that move for 2 s: a, of 8 tasks of 2 s, is on its way to five;

    b comes just now, with 4 tasks of 0.5 s and 2 of 1 s behind them. Three executors are on offer.
    """
    jobs = [job("a", stage("x", 8, 2000)), job("b", stage("x", 4, 500), stage("y", 2, 1000, [0]))]
    simulator = build(
        jobs, Cluster(8, moving_delay_ms=2_000.0, warmup_delay_ms=0.0), arrival_ms=[0, 1_000]
    )
    simulator.step(Action(0, 5))
    while simulator.time_ms < 1_000:
        simulator.step(PASS)
    seen = simulator.observation()
    assert seen.on_offer == 3
    return seen


def test_the_heads_columns_of_two_jobs_by_hand() -> None:
    """Typical: tasks of 1 s, jobs of 8 s; the jobs that came so far, 8 s, too."""
    found, legal = describe(scene_of(two_jobs()), SCALES_OF_TWO)
    a, b = found.job_x
    assert_row(a, columns.JOB, {
        "held": 5 / 8, "share": np.log2(5.5 / 4) / 4, "idle": 0, "local": 0, "source": 0,
        "remaining": 1 / 4, "relative": np.log2(16 / 10) / 4, "shorter": 1, "undone": 1,
        "age": np.log(1 + 8 / 8) / 4, "wanted": np.log(1 + 3 / 8),
        "typical": 1 / 4, "width": np.log2(16 / 2 / 4) / 4,
        "leading runnable": 1, "leading moving": np.log(1 + 1) / 4,
        "leading waves": np.log2(3 / 4) / 4, "leading blocking": 1 / 4, "leading wait": 0,
    })  # fmt: skip
    assert_row(b, columns.JOB, {
        "held": 0, "share": np.log2(0.5 / 4) / 4, "idle": 1, "local": 0, "source": 0,
        "remaining": -1 / 4, "relative": np.log2(4 / 10) / 4, "shorter": 0, "undone": 1,
        "age": 0, "wanted": np.log(1 + 4 / 8),
        "typical": -1 / 4, "width": np.log2(4 / 1.5 / 4) / 4,
        "leading runnable": 1, "leading moving": np.log(1 + 4) / 4,
        "leading waves": 0, "leading blocking": -1 / 4, "leading wait": 0,
    })  # fmt: skip
    a, b = found.stage_x
    assert_row(a, columns.STAGE, {
        "demand": np.log(1 + 12 / 8), "covering": 1, "runnable": 1, "duration": 1 / 4,
        "path": np.log(1 + 2 / 4) / 4, "critical": 1, "part": 6 / 16, "moving": np.log(1 + 1) / 4,
        "waves": np.log2(3 / 4) / 4, "blocking": 1 / 4, "wait": 0, "scarce": 0, "need": 0,
    })  # fmt: skip
    assert_row(b, columns.STAGE, {
        "demand": np.log(1 + 16 / 8), "covering": 1, "runnable": 1, "duration": -1 / 4,
        "path": np.log(1 + 1.5 / 4) / 4, "critical": 1, "part": 2 / 4, "moving": np.log(1 + 4) / 4,
        "waves": 0, "blocking": -1 / 4, "wait": 0, "scarce": 0, "need": 0,
    })  # fmt: skip
    assert_row(found.cluster_x[0], columns.CLUSTER, {
        "on_offer": 3 / 8, "offered": np.log2(3) / 4, "jobs": -2 / 4 + 1 / 2, "count": 1 / 4,
        "load": np.log2(1 / 16 + 20 / 8) / 4, "typical": np.log2(10 / 8) / 4, "working": 5 / 8,
        "session": 0, "holding": 0, "executors": np.log2(8 / 50) / 4, "moving": np.log(1 + 2) / 4,
        "move": -2 / 4, "quiet": 0, "gap": 0,
        "age": np.log(2) / 8, "ages": np.log(2) / 8, "durations": 1 / 4,
        "inflation": 0,
    })  # fmt: skip
    assert legal.limit.tolist() == [6, 7, 8, 1, 2, 3]
    assert_row(found.limit_x[1], columns.LIMIT, {
        "limit": 7 / 8, "share": np.log2(7 / 4) / 4, "added": 2 / 8, "count": 1 / 4, "moved": 1,
        "covering": 2 / 3, "waves": np.log2(3 / 2) / 4, "left": 1 / 3,
        "free": 1 / 8,
    })  # fmt: skip
    assert_row(found.limit_x[4], columns.LIMIT, {
        "limit": 2 / 8, "share": -1 / 4, "added": 2 / 8, "count": 1 / 4, "moved": 1,
        "covering": 2 / 4, "waves": 1 / 4, "left": 1 / 3, "free": 1 / 8,
    })  # fmt: skip


def test_the_nodes_columns_of_two_jobs_by_hand() -> None:
    """Tasks left are rounded to quarter powers of two: 8 are 8.5, 4 are 3.76, 2 are 2.08."""
    graph, _ = whole_graph(scene_of(two_jobs()), _sorter_of_two_jobs(), SCALES_OF_TWO)
    eight, four, two = 2 ** (13 / 4) - 1, 2 ** (9 / 4) - 1, 2 ** (6 / 4) - 1
    # Leaves first: a.x and b.y, then b.x, whose child y is.
    assert graph.nodes.graph.tolist() == [0, 1, 1]
    assert graph.nodes.node_of_stage.tolist() == [0, 2]
    expected = [
        [np.log(1 + 4 * eight / 8), 1 / 4, 5 / 8, np.log(1 + 8 * eight * 2 / 8), 1, 0],
        [np.log(1 + 4 * two / 8), 0, 0, np.log(1 + 8 * two / 8), 0, 0],
        [np.log(1 + 4 * four / 8), -1 / 4, 0, np.log(1 + 8 * four * 0.5 / 8), 1, 0],
    ]
    np.testing.assert_allclose(graph.nodes.x, expected, rtol=1e-6)


def _sorter_of_two_jobs() -> GraphSorter:
    jobs = (job("a", stage("x", 8, 2000)), job("b", stage("x", 4, 500), stage("y", 2, 1000, [0])))
    return GraphSorter(to_arrays(Trace("story", jobs)))


def test_a_slower_clock_changes_no_column() -> None:
    """All times doubled, the typical ones too."""
    seen = two_jobs()
    before, _ = describe(scene_of(seen), SCALES)
    jobs, stages = seen.jobs.copy(), seen.stages.copy()
    for name in ("arrival_ms", "work_ms", "remaining_ms"):
        jobs[name] *= 2
    for name in ("mean_ms", "critical_path_ms"):
        stages[name] *= 2
    slow = seen._replace(
        time_ms=2 * seen.time_ms,
        moving_delay_ms=2 * seen.moving_delay_ms,
        last_arrival_ms=2 * seen.last_arrival_ms,
        mean_gap_ms=2 * seen.mean_gap_ms,
        typical_ms=2 * seen.typical_ms,
        jobs=jobs,
        stages=stages,
    )
    units = SCALES._replace(task_ms=2 * SCALES.task_ms, work_ms=2 * SCALES.work_ms)
    after, _ = describe(scene_of(slow), units)
    for name in ("job_x", "stage_x", "limit_x", "cluster_x"):
        np.testing.assert_allclose(getattr(after, name), getattr(before, name), atol=1e-6)


def menu(sizes: list[int], executors: int, others: int = 0) -> list[int]:
    """Limits of the first job, whose open stages have so many tasks, beside other jobs."""
    first = job("a", *(stage(f"s{number}", size, 1_000) for number, size in enumerate(sizes)))
    rest = [job(f"b{number}", stage("x", 1, 1_000)) for number in range(others)]
    simulator = build([first, *rest], Cluster(num_executors=executors))
    _, legal = describe(scene_of(simulator.observation()), SCALES)
    return [int(one) for one in legal.limit[: legal.limit_ptr[1]]]


ONE_BY_ONE = list(range(1, 9))


@pytest.mark.parametrize(
    ("sizes", "executors", "others", "beyond"),
    [
        # A quarter octave: steps of 2 from 8, of 4 from 16, of 8 from 32; 40 is the fair share.
        ([100], 40, 0, [10, 12, 14, 16, 20, 24, 28, 32, 40]),
        # 9 is half of the fair share 18: steps go on from there; 36, twice of it, is all there is.
        ([100], 36, 1, [9, 11, 13, 15, 17, 18, 22, 26, 30, 34, 36]),
        # Two stages can use 11 and 2 executors, the job 13; the fair share is 20, half of it 10.
        ([11, 2], 60, 2, [10, 11, 13]),
        ([3], 40, 0, None),
    ],
)
def test_the_menu_of_limits_by_hand(
    sizes: list[int], executors: int, others: int, beyond: list[int] | None
) -> None:
    """One by one to 8, then quarter octaves, fair shares, and what stages and the job can use."""
    expected = ONE_BY_ONE + beyond if beyond is not None else [1, 2, 3]
    assert menu(sizes, executors, others) == expected


@given(
    sizes=st.lists(st.integers(1, 400), min_size=1, max_size=6),
    executors=st.integers(1, 500),
    others=st.integers(0, 12),
)
@settings(max_examples=150)
def test_menus_ascend_and_have_room(sizes: list[int], executors: int, others: int) -> None:
    """No limit twice, none that cannot be used, and never more than arrays are made for."""
    first = job("a", *(stage(f"s{number}", size, 1_000) for number, size in enumerate(sizes)))
    rest = [job(f"b{number}", stage("x", 1, 1_000)) for number in range(others)]
    simulator = build([first, *rest], Cluster(num_executors=executors))
    seen = simulator.observation()
    scene = scene_of(seen)
    _, legal = describe(scene, SCALES)
    assert len(legal.limit) <= feature_kernels.most_limits(scene)
    for begin, end in itertools.pairwise(legal.limit_ptr.tolist()):
        own = legal.limit[begin:end]
        assert (np.diff(own) > 0).all()
    own = legal.limit[: legal.limit_ptr[1]]
    assert own[-1] == min(sum(sizes), executors)
    assert set(range(1, min(8, int(own[-1])) + 1)) <= set(own.tolist())
    share = math.ceil(executors / (1 + others))
    wanted = {math.ceil(share / 2), share, 2 * share, *sizes}
    assert {one for one in wanted if one <= own[-1]} <= set(own.tolist())


def test_a_job_that_holds_every_executor_may_choose_nothing() -> None:
    """Though its stage has tasks left: no stage and no limit of it is in the graph."""
    seen = two_jobs()
    jobs = seen.jobs.copy()
    jobs["held"][0] = 8
    _, legal = describe(scene_of(seen._replace(jobs=jobs)), SCALES_OF_TWO)
    assert legal.open_job.tolist() == [1]
    assert np.diff(legal.limit_ptr).tolist() == [0, 3]


def test_jobs_that_came_at_once_have_no_spread_of_ages() -> None:
    """Exactly 0, whatever their number and age."""
    simulator = simulator_of(batch_run(3, jobs=7), Cluster(num_executors=4))
    policy = Arbitrary(1)
    while simulator.time_ms < 30_000:
        simulator.step(policy.decide(simulator.observation()))
    found, _ = describe(scene_of(simulator.observation()), SCALES)
    cluster = dict(zip(columns.CLUSTER, found.cluster_x[0].tolist(), strict=True))
    assert cluster["age"] > 0.05
    assert cluster["ages"] == 0.0
