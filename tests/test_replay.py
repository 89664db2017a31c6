"""Replaying short logs written here, whose every millisecond is known by hand, and real ones; and
the check of a replay.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from decima.whatif.load import recorded_reference
from decima.whatif.replay import (
    Recording,
    ReplaySettings,
    ReplayWorkload,
    check,
    read_recording,
    replay,
)
from decima.whatif.replay.check import Fidelity, overlapping, relative_error, session_cluster
from decima.whatif.replay.report import fidelity_table, verdict, worst_jobs_table
from spark_sim import Streams
from tests import recordings
from tests.commands import cells_of
from tests.spark_events import (
    Event,
    closing,
    executor,
    properties,
    query,
    query_end,
    simple_job,
    spark_job,
    stage,
    started,
    task,
    write,
)
from tests.stories import stage as story_stage
from tests.test_whatif_by_hand import checked, recorded
from traces import Job

REAL = Path(__file__).parent / "data" / "spark_logs"


def record(path: Path, *events: Event) -> Recording:
    """What is read of a log with one executor of two cores, of an application named as the file."""
    begun = started(app_id=path.name)
    return read_recording([write(path, [*begun, executor(cores=2), *events, closing(0)])])


def two_stages(job: int, at: int) -> list[Event]:
    """Two tasks of 100 ms after 10 ms, 30 ms later two of 200 ms, and 5 ms after them."""
    first, second = 2 * job, 2 * job + 1
    return spark_job(
        job,
        at,
        [stage(first, 2), stage(second, 2, [first])],
        *(task(first, part, at + 10, at + 110) for part in range(2)),
        *(task(second, part, at + 140, at + 340) for part in range(2)),
        ends=at + 345,
    )


def test_waiting_for_a_slot_is_not_the_drivers_time(tmp_path: Path) -> None:
    """Job 1 waits 190 ms for job 0, and for the driver not at all: it starts as job 0 ends."""
    recording = record(
        tmp_path / "log",
        *simple_job(0, 0, [(10, 210)] * 2),
        *simple_job(1, 20, [(210, 260)]),
    )
    assert [driver.wait_ms for driver in recording.driver] == [(10.0,), (0.0,)]
    report = replay(recording, ReplaySettings(draws=1))
    assert report.simulated_s.tolist() == report.recorded_s.tolist() == [0.21, 0.24]


def test_jobs_of_constant_tasks_are_met_exactly(tmp_path: Path) -> None:
    """With the driver's times no error is left; without them each job is 45 ms of 345 too fast.

    They are 10 ms before the first task, 30 ms between the stages, 5 ms after the last task.
    """
    recording = record(tmp_path / "log", *two_stages(0, 0), *two_stages(1, 1000))
    assert [driver.wait_ms for driver in recording.driver] == [(10.0, 30.0)] * 2
    assert [driver.after_ms for driver in recording.driver] == [5.0] * 2
    assert recording.recorded_ms.tolist() == [345.0] * 2
    report = replay(recording, ReplaySettings(draws=3))
    whole_jobs, tasks_only = report.fidelity("alone"), report.fidelity("alone", driver_times=False)
    assert whole_jobs == Fidelity(2, 0.0, 0.0)
    assert tasks_only is not None
    assert tasks_only.bias_percent == pytest.approx(-100 * 45 / 345)
    assert report.fidelity("overlapping") is None
    assert "can be relied on" in verdict(report)


@pytest.mark.parametrize(
    ("simulated_s", "parts"),
    [
        ([1.06, 0.95, 1.0, 1.0, 1.05], ["5.0 % off", "+1.2 % on average: ", "can be relied on"]),
        ([1.06, 0.94, 1.06, 1.0, 2.69], ["6.0 % off", ". The mean bias is above 18 %", "misses"]),
        ([0.94, 0.94, 0.94, 1.0, 0.60], ["-11.6 %", ". The mean bias is above 9 %", "for nothing"]),
        ([1.12, 0.88, 1.12, 0.88, 1.0], [". The median error is above 9 %", "for nothing"]),
        ([1.12, 1.12, 1.12, 1.12, 1.0], [". The median error and the mean bias are above 9 %"]),
        ([1.12, 1.12, 1.12, 1.12, 2.0], [". The mean bias is above 18 %", "misses"]),
    ],
)
def test_the_verdict_goes_by_the_bias_too(simulated_s: list[float], parts: list[str]) -> None:
    """Five jobs of a second: one that is far off leaves the median, and moves the average."""
    jobs = [Job(name, (story_stage("s", 1, 1_000),), arrival_ms=0.0) for name in "abcde"]
    report = replay(recordings.recording(*jobs), ReplaySettings(draws=1))
    skewed = replace(report, recorded_s=np.ones(5), simulated_s=np.array(simulated_s))
    assert [part for part in parts if part not in verdict(skewed)] == []
    assert verdict(skewed).count("relied on") == ("can be relied on" in parts)


def test_a_query_queues_anew_with_each_spark_job(tmp_path: Path) -> None:
    """Spark's FIFO runs query B before the second Spark job of query A, which came before B."""
    waves = [(100, 300), (100, 300), (300, 500), (300, 500)]
    recording = record(
        tmp_path / "log",
        query(0, "A"),
        *simple_job(0, 0, [(0, 100)] * 2, spark_sql_execution_id="0"),
        query(1, "B"),
        *simple_job(1, 50, waves, spark_sql_execution_id="1"),
        *simple_job(2, 100, [(500, 600)] * 2, spark_sql_execution_id="0"),
        query_end(0),
        query_end(1),
    )
    report = replay(recording, ReplaySettings(draws=1))
    assert report.policies == ("fifo",)
    assert report.recorded_s.tolist() == [0.6, 0.45]
    assert report.simulated_s.tolist() == report.recorded_s.tolist()


