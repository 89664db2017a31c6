"""What a driver that waits would gain from submitting its jobs together."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decima.report.whatif import whatif_sections
from decima.whatif import WhatIf, what_if
from decima.whatif.replay import Recording, read_recording
from decima.whatif.replay.dependencies import Reason
from decima.whatif.spark_settings import DEFAULTS, PROGRAM
from decima.whatif.submission import (
    DRIVER,
    TOGETHER,
    Limit,
    NotWaitingError,
    Rules,
    Submission,
    hint,
    submission,
    waited_for,
)
from spark_sim.tables import NONE
from tests.commands import decima, refused, succeeded
from tests.recordings import FAST, exact, never_meeting, read_events
from tests.spark_events import (
    Event,
    closing,
    executor,
    query,
    query_end,
    simple_job,
    spark_job,
    sql_job,
    stage,
    started,
    task,
    write,
)
from traces.spark_log import GroupBy

PAUSE, LONG = 100, 1000
COLUMNS = 100
FEW = ("--policies", "fifo", "--draws", 2, "--sequences", 2)


Plan = tuple[list[str], str | None]


def in_turn(count: int, *plans: Plan, tasks: int = 2) -> list[Event]:
    """Queries of `tasks` tasks of one second, one after another with a pause; plans as given."""
    events: list[Event] = [executor(cores=4)]
    for number in range(count):
        at = number * (LONG + PAUSE)
        reads, writes = plans[number] if number < len(plans) else ([], None)
        events += sql_job(number, at, at + LONG, reads=reads, writes=writes, tasks=tasks)
    return events


def needs(record: Recording) -> set[tuple[int, int, Reason]]:
    return {(each.job, each.on, each.reason) for each in record.dependencies}


def studied(record: Recording) -> WhatIf:
    return what_if(record, replace(FAST, policies=("fifo", "spark_fair")))


def answered(record: Recording, limit: Limit) -> Submission:
    study = studied(record)
    return submission(study, exact(study), limit)


def test_jobs_submitted_together_share_the_slots_as_by_hand(tmp_path: Path) -> None:
    """Six jobs of two tasks on four slots: three waves of a second, after one pause for all."""
    answer = answered(read_events(tmp_path, *in_turn(6)), TOGETHER)
    assert answer.recorded.span_s == pytest.approx([6.5] * 3)
    assert answer.changed["fifo"].span_s == pytest.approx([3.0] * 3)
    assert answer.changed["fifo"].avg_s == pytest.approx([2.0] * 3)
    assert answer.span_change("fifo").mean == pytest.approx(100 * (3.0 / 6.5 - 1))


@pytest.mark.parametrize(("limit", "span_s"), [(1, 6.5), (2, 3.2), (3, 3.1)])
def test_at_most_so_many_jobs_are_under_way_at_once(
    limit: int, span_s: float, tmp_path: Path
) -> None:
    """One at once is the recording again; two fill the slots, and pause twice in turn.

    With three, the third waits half a job for its slots, so that a pause passes meanwhile.
    """
    answer = answered(read_events(tmp_path, *in_turn(6)), limit)
    assert answer.changed["fifo"].span_s == pytest.approx([span_s] * 3)


def test_a_job_that_reads_what_another_wrote_comes_after_it(tmp_path: Path) -> None:
    """The fourth reads a part of what the first wrote, the fifth what the fourth did."""
    plans: list[Plan] = [
        (["file:/in"], "file:/out/a"),
        (["file:/in"], None),
        ([], "s3://bucket/out"),
        (["file:///out/a/day=1"], "file:/out/b"),
        (["file:/out/b"], None),
        (["file:/out/ab", "s3a://bucket/other"], None),
    ]
    record = read_events(tmp_path, *in_turn(6, *plans))
    assert needs(record) == {(3, 0, Reason.READS), (4, 3, Reason.READS)}
    answer = answered(record, TOGETHER)
    # Two jobs of the first four fill the slots up to 1 s, the others up to 2 s; job 3 comes at 1.1
    # and runs then, job 4 a pause after it.
    assert answer.changed["fifo"].span_s == pytest.approx([4.1] * 3)
    assert "One reads what another wrote (2)" in answer.kept_words()
    assert "query 3 waits for " in next(answer.dependency_words())


def test_a_query_without_a_plan_may_have_written_what_others_read(tmp_path: Path) -> None:
    events = in_turn(4, (["file:/a"], None), ([], "file:/b"), ([], None), (["file:/c"], None))
    unknown = [without_plan(row) if row.get("executionId") == 2 else row for row in events]
    record = read_events(tmp_path, *unknown)
    assert needs(record) == {(2, 1, Reason.MAY_READ), (3, 2, Reason.MAY_READ)}
    assert "does not name" in answered(record, TOGETHER).assumed_words()


def test_jobs_that_overlapped_need_nothing_of_each_other(tmp_path: Path) -> None:
    """The reader was submitted while the writer ran."""
    writes, reads = sql_job(0, 0, 2000, writes=OUT), sql_job(1, 1000, 3000, reads=[OUT])
    record = read_events(tmp_path, executor(cores=4), *writes[:-1], *reads, writes[-1])
    assert needs(record) == set()
    with pytest.raises(NotWaitingError, match="already are submitted together"):
        Rules.of(record)


OUT = "file:/out"


def without_plan(row: Event) -> Event:
    return {key: value for key, value in row.items() if key != "sparkPlanInfo"}


def stored(rdd: int, partitions: int) -> Event:
    level = {"Use Disk": False, "Use Memory": True, "Use Off Heap": False}
    return {"RDD ID": rdd, "Storage Level": level, "Number of Partitions": partitions}


def checkpointed(parent: int) -> Event:
    return {"RDD ID": 100, "Parent IDs": [parent], "Number of Partitions": 2}


def rdd_job(
    number: int, at: int, *rdds: Event, tasks: int = 2, place: str = "collect at a.py:1"
) -> list[Event]:
    """A Spark job outside SQL of one stage, which lists these RDDs beside one of its own."""
    listed = stage(number, tasks) | {"Stage Name": place}
    listed["RDD Info"] += rdds
    ran = [task(number, part, at, at + LONG) for part in range(tasks)]
    return spark_job(number, at, [listed], *ran)


# The second writer, which waits for the first, runs when the next job is submitted.
TWO_WRITERS = [
    *sql_job(0, 0, 1000, writes=OUT),
    *sql_job(1, 1100, 3100, writes=OUT)[:-1],
]
RESULT: dict[str, Any] = {"kind": "ResultTask"}
BOTH_STAGES = task(0, 0, 0, LONG), task(0, 1, 0, LONG), task(1, 0, LONG, 2 * LONG, **RESULT)
SKIPPED = [stage(2, 2, rdds=[7]), stage(3, 1, [2])]
SCHEMA = "parquet at NativeMethodAccessorImpl.java:0"
LOOP = "treeAggregate at RDDLossFunction.scala:61"
NEEDS: dict[str, tuple[list[Event], set[tuple[int, int, Reason]]]] = {
    "writers of one table, and one that overwrites what another read before it": (
        in_turn(5, ([], OUT), ([], OUT), (["file:/seen"], None), ([], "file:/seen")),
        {(1, 0, Reason.WRITES), (3, 2, Reason.WRITES)},
    ),
    # Else their number would grow with the square of that of the jobs.
    "of jobs that wait in turn only the last is named": (
        [without_plan(row) for row in in_turn(6)],
        {(row, row - 1, Reason.MAY_READ) for row in range(1, 6)},
    ),
    "a reader beside one writer waits for the one before": (
        [*TWO_WRITERS, *sql_job(2, 2000, 4000, reads=[OUT]), query_end(1)],
        {(1, 0, Reason.WRITES), (2, 0, Reason.READS)},
    ),
    # The query that comes next needs the second writer alone, which waits for the first.
    "a preparation beside one writer needs the one before": (
        [
            *TWO_WRITERS,
            *rdd_job(2, 1500, place="parquet at a.py:1"),
            query_end(1),
            *sql_job(3, 3200, 4000, reads=[OUT]),
        ],
        {
            (1, 0, Reason.WRITES),
            (2, 0, Reason.READS),
            (3, 1, Reason.READS),
            (3, 2, Reason.PREPARES),
        },
    ),
    "reading a schema stays between the write and the query": (
        [
            *sql_job(0, 0, LONG, writes=OUT),
            *rdd_job(1, 2000, tasks=1, place=SCHEMA),
            *sql_job(2, 4000, 5000, reads=[OUT]),
        ],
        {(1, 0, Reason.READS), (2, 0, Reason.READS), (2, 1, Reason.PREPARES)},
    ),
    # The first stored a half, the second, which needs it, the rest; the others need that one.
    "jobs wait for those that filled a cache": (
        [
            *rdd_job(0, 0, stored(100, 2), tasks=1),
            *(row for k in (1, 2, 3) for row in rdd_job(k, 2000 * k, stored(100, 2))),
            *rdd_job(4, 8000),
        ],
        {(1, 0, Reason.STORED), (2, 1, Reason.STORED), (3, 1, Reason.STORED)},
    ),
    # The parent of a checkpoint is newer than the RDD itself, which no other RDD's is.
    "a checkpoint is stored data": (
        [
            *rdd_job(0, 0, checkpointed(99)),
            *rdd_job(1, 2000, checkpointed(105)),
            *rdd_job(2, 4000, checkpointed(105)),
            *rdd_job(3, 6000),
        ],
        {(2, 1, Reason.STORED)},
    ),
    # Both list a stage over the same RDDs; the second does not run it.
    "a skipped stage needs the job that wrote its shuffle": (
        [
            *spark_job(0, 0, [stage(0, 2, rdds=[7]), stage(1, 1, [0])], *BOTH_STAGES),
            *spark_job(1, 3000, SKIPPED, task(3, 0, 3000, 4000, **RESULT)),
        ],
        {(1, 0, Reason.SHUFFLE)},
    ),
    # A place in the program itself may submit jobs of different threads.
    "iterations of a library keep their order": (
        [
            *rdd_job(0, 0),
            *(row for k in (1, 2, 3) for row in rdd_job(k, 2000 * k, place=LOOP)),
            *rdd_job(4, 8000),
            *rdd_job(5, 10_000),
        ],
        {(2, 1, Reason.ORDER), (3, 2, Reason.ORDER)},
    ),
}


@pytest.mark.parametrize(("events", "expected"), NEEDS.values(), ids=NEEDS)
def test_jobs_need_what_came_before_them(
    events: list[Event], expected: set[tuple[int, int, Reason]], tmp_path: Path
) -> None:
    assert needs(read_events(tmp_path, executor(cores=4), *events)) == expected


def test_spark_jobs_of_one_query_and_batches_of_one_stream_keep_their_order(
    tmp_path: Path,
) -> None:
    """Also where each Spark job counts as a job."""
    run = "runId = 00000000-0000-0000-0000-000000000001 batch ="
    events = [
        executor(cores=4),
        query(0, "two Spark jobs", reads=[]),
        *simple_job(0, 0, [(0, LONG)], spark_sql_execution_id="0"),
        *simple_job(1, 2000, [(2000, 3000)], spark_sql_execution_id="0"),
        query(1, f"{run} 0", reads=[]),
        *simple_job(2, 4000, [(4000, 5000)], spark_sql_execution_id="1"),
        query(2, f"{run} 1", reads=[]),
        *simple_job(3, 6000, [(6000, 7000)], spark_sql_execution_id="2"),
        *(query_end(number) for number in range(3)),
    ]
    log = write(tmp_path / "log", [*started(), *events, closing()])
    record = read_recording([log], group_by=GroupBy.JOB)
    assert needs(record) == {(1, 0, Reason.ORDER), (3, 2, Reason.ORDER)}


@given(
    st.lists(st.tuples(st.integers(1, 50), st.integers(0, 9), st.integers(0, 20)), min_size=2),
    st.integers(1, 4),
)
def test_no_job_comes_before_what_it_needs_nor_above_the_limit(
    jobs: list[tuple[int, int, int]], most: int
) -> None:
    """Each job may need one before it."""
    took_ms = np.array([took for took, _, _ in jobs], np.float64)
    pause_ms = np.array([pause for _, pause, _ in jobs], np.float64)
    leaders = tuple(
        (place - back,) if 0 < back <= place else () for place, (_, _, back) in enumerate(jobs)
    )
    rules = Rules(
        np.arange(len(jobs)), np.zeros(len(jobs)), pause_ms, np.ones(len(jobs), bool), leaders
    )
    submitted_ms, trigger = rules.scheduled(took_ms, most)
    ends_ms = submitted_ms + took_ms
    for job, needed in enumerate(leaders):
        before_ms = submitted_ms[job] - pause_ms[job]
        assert all(before_ms >= ends_ms[leader] for leader in needed)
        assert before_ms == (0.0 if trigger[job] == NONE else ends_ms[trigger[job]])
        others = (submitted_ms - pause_ms <= before_ms) & (ends_ms > before_ms)
        assert others.sum() <= most


def test_short_pauses_change_places_and_long_ones_stay() -> None:
    """So does the time of a job that came by itself."""
    pause_ms = np.array([100.0, 110.0, 120.0, 130.0, 5000.0, 0.0])
    is_driven = np.array([True] * 5 + [False])
    rules = Rules(np.arange(6), np.zeros(6), pause_ms, is_driven, ((),) * 6)
    rng = np.random.default_rng(0)
    drawn = [rules.exchanged(rng).pause_ms for _ in range(20)]
    assert all(sorted(each[:4]) == pause_ms[:4].tolist() for each in drawn)
    assert len({tuple(each[:4]) for each in drawn}) > 5
    assert all(each[4:].tolist() == [5000.0, 0.0] for each in drawn)


def test_jobs_that_came_by_themselves_keep_their_times(tmp_path: Path) -> None:
    """Of five jobs the second and third are of the first one's driver."""
    record = replace(read_events(tmp_path, *in_turn(5)), follows=(NONE, 0, 1, NONE, NONE))
    rules = Rules.of(record)
    assert rules.ready_ms.tolist() == [-100.0, -100.0, -100.0, 3300.0, 4400.0]
    assert rules.pause_ms.tolist() == [100.0, 100.0, 100.0, 0.0, 0.0]
    took_ms = np.full(5, 1000.0)
    assert rules.scheduled(took_ms, 5)[0].tolist() == [0.0, 0.0, 0.0, 3300.0, 4400.0]


