"""Attached to a real Spark in this process: limits, order, faults, and the way back."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import decima.spark
from decima.policies import PolicyError
from decima.spark import AttachError, Guard, Scheduler
from decima.spark.jvm import check_session
from spark_sim import PASS, Action, Observation

pyspark = pytest.importorskip("pyspark", reason="pyspark is not installed")

SLOTS = 8


@pytest.fixture(scope="module")
def session() -> Iterator[Any]:
    """A local Spark with eight slots."""
    from pyspark.sql import SparkSession

    spark = (
        SparkSession.builder.master(f"local[{SLOTS}]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "4")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    yield spark
    spark.stop()


def sleep_tasks(spark: Any, job: str, tasks: int, task_s: float = 0.1) -> None:
    """One stage of tasks that sleep inside the JVM, then a small one."""
    spark.sparkContext.setLocalProperty("decima.job", job)
    nap = f"java_method('java.lang.Thread', 'sleep', {round(1000 * task_s)}L)"
    numbers = spark.range(0, tasks, 1, tasks).selectExpr("id % 3 AS part", f"{nap} AS slept")
    counted = numbers.groupBy("part").agg({"slept": "max"})  # an unused column would be left out
    assert len(counted.collect()) == min(3, tasks)


def together(*work: Callable[[], None]) -> None:
    """Run each in a thread of its own; no exception is lost, and none may hang."""
    failed: list[BaseException] = []

    def guarded(one: Callable[[], None]) -> None:
        try:
            one()
        except BaseException as error:  # noqa: BLE001 - it is raised again below
            failed.append(error)

    threads = [threading.Thread(target=guarded, args=(one,), daemon=True) for one in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
        assert not thread.is_alive(), "a job hangs"
    if failed:
        raise failed[0]


def several(spark: Any, jobs: int = 3, tasks: int = 16) -> None:
    together(*(lambda n=n: sleep_tasks(spark, f"j{n}", tasks) for n in range(jobs)))


def spark_objects(spark: Any) -> tuple[str, str]:
    """Classes of the pool and builder that Spark's task scheduler uses now."""
    scheduler = spark.sparkContext._jsc.sc().taskScheduler()
    field = scheduler.getClass().getDeclaredField("schedulableBuilder")
    field.setAccessible(True)
    names = scheduler.rootPool().getClass().getName(), field.get(scheduler).getClass().getName()
    assert all(isinstance(name, str) for name in names)
    return names


class Fixed:
    """Gives each job the limit that a table names; the order is that of the names."""

    name = "fixed"

    def __init__(self, limits: dict[int, int]) -> None:
        self.limits = limits

    def decide(self, seen: Observation) -> Action:
        for stage in seen.open_stages():
            job = int(seen.stages[stage]["job"])
            limit = self.limits.get(len(seen.active) - 1 - job, 1)
            if limit in seen.legal_limits(int(stage)):
                return Action(int(stage), limit)
        return PASS


# --- what it does --------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["strict_fair", "tuned_srw", "es_rule"])
def test_policies_run_jobs_to_their_end(session: Any, policy: str) -> None:
    """All jobs finish, no limit is passed, and Spark gets its own objects back."""
    before = spark_objects(session)
    with decima.spark.attach(session, policy=policy) as scheduler:
        assert spark_objects(session) != before
        several(session)
        status = scheduler.status()
    assert spark_objects(session) == before
    assert status.mode == "exact"
    assert status.plans > 0
    assert (status.fallbacks, status.ended_because, status.dropped_events) == (0, None, 0)
    assert status.jvm["launches_under_limit"] > 0
    assert status.jvm["launches_over_limit"] == 0
    assert (status.jvm["faults"], status.jvm["lapses"]) == (0, 0)
    assert set(status.jvm["held"].values()) == {0}
    assert 0 < status.jvm["first_decision_ms_median"] <= status.jvm["first_decision_ms_p90"]
    several(session, jobs=1)


def test_limits_hold_while_they_change(session: Any) -> None:
    """Random limits, new ones at each decision: our counters in the JVM see none passed."""
    import random

    rng = random.Random(5)  # noqa: S311 - of a test

    class Random:
        name = "random limits"

        def decide(self, seen: Observation) -> Action:
            stage = int(rng.choice(list(seen.open_stages())))
            limits = seen.legal_limits(stage)
            return Action(stage, rng.choice(list(limits)[:4]))

    with decima.spark.attach(session, policy=Random()) as scheduler:
        several(session, jobs=4, tasks=24)
        counters = scheduler.status().jvm
    assert counters["launches_under_limit"] > 50
    assert counters["launches_over_limit"] == 0


