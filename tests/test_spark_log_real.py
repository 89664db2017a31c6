"""Logs that real Spark wrote (`tests/record_spark_logs.py`): versions, codecs, mishaps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from traces import Job, Trace, to_arrays
from traces.codecs import open_codec
from traces.spark_log import GroupBy, ImportSummary, read_spark_logs
from traces.spark_log.events import read_lines
from traces.spark_log.files import find_logs

LOGS = Path(__file__).parent / "data" / "spark_logs"
WHOLE_DAG = ["spark-3.3-lz4", "spark-4.0-default", "spark-4.3-zstd"]
ADAPTIVE = ["spark-3.5-adaptive-zstd", "spark-4.3-default"]
ONE_QUERY = ["spark-3.5-plain", "spark-4.3-lz4", "spark-4.3-snappy"]
EVERY = sorted(path.name for path in LOGS.iterdir())


def read(name: str, by: GroupBy = GroupBy.SQL) -> tuple[Trace, ImportSummary]:
    return read_spark_logs([LOGS / name], group_by=by)


def raw_events(name: str) -> list[dict[str, Any]]:
    """Every event of a log, parsed as a whole."""
    (log,) = find_logs([LOGS / name])
    events: list[dict[str, Any]] = []
    for path in log.files:
        with path.open("rb") as stream:
            lines = [line for _, line in read_lines(open_codec(stream)) if isinstance(line, bytes)]
        events += map(json.loads, lines)
    return events


def job_of(trace: Trace, name: str) -> Job:
    """The job whose name ends in `name`, after that of its application."""
    (job,) = [job for job in trace.jobs if job.name.endswith(f"/{name}")]
    return job


def shape(job: Job) -> dict[str, tuple[int, set[str]]]:
    """Stage -> (tasks, parents), by the numbers that Spark gave."""
    names = [stage.name.removeprefix("stage ") for stage in job.stages]
    return {
        name: (stage.num_tasks, {names[parent] for parent in stage.parents})
        for name, stage in zip(names, job.stages, strict=True)
    }


SORTED_JOIN = {
    "0": (2, set()),  # customers
    "1": (4, set()),  # orders
    "2": (3, {"0", "1"}),  # join and partial sums
    "3": (3, {"2"}),  # sampling for the sort, a Spark job of its own
    "7": (3, {"2", "3"}),  # sums, ranges known from the sample
    "8": (3, {"7"}),  # sort
}


@pytest.mark.parametrize("name", WHOLE_DAG + ONE_QUERY)
def test_a_sorted_join_is_one_dag_over_its_spark_jobs(name: str) -> None:
    """Six stages of two Spark jobs; the second skips three stages of the first."""
    trace, summary = read(name)
    assert shape(job_of(trace, "revenue by region")) == SORTED_JOIN
    assert summary.stages_replaced == 3
    assert summary.lines_skipped == 0


@pytest.mark.parametrize("name", ADAPTIVE)
def test_an_adaptive_query_is_whole_though_each_stage_is_a_spark_job(name: str) -> None:
    """Five Spark jobs: broadcast, scan, sample, sums, sort."""
    trace, summary = read(name)
    job = job_of(trace, "revenue by region")
    assert trace.metadata["recorded"][job.name]["spark_jobs"] == 5
    assert shape(job) == {
        "0": (2, set()),
        "1": (4, {"0"}),
        "3": (1, {"1"}),
        "5": (1, {"1", "3"}),
        "8": (1, {"5"}),
    }
    assert summary.stages_ready == 0


@pytest.mark.parametrize("name", WHOLE_DAG + ADAPTIVE + ONE_QUERY)
def test_every_task_is_there_for_as_long_as_it_held_its_slot(name: str) -> None:
    """Not shorter than its executor says it ran, not longer than the driver's two stamps."""
    trace, summary = read(name)
    tasks = [event for event in raw_events(name) if event["Event"] == "SparkListenerTaskEnd"]
    ran_ms = sum(task["Task Metrics"]["Executor Run Time"] for task in tasks)
    infos = [task["Task Info"] for task in tasks]
    stamped_ms = sum(info["Finish Time"] - info["Launch Time"] for info in infos)
    work_ms = sum(job.work_ms for job in trace.jobs)
    assert summary.tasks == sum(job.num_tasks for job in trace.jobs) == len(tasks)
    assert ran_ms <= work_ms + 0.01
    assert work_ms <= stamped_ms + 0.01


def test_a_lost_executor_adds_no_work() -> None:
    """Its shuffle output is computed again: one task, two failed fetches, two retried stages."""
    trace, summary = read("spark-4.3-lost-executor", GroupBy.JOB_GROUP)
    assert {name: tasks for name, (tasks, _) in shape(trace.jobs[0]).items()} == {
        "0": 4,
        "1": 3,
        "2": 1,
        "4": 3,
    }
    assert summary.unused_tasks == {"failed": 2, "done again after a loss": 1}
    assert summary.stages_retried == 2


def test_the_slower_copy_of_a_task_is_no_work() -> None:
    """Four tasks, of which the straggler's copy won after a second."""
    trace, summary = read("spark-4.3-speculation")
    (stage,) = trace.jobs[0].stages
    assert stage.num_tasks == 4
    assert max(wave.max(initial=0) for wave in stage.durations[0].waves) < 5_000
    assert summary.unused_tasks["overtaken by another copy (speculation)"] == 1


def test_a_folder_of_applications_is_one_trace() -> None:
    paths = [LOGS / name for name in EVERY]
    trace, summary = read_spark_logs(paths)
    of_log = {facts["name"]: facts for facts in trace.metadata["applications"]}
    assert {facts["spark_version"] for facts in of_log.values()} == {
        "3.3.4",
        "3.5.6",
        "4.0.0",
        "4.3.0",
    }
    assert of_log["spark-3.3-lz4"]["slots"] == 2
    assert of_log["spark-3.3-lz4"]["settings"]["spark.sql.adaptive.enabled"] == "false"
    assert summary.applications == len(EVERY)
    assert summary.unknown_events == {}
    assert to_arrays(trace).num_jobs == summary.jobs


@pytest.mark.parametrize("name", EVERY)
def test_the_recorded_logs_tell_nothing_of_the_machine(name: str) -> None:
    """No path of a user or a temporary folder, no host but the loopback ones, no real user."""
    for event in raw_events(name):
        text = json.dumps(event)
        assert not any(f"{path}/" in text for path in ("/root", "/home", "/tmp"))  # noqa: S108
        task = event.get("Task Info", {})
        assert task.get("Host", "localhost") in ("localhost", "127.0.0.1", "127.0.0.2")
        assert event.get("User", "spark") == "spark"
