"""Jobs of a log, from SQL queries, job groups, names and calls: logs written by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.spark_events import Read, end, executor, one_task_job, query, query_end, stage, start
from traces.spark_log import GroupBy


@pytest.fixture
def read(tmp_path: Path) -> Read:
    return Read(tmp_path)


GROUPED = [
    query(3, "outer"),
    query(4, "inner", root=3),
    *one_task_job(0, 0, 5, spark_sql_execution_id="3", spark_jobGroup_id="broadcast-uuid"),
    *one_task_job(1, 10, 15, spark_sql_execution_id="4", spark_jobGroup_id="nightly"),
    *one_task_job(2, 20, 25, spark_jobGroup_id="nightly"),
    *one_task_job(3, 30, 35, spark_job_description="by hand"),
    query_end(3),
    query_end(4),
]


@pytest.mark.parametrize(
    ("by", "names"),
    [
        (GroupBy.SQL, ["outer", "unnamed job 2", "by hand"]),
        (GroupBy.JOB, ["unnamed job 0", "unnamed job 1", "unnamed job 2", "by hand"]),
        (GroupBy.JOB_GROUP, ["nightly", "by hand"]),
    ],
)
def test_what_makes_a_job_is_chosen(read: Read, by: GroupBy, names: list[str]) -> None:
    """A nested execution belongs to its root; a query to the job group of its last Spark job."""
    trace, _ = read(executor(), *GROUPED, by=by)
    assert [job.name for job in trace.jobs] == [f"shop/{name}" for name in names]


def test_what_an_application_names_itself_is_one_job_until_it_pauses(read: Read) -> None:
    """As a live scheduler has it: SQL executions too, and five seconds without one end the run."""
    own = {"decima_job": "night #1"}
    events = [
        query(0, "a query"),
        *one_task_job(0, 0, 100, spark_sql_execution_id="0", **own),
        query_end(0),
        *one_task_job(1, 3_000, 3_100, **own),
        *one_task_job(2, 8_200, 8_300, spark_sql_execution_id="1", **own),
        *one_task_job(4, 15_000, 15_100, spark_sql_execution_id="1", **own),
        *one_task_job(3, 8_200, 8_300, spark_job_description="by day"),
    ]
    for by in (GroupBy.SQL, GroupBy.JOB_GROUP):
        trace, _ = read(executor(cores=4), *events, by=by)
        assert [(found.name, len(found.stages)) for found in trace.jobs] == [
            ("shop/night #1", 2),
            ("shop/night #1 #2", 2),
            ("shop/by day", 1),
        ]
    assert len(read(executor(cores=4), *events, by=GroupBy.JOB)[0].jobs) == 5


def test_jobs_of_one_name_are_numbered(read: Read) -> None:
    """In the order of submission."""
    named = {"spark_job_description": "load"}
    trace, _ = read(executor(), *one_task_job(0, 0, 5, **named), *one_task_job(1, 10, 15, **named))
    assert [job.name for job in trace.jobs] == ["shop/load", "shop/load #2"]


def test_failed_and_unfinished_jobs_are_left_out_and_counted(read: Read) -> None:
    """A failed Spark job, one without end, a query with an error, a query without end."""
    broken = one_task_job(1, 10, 15)[:-1]
    trace, summary = read(
        executor(),
        *one_task_job(0, 0, 5),
        *broken,
        end(1, 15, "JobFailed"),
        start(2, 20, [stage(2, 1)]),
        query(8, "fails"),
        *one_task_job(3, 30, 35, spark_sql_execution_id="8"),
        query_end(8, "no such column"),
        query(9, "cut"),
        *one_task_job(4, 40, 45, spark_sql_execution_id="9"),
    )
    assert [job.name for job in trace.jobs] == ["shop/unnamed job 0"]
    assert dict(summary.unused_jobs) == {"failed": 2, "not finished when the log ends": 2}
    assert summary.unused_tasks["their job is not in the trace"] == 3


def test_a_spark_job_that_its_query_cancelled_does_not_fail_the_query(read: Read) -> None:
    """The last Spark job decides."""
    of_query = {"spark_sql_execution_id": "1"}
    trace, _ = read(
        executor(),
        query(1, "adaptive"),
        *one_task_job(0, 0, 5, **of_query)[:-1],
        end(0, 6, "JobFailed"),
        *one_task_job(1, 10, 15, **of_query),
        query_end(1),
    )
    assert [job.name for job in trace.jobs] == ["shop/adaptive"]
