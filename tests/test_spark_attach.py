"""Attached to a real Spark in this process: limits, order, faults, and the way back."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import decima.spark
from decima.errors import PolicyError
from decima.registry import Heuristic
from decima.spark import AttachError, AutoSettings
from decima.spark.decision_log import read_decision_log
from decima.spark.jvm import check_session
from decima.spark.review import review
from tests.commands import raises_one_line
from tests.spark_applications import free_port
from tests.spark_work import (
    Hooks,
    several,
    sleep_tasks,
    spark_objects,
    together,
    until,
)

pytestmark = pytest.mark.real_spark


# --- what it does --------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["es_rule", "decima"])
def test_policies_run_jobs_to_their_end(session: Any, policy: str) -> None:
    """All jobs finish, no limit is passed, and Spark gets its own objects back."""
    before = spark_objects(session)
    with decima.spark.attach(session, policy=policy, ready_s=120) as scheduler:
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
    assert not any(status.jvm["held"].values())
    assert 0 < status.jvm["first_decision_ms_median"] <= status.jvm["first_decision_ms_p90"]
    several(session, jobs=1)


def took_s(session: Any, tasks: int = 16, pool: str | None = None) -> float:
    """Seconds for so many tasks of 0.1 s."""
    session.sparkContext.setLocalProperty("spark.scheduler.pool", pool)
    began_s = time.monotonic()
    sleep_tasks(session, "capped", tasks, 0.1)
    session.sparkContext.setLocalProperty("spark.scheduler.pool", None)
    return time.monotonic() - began_s


def test_caps_of_jobs_and_pools_hold(session: Any) -> None:
    """On eight slots, a job has four of them, and all of a pool one."""
    caps = {"maxSlotsPerJob": 4, "maxSlots.pool.small": 1, "maxSlotsPerPool": 3}
    with decima.spark.attach(session, policy="fifo", caps=caps) as scheduler:
        assert took_s(session) >= 16 * 0.1 / 4
        assert took_s(session, pool="other") >= 16 * 0.1 / 3
        assert took_s(session, 8, pool="small") >= 8 * 0.1
        assert scheduler.status().jvm["launches_over_cap"] == 0
        assert scheduler.status().jvm["launches_under_limit"] >= 40


@pytest.mark.slow
def test_a_new_stage_starts_within_a_fair_share_before_any_plan(session: Any, hooks: Hooks) -> None:
    """Nobody ever plans, and each of its two stages could wait for five seconds beside a large
    job; a fifth of that, and it gets its share.
    """
    took_s: dict[str, float] = {}

    def timed(job: str, tasks: int, after_s: float) -> None:
        time.sleep(after_s)  # the small job comes when the large one has the slots
        took_s[job] = -time.monotonic()
        sleep_tasks(session, job, tasks, 0.3)
        took_s[job] += time.monotonic()

    hooks.set("no plan")
    with decima.spark.attach(session, policy="strict_fair", hold_s=5.0) as scheduler:
        together(lambda: timed("large", 80, 0.0), lambda: timed("small", 3, 1.5))
        counters = scheduler.status().jvm
    assert took_s["small"] < 8.0
    assert took_s["small"] < took_s["large"]
    assert counters["early_launches"] > 0
    assert counters["faults"] == 0


def test_what_fits_needs_no_plan(session: Any, hooks: Hooks) -> None:
    """As many idle slots as tasks: they start though no plan is made and a stage could wait."""
    hooks.set("no plan")
    with decima.spark.attach(session, policy="strict_fair", hold_s=30.0) as scheduler:
        several(session, jobs=2, tasks=4)
        counters = scheduler.status().jvm
    assert counters["early_launches"] >= 8
    assert (counters["expired_holds"], counters["lapses"]) == (0, 0)


def test_shadow_changes_nothing(session: Any, tmp_path: Path) -> None:
    before = spark_objects(session)
    log = tmp_path / "decisions.jsonl"
    with decima.spark.attach(session, "strict_fair", mode="shadow", decision_log=log) as scheduler:
        assert spark_objects(session) == before
        several(session, tasks=24)
        status = scheduler.status()
    assert status.plans > 0
    decisions = read_decision_log(log)
    assert decisions.mode == "shadow"
    assert len(decisions.plans) == status.plans
    assert not any(plan.is_in_force for plan in decisions.plans)
    verdict = review(decisions, ("fifo", "strict_fair"))
    assert (sorted(verdict.names), verdict.ran) == (["j0", "j1", "j2"], "fifo")
    # 72 tasks of 0.1 s on 8 slots take 0.9 s at least.
    assert 0.9 <= verdict.jct_s.max() < 10
    assert (verdict.own_s > 0).all()
    assert (verdict.own_s < verdict.jct_s).all()
    assert 0.3 < verdict.simulated_s["fifo"].mean() / verdict.jct_s.mean() < 1.5


def test_a_model_for_another_size_says_so(
    session: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Once; one for about as many slots says nothing."""
    from decima.agent.model import load_model, save_model
    from decima.policy_names import model_path

    model = load_model(model_path("decima"))
    card = json.loads(json.dumps(model.card))
    for trained, warns in ((50, True), (12, False)):
        card["config"]["workload"]["settings"] = [{"executors": trained}]
        path = tmp_path / f"{trained}.safetensors"
        save_model(path, model.network.config, model.network.state_dict(), card)
        caplog.clear()
        with decima.spark.attach(session, policy=str(path)) as scheduler:
            several(session, jobs=2, tasks=4)
            assert scheduler.status().fallbacks == 0
        words = f"trained for {trained} to {trained} slots"
        assert sum(words in message for message in caplog.messages) == warns