def test_a_job_that_is_first_starts_first(session: Any) -> None:
    """Shortest remaining work first: the small job that comes last overtakes."""
    took: dict[str, float] = {}

    def timed(job: str, tasks: int, after_s: float) -> None:
        time.sleep(after_s)
        began = time.monotonic()
        sleep_tasks(session, job, tasks, 0.2)
        took[job] = time.monotonic() - began

    def both() -> None:
        together(lambda: timed("large", 120, 0.0), lambda: timed("small", 3, 1.0))

    both()
    plain = took["small"]
    with decima.spark.attach(session, policy="tuned_srw"):
        both()
    assert took["small"] < 0.6 * plain


def test_shadow_changes_nothing(session: Any, tmp_path: Path) -> None:
    """It decides and logs; Spark keeps its own objects all the time."""
    before = spark_objects(session)
    log = tmp_path / "decisions.jsonl"
    with decima.spark.attach(session, "strict_fair", mode="shadow", decision_log=log) as scheduler:
        assert spark_objects(session) == before
        several(session)
        status = scheduler.status()
    assert status.plans > 0
    assert status.jvm["plans"] == 0
    assert len(log.read_text().splitlines()) == status.plans


def test_metrics_are_served_while_attached(session: Any) -> None:
    """On loopback only, in Prometheus' text form; gone after detaching; a taken port is refused."""
    import socket
    from urllib.request import urlopen

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(AttachError, match=f"metrics port {port}"):
            decima.spark.attach(session, policy="strict_fair", metrics_port=port)
    with decima.spark.attach(session, policy="strict_fair", metrics_port=port):
        several(session, jobs=2)
        text = urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5).read().decode()
    assert "decima_attached 1.0" in text
    assert "decima_launches_over_limit_total 0.0" in text
    assert 'decima_plan_seconds{quantile="0.5"}' in text
    with pytest.raises(OSError, match="refused"):
        urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5)


def test_attaching_and_detaching_while_jobs_run(session: Any) -> None:
    """Safe at any moment, and any number of times."""
    stop = threading.Event()

    def come_and_go() -> None:
        while not stop.is_set():
            with decima.spark.attach(session, policy="strict_fair"):
                time.sleep(0.3)

    def jobs() -> None:
        try:
            several(session, jobs=4, tasks=40)
        finally:
            stop.set()

    together(come_and_go, jobs)


# --- what may go wrong ---------------------------------------------------------------------------


class Faulty:
    """Fails in the way that it is told to."""

    name = "faulty"

    def __init__(self, fail: Callable[[], Any]) -> None:
        self.fail = fail

    def decide(self, seen: Observation) -> Action:
        found: Action = self.fail()
        return found


def no_answer() -> Any:
    raise RuntimeError("no idea")


@pytest.mark.parametrize(
    ("fail", "fault"),
    [
        (no_answer, "no idea"),
        (lambda: time.sleep(3), "no answer within"),
        (lambda: Action(10_000, 1), "illegal action"),
    ],
    ids=["raises", "hangs", "illegal"],
)
def test_jobs_finish_whatever_the_policy_does(
    session: Any, fail: Callable[[], Any], fault: str
) -> None:
    """Strict fair stands in; after a few failures in a row the scheduler lets go."""
    before = spark_objects(session)
    guard = Guard(decision_s=0.2, failures=3)
    with decima.spark.attach(session, policy=Faulty(fail), guard=guard) as scheduler:
        several(session, tasks=24)
        status = scheduler.status()
        assert status.fallbacks >= 3
        assert fault in str(status.last_fault) or "busy" in str(status.last_fault)
        assert status.ended_because == "the policy failed 3 times in a row"
        assert not scheduler.is_attached
        assert spark_objects(session) == before


def test_a_policy_that_never_schedules_holds_nothing_up(session: Any) -> None:
    """It is alive, so no limit lapses; but no job starves beyond the bound."""
    lazy = Faulty(lambda: PASS)
    with decima.spark.attach(session, policy=lazy, guard=Guard(starve_s=0.5)) as scheduler:
        several(session, jobs=2, tasks=4)
        assert scheduler.status().starved > 0


def test_limits_lapse_when_the_scheduler_falls_silent(session: Any) -> None:
    """Slots stand idle under its last plan, then its thread hangs: Spark's own order returns."""
    scheduler = decima.spark.attach(session, policy=Faulty(lambda: PASS), lapse_s=0.5)
    jobs = threading.Thread(target=several, args=(session, 2, 8), daemon=True)
    jobs.start()
    end = time.monotonic() + 20
    while scheduler.status().jvm["refused_offers"] == 0 and time.monotonic() < end:
        time.sleep(0.1)
    time.sleep(1.0)
    assert jobs.is_alive(), "nothing may start under a plan that chooses nothing"
    assert scheduler.status().jvm["lapses"] == 0, "a living scheduler's plan is kept"
    scheduler._control.wait = lambda _timeout_ms: time.sleep(60)  # type: ignore[assignment,method-assign,return-value]
    jobs.join(timeout=20)
    counters = scheduler.status().jvm
    release(scheduler)
    assert not jobs.is_alive()
    assert counters["lapses"] == 1


