"""What a driver that waits would gain from submitting its jobs together."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from decima.cli.main import main
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
    EPOCH,
    Event,
    end,
    event,
    executor,
    query,
    query_end,
    simple_job,
    stage,
    start,
    started,
    submitted,
    task,
    write,
)
from traces.spark_log import GroupBy

PAUSE, LONG = 100, 1000
COLUMNS = 100


def in_turn(count: int, *plans: tuple[list[str], str | None], tasks: int = 2) -> list[Event]:
    """Queries of `tasks` tasks of one second, one after another with a pause; plans as given."""
    events: list[Event] = [executor(cores=4)]
    for number in range(count):
        at = number * (LONG + PAUSE)
        reads, writes = plans[number] if number < len(plans) else ([], None)
        events += [
            query(number, f"query {number}", reads=reads, writes=writes),
            *simple_job(number, at, [(at, at + LONG)] * tasks, spark_sql_execution_id=str(number)),
            query_end(number),
        ]
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
    plans: list[tuple[list[str], str | None]] = [
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


def test_jobs_that_write_one_place_keep_their_order(tmp_path: Path) -> None:
    """Writers of one table, and one that overwrites what another read before it."""
    plans: list[tuple[list[str], str | None]] = [
        ([], "file:/out"),
        ([], "file:/out"),
        (["file:/seen"], None),
        ([], "file:/seen"),
    ]
    record = read_events(tmp_path, *in_turn(5, *plans))
    assert needs(record) == {(1, 0, Reason.WRITES), (3, 2, Reason.WRITES)}


def test_a_query_without_a_plan_waits_for_all_that_may_have_written(tmp_path: Path) -> None:
    """It may itself have written what later ones read."""
    events = in_turn(4, (["file:/a"], None), ([], "file:/b"), ([], None), (["file:/c"], None))
    unknown = [
        {key: value for key, value in each.items() if key != "sparkPlanInfo"}
        if each.get("executionId") == 2
        else each
        for each in events
    ]
    record = read_events(tmp_path, *unknown)
    assert needs(record) == {(2, 1, Reason.MAY_READ), (3, 2, Reason.MAY_READ)}
    assert "does not name" in answered(record, TOGETHER).assumed_words()


def test_of_jobs_that_wait_in_turn_only_the_last_is_named(tmp_path: Path) -> None:
    """Else their number would grow with the square of that of the jobs."""
    events = [
        {key: value for key, value in each.items() if key != "sparkPlanInfo"} for each in in_turn(6)
    ]
    record = read_events(tmp_path, *events)
    assert needs(record) == {(row, row - 1, Reason.MAY_READ) for row in range(1, 6)}


def test_a_reader_beside_one_writer_still_waits_for_the_one_before(tmp_path: Path) -> None:
    """The second writer, which waits for the first, runs when the reader is submitted."""
    record = read_events(
        tmp_path,
        executor(cores=4),
        query(0, "writes", reads=[], writes="file:/out"),
        *simple_job(0, 0, [(0, 1000)], spark_sql_execution_id="0"),
        query_end(0),
        query(1, "writes again", reads=[], writes="file:/out"),
        *simple_job(1, 1100, [(1100, 3100)], spark_sql_execution_id="1"),
        query(2, "reads", reads=["file:/out"]),
        *simple_job(2, 2000, [(2000, 4000)], spark_sql_execution_id="2"),
        query_end(1),
        query_end(2),
    )
    assert needs(record) == {(1, 0, Reason.WRITES), (2, 0, Reason.READS)}


def test_jobs_that_overlapped_need_nothing_of_each_other(tmp_path: Path) -> None:
    """The reader was submitted while the writer ran."""
    record = read_events(
        tmp_path,
        executor(cores=4),
        query(0, "writes", reads=[], writes="file:/out"),
        *simple_job(0, 0, [(0, 2000)], spark_sql_execution_id="0"),
        query(1, "reads", reads=["file:/out"]),
        *simple_job(1, 1000, [(1000, 3000)], spark_sql_execution_id="1"),
        query_end(0),
        query_end(1),
    )
    assert needs(record) == set()
    with pytest.raises(NotWaitingError, match="already are submitted together"):
        Rules.of(record)


def stored(rdd: int, partitions: int) -> Event:
    level = {"Use Disk": False, "Use Memory": True, "Use Off Heap": False}
    return {"RDD ID": rdd, "Storage Level": level, "Number of Partitions": partitions}


def rdd_job(
    number: int, at: int, rdds: list[Event], *, tasks: int = 2, place: str = "collect at a.py:1"
) -> list[Event]:
    """A Spark job outside SQL of one stage, which lists these RDDs beside one of its own."""
    listed = stage(number, tasks) | {"Stage Name": place}
    listed["RDD Info"] += rdds
    ran = [task(number, part, at, at + LONG) for part in range(tasks)]
    return [start(number, at, [listed]), submitted(number, tasks), *ran, end(number, at + LONG)]


def test_jobs_wait_for_those_that_filled_a_cache(tmp_path: Path) -> None:
    """The first stored a half, the second, which needs it, the rest; the others need that one."""
    cache = stored(100, 2)
    record = read_events(
        tmp_path,
        executor(cores=4),
        *rdd_job(0, 0, [cache], tasks=1),
        *rdd_job(1, 2000, [cache]),
        *rdd_job(2, 4000, [cache]),
        *rdd_job(3, 6000, [cache]),
        *rdd_job(4, 8000, []),
    )
    pairs = {(1, 0), (2, 1), (3, 1)}
    assert needs(record) == {(*pair, Reason.STORED) for pair in pairs}


def test_a_checkpoint_is_stored_data(tmp_path: Path) -> None:
    """Its parent is newer than the RDD itself, which no other RDD's is."""
    before = {"RDD ID": 100, "Parent IDs": [99], "Number of Partitions": 2}
    after = {"RDD ID": 100, "Parent IDs": [105], "Number of Partitions": 2}
    record = read_events(
        tmp_path,
        executor(cores=4),
        *rdd_job(0, 0, [before]),
        *rdd_job(1, 2000, [after]),
        *rdd_job(2, 4000, [after]),
        *rdd_job(3, 6000, []),
    )
    assert needs(record) == {(2, 1, Reason.STORED)}