def test_metrics_are_served_while_attached(session: Any) -> None:
    """On loopback only, in Prometheus' text form, and as a live page; gone after detaching."""
    from urllib.request import urlopen

    port = free_port()
    with decima.spark.attach(
        session, policy="strict_fair", metrics_port=port, dashboard_port=0
    ) as scheduler:
        page = str(scheduler.dashboard_url)
        several(session, jobs=2)
        text = urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5).read().decode()
        status = json.loads(urlopen(f"{page}status.json", timeout=5).read())  # noqa: S310 - loopback
    assert page.startswith("http://127.0.0.1:")
    assert (status["is_attached"], status["policy"], status["slots"]) == (True, "strict_fair", 8)
    assert "decima_attached 1\n" in text
    assert "decima_launches_over_limit_total 0\n" in text
    assert 'decima_plan_seconds{quantile="0.5"}' in text
    for url in (page, f"http://127.0.0.1:{port}/metrics"):
        with pytest.raises(OSError, match="refused"):
            urlopen(url, timeout=5)  # noqa: S310 - loopback


def test_attaching_and_detaching_while_jobs_run(session: Any) -> None:
    stop = threading.Event()

    def come_and_go() -> None:
        while not stop.is_set():
            with decima.spark.attach(session, policy="strict_fair"):
                time.sleep(0.3)  # a few plans are made

    def jobs() -> None:
        try:
            several(session, jobs=4, tasks=40)
        finally:
            stop.set()

    together(come_and_go, jobs)


def test_log_lines_keep_their_names(session: Any) -> None:
    """Log filters and dashboards look for Spark's own classes."""
    names: set[str] = set()
    with decima.spark.attach(session, policy="strict_fair"):
        root = session.sparkContext._jsc.sc().taskScheduler().rootPool()
        (ours,) = root.schedulableQueue().toArray()
        assert ours.getClass().getSimpleName() == "RankPool"
        names.add(ours.log().getName())

        def look() -> bool:
            for manager in ours.schedulableQueue().toArray():
                assert manager.getClass().getSimpleName() == "Limited"
                names.add(manager.log().getName())
            return len(names) == 2

        together(partial(until, look), lambda: several(session, jobs=1, tasks=24))
    scheduler = "org.apache.spark.scheduler"
    assert names == {f"{scheduler}.Pool", f"{scheduler}.TaskSetManager"}


# --- all or nothing ------------------------------------------------------------------------------


@contextmanager
def nothing_left_behind(spark: Any) -> Iterator[None]:
    """Spark's own objects, listeners and our threads are as before; the next one may attach."""

    def queues() -> set[str]:
        """Names of the queues of Spark's bus: ours has one to itself."""
        bus = spark.sparkContext._jsc.sc().listenerBus()
        return set(bus.activeQueues().mkString(",").split(","))

    before, threads = (spark_objects(spark), queues()), set(threading.enumerate())
    yield
    assert (spark_objects(spark), queues()) == before
    assert until(lambda: set(threading.enumerate()) <= threads)
    decima.spark.attach(spark, policy="strict_fair").detach()


@pytest.mark.parametrize(
    ("policy", "what"),
    [("decima", "metrics"), ("strict_fair", "dashboard")],
)
def test_a_taken_port_leaves_nothing_behind(session: Any, policy: str, what: str) -> None:
    with nothing_left_behind(session), socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with raises_one_line(AttachError, match=f"{what} port {port}"):
            decima.spark.attach(session, policy=policy, **{f"{what}_port": port})


@pytest.mark.parametrize("when", ["refuse", "refuse late"], ids=["at once", "late"])
def test_a_field_that_cannot_be_set_leaves_nothing_behind(
    session: Any, hooks: Hooks, when: str
) -> None:
    with nothing_left_behind(session):
        hooks.set(when)
        with raises_one_line(AttachError, match="final field"):
            decima.spark.attach(session, policy="strict_fair", mode="exact")
        hooks.clear()


# --- what is refused -----------------------------------------------------------------------------


