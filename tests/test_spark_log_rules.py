"""What the importer makes of a log: short logs written here, whose answer is known by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.spark_events import (
    EPOCH,
    Event,
    Read,
    edges,
    end,
    executor,
    gone,
    one_task_job,
    query,
    query_end,
    simple_job,
    spark_job,
    stage,
    start,
    started,
    submitted,
    task,
    text,
    waves,
    write,
)
from traces import TraceError
from traces.spark_log import GroupBy, read_spark_logs
from traces.spark_log.names import Query, query_in, shared_names, shared_words
from traces.spark_log.plans import UNKNOWN_USE, DataUse, data_use, normalised


@pytest.fixture
def read(tmp_path: Path) -> Read:
    return Read(tmp_path)


def test_a_slot_s_first_task_is_fresh_its_first_of_a_stage_first(read: Read) -> None:
    """Two slots: two tasks start cold, the next stage finds warm slots, others are the rest."""
    trace, _ = read(
        executor(cores=2),
        *spark_job(
            0,
            0,
            [stage(0, 3), stage(1, 3, [0])],
            *(task(0, k, *times) for k, times in enumerate([(0, 500), (0, 600), (500, 700)])),
            *(task(1, k, *times) for k, times in enumerate([(700, 800), (700, 850), (800, 820)])),
        ),
    )
    assert waves(trace.jobs[0], 0) == [[500, 600], [], [200]]
    assert waves(trace.jobs[0], 1) == [[], [100, 150], [20]]


def test_a_slot_used_late_finds_its_process_warm(read: Read) -> None:
    """The second slot runs its first task when a task has finished on the executor: not fresh."""
    trace, _ = read(
        executor(cores=2),
        *one_task_job(0, 0, 400),
        *simple_job(1, 500, [(500, 600), (500, 650)]),
    )
    assert waves(trace.jobs[0], 0) == [[400], [], []]
    assert waves(trace.jobs[1], 0) == [[], [100, 150], []]


def test_a_lagging_finish_ends_when_the_slot_is_given_away(read: Read) -> None:
    """One slot: the next launch at 95 shows that the finish stamped 100 is 5 ms late."""
    trace, _ = read(executor(cores=1), *simple_job(0, 0, [(0, 100), (95, 140)]))
    assert waves(trace.jobs[0], 0) == [[95], [], [45]]


def test_more_tasks_at_once_than_cores_keep_their_durations(read: Read) -> None:
    """Three long tasks at once on two cores are no lag: none is cut."""
    trace, _ = read(executor(), *simple_job(0, 0, [(10 * k, 9_000 + k) for k in range(3)]))
    assert sorted(waves(trace.jobs[0], 0)[0]) == [8_982, 8_991, 9_000]


def test_slots_are_those_of_the_executors_alive_at_once(read: Read) -> None:
    """One executor leaves before the next comes: never more than two slots."""
    trace, _ = read(
        executor("1", 2, at=0),
        gone("1", 50),
        executor("2", 2, at=60),
        *one_task_job(0, 0, 40),
    )
    assert trace.metadata["applications"][0]["slots"] == 2


def test_a_large_result_is_fetched_off_the_slot(read: Read) -> None:
    """The slot is free when the driver begins to fetch the result, at 70."""
    fetched = task(0, 0, 0, 100, Getting_Result_Time=EPOCH + 70)
    trace, _ = read(executor(), *spark_job(0, 0, [stage(0, 1)], fetched))
    assert waves(trace.jobs[0], 0) == [[70], [], []]


def test_a_task_of_no_length_takes_one_millisecond(read: Read) -> None:
    trace, summary = read(executor(), *one_task_job(0, 5, 5))
    assert waves(trace.jobs[0], 0) == [[1], [], []]
    assert summary.zero_length == 1


def test_clocks_that_go_back_are_repaired_and_counted(read: Read) -> None:
    trace, summary = read(executor(), *simple_job(0, 100, [(100, 40), (100, 160)], ends=50))
    assert waves(trace.jobs[0], 0) == [[1], [], [60]]
    times = trace.metadata["recorded"]["shop/unnamed job 0"]
    assert (times["start_ms"], times["end_ms"]) == (0, 0)
    assert summary.clock_repairs == 2


def test_the_level_is_the_largest_number_of_tasks_at_once(read: Read) -> None:
    """Two of three tasks overlap; the option overrules."""
    events = [executor(cores=8), *simple_job(0, 0, [(0, 100), (50, 150), (150, 200)])]
    (measured,) = read(*events)[0].jobs[0].stages[0].durations
    (asked,) = read(*events, executors=50)[0].jobs[0].stages[0].durations
    assert (measured.executors, asked.executors) == (2, 50)


def test_two_shuffles_of_one_rdd_keep_their_order(read: Read) -> None:
    """Stages 0 and 1 write shuffles of the same RDD; the skipped 3 and 4 are 0 and 1 in order."""
    first = [stage(0, 1, rdds=[1]), stage(1, 1, rdds=[1]), stage(2, 1, [0, 1], [2])]
    second = [stage(3, 1, rdds=[1]), stage(4, 1, rdds=[1]), stage(5, 1, [4], [3])]
    ran = [task(number, 0, 10 * number, 10 * number + 5) for number in (0, 1, 2)]
    trace, _ = read(
        executor(),
        *spark_job(0, 0, first, *ran, spark_jobGroup_id="g"),
        *spark_job(1, 20, second, task(5, 0, 30, 40), spark_jobGroup_id="g"),
        by=GroupBy.JOB_GROUP,
    )
    assert edges(trace.jobs[0]) == {("0", "2"), ("1", "2"), ("1", "5")}


def test_a_stage_skipped_because_another_job_ran_it_is_no_parent(read: Read) -> None:
    """Each Spark job a job: the second reads the first one's shuffle, which was ready."""
    trace, summary = read(
        executor(),
        *spark_job(0, 0, [stage(0, 1), stage(1, 1, [0])], task(0, 0, 0, 10), task(1, 0, 10, 20)),
        *spark_job(1, 30, [stage(2, 1, rdds=[0]), stage(3, 1, [2])], task(3, 0, 30, 40)),
    )
    assert [edges(job) for job in trace.jobs] == [{("0", "1")}, set()]
    assert summary.stages_ready == 1


