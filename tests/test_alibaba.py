"""Importing Alibaba's batch_task.csv: the graph in the names, and every defect counted."""

from __future__ import annotations

import gzip
import math
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.commands import raises_one_line
from tests.conftest import SHARED
from traces import Trace, TraceError, read_alibaba, to_arrays
from traces.alibaba import ADJUSTED, SKIPPED
from traces.bounds import Bounds


def row(
    name: str,
    job: str = "j_1",
    *,
    count: object = 1,
    status: str = "Terminated",
    start: object = 100,
    end: object = 110,
    cpu: object = 50,
    memory: object = 0.2,
) -> str:
    return f"{name},{count},{job},1,{status},{start},{end},{cpu},{memory}\n"


GOOD = row("M1", "good")


def read(tmp_path: Path, *rows: str, limit: int | None = None) -> Trace:
    """Write the rows and import them."""
    path = tmp_path / "batch_task.csv"
    path.write_text("".join(rows))
    return read_alibaba(path, limit=limit)


def test_names_hold_the_graph(tmp_path: Path) -> None:
    """Numbers after the first are parents, whatever the letter, suffix or order of the rows."""
    trace = read(
        tmp_path,
        row("J5_3_4"),
        row("M1"),
        row("R2_1_Stg7"),
        row("M3_2_"),
        row("R4_1_1"),
        row("task_LTg0MTUwNTA5Mjg4MDkwNjIzMA=="),
        row("MergeTask"),
        row("MergeTask1"),
    )
    parents = {stage.name: stage.parents for stage in trace.jobs[0].stages}
    assert parents == {
        "J5_3_4": (3, 4),
        "M1": (),
        "R2_1_Stg7": (1,),
        "M3_2_": (2,),
        "R4_1_1": (1,),
        "task_LTg0MTUwNTA5Mjg4MDkwNjIzMA==": (),
        "MergeTask": (),
        "MergeTask1": (),
    }
    assert trace.metadata["skipped"] == {}


def test_counts_durations_and_demands_by_hand(tmp_path: Path) -> None:
    """Seven instances for ten seconds: 70 executor-seconds, half a core each, at every wave."""
    path = tmp_path / "batch_task.csv"
    path.write_text(row("M1", count=7, cpu=50, memory=25) + row("M2", cpu="", memory=""))
    first, second = read_alibaba(path, machine_memory_mb=1_000.0).jobs[0].stages
    assert first.work_ms == 70_000.0
    assert [values.tolist() for values in first.durations[0].waves] == [[10_000.0]] * 3
    assert first.durations[0].executors == 1
    assert (first.cpu, first.memory_mb) == (0.5, 250.0)
    assert (second.cpu, second.memory_mb) == (None, None)
    assert read_alibaba(path).jobs[0].stages[0].memory_mb is None


def test_jobs_arrive_with_their_first_task_counted_from_the_earliest_job(tmp_path: Path) -> None:
    """Job b starts first, at 200 s; job a 50 s later; a skipped job does not set the clock."""
    trace = read(
        tmp_path,
        row("M1", "a", start=300, end=310),
        row("M1", "b", start=200, end=210),
        row("M2", "a", start=250, end=260),
        row("M1", "failed", start=5, end=9, status="Failed"),
    )
    assert {job.name: job.arrival_ms for job in trace.jobs} == {"a": 50_000.0, "b": 0.0}


def test_rows_of_a_job_need_not_stand_together(tmp_path: Path) -> None:
    """Rows are collected over the whole file, also under a limit."""
    rows = (row("M1", "a"), row("M1", "b"), row("M1", "c"), row("R2_1", "a"))
    assert [len(job.stages) for job in read(tmp_path, *rows).jobs] == [2, 1, 1]
    limited = read(tmp_path, *rows, limit=2)
    assert [(job.name, len(job.stages)) for job in limited.jobs] == [("a", 2), ("b", 1)]


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        pytest.param([row("M1", status="Running")], "not_terminated", id="still running"),
        pytest.param([row("M1"), row("M2", status="Failed")], "not_terminated", id="one failed"),
        pytest.param([row("M1", end=0)], "bad_times", id="no end"),
        pytest.param([row("M1", start=200)], "bad_times", id="ends before it starts"),
        pytest.param([row("M1", end=10**12)], "bad_times", id="absurd end"),
        pytest.param([row("M1_1")], "cycle", id="waits for itself"),
        pytest.param([row("M1_2"), row("R2_1")], "cycle", id="wait for each other"),
        pytest.param([row("R2_1")], "missing_parent", id="parent missing"),
        pytest.param([row("M1"), row("R1")], "duplicate", id="number twice"),
        pytest.param([row("task_x"), row("task_x")], "duplicate", id="name twice"),
        pytest.param([row("M1", count=0)], "bad_instances", id="no instance"),
        pytest.param([row("M1", count=10**9)], "bad_instances", id="absurd count"),
        pytest.param([row("M1", count="many")], "malformed", id="count is text"),
        pytest.param([row("M1", cpu="nan")], "malformed", id="demand is no number"),
        pytest.param([row("M1", memory=-1)], "malformed", id="negative demand"),
        pytest.param(["M1,1,j_1,1,Terminated,1,2\n"], "malformed", id="seven columns"),
        pytest.param([row("", "j_1")], "malformed", id="no task name"),
        pytest.param(["only text\n"], "malformed", id="no row at all"),
        pytest.param([row("M1", "")], "malformed", id="no job name"),
    ],
)
def test_a_job_with_a_defect_is_left_out_whole_and_counted(
    tmp_path: Path, rows: list[str], reason: str
) -> None:
    """The good job stays; the other is counted once, under the reason that it breaks."""
    trace = read(tmp_path, *rows, GOOD)
    assert [job.name for job in trace.jobs] == ["good"]
    assert trace.metadata["skipped"] == {reason: 1}
    assert reason in SKIPPED