def test_two_jobs_in_turn_are_of_a_driver_that_waits(tmp_path: Path) -> None:
    """They are too few for the replay, where it may be chance."""
    record = read_events(tmp_path, *in_turn(2))
    assert record.followed.tolist() == [NONE, NONE]
    assert waited_for(record).tolist() == [NONE, 0]
    assert answered(record, TOGETHER).changed["fifo"].span_s == pytest.approx([1.0] * 3)


def test_a_timetable_is_no_driver_that_waits() -> None:
    assert (waited_for(never_meeting()) == NONE).all()


def test_the_page_and_the_terminal_ask_the_question(tmp_path: Path) -> None:
    """Without the option a line points to it, where it is possible; with it there is a section.

    Nothing is answered where the replay is off, and a driver without its times is not compared with
    the recorded time.
    """
    study = studied(read_events(tmp_path, *in_turn(6)))
    check, words = exact(study), hint(study) or ""
    assert "--submit together" in words
    assert words in whatif_sections(study, check)[0].content["findings"]
    answer = submission(study, check, TOGETHER)
    sections = {each.anchor: each for each in whatif_sections(study, check, submitted=answer)}
    assert sections["submission"].content["headline"] == answer.headline()
    assert words not in sections["whatif"].content["findings"]
    apart = replace(study, settings=replace(study.settings, protocol="executors"))
    assert hint(apart) is None
    off = submission(study, replace(check, simulated_s=1.5 * check.recorded_s), TOGETHER)
    assert off.headline().startswith("No answer on --submit")
    assert off.advised() is None
    faster = replace(answer, recorded=replace(answer.recorded, span_s=answer.recorded.span_s / 2))
    assert faster.error_percent == pytest.approx(-50.0)
    assert replace(faster, study=replace(study, driver_times=False)).error_percent == 0.0