def test_a_lost_output_noted_on_a_finished_task_is_no_attempt(read: Read) -> None:
    """Spark logs the end of a task a second time when its executor is lost: Resubmitted."""
    lost = task(0, 0, 0, 10, reason="Resubmitted")
    ran = (task(0, 0, 0, 10), lost, task(0, 0, 30, 50))
    trace, summary = read(executor(), *spark_job(0, 0, [stage(0, 1)], *ran))
    assert waves(trace.jobs[0], 0) == [[10], [], []]
    assert summary.unused_tasks["done again after a loss"] == 1


@pytest.mark.parametrize(("seen", "counted"), [(10, 10), (6, 10), (3, 3)])
def test_tasks_whose_end_is_missing(read: Read, seen: int, counted: int) -> None:
    """A stage of ten tasks: a few ends lost are made up for, most of them are not."""
    ran = [task(0, partition, 0, 10) for partition in range(seen)]
    trace, summary = read(executor(), *spark_job(0, 0, [stage(0, 10)], *ran))
    assert trace.jobs[0].stages[0].num_tasks == counted
    assert summary.tasks_missing == 10 - seen


def test_children_of_an_empty_stage_wait_for_its_parents(read: Read) -> None:
    """Stage 1 has no task that ended: 0 -> 1 -> 2 becomes 0 -> 2."""
    stages = [stage(0, 1), stage(1, 0, [0]), stage(2, 1, [1])]
    ran = (submitted(1, 0), task(0, 0, 0, 10), task(2, 0, 10, 20))
    trace, _ = read(executor(), *spark_job(0, 0, stages, *ran))
    assert edges(trace.jobs[0]) == {("0", "2")}


def test_what_the_driver_waited_for_becomes_edges(read: Read) -> None:
    """Broadcasts 0 and 1 run together, then 2; 3 begins when all have ended: 0, 1 -> 2 -> 3."""
    spans = [(0, 0, 50), (1, 10, 60), (2, 70, 90), (3, 95, 99)]
    jobs = [item for span in spans for item in one_task_job(*span, spark_jobGroup_id="g")]
    trace, summary = read(executor(), *jobs, by=GroupBy.JOB_GROUP)
    assert edges(trace.jobs[0]) == {("0", "2"), ("1", "2"), ("2", "3")}
    assert summary.driver_edges == 3


def test_spark_jobs_that_overlap_do_not_wait_for_each_other(read: Read) -> None:
    group = {"spark_jobGroup_id": "g"}
    first, second = one_task_job(0, 0, 50, **group), one_task_job(1, 49, 60, **group)
    trace, _ = read(executor(), *first, *second, by=GroupBy.JOB_GROUP)
    assert edges(trace.jobs[0]) == set()


