"""From event logs to an attached policy: runs of before are found again by what the query is."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import decima.spark
from decima.errors import ConfigError, PolicyError
from decima.spark import AttachError
from decima.spark.decision_log import read_decision_log
from decima.spark.priors import Priors, read_priors
from tests.commands import raises_one_line
from tests.jvm import Talk
from tests.live import Live, info, report, started
from tests.spark_work import sleep_tasks, together
from traces import Job, Stage, Trace, write_trace
from traces.files.names import clean
from traces.model import MAX_NAME
from traces.spark_log import read_spark_logs
from traces.spark_log.names import Query, query_of

SLOTS = 8
GUESS_MS = 1_000
"""of a task, while nothing is known"""


def job(name: str, *stages: tuple[int, float]) -> Job:
    return Job(name, tuple(Stage.fixed(f"s{n}", *stage) for n, stage in enumerate(stages)))


def from_logs(*jobs: Job, application: str = "shop") -> Trace:
    """As the importer names them and what it tells of them."""
    metadata = {
        "format": "spark-event-log",
        "applications": [{"name": application}],
        "recorded": {recorded_job.name: {"application": 0} for recorded_job in jobs},
    }
    return Trace("logs", jobs, metadata)


# --- what a query is -----------------------------------------------------------------------------


UUID = "0e5a4f3c-1111-2222-3333-444455556666"
STREAM = Query(f"clicks id = {UUID}", True)


@pytest.mark.parametrize(
    ("name", "query"),
    [
        ("q5", Query("q5", True)),
        ("q5 #17", Query("q5", True)),
        ("q5 #17 #2", Query("q5", True)),
        ("order #5 again", Query("order #5 again", True)),
        ("save at etl.py:12", Query("save at etl.py:12", False)),
        ("save at etl.py:12 #3", Query("save at etl.py:12", False)),
        ("collect at NativeMethodAccessorImpl.java:0 #2", None),
        ("", None),
        # What the importer calls a job without a name comes again by chance alone.
        ("unnamed job 12", None),
        ("query 5", Query("query 5", True)),
        ("job 12", Query("job 12", True)),
        # Structured streaming adds what changes to each description.
        *((f"clicks\nid = {UUID}\nrunId = {UUID}\nbatch = {n}", STREAM) for n in ("init", 0, 17)),
        ("batch = 17", Query("batch = 17", True)),
    ],
)
def test_a_name_without_its_run_is_the_query(name: str, query: Query | None) -> None:
    assert query_of(name) == query


NAMES = (
    "q5 #17", "order #5 again", "save at etl.py:12 #3", "unnamed query 4", "", "two\nlines",
    "  a\tb\x1b[1m\u2028 ", "select " + "x, " * 60 + "y", "\u00e9t\u00e9 \u200b\U0001f600" * 40,
    "collect at NativeMethodAccessorImpl.java:0 #2", "broadcast exchange (runId 1-2)",
    "\x01 edges \x1f", "stream runId = 12345678-1234-1234-1234-123456789abc batch = 7",
)  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "label", ["decima.job", "spark.job.description", "spark.jobGroup.id", "callSite.short"]
)
def test_a_live_job_is_known_as_its_log_is(jvm: Talk, label: str, name: str) -> None:
    """By the same rule on both sides, whatever holds the name."""
    is_broadcast = label == "spark.job.description" and name.startswith("broadcast exchange")
    query = None if is_broadcast or not name else query_of(name)
    _, queries = jvm.ask({"properties": {label: name}})
    assert [Query(*query_fields) for query_fields in queries] == ([] if query is None else [query])


def test_what_a_spark_job_may_be_known_as(jvm: Talk) -> None:
    """Its key and its queries: what the application says, the SQL execution, the description, the
    group, the place in the program. Spark's own words for a broadcast name no query, and neither
    does the group that it makes for one.
    """
    broadcast = {"spark.job.description": "broadcast exchange (runId 1-2)",
                 "spark.jobGroup.id": "1-2"}  # fmt: skip
    every = {"decima.job": "mine #3", "spark.job.description": "the  report",
             "spark.jobGroup.id": "night", "callSite.short": "save at etl.py:12"}  # fmt: skip
    sql = {"spark.sql.execution.id": "2"}
    for properties, key, names in (
        (every | sql, "job mine #3", ["mine", "the  report", "night", "save at etl.py:12"]),
        (sql | {"spark.sql.execution.root.id": "1"} | broadcast, "sql 1", []),
        (sql | {"spark.jobGroup.id": "night"}, "sql 2", ["night"]),
        ({"spark.jobGroup.id": "night"}, "group night", ["night"]),
        (sql | broadcast | {"callSite.short": "save at etl.py:12"}, "sql 2", ["save at etl.py:12"]),
        ({}, "spark 5", []),
    ):
        given, queries = jvm.ask({"properties": properties})
        assert (given, [name for name, _ in queries]) == (key, names)


def found(jvm: Talk, trace: Trace, description: str | None, *tasks: int) -> list[Any]:
    """How stages of a new job are found in the runs of a trace, and their expected durations."""
    named: dict[str, Any] = {} if description is None else {"spark.job.description": description}
    stages = [info(number, count) for number, count in enumerate(tasks)]
    (live_job,) = Live(jvm, priors=trace).jobs(report(started(0, *stages, **named)))
    return [*zip(live_job["match"], live_job["mean_ms"], strict=True)]


def test_all_runs_of_a_query_count(jvm: Talk) -> None:
    """Whatever number the importer gave them; stages of one size by their place."""
    runs = [job("shop/q5", (4, 100), (4, 900)), job("shop/q5 #2", (4, 300), (4, 1100))]
    other = Job("shop/x/y", (Stage.fixed("s0", 7, 50.0),))
    trace = from_logs(*runs, other)
    assert found(jvm, trace, "q5", 4, 4, 4, 7) == [
        ("NAME", 200), ("NAME", 1000), ("NAME", 1000), ("UNKNOWN", GUESS_MS)]  # fmt: skip
    assert found(jvm, trace, "x/y", 7) == [("NAME", 50)]
    priors = Priors(trace)
    assert (priors.jobs, priors.recurring, priors.queries) == (3, 3, 2)


def test_what_nothing_tells_from_others_counts_only_where_all_runs_agree(jvm: Talk) -> None:
    """By the number of tasks; never for a query that has a name, and is another one."""
    runs = [job("shop/run at Tool.scala:9", (4, 100), (5, 100)),
            job("shop/run at Tool.scala:9 #2", (4, 150), (5, 900)),
            job("shop/collect at NativeMethodAccessorImpl.java:0", (6, 70))]  # fmt: skip
    trace = from_logs(*runs)
    assert (Priors(trace).jobs, Priors(trace).recurring) == (3, 2)
    unsure, unknown = ("AMBIGUOUS", GUESS_MS), ("UNKNOWN", GUESS_MS)
    assert found(jvm, trace, None, 4, 5, 6, 6) == [
        ("SHAPE", 125), unsure, ("SHAPE", 70), ("SHAPE", 70)]  # fmt: skip
    assert found(jvm, trace, "q9", 6) == [unknown]
    assert found(jvm, trace, "run at Tool.scala:9", 4, 5, 6) == [("NAME", 125), unsure, unknown]


@pytest.mark.parametrize("name", ["select " + "x, " * 300 + "y", "two\nlines", "a\tb\x1b[1m"])
def test_any_description_is_found_again(jvm: Talk, name: str) -> None:
    """A whole statement, line ends, what a terminal obeys: a trace has them in a form of its own,
    the longest of which is longer than what a live job is called.
    """
    trace = Trace("logs", (job(clean(name, MAX_NAME), (4, 100)),))
    assert found(jvm, trace, name, 4) == [("NAME", 100)]


def test_metadata_that_somebody_changed_harms_nothing(jvm: Talk) -> None:
    changed: list[dict[str, Any]] = [{"recorded": 3}, {"recorded": {"shop/q5": {}}}, {}]
    for metadata in changed:
        trace = Trace("odd", (job("shop/q5", (4, 100)),), {"format": "spark-event-log", **metadata})
        assert found(jvm, trace, "shop/q5", 4) == [("NAME", 100)]


# --- the documented way, on a real Spark ---------------------------------------------------------


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("event-logs")


@pytest.fixture(scope="module")
def session(logs: Path) -> Iterator[Any]:
    pytest.importorskip("pyspark", reason="pyspark is not installed")
    from decima.spark.trial import local_session

    spark = local_session(SLOTS, fair=False, event_log=logs)
    spark.conf.set("spark.sql.shuffle.partitions", "4")
    yield spark
    spark.stop()


def queries(spark: Any, run: int) -> None:
    """Two SQL executions with descriptions, as an application would have them, and a named job."""
    together(
        lambda: sleep_tasks(spark, None, 16, 0.2, description="long"),
        lambda: sleep_tasks(spark, None, 12, 0.05, description="short"),
        lambda: sleep_tasks(spark, f"own #{run}", 9, 0.1),
    )


@pytest.mark.slow
@pytest.mark.real_spark
def test_an_event_log_makes_priors_that_are_found(
    session: Any, logs: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Run, import, attach: the same queries have their durations before a task has run."""
    sleep_tasks(session, None, 16, 0.2, description="long")  # a cold JVM has enough to do
    queries(session, 1)
    queries(session, 2)
    path, log = tmp_path / "mine.parquet", tmp_path / "log.jsonl"
    write_trace(read_spark_logs([logs])[0], path)
    with (
        caplog.at_level(logging.INFO, "decima.spark"),
        decima.spark.attach(session, "tuned_srw", priors=path, decision_log=log) as scheduler,
    ):
        queries(session, 3)
        sleep_tasks(session, None, 5, 0.05, description="new")
    status = scheduler.status()
    assert "7 of 7 jobs have a name that can come again (3 queries)" in caplog.text
    # Three queries of two stages each are known, and the two stages of the new one are not.
    assert (status.prior_hits, status.prior_misses) == (6, 2)
    assert sorted({record.job.name for record in read_decision_log(log).jobs}) == [
        "long", "new", "own", "short"]  # fmt: skip


