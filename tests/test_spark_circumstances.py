"""What a session may be in the middle of, under the learned policy and caps, counted in its tasks.

Slow (some minutes): `pytest -m slow tests/test_spark_circumstances.py`. Each job has a cap of three
slots. Jobs must give what they give without us, no task may start beyond the cap, and no class of
ours may fail. The results are a table of docs/results.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from decima.spark.jar import PLUGIN
from decima.whatif.replay.pools import Pool, Pools, allocation_file
from tests.jvm import Classes
from tests.spark_applications import free_port, metric, standalone
from tests.spark_work import most_at_once, together, until
from traces.loopback import LOOPBACK

pytestmark = [pytest.mark.slow, pytest.mark.real_spark]

CAP = 3
TWO_HOSTS = "two hosts"
Interval = tuple[float, float]


@pytest.fixture(autouse=True, scope="module")
def fresh_jvm() -> Iterator[None]:
    """Start a JVM for these tests: one that runs already does not get our jar on its class path."""
    _end_jvm()
    yield
    _end_jvm()


def _end_jvm() -> None:
    from pyspark import SparkContext

    gateway: Any = SparkContext._gateway
    if gateway is None:
        return
    assert SparkContext._active_spark_context is None
    gateway.shutdown()
    gateway.proc.stdin.close()  # its sign to end
    gateway.proc.wait(timeout=60)
    SparkContext._gateway = SparkContext._jvm = None


class Session:
    """A Spark session with the plugin, and what it counts."""

    def __init__(self, spark: Any, port: int) -> None:
        self.spark = spark
        self.context = spark.sparkContext
        self._port = port

    def naps(self, job: str, tasks: int, seconds: float, **others: Any) -> list[Interval]:
        """When each task of a job began and ended, by the clock of this machine."""
        self.context.setLocalProperty("decima.job", job)
        numbers = self.context.parallelize(range(tasks), tasks)
        rows = others.get("with_profile", lambda rdd: rdd)(numbers)
        return list(rows.mapPartitions(others.get("nap", _nap(seconds))).collect())

    def count(self, name: str) -> float:
        return metric(self._port, name)


def _nap(seconds: float) -> Callable[[Any], Iterator[Interval]]:
    def nap(_rows: Any) -> Iterator[Interval]:
        began = time.time()
        time.sleep(seconds)  # the task's work
        yield began, time.time()

    return nap


@contextmanager
def session(
    classes: Classes, folder: Path, master: str = "local[8]", **settings: str
) -> Iterator[Session]:
    """A session on that master; settings are named with _ for a point."""
    from pyspark.sql import SparkSession

    port = free_port()
    conf: dict[str, bool | float | int | str | None] = {
        **LOOPBACK,
        "spark.plugins": PLUGIN,
        "spark.jars": str(classes.jar),
        "spark.driver.extraClassPath": str(classes.jar),
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "4",
        "spark.executor.memory": "512m",
        "spark.eventLog.enabled": "false",
        "spark.decima.policy": "decima",
        "spark.decima.required": "true",
        "spark.decima.maxSlotsPerJob": str(CAP),
        "spark.decima.metricsPort": str(port),
        **{name.replace("_", "."): value for name, value in settings.items()},
    }
    with (
        standalone(folder, workers=2, cores=2, is_spread=True)
        if master == TWO_HOSTS
        else nullcontext(master)
    ) as address:
        spark = SparkSession.builder.master(address).config(map=conf).getOrCreate()
        spark.sparkContext.setLogLevel("ERROR")
        live = Session(spark, port)
        try:
            assert until(lambda: live.count("decima_schedules") == 1, 60)
            yield live
            assert live.count("decima_faults_total") == 0
            assert live.count("decima_launches_over_cap_total") == 0
            assert live.count("decima_launches_over_limit_total") == 0
            assert live.count("decima_plans_total") > 0
        finally:
            spark.stop()


def fair(folder: Path, pools: Pools) -> dict[str, str]:
    """Settings of Spark's FAIR scheduler with these pools."""
    path = folder / "fairscheduler.xml"
    path.write_text(allocation_file(pools))
    return {"spark_scheduler_mode": "FAIR", "spark_scheduler_allocation_file": str(path)}


# --- one machine ---------------------------------------------------------------------------------


def test_groups_sql_with_adaptive_execution_and_pools_beside_each_other(
    classes: Classes, tmp_path: Path
) -> None:
    """A job group, a query that changes its plan while it runs, and pools with weights."""
    pools = Pools({"web": Pool(fair=True, weight=3, min_share=2), "etl": Pool()})
    told: dict[str, list[Interval]] = {}
    with session(classes, tmp_path, **fair(tmp_path, pools)) as own:

        def in_pool(pool: str) -> None:
            own.context.setLocalProperty("spark.scheduler.pool", pool)
            told[pool] = own.naps(pool, 12, 0.2)

        def grouped() -> None:
            own.context.setJobGroup("night", "a report")
            told["night"] = own.naps(None, 12, 0.2)  # type: ignore[arg-type]  # no name

        def query() -> None:
            left = own.spark.range(0, 4_000).selectExpr("id", "id % 7 AS part")
            right = own.spark.range(0, 7).selectExpr("id AS part", "id * id AS square")
            rows = left.join(right, "part").groupBy("square").count().collect()
            assert {row["square"] for row in rows} == {n * n for n in range(7)}

        together(lambda: in_pool("web"), lambda: in_pool("etl"), grouped, query)
    assert {name: most_at_once(intervals) for name, intervals in told.items()} == dict.fromkeys(
        told, CAP
    )
    assert {len(intervals) for intervals in told.values()} == {12}


