"""Logs of clusters unlike a fixed set of slots: small ones by hand, and those of a folder."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from decima.whatif import WhatIfSettings
from decima.whatif.closed_loop import predecessors
from decima.whatif.replay import (
    ReplayReport,
    ReplaySettings,
    ReplayWorkload,
    read_recording,
    replay,
)
from decima.whatif.replay.check import session_cluster
from decima.whatif.replay.driver import held_ms
from decima.whatif.replay.pools import Pool, Pools, read_pools
from tests.commands import decima, succeeded
from tests.conftest import SHARED
from tests.recordings import read_events
from tests.spark_events import (
    Event,
    event,
    executor,
    gone,
    properties,
    simple_job,
    spark_job,
    stage,
    started,
    task,
    write,
)
from traces import TraceError

FIELD = SHARED / "data" / "field-logs"
ONCE = ReplaySettings(draws=1)
FAIR = properties(spark_scheduler_mode="FAIR")
BOUND_PERCENT = 10.0


@pytest.mark.parametrize(
    ("name", "pools"),
    [
        ("1-waits-for-executors.log", None),
        ("2-two-pools.log", None),
        ("2b-pool-weight-minshare.log", "2b-fair.xml"),
        ("3-sequential-driver.log", None),
        ("5-task-clock-before-job.log", None),
        ("8-dynamic-allocation.log", None),
        ("9-failed-attempts.log", None),
    ],
)
def test_field_logs_are_met(name: str, pools: str | None) -> None:
    """Median error and bias are within 10 %."""
    if not FIELD.is_dir():
        pytest.skip(f"field logs are not at {FIELD}")
    settings = None if pools is None else read_pools(FIELD / pools)
    report = replay(read_recording([FIELD / name], pools=settings), ReplaySettings())
    fidelity = report.fidelity("all")
    assert fidelity is not None
    assert fidelity.above(BOUND_PERCENT) == []


def test_an_exact_timetable_is_replayed_as_one() -> None:
    """On half the slots its queue grows."""
    log = SHARED / "data" / "field-logs-2" / "5-cron" / "log"
    if not log.is_file():
        pytest.skip(f"field logs are not at {log}")
    recording = read_recording([log])
    assert set(recording.follows) == {-1}
    halved = replay(recording, ReplaySettings(slots=2, draws=5))
    assert halved.simulated_s.mean() == pytest.approx(63.8, rel=0.01)


def met(report: ReplayReport) -> bool:
    return bool(np.allclose(report.simulated_s, report.recorded_s, rtol=1e-9))


def test_pools_share_and_their_jobs_queue(tmp_path: Path) -> None:
    """Two slots, tasks of 100 ms: job 0 and behind it job 1 in pool a, job 2 in pool b.

    Job 0 takes both slots; then each pool has one, until job 1 has both.
    """
    events = [FAIR, executor(cores=2)]
    for number, pool, begins in (
        (0, "a", (0, 0, 100, 200)),
        (1, "a", (300, 300)),
        (2, "b", (100, 200)),
    ):
        tasks = [(begin, begin + 100) for begin in begins]
        events += simple_job(number, number, tasks, begins[-1] + 100, spark_scheduler_pool=pool)
    recording = read_events(tmp_path, *events)
    report = replay(recording, ONCE)
    assert report.policies == ("spark_pools",)
    assert met(report)
    for other in ("fifo", "spark_fair"):
        assert not met(replay(recording, ReplaySettings(draws=1, policy=other)))


@pytest.mark.parametrize(
    ("of_b", "ends_s"),
    [(Pool(), 0.3), (Pool(weight=3), 0.2), (Pool(min_share=3), 0.2), (Pool(min_share=2), 0.3)],
)
def test_settings_of_pools_decide(tmp_path: Path, of_b: Pool, ends_s: float) -> None:
    """Four slots that free up one by one at 100 ms: three of them for b with weight 3."""
    events = [
        FAIR,
        executor(cores=4),
        *simple_job(0, 0, [(100 * (k // 4), 100 * (k // 4) + 100) for k in range(8)], 200),
        *simple_job(1, 2, [(200, 300)] * 3, 300, spark_scheduler_pool="b"),
    ]
    recording = read_events(tmp_path, *events, pools=Pools({"b": of_b}))
    report = replay(recording, ReplaySettings(draws=1))
    workload = ReplayWorkload.of(recording, driver_times=False)
    jct_s = workload.jct_s(session_cluster(4), report.policies[0], workload.recorded(), 0)
    assert jct_s[1] == pytest.approx(ends_s - 0.002)


def test_an_allocation_file_is_read(tmp_path: Path) -> None:
    """Values that the file leaves out have Spark's defaults."""
    path = tmp_path / "fairscheduler.xml"
    path.write_text(
        '<?xml version="1.0"?><!-- ours --><allocations>'
        '<pool name="a"><schedulingMode>fair</schedulingMode><weight> 4 </weight></pool>'
        '<pool name="b"><minShare>3</minShare></pool></allocations>'
    )
    pools = read_pools(path)
    assert pools.named("a") == Pool(fair=True, weight=4)
    assert pools.named("b") == Pool(min_share=3)
    assert pools.named("other") == Pool()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("<pools/>", "the root is <pools>"),
        ("no xml", "not an XML file"),
        ('<?xml version="1.0" encoding="UTF-48"?><allocations/>', "unknown encoding"),
        ('<!DOCTYPE x [<!ENTITY a "b">]><allocations/>', "no DOCTYPE"),
        ("<allocations><pool/></allocations>", "pool 1 has no name"),
        ('<allocations><pool name="a"><weight>0</weight></pool></allocations>', "weight '0'"),
        (
            '<allocations><pool name="a"><schedulingMode>LIFO</schedulingMode></pool>'
            "</allocations>",
            "schedulingMode 'LIFO'",
        ),
    ],
)
def test_another_file_is_no_allocation_file(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "pools.xml"
    path.write_text(text)
    with pytest.raises(TraceError, match=words):
        read_pools(path)


def test_the_default_pool_follows_the_version() -> None:
    """Without a file it has the scheduler's mode since Spark 3.3.2, before that FIFO."""
    assert Pools.without_file("3.3.2").named("default").fair
    assert not Pools.without_file("3.2.4").named("default").fair


WAITS = simple_job(0, 0, [(6000, 7000, "1"), (7000, 8000, "1"), (8000, 9000, "2")])
SLOW_START = [WAITS[0], executor("1", 1, at=5000), executor("2", 1, at=8000), *WAITS[1:]]
FAILURES = [
    executor(cores=1),
    *spark_job(
        0,
        0,
        [stage(0, 2)],
        *(task(0, 0, at, at + 100, reason="ExceptionFailure") for at in (0, 100)),
        task(0, 0, 200, 300),
        task(0, 1, 300, 400),
    ),
]
CLOCK = [executor(cores=2), *simple_job(0, 10**6, [(0, 200)] * 2, 10**6 + 400)]


@pytest.mark.parametrize(
    ("events", "takes_s", "slots", "repairs"),
    [
        # Slots come at 5 s (and are set up for another) and at 8 s; tasks take 1 s. On the first
        # slot alone the job would end at the same time: a tie goes to the slot that is free.
        pytest.param(SLOW_START, 9.0, 2, 0, id="a job waits until there are executors"),
        # A task that fails twice before it succeeds takes 300 ms, the other 100.
        pytest.param(FAILURES, 0.4, 1, 0, id="failed attempts are simulated"),
        # The clock was set between: the job keeps its recorded time.
        pytest.param(CLOCK, 0.4, 2, 2, id="tasks before their job are moved and counted"),
    ],
)
def test_a_job_takes_as_long_as_recorded(
    tmp_path: Path, events: list[Event], takes_s: float, slots: int, repairs: int
) -> None:
    recording = read_events(tmp_path, *events)
    report = replay(recording, ONCE)
    assert (report.simulated_s.tolist(), report.slots) == ([takes_s], (slots,))
    assert recording.summary.clock_repairs == repairs


def test_slots_that_go_are_missed(tmp_path: Path) -> None:
    """Two slots for the first job, one for the second, with four tasks of 1 s each.

    Slots that vary are a session's: the other protocol takes their largest number, and tells.
    """
    recording = read_events(
        tmp_path,
        executor("1", 1),
        executor("2", 1),
        *simple_job(0, 0, [(at, at + 1000, on) for at in (0, 1000) for on in ("1", "2")]),
        gone("2", 2500),
        *simple_job(1, 3000, [(3000 + 1000 * k, 4000 + 1000 * k) for k in range(4)], 7000),
    )
    assert recording.curve(0).varies
    assert met(replay(recording, ONCE))
    fixed = replay(recording, ReplaySettings(draws=1, slots=2))
    assert fixed.simulated_s.tolist() == [2.0, 2.0]
    words = "The recorded slots came and went"
    for protocol, is_fixed in (("executors", True), ("session", False)):
        command = ["whatif", str(tmp_path), "--protocol", protocol, "--policies", "fifo,spark_fair"]
        done = succeeded(decima(*command, "--draws", "1", "--sequences", "1", "--explain"))
        assert (words in done.stdout) == is_fixed
    with pytest.raises(ValueError, match="slots that vary need the protocol session"):
        WhatIfSettings(2, protocol="executors", slots_vary=True)


def test_a_client_that_waits_is_replayed_so(tmp_path: Path) -> None:
    """Jobs that never overlap and leave no time between follow each other, whatever they take."""
    events = [executor(cores=1)]
    for number in range(5):
        at = 1000 * number
        events += simple_job(number, at, [(at, at + 990)], at + 990)
    recording = read_events(tmp_path, *events)
    assert recording.follows == (-1, 0, 1, 2, 3)
    assert met(replay(recording, ONCE))


def test_jobs_of_one_shape_may_be_a_client_that_waits() -> None:
    """Beside larger jobs that come by themselves; not where a clock submits them."""
    busy_ms = np.array([900.0, 2_400.0, 800.0, 3_000.0, 1_100.0, 2_000.0, 700.0, 1_500.0])
    begun_ms = np.concatenate([[0.0], np.cumsum(busy_ms + 240.0)[:-1]])
    others_ms = np.array([500.0, 1_900.0, 6_100.0, 9_800.0])
    arrival_ms = np.concatenate([begun_ms, others_ms])
    end_ms = np.concatenate([begun_ms + busy_ms, others_ms + 5_000.0])
    work_ms = np.concatenate([np.full(8, 1e3), np.full(4, 1e5)])
    shapes = [(4, 2)] * 8 + [(30, 2)] * 4
    followed = predecessors(arrival_ms, end_ms, work_ms, shapes=shapes)
    assert followed.tolist() == [-1, 0, 1, 2, 3, 4, 5, 6, -1, -1, -1, -1]
    assert (predecessors(arrival_ms, end_ms, work_ms) == -1).all()
    by_clock = np.concatenate([3_300.0 * np.arange(8), others_ms])
    ends_ms = np.concatenate([by_clock[:8] + busy_ms, others_ms + 5_000.0])
    assert (predecessors(by_clock, ends_ms, work_ms, shapes=shapes) == -1).all()


def test_a_lane_may_be_in_turn_where_the_application_is_not() -> None:
    """Two job groups at once, each of which waits for its jobs."""
    begin = np.array([0.0, 50.0, 100.0, 150.0, 200.0, 250.0, 300.0, 350.0])
    groups = ["a", "b"] * 4
    followed = predecessors(begin, begin + 95.0, np.ones(8), [groups])
    assert followed.tolist() == [-1, -1, 0, 1, 2, 3, 4, 5]
    alone = predecessors(begin, begin + 5.0, np.ones(8), [groups])
    assert alone.tolist() == [-1] * 8, "short jobs meet by chance as seldom"


def test_retries_and_copies_hold_slots() -> None:
    """A failed attempt adds to its task; a copy is a task, and ends when its stage does."""
    partition = np.array([0, 0, 1, 2, 2, 3])
    launch = np.array([0, 100, 0, 0, 300, 900])
    finish = np.array([100, 300, 50, 500, 450, 999])
    assert sorted(held_ms(partition, launch, finish, 450)) == [50.0, 150.0, 300.0, 450.0]


def test_attempts_to_run_an_application_are_one(tmp_path: Path) -> None:
    """YARN starts an application anew: two logs with one id, and attempts of their own."""
    for attempt in ("1", "2"):
        begun, at = started("etl", "application_7", attempt=attempt), 10_000 * int(attempt)
        log = [*begun, executor(cores=1, at=at), *simple_job(0, at, [(at, at + 100)], at + 100)]
        write(tmp_path / f"application_7_{attempt}", log)
    recording = read_recording([tmp_path])
    (facts,) = recording.trace.metadata["applications"]
    assert facts["attempts"] == ["1", "2"]
    assert recording.summary.applications == 1
    report = replay(recording, ONCE)
    assert met(report)
    assert report.slots == (1,)


def test_a_version_that_records_too_little_is_named(tmp_path: Path) -> None:
    """Before Spark 1.5 a job's start has no time."""
    old = {"Job ID": 0, "Stage IDs": [0], "Properties": {}}
    path = write(tmp_path / "log", [*started(), event("JobStart", **old, **{"Stage Infos": []})])
    words = "the log has no job; 1 line cannot be read, the first: .*a Spark before 1.5"
    with pytest.raises(TraceError, match=words):
        read_recording([path])