@pytest.mark.slow
@pytest.mark.real_spark
def test_a_tuned_heuristic_is_attached_by_its_file(session: Any, tmp_path: Path) -> None:
    """That of `decima tune -o`, or the numbers themselves; what does not fit is one line."""
    values = {"factor": 0.5, "jobs_power": 0.5, "work_power": 0.5}
    content = {"format": "decima-tuned", "version": 1, "policy": "tuned_srw", "parameters": values}
    path = tmp_path / "tuned.json"
    path.write_text(json.dumps(content))
    for given in (path, str(path), values):
        log = tmp_path / "log.jsonl"
        with decima.spark.attach(session, "tuned_srw", parameters=given, decision_log=log):
            sleep_tasks(session, "one", 16, 0.01)
        decisions = read_decision_log(log)
        assert decisions.parameters == values
        # Half of the slots at most for the only job: 0.5 * 8.
        assert {limit for plan in decisions.plans for limit in plan.limits.values()} == {4}
    cases: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"policy": "es_rule", "parameters": path}, AttachError, "not of 'es_rule'"),
        ({"policy": "decima", "parameters": values}, AttachError, "'decima' is no heuristic"),
        ({"policy": "tuned_srw", "parameters": {"x": 1}}, PolicyError, "no parameter 'x'"),
        ({"policy": "tuned_srw", "parameters": tmp_path / "none"}, ConfigError, "none"),
    ]
    for arguments, kind, part in cases:
        with raises_one_line(kind, match=part):
            decima.spark.attach(session, **arguments)