def test_bad_input_is_refused_before_spark_is_touched(session: Any, tmp_path: Path) -> None:
    before, threads = spark_objects(session), set(threading.enumerate())
    model = tmp_path / "model.safetensors"
    model.write_bytes(b"no model")
    cases: list[tuple[Any, dict[str, Any], type[Exception], str]] = [
        (session, {"policy": "oracle"}, PolicyError, "unknown policy 'oracle'"),
        (session, {"policy": str(model)}, ValueError, str(model)),
        (session, {"policy": object()}, AttachError, "no method decide"),
        (session, {"policy": Heuristic}, AttachError, "Heuristic is a class"),
        (session, {"policy": "fifo", "mode": "magic"}, AttachError, "mode 'magic'"),
        ("spark", {"policy": "fifo"}, AttachError, "neither a SparkSession nor"),
        (session, {"policy": "fifo", "caps": {"maxSlotPerJob": 2}}, AttachError, "maxSlotsPerJob"),
        (session, {"policy": "fifo", "caps": {"policy": 2}}, AttachError, "policy is no cap"),
        (session, {"policy": "fifo", "caps": {"maxSlotsPerJob": 2.5}}, AttachError, "'2.5'"),
        (session, {"policy": "tuned_srw", "parameters": {"factor": "x"}}, PolicyError, "got 'x'"),
        (session, {"policy": "tuned_srw", "parameters": {"factor": 0}}, PolicyError, "above 0"),
        (session, {"policy": "tuned_srw", "parameters": [1, 2]}, AttachError, "numbers by name"),
        (session, {"policy": "fifo", "auto": AutoSettings()}, AttachError, "auto is for policy="),
        (session, {"policy": "auto", "auto": AutoSettings(candidates=("nobody",))},
         ValueError, "nobody"),
        (session, {"policy": "fifo", "caps": {"maxJobs": 1.5}}, AttachError, "maxJobs: '1.5'"),
        (session, {"policy": "fifo", "mode": "shadow", "caps": {"maxJobs": 2}}, AttachError,
         "'shadow' holds up no job"),
    ]  # fmt: skip
    for spark, arguments, kind, part in cases:
        with raises_one_line(kind, match=part):
            decima.spark.attach(spark, **arguments)
    assert spark_objects(session) == before
    assert set(threading.enumerate()) == threads


def test_other_versions_are_refused(session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    context = session.sparkContext
    for version in ("3.4.1", "5.0.0"):
        monkeypatch.setattr(type(context), "version", version)
        with pytest.raises(AttachError, match=version):
            check_session(session)


# --- one at a time -------------------------------------------------------------------------------


@pytest.mark.parametrize("modes", [("shadow", "exact"), ("shadow", "shadow"), ("exact", "shadow")])
def test_a_session_has_one_scheduler_even_if_it_only_watches(
    session: Any, modes: tuple[str, str], tmp_path: Path
) -> None:
    """A log of what Spark did by itself would be false beside another; afterwards it is free."""
    before, log = spark_objects(session), tmp_path / "day.jsonl"
    with decima.spark.attach(session, "strict_fair", mode=modes[0], decision_log=log):
        for _ in range(2):  # a refused one lets nothing go
            with pytest.raises(AttachError, match="attached to this SparkContext already"):
                decima.spark.attach(session, "fifo", mode=modes[1], decision_log=log)
        several(session, jobs=1)
    assert spark_objects(session) == before
    assert (read_decision_log(log).policy, [*tmp_path.iterdir()]) == ("strict_fair", [log])
    with decima.spark.attach(session, "strict_fair", mode=modes[1]):
        several(session, jobs=1)


def test_the_log_of_an_earlier_session_is_put_aside(session: Any, tmp_path: Path) -> None:
    """A driver that restarts loses nothing; each log is read as that of its own session."""
    log = tmp_path / "day.jsonl"
    for jobs in (3, 1):
        with decima.spark.attach(session, "strict_fair", mode="shadow", decision_log=log):
            several(session, jobs=jobs)
    assert len(read_decision_log(log).jobs) == 1
    assert len(read_decision_log(tmp_path / "day.jsonl.1").jobs) == 3


def test_a_stopped_context_ends_the_scheduler() -> None:
    """`stop` returns while we are attached, and the status says that it has ended. Runs last."""
    from pyspark.sql import SparkSession

    spark = SparkSession.getActiveSession()
    assert spark is not None
    scheduler = decima.spark.attach(spark, policy="strict_fair")
    several(spark, jobs=1)
    began = time.monotonic()
    context = spark.sparkContext._jsc.sc()
    stop = threading.Thread(target=spark.stop)
    stop.start()
    while not context.isStopped():
        time.sleep(0.001)  # so that the stop goes on
    assert not scheduler.is_attached  # from the first moment, not from the next report on
    stop.join()
    assert time.monotonic() - began < 15
    assert "stopped" in str(scheduler.status().ended_because)
    scheduler.detach()
    with pytest.raises(AttachError, match="stopped"):
        decima.spark.attach(spark, policy="strict_fair")