def test_fair_pools_are_advised_where_short_jobs_would_wait(tmp_path: Path) -> None:
    """One of sixteen tasks, then five of one: by FIFO these wait for most of it."""
    waves = [(wave * LONG, (wave + 1) * LONG) for wave in range(4) for _ in range(4)]
    events = [executor(cores=4), *simple_job(0, 0, waves)]
    for number in range(1, 6):
        at = 3000 + number * (LONG + PAUSE)
        events += simple_job(number, at, [(at, at + LONG)])
    answer = answered(read_events(tmp_path, *events), TOGETHER)
    change = answer.advised()
    assert change is not None
    words, files = change
    assert "With a FAIR pool for each job instead: average JCT -" in words
    assert files[DEFAULTS] == "spark.scheduler.mode FAIR"
    assert set(files) == {DRIVER, DEFAULTS, PROGRAM}


def test_a_driver_on_other_slots_is_not_compared_with_the_recorded_time(tmp_path: Path) -> None:
    """It takes twice as long on half the slots."""
    output = tmp_path / "out.json"
    log = write(tmp_path / "log", [*started(), *in_turn(6, tasks=4)])
    asked = ("--submit", "together", "--task-cpus", 2, "--json", output)
    result = succeeded(decima("whatif", log, *asked, *FEW))
    assert json.loads(output.read_text())["submission"]["is_trusted"]
    assert "Submitted together, under fifo" in result.output