def test_a_skipped_stage_needs_the_job_that_wrote_its_shuffle(tmp_path: Path) -> None:
    """Both list a stage over the same RDDs; the second does not run it."""
    record = read_events(
        tmp_path,
        executor(cores=4),
        start(0, 0, [stage(0, 2, rdds=[7]), stage(1, 1, [0])]),
        submitted(0, 2), task(0, 0, 0, LONG), task(0, 1, 0, LONG),
        submitted(1, 1), task(1, 0, LONG, 2 * LONG, kind="ResultTask"), end(0, 2 * LONG),
        start(1, 3000, [stage(2, 2, rdds=[7]), stage(3, 1, [2])]),
        submitted(3, 1), task(3, 0, 3000, 4000, kind="ResultTask"), end(1, 4000),
    )  # fmt: skip
    assert needs(record) == {(1, 0, Reason.SHUFFLE)}


def test_reading_a_schema_stays_between_the_write_and_the_query(tmp_path: Path) -> None:
    """It waits for what its query waits for, and the query for it."""
    record = read_events(
        tmp_path,
        executor(cores=4),
        query(0, "writes", reads=[], writes="file:/out"),
        *simple_job(0, 0, [(0, LONG)], spark_sql_execution_id="0"),
        query_end(0),
        *rdd_job(1, 2000, [], tasks=1, place="parquet at NativeMethodAccessorImpl.java:0"),
        query(1, "reads", reads=["file:/out"]),
        *simple_job(2, 4000, [(4000, 5000)], spark_sql_execution_id="1"),
        query_end(1),
    )
    assert needs(record) == {
        (1, 0, Reason.READS),
        (2, 0, Reason.READS),
        (2, 1, Reason.PREPARES),
    }


def test_a_preparation_beside_one_writer_needs_the_one_before(tmp_path: Path) -> None:
    """The query that comes next needs the second writer alone, which waits for the first."""
    record = read_events(
        tmp_path,
        executor(cores=4),
        query(0, "writes", reads=[], writes="file:/out"),
        *simple_job(0, 0, [(0, 1000)], spark_sql_execution_id="0"),
        query_end(0),
        query(1, "writes again", reads=[], writes="file:/out"),
        *simple_job(1, 1100, [(1100, 3100)], spark_sql_execution_id="1"),
        *rdd_job(2, 1500, [], place="parquet at a.py:1"),
        query_end(1),
        query(3, "reads", reads=["file:/out"]),
        *simple_job(3, 3200, [(3200, 4000)], spark_sql_execution_id="3"),
        query_end(3),
    )
    assert needs(record) == {
        (1, 0, Reason.WRITES),
        (2, 0, Reason.READS),
        (3, 1, Reason.READS),
        (3, 2, Reason.PREPARES),
    }


def test_iterations_of_a_library_keep_their_order(tmp_path: Path) -> None:
    """A place in the program itself may submit jobs of different threads."""
    loop = "treeAggregate at RDDLossFunction.scala:61"
    record = read_events(
        tmp_path,
        executor(cores=4),
        *rdd_job(0, 0, []),
        *rdd_job(1, 2000, [], place=loop),
        *rdd_job(2, 4000, [], place=loop),
        *rdd_job(3, 6000, [], place=loop),
        *rdd_job(4, 8000, []),
        *rdd_job(5, 10_000, []),
    )
    assert needs(record) == {(2, 1, Reason.ORDER), (3, 2, Reason.ORDER)}


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
    closing = event("ApplicationEnd", Timestamp=EPOCH + 10**7)
    log = write(tmp_path / "log", [*started(), *events, closing])
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
    """Without the option a line points to it; with it the page has a section."""
    study = studied(read_events(tmp_path, *in_turn(6)))
    check = exact(study)
    words = hint(study)
    assert words is not None
    assert "--submit together" in words
    assert words in whatif_sections(study, check)[0].content["findings"]
    answer = submission(study, check, TOGETHER)
    sections = {each.anchor: each for each in whatif_sections(study, check, submitted=answer)}
    assert sections["submission"].content["headline"] == answer.headline()
    assert words not in sections["whatif"].content["findings"]


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