def test_our_own_spark_listens_to_this_machine_only(session: Any) -> None:
    """Every port of the driver, as the system tells it."""
    listening = {}
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            columns = line.split()
            if columns[3] == "0A":
                listening[columns[9]] = columns[1].partition(":")[0]
    jvm = int(session._jvm.java.lang.ProcessHandle.current().pid())
    targets = {
        str(link.readlink()) for link in Path(f"/proc/{jvm}/fd").iterdir() if link.is_symlink()
    }
    own = {at for inode, at in listening.items() if f"socket:[{inode}]" in targets}
    loopback = {"0100007F", "00000000000000000000000001000000", "0000000000000000FFFF00000100007F"}
    assert own
    assert own <= loopback


def test_a_name_that_different_queries_share_speaks_only_where_they_agree(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A notebook's text: stages of as many tasks took 0.1 s and 9 s; a query's mean is taken."""
    differing = [job(f"shop/text #{n}", *[(4, 100.0)] * (1 + n % 3)) for n in range(5)]
    other = job("shop/text #9", (4, 9_000.0))
    trace = from_logs(
        *differing, other, job("shop/q5", (4, 100.0)), job("shop/q5 #2", (4, 9_000.0))
    )
    queries = Priors(trace).message()["queries"]
    assert queries["text"]["4"][0] is None
    assert queries["text"]["4"][1:] == [100.0, 100.0]
    assert queries["q5"]["4"] == [4_550.0]
    with caplog.at_level(logging.WARNING, logger="decima.spark"):
        read_priors(trace)
    assert any("'text'" in record.getMessage() for record in caplog.records)