def test_the_command_answers_in_words_lines_and_json(tmp_path: Path) -> None:
    events = in_turn(6, ([], OUT), ([OUT], None))
    log = write(tmp_path / "log", [*started(), *events, closing()])
    output, page = tmp_path / "out.json", tmp_path / "out.html"
    outputs = ("--json", output, "--report", page)
    result = succeeded(decima("whatif", log, "--submit", 2, "--explain", *FEW, *outputs))
    assert max(map(len, map(str.rstrip, result.output.splitlines()))) <= COLUMNS
    printed = " ".join(result.output.split())
    assert "Submitted at most 2 at once, under fifo: 3.2" in printed
    assert "query 1 waits for shop/query 0: reads what another wrote (file:/out)" in printed
    assert DRIVER in printed
    assert "ThreadPoolExecutor(2)" in printed
    many = succeeded(decima("whatif", log, "--submit", 10**12, *FEW))
    assert "ThreadPoolExecutor(6)" in many.stdout
    content = json.loads(output.read_text())["submission"]
    assert content["limit"] == 2
    assert len(content["policies"]["fifo"]["span_s"]) == 2
    assert content["dependencies"][0]["what"] == "file:/out"
    assert "If the driver did not wait" in page.read_text()


def test_jobs_that_came_together_are_refused(tmp_path: Path) -> None:
    both = [*simple_job(0, 0, [(0, 2000)]), *simple_job(1, 500, [(500, 3000)])]
    log = write(tmp_path / "log", [*started(), executor(), *both])
    refused(decima("whatif", "--submit", TOGETHER, log), "--submit changes nothing")
    other = write(tmp_path / "other", [*started("mine", "app-2"), *in_turn(3)])
    refused(decima("whatif", "--submit", TOGETHER, log, other), "give its log alone")