def test_waiting_for_parents_is_not_run_time(tmp_path: Path) -> None:
    """A dependant registered with its parent at 100 s begins when that ends, at 130 s."""
    rows = (row("M1", start=100, end=130), row("R2_1", start=100, end=150))
    trace = read(tmp_path, *rows)
    assert [stage.mean_ms for stage in trace.jobs[0].stages] == [30_000.0, 20_000.0]
    assert trace.metadata["adjusted"] == {"start_at_parents_end": 1}

    raw = read_alibaba(tmp_path / "batch_task.csv", registered_starts=False)
    assert [stage.mean_ms for stage in raw.jobs[0].stages] == [30_000.0, 50_000.0]
    assert raw.metadata["adjusted"] == {}


def test_other_adjustments_are_counted(tmp_path: Path) -> None:
    """Within one second: half a second. Ended before its parent: times kept as recorded."""
    trace = read(
        tmp_path,
        row("M1", start=100, end=100),
        row("M2", start=100, end=140),
        row("R3_2", start=100, end=120),
        row("R4_2", start=100, end=140),
    )
    assert [stage.mean_ms for stage in trace.jobs[0].stages] == [500.0, 40_000.0, 20_000.0, 500.0]
    changes = {"under_a_second": 2, "overlaps_parents": 1, "start_at_parents_end": 1}
    assert trace.metadata["adjusted"] == changes
    assert set(changes) == set(ADJUSTED) - {"no_instance"}


def instance(task: str, job: str, start: object, end: object, status: str = "Terminated") -> str:
    return f"ins_1,{task},{job},1,{status},{start},{end},m_1,1,1,0.5,1,0.1,0.2\n"


@pytest.mark.parametrize("zipped", [False, True])
def test_instances_say_how_long_tasks_take(tmp_path: Path, zipped: bool) -> None:
    """The mean over a task's instances, streamed; what is damaged or unfinished counts not."""
    read(tmp_path, row("M1", count=2, end=150), row("R2_1", end=200), row("J3_2", end=200))
    text = (
        instance("M1", "j_1", 100, 110)
        + instance("R2_1", "j_1", 120, 120)
        + instance("M1", "j_1", 100, 130)
        + instance("M1", "j_1", 100, 900, "Failed")
        + instance("M1", "j_1", "x", 900)
        + instance("M1", "j_1", 900, 100)
        + instance("M1", "j_2", 100, 900)
        + "too,short\n"
    )
    path = tmp_path / ("i.csv.gz" if zipped else "i.csv")
    path.write_bytes(gzip.compress(text.encode()) if zipped else text.encode())
    trace = read_alibaba(str(tmp_path / "batch_task.csv"), instances=str(path))
    assert [stage.mean_ms for stage in trace.jobs[0].stages] == [20_000.0, 500.0, 500.0]
    assert trace.metadata["adjusted"] == {"no_instance": 1, "under_a_second": 1}
    assert trace.metadata["durations"] == f"mean over the instances of a task, from {path.name}"
    assert "no_instance" in ADJUSTED


def test_means_of_instances_come_in_three_columns(tmp_path: Path) -> None:
    """Job, task, mean seconds, with or without a header; other jobs are none of ours."""
    read(tmp_path, row("M1"), row("R2_1"))
    path = tmp_path / "means.csv"
    path.write_text("job_name,task_name,mean_instance_s\nj_1,M1,7\nj_1,R2_1,2.5\nj_9,M1,1\n")
    trace = read_alibaba(tmp_path / "batch_task.csv", instances=path)
    assert [stage.mean_ms for stage in trace.jobs[0].stages] == [7_000.0, 2_500.0]
    path.write_text("j_9,M1,1\n")
    with pytest.raises(TraceError, match="no duration of an instance of any of the jobs"):
        read_alibaba(tmp_path / "batch_task.csv", instances=path)


def test_the_largest_jobs_can_be_left_out(tmp_path: Path) -> None:
    """By their longest task or all their work; how many were is said."""
    rows = (GOOD, row("M1", "long", end=200), row("M1", "wide", count=50))
    read(tmp_path, *rows)
    path = tmp_path / "batch_task.csv"
    shorter = read_alibaba(path, most_task_s=50.0)
    assert [job.name for job in shorter.jobs] == ["good", "wide"]
    assert shorter.metadata["skipped"] == {"task_too_long": 1}
    lighter = read_alibaba(path, most_work_s=200.0)
    assert [job.name for job in lighter.jobs] == ["good", "long"]
    assert lighter.metadata["skipped"] == {"too_much_work": 1}
    assert {"task_too_long", "too_much_work"} < set(SKIPPED)