def test_applications_share_one_clock(tmp_path: Path) -> None:
    """Jobs of two logs in the order of submission, counted from the first; equal names numbered."""
    later = [*started(app_id="app-1"), executor(), *one_task_job(0, 5_000, 5_100)]
    earlier = [*started(app_id="app-2"), executor(), *one_task_job(0, 2_000, 2_050)]
    paths = [write(tmp_path / "a", later), write(tmp_path / "b", earlier)]
    trace, summary = read_spark_logs(paths)
    assert [(job.name, job.arrival_ms) for job in trace.jobs] == [
        ("shop #2/unnamed job 0", 0.0),
        ("shop/unnamed job 0", 3_000.0),
    ]
    assert trace.metadata["recorded"]["shop/unnamed job 0"] == {
        "application": 0,
        "start_ms": 3_000,
        "end_ms": 3_100,
        "spark_jobs": 1,
    }
    assert (summary.applications, summary.jobs, summary.tasks) == (2, 2, 2)


def test_stages_that_wait_for_each_other_leave_their_job_out(read: Read) -> None:
    circle = [stage(0, 1, [1]), stage(1, 1, [0])]
    ran = (task(0, 0, 0, 10), task(1, 0, 0, 10))
    with pytest.raises(TraceError, match="its stages wait for each other"):
        read(executor(), *spark_job(0, 0, circle, *ran))


@given(
    slots=st.integers(1, 4),
    lengths=st.lists(st.integers(20, 200), min_size=1, max_size=40),
    lag=st.integers(0, 9),
)
def test_no_slot_is_held_twice(
    tmp_path_factory: pytest.TempPathFactory, slots: int, lengths: list[int], lag: int
) -> None:
    """Tasks back to back on c slots, each finish stamped late: exactly the true work is found."""
    free_at = [0] * slots
    tasks = []
    for length in lengths:
        slot = free_at.index(min(free_at))
        launch = free_at[slot]
        free_at[slot] = launch + length
        tasks.append((launch, launch + length + lag))
    read = Read(tmp_path_factory.mktemp("logs"))
    trace, _ = read(executor(cores=slots), *simple_job(0, 0, tasks))
    (level,) = trace.jobs[0].stages[0].durations
    times_ms = sorted(float(ms) for wave in level.waves for ms in wave)
    # The last task of each slot has no successor that shows when it ended.
    assert 0 <= sum(times_ms) - sum(lengths) <= lag * slots
    assert len(level.fresh_ms) == min(slots, len(lengths))


def test_jobs_that_all_have_one_description_are_named_by_their_places(read: Read) -> None:
    """Three cells, run twice, of a notebook that describes them by its own text.

    `Queries.java` looks for the place where a description is not known.
    """
    events = [executor()]
    for number in range(6):
        place = f"count at <cell-{number % 3}>:2"
        cell = {"spark_job_description": "import shop; df.count()", "callSite_short": place}
        events += one_task_job(number, 100 * number, 100 * number + 50, **cell)
    trace, _ = read(*events)
    assert [job.name for job in trace.jobs] == [
        *(f"shop/count at <cell-{n}>:2" for n in range(3)),
        *(f"shop/count at <cell-{n}>:2 #2" for n in range(3)),
    ]


def test_a_description_of_some_jobs_or_of_one_place_stays(read: Read) -> None:
    """It names one query, or the places identify nothing."""
    for places in (["save at etl.py:1"] * 5, ["count at NativeMethodAccessorImpl.java:0"] * 5):
        events = [executor()]
        for number, place in enumerate(places):
            named = {"spark_job_description": "q5", "callSite_short": place}
            events += one_task_job(number, 100 * number, 100 * number + 50, **named)
        trace, _ = read(*events)
        assert trace.jobs[0].name == "shop/q5"
        assert query_in(trace, trace.jobs[4]) == Query("q5", True)


def test_names_that_different_queries_share_are_told(read: Read) -> None:
    """Six jobs of one to three stages; runs of one query, with more tasks each day, are none."""
    events, stages = [executor()], 0
    for number in range(6):
        mine = list(range(stages, stages + 1 + number % 3))
        stages += len(mine)
        at = 1_000 * number
        listed = [stage(s, 1, [s - 1] if s > mine[0] else []) for s in mine]
        ran = [task(s, 0, at, at + 100) for s in mine]
        events += spark_job(number, at, listed, *ran, spark_job_description="all")
    trace, _ = read(*events)
    assert shared_names(trace) == {Query("all", True): 6}
    assert "6 of 6 jobs are named 'all'" in (shared_words(trace) or "")
    grown = [executor()]
    for number in range(6):
        at = 1_000 * number
        tasks = [(at, at + 100)] * (2 + number)
        grown += simple_job(number, at, tasks, spark_job_description="daily")
    trace, _ = read(*grown)
    assert shared_names(trace) == {}
    assert shared_words(trace) is None


