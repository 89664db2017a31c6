"""The timelines of a report: what is packed, drawn and refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from decima.evaluation.config import draw_sequence
from decima.evaluation.timeline import read_timeline, recorded_within
from decima.report import comparison_sections, results_of
from decima.report.page import page
from decima.report.timelines import (
    Run,
    Tasks,
    critical_path,
    gantt,
    graphs,
    merged,
    ordered_runs,
    pack,
    timelines_section,
    unpack,
)
from spark_sim.render import raster
from tests.commands import decima, refused, small_config
from tests.pages import HOSTILE, results_json, two_runs, two_sequences
from traces import load_trace
from traces.files.errors import FileError


def test_the_path_that_decided_a_jobs_end() -> None:
    """Left ends after right, so bottom waited for left; a stage that never ran is passed over."""
    parents = [[], [0], [0], [1, 2]]
    assert critical_path(parents, {0: 2.0, 1: 9.0, 2: 6.0, 3: 10.0}) == [0, 1, 3]
    assert critical_path(parents, {0: 2.0, 1: 5.0, 2: 6.0, 3: 10.0}) == [0, 2, 3]
    assert critical_path(parents, {0: 2.0, 2: 6.0}) == [0, 2]


def test_a_run_as_the_page_gets_it() -> None:
    tasks, trace = two_runs()
    shown = gantt(tasks, Run("b", 0), trace)
    assert (shown["executors"], shown["end_ms"], shown["tasks"]) == (2, 8000.0, 6)
    small, diamond = shown["jobs"]
    assert (small["name"], small["critical"]) == ("small", [0])
    assert diamond["critical"] == [0, 1, 3]
    drawn = graphs([shown], trace)
    assert drawn[HOSTILE]["parents"] == [[], [0], [0], [1, 2]]
    assert drawn["small"]["stage_names"] == ["only"]
    drawn_tasks = unpack(shown)
    assert drawn_tasks.start_ms[drawn_tasks.stage == diamond["first"] + 2].tolist() == [3000.0]
    # Executor 0 has job 0 until 3 s, then job 1 until 5 s; executor 1 has job 1 until 8 s.
    job = np.array(shown["stages"]["job"])[drawn_tasks.stage]
    columns = drawn_tasks.executor, drawn_tasks.start_ms, drawn_tasks.finish_ms, job
    assert raster(*columns, 2, 8, 8000.0).tolist() == [[0, 0, 0, 1, 1, -1, -1, -1], [1] * 8]
    without = gantt(tasks, Run("b", 0), None)
    assert "critical" not in without["jobs"][1]
    assert graphs([without], None) == {}


STARTS = st.floats(0, 3e6) | st.floats(0, 1e13)


@given(
    rows=st.lists(
        st.tuples(st.integers(0, 5), STARTS, st.floats(0, 1e5), st.integers(0, 40)),
        min_size=1,
        max_size=60,
    )
)
@settings(max_examples=60)
def test_packing_keeps_every_task(rows: list[tuple[int, float, float, int]]) -> None:
    """Times to half a unit, by executor and start; some executors did nothing."""
    rows = sorted(rows)
    executor = np.array([row[0] for row in rows])
    start = np.array([row[1] for row in rows])
    finish = start + np.array([row[2] for row in rows])
    stage = np.array([row[3] for row in rows])
    packed = pack(Tasks(executor, start, finish, stage, np.ones(len(rows), np.int64)))
    tasks = unpack(packed)
    assert tasks.executor.tolist() == executor.tolist()
    np.testing.assert_allclose(tasks.start_ms, start, atol=0.51 * packed["unit_ms"])
    np.testing.assert_allclose(tasks.finish_ms, finish, atol=0.51 * packed["unit_ms"])
    assert tasks.stage.tolist() == stage.tolist()


@pytest.mark.parametrize(
    ("end_ms", "unit_ms"),
    [(999.0, 0.01), (4e9, 1.0), (2**32 - 1, 1.0), (2**32, 10.0), (5e9, 10.0), (1e15, 1e6)],
)
def test_a_long_run_is_packed_in_coarser_units(end_ms: float, unit_ms: float) -> None:
    """32 bits hold 49.7 days of milliseconds; an executor's first task may begin after them."""
    executor, stage = np.array([0, 1]), np.array([0, 0])
    start, finish = np.array([0.0, 0.9 * end_ms]), np.array([end_ms, end_ms])
    packed = pack(Tasks(executor, start, finish, stage, np.ones(2, np.int64)))
    assert packed["unit_ms"] == unit_ms
    tasks = unpack(packed)
    np.testing.assert_allclose(tasks.start_ms, start, atol=0.51 * unit_ms)
    np.testing.assert_allclose(tasks.finish_ms, finish, atol=0.51 * unit_ms)


