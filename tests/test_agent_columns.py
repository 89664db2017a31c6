"""Every column that the network sees, against numbers on paper."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from decima.agent import columns
from decima.agent.feature_kernels import most_limits
from decima.agent.graph import GraphSorter
from decima.agent.scales import Scales
from spark_sim import PASS, Action, Cluster, ExecutorClass, Observation
from tests.networks import described, whole_graph
from tests.stories import build, job, stage
from tests.test_agent_support import SCALES
from traces import Trace, to_arrays


def assert_row(
    row: NDArray[np.float32], names: tuple[str, ...], expected: Mapping[str, float]
) -> None:
    """All columns, by name."""
    assert list(expected) == list(names)
    named = dict(zip(names, row.tolist(), strict=True))
    assert named == pytest.approx(dict(expected), rel=1e-5, abs=1e-5)


def test_the_columns_of_executor_classes_by_hand() -> None:
    """On one executor of 250 MB and three of 1,000: a task of 200 MB fits both, 800 MB one."""
    stages = (replace(stage(name, 1, 1_000), memory_mb=size) for name, size in SIZES)
    classes = (ExecutorClass(1, memory_mb=250.0), ExecutorClass(3, memory_mb=1_000.0))
    simulator = build([job("a", *stages)], Cluster(num_executors=4, classes=classes))
    choices = described(simulator.observation().as_batch(), SCALES)
    assert choices.kind.tolist() == [0, 1, 1]
    assert choices.kind_stage.tolist() == [0, 0, 1]
    expected = [
        {"size": 0.25, "filled": 0.8, "on_offer": 0.25, "free": 1, "count": 0.25, "larger": 0,
         "smallest": 1},
        {"size": 1, "filled": 0.2, "on_offer": 0.75, "free": 1, "count": 0.75, "larger": 1,
         "smallest": 0},
        {"size": 1, "filled": 0.8, "on_offer": 0.75, "free": 1, "count": 0.75, "larger": 0,
         "smallest": 1},
    ]  # fmt: skip
    for row, values in zip(choices.class_x, expected, strict=True):
        assert_row(row, columns.CLASS, values)
    for row, scarce, need in zip(choices.stage_x, (0.0, 0.25), (0.2, 0.8), strict=True):
        named = dict(zip(columns.STAGE, row.tolist(), strict=True))
        assert (named["scarce"], named["need"]) == (pytest.approx(scarce), pytest.approx(need))


SIZES = (("small", 200.0), ("large", 800.0))
SCALES_OF_TWO = Scales(task_ms=1_000, work_ms=8_000)


def beside(sizes: list[int], executors: int, others: int) -> Observation:
    """A job whose open stages have so many tasks, beside other jobs of one task."""
    first = job("a", *(stage(f"s{number}", size, 1_000) for number, size in enumerate(sizes)))
    rest = [job(f"b{number}", stage("x", 1, 1_000)) for number in range(others)]
    return build([first, *rest], Cluster(num_executors=executors)).observation()


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
    features = described(two_jobs().as_batch(), SCALES_OF_TWO)
    a, b = features.job_x
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
    a, b = features.stage_x
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
    assert_row(features.cluster_x[0], columns.CLUSTER, {
        "on_offer": 3 / 8, "offered": np.log2(3) / 4, "jobs": -2 / 4 + 1 / 2, "count": 1 / 4,
        "load": np.log2(1 / 16 + 20 / 8) / 4, "typical": np.log2(10 / 8) / 4, "working": 5 / 8,
        "session": 0, "holding": 0, "executors": np.log2(8 / 50) / 4, "moving": np.log(1 + 2) / 4,
        "move": -2 / 4, "quiet": 0, "gap": 0,
        "age": np.log(2) / 8, "ages": np.log(2) / 8, "durations": 1 / 4,
        "inflation": 0,
    })  # fmt: skip
    assert features.limit.tolist() == [6, 7, 8, 1, 2, 3]
    assert_row(features.limit_x[1], columns.LIMIT, {
        "limit": 7 / 8, "share": np.log2(7 / 4) / 4, "added": 2 / 8, "count": 1 / 4, "moved": 1,
        "covering": 2 / 3, "waves": np.log2(3 / 2) / 4, "left": 1 / 3,
        "free": 1 / 8,
    })  # fmt: skip
    assert_row(features.limit_x[4], columns.LIMIT, {
        "limit": 2 / 8, "share": -1 / 4, "added": 2 / 8, "count": 1 / 4, "moved": 1,
        "covering": 2 / 4, "waves": 1 / 4, "left": 1 / 3, "free": 1 / 8,
    })  # fmt: skip


def test_the_nodes_columns_of_two_jobs_by_hand() -> None:
    """Tasks left are rounded to quarter powers of two: 8 are 8.5, 4 are 3.76, 2 are 2.08."""
    jobs = (job("a", stage("x", 8, 2000)), job("b", stage("x", 4, 500), stage("y", 2, 1000, [0])))
    sorter = GraphSorter(to_arrays(Trace("story", jobs)))
    graph, _ = whole_graph(two_jobs().as_batch(), sorter, SCALES_OF_TWO)
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
    choices = described(beside(sizes, executors, others).as_batch(), SCALES)
    assert choices.limit[: choices.limit_ptr[1]].tolist() == expected


@given(
    sizes=st.lists(st.integers(1, 400), min_size=1, max_size=6),
    executors=st.integers(1, 500),
    others=st.integers(0, 12),
)
@settings(max_examples=150)
def test_menus_ascend_and_have_room(sizes: list[int], executors: int, others: int) -> None:
    """No limit twice, none that cannot be used, and never more than arrays are made for."""
    seen = beside(sizes, executors, others).as_batch()
    choices = described(seen, SCALES)
    assert len(choices.limit) <= most_limits(seen)
    for begin, end in itertools.pairwise(choices.limit_ptr.tolist()):
        assert (np.diff(choices.limit[begin:end]) > 0).all()
    menu = choices.limit[: choices.limit_ptr[1]]
    assert menu[-1] == min(sum(sizes), executors)
    assert set(range(1, min(8, int(menu[-1])) + 1)) <= set(menu.tolist())
    share = math.ceil(executors / (1 + others))
    wanted = {math.ceil(share / 2), share, 2 * share, *sizes}
    assert {limit for limit in wanted if limit <= menu[-1]} <= set(menu.tolist())


def test_a_job_that_holds_every_executor_may_choose_nothing() -> None:
    """Though its stage has tasks left: no stage and no limit of it is in the graph."""
    seen = two_jobs()
    jobs = seen.jobs.copy()
    jobs["held"][0] = 8
    choices = described(seen._replace(jobs=jobs).as_batch(), SCALES_OF_TWO)
    assert choices.open_job.tolist() == [1]
    assert np.diff(choices.limit_ptr).tolist() == [0, 3]