def test_the_6600_jobs_of_the_real_trace_are_read_whole() -> None:
    """Counts as its README has them."""
    folder = SHARED / "data" / "alibaba-2018-dags"
    if not folder.is_dir():
        pytest.skip(f"the jobs of Alibaba's trace are not at {folder}")
    trace = read_alibaba(
        folder / "batch_task.csv",
        instances=folder / "mean_instance_s.csv",
        machine_memory_mb=100_000.0,
    )
    assert len(trace.jobs) == 6_535
    assert trace.metadata["skipped"] == {"not_terminated": 65}
    assert trace.metadata["adjusted"] == {}
    memory_mb = to_arrays(trace).memory_mb
    assert (memory_mb.min(), memory_mb.max()) == pytest.approx((140.0, 2_350.0))


def test_gzip_is_read_alike_and_a_truncated_one_is_named(tmp_path: Path) -> None:
    """The published file is compressed; half a download must not pass for the whole."""
    path = tmp_path / "batch_task.csv.gz"
    content = gzip.compress("".join(row("M1", f"j_{i}") for i in range(2_000)).encode())
    path.write_bytes(content)
    assert len(read_alibaba(path).jobs) == 2_000
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(TraceError, match="damaged or truncated: gzip"):
        read_alibaba(path)
    path.write_bytes(b"no gzip")
    with pytest.raises(TraceError, match="1 malformed"):
        read_alibaba(path)


def test_files_without_a_usable_job_are_one_line(tmp_path: Path) -> None:
    for rows, words in (
        ([""], "the file is empty"),
        ([row("M1", "a", end=0), row("M1", "b", status="Failed")], "1 not_terminated, 1 bad_times"),
        (["x" * 20_000], "csv:1: a line of more than 10,000 bytes"),
    ):
        with raises_one_line(TraceError, match=words) as caught:
            read(tmp_path, *rows)
        assert str(tmp_path) in str(caught.value)
    with pytest.raises(TraceError, match="No such file"):
        read_alibaba(tmp_path / "none.csv")


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ({"limit": 0}, "limit 0"),
        ({"machine_memory_mb": -1}, "machine memory -1"),
        ({"most_task_s": 0.0}, r"longest task 0\.0 must be positive and finite"),
        ({"most_work_s": math.inf}, "most work inf must be positive and finite"),
    ],
)
def test_impossible_options_are_refused(tmp_path: Path, option: dict[str, Any], words: str) -> None:
    read(tmp_path, GOOD)
    with pytest.raises(TraceError, match=words):
        read_alibaba(tmp_path / "batch_task.csv", **option)


names = ["M1", "R2_1", "J3_1_2", "M1_1", "task_x", ""]
cells = st.sampled_from([*names, "0", "1", "-5", "99", "Terminated", "nan", "\x00"])


@settings(max_examples=80)
@given(rows=st.lists(st.lists(cells, min_size=1, max_size=10), max_size=12))
def test_any_rows_are_imported_or_counted(tmp_path: Path, rows: list[list[str]]) -> None:
    """Whatever the cells hold, the good job comes out, and no error but ours comes up."""
    lines = [",".join(cells) + "\n" for cells in rows]
    trace = read(tmp_path, GOOD, *lines)
    assert "good" in trace.index_of


def gzipped(path: Path, *rows: str) -> Path:
    with gzip.open(path, "wt", compresslevel=6) as stream:
        stream.writelines(rows)
    return path


def test_a_small_file_of_one_endless_job_takes_little_memory(tmp_path: Path) -> None:
    """Its rows are let go once there are too many; the other jobs are kept, and it is counted."""
    endless = (row(f"task_{index}", "endless") for index in range(60_000))
    path = gzipped(tmp_path / "batch_task.csv.gz", GOOD, *endless, row("M2", "good"))
    tracemalloc.start()
    trace = read_alibaba(path, limit=2)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [len(job.stages) for job in trace.jobs] == [2]
    assert trace.metadata["skipped"] == {"too_many_tasks": 1}
    assert peak < 6 * 2**20


def test_a_file_that_unfolds_is_read_up_to_a_bound_that_is_named(tmp_path: Path) -> None:
    """Bytes of content; tasks of all jobs together, which a limit brings down."""
    rows = [row("M1", f"j_{index}") for index in range(2_000)]
    path = gzipped(tmp_path / "batch_task.csv.gz", *rows)
    with pytest.raises(TraceError, match=r"more than 20,000 bytes of content.*Bounds"):
        read_alibaba(path, limit=5, limits=Bounds(content_bytes=20_000))
    few = Bounds(stages=1_000)
    with pytest.raises(TraceError, match=r"more than 1,000 tasks.*with a limit"):
        read_alibaba(path, limits=few)
    assert len(read_alibaba(path, limit=5, limits=few).jobs) == 5