def test_blocks_lose_no_task_and_join_no_strangers() -> None:
    """10,000 tasks of 50 stages on 4 executors, drawn as about 400 blocks."""
    rng = np.random.default_rng(1)
    start = np.sort(rng.uniform(0, 1e6, (4, 2500)), axis=1)
    finish = np.minimum(start + 50, np.append(start[:, 1:], np.full((4, 1), 1.1e6), axis=1))
    stage = np.repeat(rng.integers(50, size=(4, 25)), 100, axis=1)
    tasks = Tasks(
        np.repeat(np.arange(4), 2500), start.ravel(), finish.ravel(), stage.ravel(),
        np.ones(10_000, np.int64),
    )  # fmt: skip
    blocks = merged(tasks, 400)
    assert 100 <= len(blocks.start_ms) < 1000
    assert blocks.number.sum() == 10_000
    for block in range(50):
        assert blocks.number[blocks.stage == block].sum() == (tasks.stage == block).sum()
    assert (blocks.finish_ms >= blocks.start_ms).all()
    packed = pack(blocks)
    assert packed["merged"]
    assert unpack(packed).number.tolist() == blocks.number.tolist()


def test_the_page_opens_with_the_reference_and_the_best_of_the_others() -> None:
    results = results_of(results_json(), "here")
    runs = two_sequences()
    order = [Run("a", 0), Run("b", 0), Run("a", 1), Run("b", 1)]
    assert ordered_runs(results, runs.table) == order
    section = timelines_section(results, runs)
    shown = [
        [Run(run["policy"], run["sequence"]) for run in runs_of]
        for runs_of in (section.timelines, section.opening)
    ]
    assert shown == [order, order[:2]]
    with pytest.raises(FileError, match="no run of these"):
        ordered_runs(results, two_runs().table.slice(0, 0))