def test_fair_is_taken_from_the_settings_and_shares_slots(tmp_path: Path) -> None:
    """One slot each from 50 ms on: the short job ends after two of its tasks, at 300."""
    long_job = [(0, 100), (0, 100), (100, 200), (200, 300), (300, 400), (300, 400)]
    recording = record(
        tmp_path / "log",
        properties(spark_scheduler_mode="FAIR"),
        *simple_job(0, 0, long_job),
        *simple_job(1, 50, [(100, 200), (200, 300)]),
    )
    report = replay(recording, ReplaySettings(draws=1))
    assert report.policies == ("spark_pools",)
    assert report.simulated_s.tolist() == report.recorded_s.tolist() == [0.4, 0.25]
    as_fifo = replay(recording, ReplaySettings(policy="fifo", draws=1))
    assert as_fifo.simulated_s.tolist() == [0.3, 0.35]


@pytest.mark.parametrize(("slots", "ends_s"), [(2, [0.4, 0.4]), (3, [0.2, 0.3])])
def test_a_slot_left_over_goes_to_the_first_job(slots: int, ends_s: Sequence[float]) -> None:
    """Two jobs of four tasks of 100 ms: with three slots the first job gets two of them."""
    recording = recordings.recording(
        *(Job(name, (story_stage("s", 4, 100),), arrival_ms=0.0) for name in "ab")
    )
    workload = ReplayWorkload.of(recording)
    jct_s = workload.jct_s(session_cluster(slots), "spark_fair", workload.recorded(), 0)
    assert jct_s.tolist() == ends_s


def test_two_applications_are_replayed_apart(tmp_path: Path) -> None:
    """Each has its own slots, so jobs of two applications at one time do not slow each other."""
    for name in ("a", "b"):
        record(tmp_path / name, *two_stages(0, 0))
    report = replay(read_recording([tmp_path]), ReplaySettings(draws=1))
    assert report.slots == (2, 2)
    assert report.simulated_s.tolist() == report.recorded_s.tolist()
    assert not report.overlapped.any()


@pytest.mark.parametrize("name", sorted(path.name for path in REAL.iterdir()))
def test_every_real_log_replays(name: str) -> None:
    """Failures, lost executors, speculation, truncation: all give figures for all jobs.

    Those of plain queries, each a few small jobs of a cold JVM, are within a quarter. The parts of
    each job add up to its JCT.
    """
    log = read_recording([REAL / name])
    report = replay(log, ReplaySettings(draws=5))
    assert np.isfinite(report.simulated_s).all()
    assert (report.simulated_s > 0).all()
    if name in ("spark-3.3-lz4", "spark-4.0-default", "spark-4.3-default"):
        fidelity = report.fidelity("all")
        assert fidelity is not None
        assert fidelity.median_error_percent < 25
        assert np.abs(report.error).max() < 0.5
    parts_ms = np.array(log.breakdowns)
    assert (parts_ms >= 0).all()
    np.testing.assert_allclose(parts_ms.sum(axis=1), log.recorded_ms, rtol=0.01, atol=1e-6)
    for record, job in zip(log.driver, log.trace.jobs, strict=True):
        assert len(record.wait_ms) == len(record.spark_job) == len(job.stages)
        assert min(record.after_ms, *record.wait_ms) >= 0


# --- the check, from figures made by hand ---------------------------------------------------------