def release(scheduler: Scheduler) -> None:
    scheduler._thread.join = lambda timeout=None: None  # type: ignore[method-assign]
    scheduler.detach()


def assert_all_slots_are_free(scheduler: Scheduler) -> None:
    """Soon: tasks of a job that has failed may still be ending."""
    end = time.monotonic() + 10
    while any(scheduler.status().jvm["held"].values()) and time.monotonic() < end:
        time.sleep(0.1)
    assert set(scheduler.status().jvm["held"].values()) == {0}


def test_a_cancelled_job_frees_its_slots(session: Any) -> None:
    """Its thread gets Spark's error, the others go on."""
    context = session.sparkContext

    ended = threading.Event()

    def cancelled() -> None:
        context.setJobGroup("away", "to be cancelled", interruptOnCancel=True)
        with pytest.raises(Exception, match="cancel"):
            sleep_tasks(session, "away", 400, 0.2)
        ended.set()

    def cancel() -> None:
        while not ended.wait(timeout=0.5):  # on a busy machine the job may not have begun
            context.cancelJobGroup("away")

    with decima.spark.attach(session, policy="strict_fair") as scheduler:
        together(cancelled, cancel, lambda: sleep_tasks(session, "stays", 20))
        assert_all_slots_are_free(scheduler)


def test_a_task_that_fails_is_tried_again_or_fails_its_job(session: Any) -> None:
    """As without us: in local mode a task has one attempt."""
    context = session.sparkContext

    def fails() -> None:
        with pytest.raises(Exception, match="ZeroDivisionError"):
            context.parallelize(range(8), 8).map(lambda one: 1 // (one - 5)).count()

    with decima.spark.attach(session, policy="strict_fair") as scheduler:
        together(fails, lambda: sleep_tasks(session, "good", 16))
        assert_all_slots_are_free(scheduler)


# --- what is refused -----------------------------------------------------------------------------


def test_only_one_may_be_attached(session: Any) -> None:
    """The second is refused in one line, and harms nothing; later it may come."""
    with decima.spark.attach(session, policy="strict_fair") as first:
        with pytest.raises(AttachError, match="attached to this SparkContext already"):
            decima.spark.attach(session, policy="tuned_srw")
        assert first.is_attached
        several(session, jobs=1)
    decima.spark.attach(session, policy="tuned_srw").detach()


def test_bad_input_is_refused_before_spark_is_touched(session: Any, tmp_path: Path) -> None:
    """One line each that names the value."""
    before = spark_objects(session)
    model = tmp_path / "model.safetensors"
    model.write_bytes(b"no model")
    cases: list[tuple[Any, dict[str, Any], type[Exception], str]] = [
        (session, {"policy": "oracle"}, PolicyError, "unknown policy 'oracle'"),
        (session, {"policy": str(model)}, ValueError, str(model)),
        (session, {"policy": object()}, AttachError, "no method decide"),
        (session, {"policy": "fifo", "mode": "magic"}, AttachError, "mode 'magic'"),
        ("spark", {"policy": "fifo"}, AttachError, "neither a SparkSession nor"),
    ]
    for spark, arguments, kind, part in cases:
        with pytest.raises(kind, match=part) as caught:
            decima.spark.attach(spark, **arguments)
        assert "\n" not in str(caught.value)
    assert spark_objects(session) == before


def test_other_versions_are_refused(session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    context = session.sparkContext
    for version in ("3.4.1", "5.0.0"):
        monkeypatch.setattr(type(context), "version", version)
        with pytest.raises(AttachError, match=version):
            check_session(session)


def test_a_stopped_context_ends_the_scheduler() -> None:
    """`stop` returns while we are attached, and the scheduler's thread ends. Runs last."""
    from pyspark.sql import SparkSession

    spark = SparkSession.getActiveSession()
    assert spark is not None
    scheduler = decima.spark.attach(spark, policy="strict_fair")
    several(spark, jobs=1)
    began = time.monotonic()
    spark.stop()
    assert time.monotonic() - began < 15
    scheduler._thread.join(timeout=5)
    assert not scheduler._thread.is_alive()
    assert not scheduler.status().is_attached
    scheduler.detach()
    with pytest.raises(AttachError, match="stopped"):
        decima.spark.attach(spark, policy="strict_fair")