def test_a_page_holds_no_more_timelines_than_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The two that it opens with always; and it tells how many are missing."""
    results = results_of(results_json(), "here")
    size = len(json.dumps(timelines_section(results, two_sequences()).timelines[2]))
    for most, number in ((0, 2), (size, 3), (10 * size, 4)):
        monkeypatch.setattr("decima.report.timelines.MOST_BYTES", most)
        section = timelines_section(results, two_sequences())
        assert len(section.timelines) == number
        text = page([section], title="t", command="c")
        assert (f"The page holds {number} of the 4 runs" in text) == (number < 4)
        assert "of the 2 sequences were recorded" not in text
    monkeypatch.setattr("decima.report.timelines.MOST_BLOCKS", 4)
    drawn = timelines_section(results, two_sequences()).timelines
    assert [run["blocks"] is None for run in drawn] == [True, True, False, False]
    text = page([timelines_section(results, two_runs())], title="t", command="c")
    assert "The tasks of 1 of the 2 sequences were recorded" in text


def test_an_evaluation_records_the_sequences_that_memory_is_for(trace_file: Path) -> None:
    """Two policies, three sequences: the limit is on the tasks of all that are recorded."""
    config = small_config(trace_file, policies=("strict_fair", "fifo"))
    trace = load_trace(config.trace)
    tasks = [
        2 * sum(trace.jobs[job].num_tasks for job in draw_sequence(config, trace, number).job)
        for number in range(3)
    ]
    assert recorded_within(config, sum(tasks)) == range(3)
    assert recorded_within(config, sum(tasks) - 1) == range(2)
    assert recorded_within(config, 0) == range(1)


def with_column(table: pa.Table, name: str, values: Any) -> pa.Table:
    return table.set_column(table.column_names.index(name), name, pa.array(values))


def test_a_timeline_of_another_evaluation_is_refused() -> None:
    """Where a job has another name than in the results."""
    results = results_of(results_json(), "here")
    runs = two_runs()
    timelines_section(results, runs)
    table = with_column(runs.table, "name", ["other"] * 12)
    with pytest.raises(FileError, match="of another evaluation: in sequence 0, job 0 is 'other'"):
        timelines_section(results, runs._replace(table=table))


def test_names_are_never_html() -> None:
    """Of jobs, of stages, and of policies."""
    content = results_json()
    content["config"]["policies"] = ["a", HOSTILE]
    content["policies"][HOSTILE] = content["policies"].pop("b")
    sections = comparison_sections([results_of(content, "here")], two_runs())
    text = page(sections, title=HOSTILE, command=HOSTILE)
    assert HOSTILE not in text
    assert "onerror=alert(2)>" not in text
    assert text.count("<script") == text.count("</script>") == 2


@pytest.mark.parametrize(
    ("column", "values", "words"),
    [
        ("job", ["x"] * 12, "column 'job' is not int64"),
        ("job", [None] * 12, "column 'job' is empty in 12 rows"),
        ("job", [-1] + [0] * 11, "job -1 is negative"),
        ("sequence", [0] * 11 + [None], "column 'sequence' is empty in 1 rows"),
        ("executor", [0] * 11 + [None], "column 'executor' is empty in 1 rows"),
        ("executor", [0.5] * 12, "column 'executor' is not int64"),
        ("executor", [10**15] * 12, "executor 1000000000000000 must lie in 0..99,999"),
        ("name", [[1]] * 12, "column 'name' is not string"),
        ("finish_ms", [0.0] * 12, "a task from 2000.0 to 0.0 ms"),
        ("finish_ms", [np.inf] * 12, "a task from 0.0 to inf ms"),
        ("finish_ms", [1e16] * 12, "end by 9.0072e+15 ms"),
        ("start_ms", [-1.0] * 12, "a task from -1.0 to 1000.0 ms"),
        ("start_ms", ["soon"] * 12, "column 'start_ms' is not double"),
    ],
)
def test_a_damaged_timeline_is_refused_in_one_line(
    tmp_path: Path, column: str, values: list[Any], words: str
) -> None:
    """Of any type that Parquet knows, with gaps, or with numbers that cannot be."""
    results, path, out = tmp_path / "r.json", tmp_path / "t.parquet", tmp_path / "page.html"
    results.write_text(json.dumps(results_json()))
    pa.parquet.write_table(with_column(two_runs().table, column, values), path)
    refused(decima("report", results, "--timeline", path, "-o", out), "t.parquet", words)
    assert not out.exists()


def test_names_of_digits_are_names_in_csv_too(tmp_path: Path) -> None:
    """And other whole numbers than those that are written are taken for what they are."""
    table = with_column(two_runs().table, "name", ["7"] * 12)
    jobs = table["job"].to_pylist()
    pa.csv.write_csv(table, tmp_path / "t.csv")
    small = with_column(table, "job", pa.array(jobs, pa.uint8()))
    pa.parquet.write_table(small, tmp_path / "t.parquet")
    for name in ("t.csv", "t.parquet"):
        rows = read_timeline(tmp_path / name)
        assert rows["name"].to_pylist() == ["7"] * 12
        assert rows["job"].to_pylist() == jobs