def test_the_replay_tables_by_hand() -> None:
    """Jobs 0, 2 and 4 overlapped; tasks alone took half of what was recorded."""
    check = checked()
    factors = np.array([1.1, 1.02, 0.8, 1.02, 1.6, 0.99])
    check = replace(check, simulated_s=factors * check.recorded_s)
    assert cells_of(fidelity_table(check)) == [
        ["jobs that ran", "jobs", "median |error|", "mean bias", "aim", "without driver times"],
        ["alone", "3", "2.0 %", "+1.0 %", "5 %", "50.0 %, bias -50.0 %"],
        ["overlapping", "3", "20.0 %", "+16.7 %", "9 %", "50.0 %, bias -50.0 %"],
        ["all", "6", "6.0 %", "+8.8 %", "", "50.0 %, bias -50.0 %"],
    ]
    assert cells_of(worst_jobs_table(check, 3)) == [
        ["job", "recorded", "simulated", "error", "tasks alone", "ran"],
        ["job 4", "26.00 s", "41.60 ± 0.25 s", "+60 %", "13.00 s", "overlapping"],
        ["job 2", "5.00 s", "4.00 ± 0.25 s", "-20 %", "2.50 s", "overlapping"],
        ["job 0", "2.00 s", "2.20 ± 0.25 s", "+10 %", "1.00 s", "overlapping"],
    ]
    assert verdict(check).endswith("can be relied on.")
    content = check.to_json()
    assert content["fidelity"]["all"]["bias_percent"] == pytest.approx(8.8333, rel=1e-3)
    assert content["fidelity"]["all"]["tasks_only"]["bias_percent"] == pytest.approx(-50.0)
    assert content["jobs"][4] == {
        "name": "job 4", "recorded_s": 26.0, "simulated_s": pytest.approx(41.6), "spread_s": 0.25,
        "tasks_only_s": 13.0, "overlapped": True, "pool": None, "parts_s": None,
    }  # fmt: skip


def test_who_overlapped_by_hand() -> None:
    """2 of 6 end before the next comes: the first; then 9 < 12, 17 < 18; 30, 50 and 60 overlap."""
    assert overlapping(recorded()).tolist() == [False, False, False, True, True, True]


def test_a_short_job_inside_a_long_one_overlaps() -> None:
    """The second ends long before the third begins; the first goes on."""
    made = recorded()
    ends_ms = dict(zip("012345", (90e3, 7e3, 13e3, 19e3, 25e3, 31e3), strict=True))
    for name, row in made.trace.metadata["recorded"].items():
        row["end_ms"] = ends_ms[name[-1]]
    assert overlapping(made).all()


def test_the_recorded_policy_is_that_of_most_jobs() -> None:
    """Four of six jobs ran under FAIR, however it is written; three are not most."""
    made = recorded()
    (application,) = made.trace.metadata["applications"]
    both = [application, {**application, "settings": {"spark.scheduler.mode": "Fair"}}]
    for first, policy in ((2, "spark_pools"), (3, "fifo")):
        rows = {
            name: {**row, "application": int(number >= first)}
            for number, (name, row) in enumerate(made.trace.metadata["recorded"].items())
        }
        metadata = {**made.trace.metadata, "recorded": rows, "applications": both}
        assert (
            recorded_reference(replace(made, trace=replace(made.trace, metadata=metadata)))
            == policy
        )


def test_a_replay_averages_its_draws() -> None:
    """One task of 0.8 to 1.2 s, drawn three times."""
    made = recordings.recording(Job("j", (recordings.varied("s", 1, 1000.0),), arrival_ms=0.0))
    workload = ReplayWorkload.of(made)
    keys = [Streams(0, 0, draw).duration_key() for draw in range(3)]
    drawn_s = [
        workload.jct_s(check.session_cluster(4), "fifo", workload.recorded(), key) for key in keys
    ]
    assert np.std(drawn_s) > 0.05
    report = check.replay(made, check.ReplaySettings(draws=3))
    assert report.simulated_s == pytest.approx(np.mean(drawn_s, axis=0))
    assert report.spread_s == pytest.approx(np.std(drawn_s, axis=0))
    assert report.recorded_s.tolist() == [0.25]


def test_fidelity_by_hand() -> None:
    """Errors of 10, -20, 60 and 2 %: 15 % in the median, 13 % on average."""
    error = relative_error(np.array([11.0, 8.0, 16.0, 10.2]), np.full(4, 10.0))
    fidelity = Fidelity.of(error)
    assert fidelity is not None
    assert fidelity.jobs == 4
    assert fidelity.median_error_percent == pytest.approx(15.0)
    assert fidelity.bias_percent == pytest.approx(13.0)
    assert fidelity.above(14.0) == ["median error"]
    assert fidelity.above(12.0) == ["median error", "mean bias"]
    assert fidelity.above(15.1) == []
    assert Fidelity(4, 1.0, -19.0).above(18.0) == ["mean bias"]
    assert relative_error(np.array([0.002]), np.array([0.0])).tolist() == [2.0]
