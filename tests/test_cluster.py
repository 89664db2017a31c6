"""Settings of the cluster and of a run: what is refused, and in which words."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from spark_sim import Cluster, ExecutorClass, Protocol, SimulationError, Simulator, Status, Streams
from spark_sim.cluster import parse_classes
from tests.stories import build, job, stage
from traces import Trace, to_arrays

SMALL, LARGE = ExecutorClass(1, memory_mb=250.0), ExecutorClass(1, memory_mb=1000.0)
MANY = tuple(ExecutorClass(1, memory_mb=float(size)) for size in range(1, 18))


@pytest.mark.parametrize(
    ("make", "settings", "words"),
    [
        (Cluster, {"num_executors": 0}, r"must lie in 1\.\.100,000, got 0"),
        (Cluster, {"num_executors": 1.5}, r"executors are counted, got 1\.5"),
        (Cluster, {"num_executors": True}, "executors are counted, got True"),
        (Cluster, {"moving_delay_ms": -1.0}, r"moving delay .* got -1\.0"),
        (Cluster, {"moving_delay_ms": 1e300}, r"moving delay .*1e\+09 ms, got 1e\+300"),
        (Cluster, {"protocol": "session"}, "'session' is no member of `Protocol`"),
        (Cluster, {"time_limit_ms": 0.0}, r"time limit must be positive, got 0\.0 ms"),
        (Cluster, {"num_executors": 5, "classes": (SMALL, LARGE)}, "count 2 executors, .* has 5"),
        (Cluster, {"num_executors": 2, "classes": (LARGE, SMALL)}, "small ones come first"),
        (Cluster, {"num_executors": 2, "classes": (SMALL, SMALL)}, "small ones come first"),
        (Cluster, {"num_executors": 17, "classes": MANY}, "1 to 16 executor classes, not 17"),
        (
            Cluster,
            {"num_executors": 2, "classes": (SMALL, LARGE), "protocol": Protocol.SESSION},
            "'session' has no executor classes",
        ),
        (ExecutorClass, {"count": 0}, "count of 1 or more, got 0"),
        (ExecutorClass, {"count": 1, "cpu": 0, "memory_mb": 1.0}, r"cpu > 0 .* got 0 and 1\.0"),
        (ExecutorClass, {"count": 1, "memory_mb": -1.0}, "cpu > 0 and memory > 0"),
    ],
)
def test_impossible_clusters_are_refused(
    make: Callable[..., object], settings: dict[str, Any], words: str
) -> None:
    with pytest.raises(SimulationError, match=words):
        make(**settings)


def test_classes_are_written_as_at_the_command_line() -> None:
    """GBxCOUNT, with cores behind a colon; sorted by size."""
    assert parse_classes("0.5x3, 8:4x2,0.25x1") == (
        ExecutorClass(1, memory_mb=256.0),
        ExecutorClass(3, memory_mb=512.0),
        ExecutorClass(2, 4.0, 8192.0),
    )
    for wrong in ("", "4", "x3", "4x", "-1x3", "4gx3", "nanx3", "4x3,,8x1", "1e9x3"):
        with pytest.raises(SimulationError, match="write GBxCOUNT or GB:CORESxCOUNT"):
            parse_classes(wrong)


def test_a_task_must_fit_some_class() -> None:
    """Among several classes memory must be known; cores that nobody states fit everywhere."""
    classes = (ExecutorClass(2, 2.0, 250.0), ExecutorClass(2, 1.0, 1000.0))

    def start(cpu: float | None, memory_mb: float | None, *, classed: bool = True) -> Status:
        demanding = replace(stage("x", 1, 1000), cpu=cpu, memory_mb=memory_mb)
        first = replace(stage("first", 1, 1000), memory_mb=10.0)
        cluster = Cluster(num_executors=4, classes=classes if classed else None)
        return build([job("a", first, demanding)], cluster).status

    assert start(2.0, 250.0) is Status.DECIDE
    assert start(1.0, 1000.0) is Status.DECIDE
    assert start(None, 1000.0) is Status.DECIDE
    assert start(64.0, 1e9, classed=False) is Status.DECIDE
    assert start(None, None, classed=False) is Status.DECIDE
    for cpu, memory_mb in ((None, 1001.0), (2.0, 251.0), (3.0, 100.0)):
        with pytest.raises(SimulationError, match=r"job 0 .* stage 1: .* largest 1000"):
            start(cpu, memory_mb)
    with pytest.raises(SimulationError, match="stage 1: the trace lacks the memory"):
        start(1.0, None)


@pytest.mark.parametrize(
    ("arrival_ms", "jobs", "words"),
    [
        ([], [], "no job arrives"),
        ([0.0], [0, 0], "1 arrival times for 2 jobs"),
        ([0.0, math.nan], [0, 0], "arrival 1 at nan ms"),
        ([-1.0], [0], r"arrival 0 at -1\.0 ms"),
        ([5.0, 4.0], [0, 0], r"arrival 1 at 4\.0 ms comes before its predecessor at 5\.0 ms"),
        ([0.0], [1], r"arrival 0 names job 1; the trace has jobs 0\.\.0"),
        ([0.0], [-1], "arrival 0 names job -1"),
    ],
)
def test_impossible_arrivals_are_refused(
    arrival_ms: list[float], jobs: list[int], words: str
) -> None:
    arrays = to_arrays(Trace("t", (job("a", stage("x", 1, 1000)),)))
    with pytest.raises(SimulationError, match=words):
        Simulator(arrays, Cluster(), np.array(arrival_ms), np.array(jobs, np.int32))


def test_streams_are_independent_and_named() -> None:
    """Arrivals are shared by the repetitions of a sequence; durations and actions are not."""
    one, again, other = Streams(7, 3), Streams(7, 3), Streams(7, 3, rollout=1)

    assert one.arrivals().random() == again.arrivals().random() == other.arrivals().random()
    assert one.duration_key() == again.duration_key() != other.duration_key()
    assert one.actions().random() == again.actions().random() != other.actions().random()
    keys = {Streams(seed, number).duration_key() for seed in range(3) for number in range(3)}
    assert len(keys) == 9
    assert len({one.arrivals().random(), one.actions().random(), one.duration_key()}) == 3
    assert Streams(7, 4).arrivals().random() != one.arrivals().random()