def test_nothing_is_answered_where_the_replay_is_off(tmp_path: Path) -> None:
    study = studied(read_events(tmp_path, *in_turn(6)))
    check = exact(study)
    off = replace(check, simulated_s=1.5 * check.recorded_s)
    answer = submission(study, off, TOGETHER)
    assert answer.headline().startswith("No answer on --submit")
    assert answer.advised() is None


def test_a_driver_without_its_times_is_not_compared_with_the_recorded_time(tmp_path: Path) -> None:
    answer = answered(read_events(tmp_path, *in_turn(6)), TOGETHER)
    half = replace(answer.recorded, span_s=answer.recorded.span_s / 2)
    faster = replace(answer, recorded=half)
    assert faster.error_percent == pytest.approx(-50.0)
    assert replace(faster, study=replace(faster.study, driver_times=False)).error_percent == 0.0


def test_a_driver_on_other_slots_is_not_compared_with_the_recorded_time(tmp_path: Path) -> None:
    """It takes twice as long on half the slots."""
    output = tmp_path / "out.json"
    log = write(tmp_path / "log", [*started(), *in_turn(6, tasks=4)])
    few = ("--policies", "fifo", "--draws", "2", "--sequences", "2", "--json", str(output))
    result = CliRunner().invoke(
        main, ["whatif", str(log), "--submit", "together", "--task-cpus", "2", *few]
    )
    assert result.exit_code == 0, result.output
    assert json.loads(output.read_text())["submission"]["is_trusted"]
    assert "Submitted together, under fifo" in result.output


def test_nothing_points_to_a_question_that_would_be_refused(tmp_path: Path) -> None:
    study = studied(read_events(tmp_path, *in_turn(6)))
    assert hint(study) is not None
    settings = replace(study.settings, protocol="executors")
    assert hint(replace(study, settings=settings)) is None


def test_the_command_answers_in_words_lines_and_json(tmp_path: Path) -> None:
    closing = event("ApplicationEnd", Timestamp=EPOCH + 10**7)
    plans: list[tuple[list[str], str | None]] = [([], "file:/out"), (["file:/out"], None)]
    log = write(tmp_path / "log", [*started(), *in_turn(6, *plans), closing])
    output, page = tmp_path / "out.json", tmp_path / "out.html"
    few = ("--policies", "fifo", "--draws", "2", "--sequences", "2")
    outputs = ("--json", str(output), "--report", str(page))
    result = CliRunner().invoke(
        main, ["whatif", str(log), "--submit", "2", "--explain", *few, *outputs]
    )
    assert result.exit_code == 0, result.output
    assert max(map(len, map(str.rstrip, result.output.splitlines()))) <= COLUMNS
    printed = " ".join(result.output.split())
    assert "Submitted at most 2 at once, under fifo: 3.2" in printed
    assert "query 1 waits for shop/query 0: reads what another wrote (file:/out)" in printed
    assert DRIVER in printed
    assert "ThreadPoolExecutor(2)" in printed
    many = succeeded(decima("whatif", log, "--submit", 10**12, *few))
    assert "ThreadPoolExecutor(6)" in many.stdout
    content = json.loads(output.read_text())["submission"]
    assert content["limit"] == 2
    assert len(content["policies"]["fifo"]["span_s"]) == 2
    assert content["dependencies"][0]["what"] == "file:/out"
    assert "If the driver did not wait" in page.read_text()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--submit", "0"), "'0' must be together or a whole number"),
        (("--submit", "x"), "'x' must be together or a whole number"),
        (("--submit", "2", "--applications"), "--applications knows no --submit"),
        (("--submit", "2", "--protocol", "executors"), "--submit needs --protocol session"),
    ],
)
def test_impossible_requests_are_one_line(
    options: tuple[str, ...], words: str, tmp_path: Path
) -> None:
    log = write(tmp_path / "log", [*started(), *in_turn(4)])
    refused(CliRunner().invoke(main, ["whatif", str(log), *options]), words)


def test_jobs_that_came_together_are_refused(tmp_path: Path) -> None:
    """And several applications, each of which has a driver of its own."""
    both = [*simple_job(0, 0, [(0, 2000)]), *simple_job(1, 500, [(500, 3000)])]
    log = write(tmp_path / "log", [*started(), executor(), *both])
    command = ["whatif", "--submit", TOGETHER]
    refused(CliRunner().invoke(main, [*command, str(log)]), "--submit changes nothing")
    other = write(tmp_path / "other", [*started("mine", "app-2"), *in_turn(3)])
    refused(CliRunner().invoke(main, [*command, str(log), str(other)]), "give its log alone")