@pytest.mark.parametrize(("pools", "share"), [("keep", 0.75), ("ignore", 0.25)])
def test_a_pool_of_weight_three_has_three_quarters(
    classes: Classes, tmp_path: Path, pools: str, share: float
) -> None:
    """One job against three of another pool; strict fair alone would give it a quarter."""
    spans: dict[str, list[Interval]] = {"prod": [], "adhoc": []}
    settings = fair(tmp_path, Pools({"prod": Pool(weight=3), "adhoc": Pool()}))
    settings |= {"spark_decima_policy": "strict_fair", "spark_decima_pools": pools}
    settings["spark_decima_maxSlotsPerJob"] = "8"  # holds no job back
    with session(classes, tmp_path, **settings) as own:

        def run(pool: str, job: str, tasks: int) -> None:
            own.context.setLocalProperty("spark.scheduler.pool", pool)
            spans[pool] += own.naps(job, tasks, 0.2)

        own.naps("first", 8, 0.1)  # the first tasks start Python and load classes
        together(
            lambda: run("prod", "one", 120), *(lambda k=k: run("adhoc", f"{k}", 40) for k in "abc")
        )
    # Its part of the time in tasks, while both pools had tasks to start.
    begin_s = max(min(begin for begin, _ in intervals) for intervals in spans.values())
    end_s = min(max(begin for begin, _ in intervals) for intervals in spans.values())
    busy_s = {
        pool: sum(max(0.0, min(end, end_s) - max(begin, begin_s)) for begin, end in intervals)
        for pool, intervals in spans.items()
    }
    assert busy_s["prod"] / sum(busy_s.values()) == pytest.approx(share, abs=0.08)


def test_streaming_beside_a_batch_and_a_barrier(classes: Classes, tmp_path: Path) -> None:
    """Every micro-batch is a job under the cap, though Spark 4.3 makes task sets of its own for it;
    a barrier stage, which no cap holds for, gets its slots.
    """
    with session(classes, tmp_path) as own:
        rate = own.spark.readStream.format("rate").option("rowsPerSecond", 20).load()
        stream = rate.writeStream.format("noop").trigger(processingTime="300 milliseconds").start()
        try:
            spans = own.naps("batch", 24, 0.2)
            rows = own.context.parallelize(range(6), 6).barrier().mapPartitions(lambda _: [1])
            assert rows.sum() == 6
            assert until(lambda: (stream.lastProgress or {}).get("batchId", 0) >= 3, 60)
        finally:
            stream.stop()
    assert stream.exception() is None
    assert most_at_once(spans) == CAP


# --- several processes ---------------------------------------------------------------------------

ALLOCATION: Mapping[str, str] = {
    "spark_dynamicAllocation_enabled": "true",
    "spark_dynamicAllocation_shuffleTracking_enabled": "true",
    "spark_dynamicAllocation_minExecutors": "0",
    "spark_dynamicAllocation_maxExecutors": "4",
    "spark_dynamicAllocation_executorIdleTimeout": "3s",
    "spark_executor_cores": "1",
}


def test_executors_that_come_and_go(classes: Classes, tmp_path: Path) -> None:
    """Dynamic allocation on a standalone master with two workers: none at first, four under load,
    none after a pause, and again.
    """
    with session(classes, tmp_path, TWO_HOSTS, **ALLOCATION) as own:
        alive = own.context._jsc.sc().getExecutorMemoryStatus
        intervals: list[list[Interval]] = []
        for number in range(2):
            jobs = [
                lambda name=f"j{number} {k}": intervals.append(own.naps(name, 12, 0.5))
                for k in range(2)
            ]
            together(*jobs)
            assert until(lambda: alive().size() == 1, 60)  # the driver alone
    assert len(intervals) == 4
    assert all(0 < most_at_once(spans) <= CAP for spans in intervals)


def test_speculative_copies_and_stages_with_a_profile_of_their_own(
    classes: Classes, tmp_path: Path
) -> None:
    """A copy of a slow task counts as a task of its job; a stage that wants other resources runs
    beside limits.
    """
    slow = {
        "spark_speculation": "true",
        "spark_speculation_quantile": "0.5",
        "spark_speculation_multiplier": "1.2",
        "spark_speculation_interval": "100ms",
        "spark_executor_cores": "2",
    }

    def nap(_rows: Any) -> Iterator[Interval]:
        from pyspark import TaskContext

        task = TaskContext.get()
        assert task is not None
        began = time.time()
        is_slow = task.partitionId() == 0 and task.attemptNumber() == 0
        time.sleep(60.0 if is_slow else 0.4)  # the first attempt at the first task hangs
        yield began, time.time()

    def with_profile(rdd: Any) -> Any:
        from pyspark.resource import ResourceProfileBuilder, TaskResourceRequests

        wanted = ResourceProfileBuilder().require(TaskResourceRequests().cpus(2))
        return rdd.withResources(wanted.build)

    with session(classes, tmp_path, TWO_HOSTS, **slow) as own:
        began = time.monotonic()
        spans = own.naps("hangs", 8, 0.4, nap=nap)
        assert time.monotonic() - began < 50, "no copy was started"
        assert len(own.naps("wide", 4, 0.2, with_profile=with_profile)) == 4
    assert most_at_once(spans) <= CAP