# --- what makes a job -----------------------------------------------------------------------------


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
        assert [(job.name, len(job.stages)) for job in trace.jobs] == [
            ("shop/night #1", 2),
            ("shop/night #1 #2", 2),
            ("shop/by day", 1),
        ]
    assert len(read(executor(cores=4), *events, by=GroupBy.JOB)[0].jobs) == 5


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


# --- what a SQL execution reads and writes --------------------------------------------------------


def node(name: str, described: str | None = None, **metadata: str) -> Event:
    simple = name if described is None else described
    return {"nodeName": name, "simpleString": simple, "children": [], "metadata": metadata}


def used(*nodes: Event) -> DataUse:
    start = query(0, "a query", reads=[])
    start["sparkPlanInfo"]["children"] = list(nodes)
    return data_use(text([start]))


@pytest.mark.parametrize(
    ("name", "described", "writes"),
    [
        (
            "Execute InsertIntoHadoopFsRelationCommand",
            "Execute InsertIntoHadoopFsRelationCommand file:/w/t, x, false, Parquet, [], Append",
            "file:/w/t, x",
        ),
        (
            "Execute CreateDataSourceTableAsSelectCommand",
            "CreateDataSourceTableAsSelectCommand `spark_catalog`.`shop`.`Sales`, Overwrite",
            "shop.sales",
        ),
        (
            "Execute SaveIntoDataSourceCommand",
            "Execute SaveIntoDataSourceCommand Delta@1, Map(path -> s3a://b/t), Overwrite",
            "s3://b/t",
        ),
        ("AppendData", "AppendData Iceberg$1, IcebergWrite(table=local.db.t)", "local.db.t"),
    ],
)
def test_writing_nodes_name_their_output(name: str, described: str, writes: str) -> None:
    assert used(node(name, described)) == DataUse(writes=frozenset({writes}))


def test_a_writing_node_that_names_nothing_may_write_anything() -> None:
    assert used(node("Execute SaveIntoDataSourceCommand")) == DataUse(writes_more=True)


def test_a_benchmark_sink_and_views_write_nothing() -> None:
    noop = node("OverwriteByExpression", "OverwriteByExpression NoopTable$@1, NoopWrite$@2")
    assert used(noop, node("Execute CreateViewCommand")) == DataUse()


def test_scans_name_paths_and_tables() -> None:
    location = "CatalogFileIndex(2 paths)[file:/w/t, file:///w/u/]"
    used_names = used(
        node("Scan parquet spark_catalog.shop.sales", "FileScan Location: x", Location=location),
        node("BatchScan local.db.t"),
        node("Scan ExistingRDD"),
        node("LocalTableScan"),
    )
    assert used_names == DataUse(frozenset({"file:/w/t", "file:/w/u", "shop.sales", "local.db.t"}))


@pytest.mark.parametrize(
    "scan",
    [
        node(
            "Scan parquet ", "FileScan Location: x", Location="InMemoryFileIndex(9 paths)[a/b, ...]"
        ),
        node("Scan JDBCRelation(t) [numPartitions=1] "),
        node("BatchScan parquet file:/w/t", "BatchScan Location: InMemoryFileIndex(1 paths)[x]"),
    ],
)
def test_a_scan_that_is_not_fully_named_may_read_anything(scan: Event) -> None:
    assert used(scan).reads_more


def test_text_in_a_plan_is_no_field_of_it() -> None:
    """A query may compare with text that looks like a node."""
    quoted = json.dumps({"Location": "X(1 paths)[file:/never]"})
    assert used(node("Filter", f"Filter (a = {quoted})")) == DataUse()


def test_a_query_without_a_plan_may_read_and_write_anything() -> None:
    assert data_use(text([query(0, "a query")])) == UNKNOWN_USE


def test_one_place_has_one_name() -> None:
    assert normalised("file:///a/b/") == normalised("/a/b") == "file:/a/b"
    assert normalised("`spark_catalog`.`default`.`T`") == normalised("default.t")
