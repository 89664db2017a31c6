"""Reports: what is read, what is computed, what is packed; the page itself is in the browser's."""

from __future__ import annotations

import base64
import copy
import gzip
import itertools
import json
import re
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
import torch
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from decima import Heuristic, evaluate
from decima.agent.model import save_model
from decima.cli.main import main
from decima.evaluation.runner import Workload
from decima.evaluation.sequences import draw_sequence
from decima.evaluation.timeline import read_timeline, recorded_within, timeline_table
from decima.report import comparison_sections, read_results, results_of
from decima.report.comparison import (
    by_size,
    distribution,
    executor_time,
    in_system,
    summary,
    table,
)
from decima.report.decisions import decisions_section
from decima.report.explain.moments import moments
from decima.report.explain.reasons import LEAST_WEIGHT
from decima.report.figures import lonely, raster, write_figures
from decima.report.gantt import Run, Tasks, critical_path, gantt, graphs, merged, pack, unpack
from decima.report.headline import headline, summary_headline
from decima.report.page import page
from decima.report.section import Lines, Section, Series
from decima.report.timelines import ordered_runs, timelines_section
from decima.report.training import training_section
from decima.rl.run_folder import RunFolder
from decima.rl.statistics import difference_percent
from decima.training.config import TrainConfig
from spark_sim import PASS
from tests.commands import SMALL, refused, small_config
from tests.networks import random_network
from tests.pages import HOSTILE, results_json, two_runs, two_sequences
from traces import load_trace
from traces.files.errors import FileError

# --- what is read --------------------------------------------------------------------------------


def test_what_evaluate_writes_is_what_a_report_reads(trace_file: Path) -> None:
    """Every figure of the policies, and the jobs of every sequence."""
    report = evaluate(small_config(trace_file, policies=("strict_fair", "fifo")))
    found = results_of(json.loads(json.dumps(report.to_json())), "here")
    assert found.reference == "strict_fair"
    for name, policy in found.policies.items():
        own = report.policies[name]
        np.testing.assert_array_equal(policy.figures["avg_jct_s"], own.avg_jct_s)
        np.testing.assert_array_equal(policy.figures["fairness"], own.fairness)
        for jct_s, run in zip(policy.jct_s, own.runs, strict=True):
            np.testing.assert_allclose(jct_s, run.metrics.jct_s, atol=6e-4)
        assert sum(policy.executor_s.values()) == pytest.approx(
            4 * sum(run.metrics.makespan_s for run in own.runs)
        )
    for sequence in found.sequences:
        assert len(sequence.name) == len(sequence.arrival_s) == 6
        assert (np.diff(sequence.arrival_s) >= 0).all()


DAMAGE: dict[str, tuple[tuple[str, ...], Any]] = {
    "another format": (("format",), "gpx"),
    "a figure that is text": (("policies", "a", "busy_executor_s"), "much"),
    "no sequence": (("sequences",), []),
    "a sequence without names": (("sequences",), [{"arrival_s": [1.0], "work_s": [1.0]}] * 2),
    "other policies": (("config", "policies"), ["a", "c"]),
    "too few values": (("policies", "b", "p95_jct_s"), {"per_sequence": [1.0]}),
    "more jobs than arrived": (("policies", "b", "jct_s"), [[1.0, 2.0, 3.0], [1.0]]),
    "infinite": (("policies", "b", "idle_executor_s"), float("inf")),
}


@pytest.mark.parametrize("label", DAMAGE)
def test_damaged_results_are_refused_in_one_line(label: str) -> None:
    content = results_json()
    keys, value = DAMAGE[label]
    at: Any = content
    for key in keys[:-1]:
        at = at[key]
    at[keys[-1]] = value
    with pytest.raises(FileError, match="here: ") as caught:
        results_of(content, "here")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("changed", [{"version": 1}, {"version": None}])
def test_results_of_another_version_say_what_to_do(changed: dict[str, Any]) -> None:
    with pytest.raises(FileError, match="evaluate again"):
        results_of({**results_json(), **changed}, "here")
    assert results_of({**results_json(), "version": 2}, "here").reference == "a"
    content = results_json()
    del content["format"], content["version"]
    with pytest.raises(FileError, match="older release: evaluate again"):
        results_of(content, "here")


# --- what is computed ----------------------------------------------------------------------------


def test_a_star_needs_intervals_that_exclude_zero() -> None:
    """b is lower by a tenth in one figure, and lower on average only in the other."""
    content = results_json(
        avg_jct_s={"a": [10.0, 12.0], "b": [9.0, 10.81]},
        p95_jct_s={"a": [10.0, 12.0], "b": [5.0, 12.5]},
        fairness={"a": [0.5, 0.6], "b": [0.4, 0.481]},
        utilisation={"a": [0.5, 0.6], "b": [0.4, 0.481]},
    )
    cells = table(results_of(content, "here"))
    stars = {name: {cell.figure for cell in row if cell.is_best} for name, row in cells.items()}
    assert "avg_jct_s" in stars["b"]
    assert "fairness" in stars["a"]
    assert "utilisation" not in stars["a"] | stars["b"], "to be busy is not to be better"
    assert "p95_jct_s" not in stars["a"] | stars["b"]


def test_nothing_is_compared_with_a_figure_that_is_zero() -> None:
    """The utilisation of runs that a time limit ends while executors still move."""
    content = results_json(utilisation={"a": [0.0, 0.0], "b": [0.0, 0.1]})
    cells = table(results_of(content, "here"))
    (own,) = (cell for cell in cells["b"] if cell.figure == "utilisation")
    assert own.against is None
    assert not own.is_best


def test_one_sequence_has_no_interval_and_no_star() -> None:
    content = results_json()
    content["config"]["sequences"] = 1
    del content["sequences"][1:]
    for policy in content["policies"].values():
        del policy["jct_s"][1:]
        for value in policy.values():
            if isinstance(value, dict):
                del value["per_sequence"][1:]
    cells = table(results_of(content, "here"))
    assert not any(cell.is_best for row in cells.values() for cell in row)
    assert all(cell.estimate.ci95 is None for row in cells.values() for cell in row)


def test_the_curves_of_two_jobs_worked_out_by_hand() -> None:
    """Sequence 0: jobs at 0 and 4 s that take 6 and 20 s; sequence 1: 2 and 4 s."""
    results = results_of(results_json(), "here")
    series = distribution(results)
    assert series.x[0] == 2.0
    assert series.x[-1] == 20.0
    shares = dict(zip(series.x, series.y["a"], strict=True))
    assert [shares[2.0], shares[20.0]] == [0.25, 1.0]
    between = next(share for x, share in shares.items() if 6.5 < x < 19)
    assert between == 0.75
    sizes = by_size(results)
    assert sizes.x == [4.0, 40.0]
    assert sizes.y["a"] == [4.0, 20.0]  # of 6, 2 and 4 s; of 20 s
    steps = in_system(results)
    assert steps.x == [0.0, 4.0, 6.0, 24.0]
    assert steps.y["b"] == [1.0, 2.0, 1.0, 0.0]
    assert executor_time(results)["a"] == {
        "work": 0.4, "first tasks": 0.2, "moving": 0.1, "idle": 0.3,
    }  # fmt: skip


def test_over_settings_means_are_geometric() -> None:
    """Half and twice as much cancel; one setting is below, one above."""
    half = results_of(results_json(avg_jct_s={"a": [10.0, 20.0], "b": [5.0, 10.0]}), "one")
    twice = results_of(results_json(avg_jct_s={"a": [10.0, 20.0], "b": [20.0, 40.0]}), "two")
    (percent, below, above) = summary([half, twice])["b"]
    assert percent == pytest.approx(0.0)
    assert (below, above) == (1, 1)


def test_a_comparison_begins_with_its_result() -> None:
    """The best policy, how far it is below the baseline, and the interval, in words."""
    clear = results_json(avg_jct_s={"a": [10.0, 20.0], "b": [5.0, 10.02]})
    bounds = difference_percent(np.array([5.0, 10.02]), np.array([10.0, 20.0])).ci95
    assert bounds is not None
    assert headline(results_of(clear, "here")) == (
        "b has the lowest average JCT of 2 policies over 2 sequences: 7.5 s, 49.9 % below the "
        f"baseline a (95 % interval of the difference {bounds[0]:.1f} to {bounds[1]:.1f} %)."
    )
    content = results_json(avg_jct_s={"a": [10.0, 12.0], "b": [9.0, 11.9]})
    assert ": it includes zero)" in headline(results_of(content, "here"))
    content = results_json(avg_jct_s={"a": [10.0, 20.0], "b": [20.0, 40.0]})
    text = headline(results_of(content, "here"))
    assert text.startswith("The baseline a has the lowest average JCT of 2 policies")
    assert "The next, b, is 100.0 % above it" in text
    content["policies"]["b"]["unfinished"] = 1
    assert headline(results_of(content, "here")).endswith("count with their age.")
    sections = comparison_sections([results_of(clear, "here")])
    shown = page(sections, title="t", command="c")
    assert 0 < shown.index("b has the lowest average JCT") < shown.index("<table")


def test_a_comparison_with_the_second_best_too() -> None:
    """Where that is not the baseline."""
    content = results_json(avg_jct_s={"a": [10.0, 20.0], "b": [5.0, 10.0]})
    content["config"]["policies"].append("c")
    content["policies"]["c"] = copy.deepcopy(content["policies"]["b"])
    content["policies"]["c"]["avg_jct_s"]["per_sequence"] = [6.0, 11.0]
    text = headline(results_of(content, "here"))
    assert "below the baseline a (" in text
    assert "The next, c, is 13.3 % above it (95 % interval of the difference -" in text
    assert text.endswith(": it includes zero).")


def test_a_result_without_an_interval_or_a_comparison() -> None:
    content = results_json()
    content["config"]["policies"].remove("b")
    del content["policies"]["b"]
    assert "no other policy to compare it with" in headline(results_of(content, "here"))


def test_several_settings_begin_with_their_result() -> None:
    rows = {"b": (-12.34, 2, 1), "c": (5.0, 0, 3)}
    assert "b has the lowest average JCT: 12.3 % below the baseline a. In 2 of them" in (
        summary_headline(rows, "a", 3)
    )
    assert "no policy has a lower average JCT than the baseline a. The next, c, is 5.0 %" in (
        summary_headline({"c": rows["c"]}, "a", 3)
    )
    assert summary_headline({}, "a", 3) == ""


# --- the timelines -------------------------------------------------------------------------------


def test_the_path_that_decided_a_jobs_end() -> None:
    """Left ends after right, so bottom waited for left; a stage that never ran is passed over."""
    parents = [[], [0], [0], [1, 2]]
    assert critical_path(parents, {0: 2.0, 1: 9.0, 2: 6.0, 3: 10.0}) == [0, 1, 3]
    assert critical_path(parents, {0: 2.0, 1: 5.0, 2: 6.0, 3: 10.0}) == [0, 2, 3]
    assert critical_path(parents, {0: 2.0, 2: 6.0}) == [0, 2]


def test_a_run_as_the_page_gets_it() -> None:
    tasks, trace = two_runs()
    found = gantt(tasks, Run("b", 0), trace)
    assert (found["executors"], found["end_ms"], found["tasks"]) == (2, 8000.0, 6)
    small, diamond = found["jobs"]
    assert (small["name"], small["critical"]) == ("small", [0])
    assert diamond["critical"] == [0, 1, 3]
    drawn = graphs([found], trace)
    assert drawn[HOSTILE]["parents"] == [[], [0], [0], [1, 2]]
    assert drawn["small"]["stage_names"] == ["only"]
    _, start, _, stage = unpacked(found)
    assert start[stage == diamond["first"] + 2].tolist() == [3000.0]
    without = gantt(tasks, Run("b", 0), None)
    assert "critical" not in without["jobs"][1]
    assert graphs([without], None) == {}


def unpacked(found: dict[str, Any]) -> list[np.ndarray[Any, Any]]:
    """As `unpacked` in common.js: first, start, finish, stage, count."""
    raw = np.frombuffer(zlib.decompress(base64.b64decode(found["packed"])), "<u4").astype(int)
    rows = found["rows"]
    first, rest = np.split(raw, [len(raw) - rows * (4 if found["merged"] else 3)])
    step, duration, stage, *count = np.split(rest, len(rest) // rows)
    start = np.concatenate([step[a:b].cumsum() for a, b in itertools.pairwise(first)])
    unit = found["unit_ms"]
    return [first, start * unit, (start + duration) * unit, stage, *count]


STARTS = st.floats(0, 3e6) | st.floats(0, 1e13)


@given(
    rows=st.lists(
        st.tuples(st.integers(0, 5), STARTS, st.floats(0, 1e5), st.integers(0, 40)),
        min_size=1,
        max_size=60,
    )
)
@settings(max_examples=60, deadline=None, derandomize=True)
def test_packing_keeps_every_task(rows: list[tuple[int, float, float, int]]) -> None:
    """Times to half a unit, by executor and start; some executors did nothing."""
    rows = sorted(rows)
    executor = np.array([row[0] for row in rows])
    start = np.array([row[1] for row in rows])
    finish = start + np.array([row[2] for row in rows])
    stage = np.array([row[3] for row in rows])
    packed = pack(Tasks(executor, start, finish, stage, np.ones(len(rows), np.int64)))
    first, found_start, found_finish, found_stage = unpacked(packed)
    assert first.tolist() == np.searchsorted(executor, np.arange(executor.max() + 2)).tolist()
    np.testing.assert_allclose(found_start, start, atol=0.51 * packed["unit_ms"])
    np.testing.assert_allclose(found_finish, finish, atol=0.51 * packed["unit_ms"])
    assert found_stage.tolist() == stage.tolist()


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
    found = unpack(packed)
    np.testing.assert_allclose(found.start_ms, start, atol=0.51 * unit_ms)
    np.testing.assert_allclose(found.finish_ms, finish, atol=0.51 * unit_ms)
    assert found.start_ms.tolist() == unpacked(packed)[1].tolist()


def test_what_was_packed_is_unpacked_and_drawn() -> None:
    """Under b: executor 0 has job 0 until 3 s, then job 1 until 5 s; executor 1 job 1 until 8 s."""
    run = gantt(two_runs().table, Run("b", 0), None)
    tasks = unpack(run)
    first, start, finish, stage = unpacked(run)
    assert np.searchsorted(tasks.executor, [0, 1, 2]).tolist() == first.tolist()
    assert tasks.start_ms.tolist() == start.tolist()
    assert tasks.finish_ms.tolist() == finish.tolist()
    assert tasks.stage.tolist() == stage.tolist()
    job = np.array(run["stages"]["job"])[tasks.stage]
    assert raster(tasks, job, 2, 8).tolist() == [[0, 0, 0, 1, 1, -1, -1, -1], [1] * 8]


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
    found = merged(tasks, 400)
    assert 100 <= len(found.start_ms) < 1000
    assert found.number.sum() == 10_000
    for one in range(50):
        assert found.number[found.stage == one].sum() == (tasks.stage == one).sum()
    assert (found.finish_ms >= found.start_ms).all()
    packed = pack(found)
    assert packed["merged"]
    assert unpacked(packed)[4].tolist() == found.number.tolist()


def test_a_real_evaluation_is_drawn_as_it_went(trace_file: Path) -> None:
    """Every task of the timeline is in the page's columns."""
    config = small_config(trace_file, policies=("strict_fair", "fifo"))
    report = evaluate(config, timelines=(0,))
    tasks = timeline_table(report)
    found = gantt(tasks, Run("fifo", 0), report.trace)
    _, start, finish, stage = unpacked(found)
    own = tasks.filter(pa.compute.equal(tasks["policy"], "fifo")).to_pylist()
    rows = {
        (round(a, 1), round(b, 1), found["stages"]["job"][s], found["stages"]["number"][s])
        for a, b, s in zip(start, finish, stage, strict=True)
    }
    assert rows == {
        (round(one["start_ms"], 1), round(one["finish_ms"], 1), one["job"], one["stage"])
        for one in own
    }


def test_the_page_opens_with_the_reference_and_the_best_of_the_others() -> None:
    results = results_of(results_json(), "here")
    runs = two_sequences()
    order = [Run("a", 0), Run("b", 0), Run("a", 1), Run("b", 1)]
    assert ordered_runs(results, runs.table) == order
    section = timelines_section(results, runs)
    assert [Run(one["policy"], one["sequence"]) for one in section.timelines] == order
    assert [(one["policy"], one["sequence"]) for one in section.opening] == [("a", 0), ("b", 0)]
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
    of_one = timelines_section(results, two_runs())
    assert "The tasks of 1 of the 2 sequences were recorded" in page(
        [of_one], title="t", command="c"
    )


def test_timelines_but_the_first_two_share_a_number_of_blocks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They are drawn as blocks; the first two as they are."""
    monkeypatch.setattr("decima.report.timelines.MOST_BLOCKS", 4)
    found = timelines_section(results_of(results_json(), "here"), two_sequences()).timelines
    assert [one["blocks"] is None for one in found] == [True, True, False, False]


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


def test_a_timeline_of_another_evaluation_is_refused() -> None:
    """Where a job has another name than in the results."""
    results = results_of(results_json(), "here")
    runs = two_runs()
    timelines_section(results, runs)
    table = runs.table
    other = ["other"] * table.num_rows
    table = table.set_column(table.column_names.index("name"), "name", pa.array(other))
    with pytest.raises(FileError, match="of another evaluation: in sequence 0, job 0 is 'other'"):
        timelines_section(results, runs._replace(table=table))


def test_names_are_never_html() -> None:
    """Of jobs, of stages, and of policies."""
    content = results_json()
    content["config"]["policies"] = ["a", HOSTILE]
    content["policies"][HOSTILE] = content["policies"].pop("b")
    text = page(
        comparison_sections([results_of(content, "here")], two_runs()),
        title=HOSTILE,
        command=HOSTILE,
    )
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
    table = two_runs().table
    table = table.set_column(table.column_names.index(column), column, pa.array(values))
    pa.parquet.write_table(table, path)
    asked = ["report", str(results), "--timeline", str(path), "-o", str(out)]
    refused(CliRunner().invoke(main, asked), "t.parquet", words)
    assert not out.exists()


def test_names_of_digits_are_names_in_csv_too(tmp_path: Path) -> None:
    """And other whole numbers than those that are written are taken for what they are."""
    table = two_runs().table
    names = pa.array(["7"] * table.num_rows)
    table = table.set_column(table.column_names.index("name"), "name", names)
    pa.csv.write_csv(table, tmp_path / "t.csv")
    pa.parquet.write_table(
        table.set_column(table.column_names.index("job"), "job", table["job"].cast(pa.uint8())),
        tmp_path / "t.parquet",
    )
    for name in ("t.csv", "t.parquet"):
        found = read_timeline(tmp_path / name)
        assert found["name"].to_pylist() == names.to_pylist()
        assert found["job"].to_pylist() == table["job"].to_pylist()


# --- trainings -----------------------------------------------------------------------------------


def run_folder(path: Path) -> Path:
    """Three iterations, of which the first and the last were validated, and a line cut short."""
    path.mkdir()
    (path / "config.json").write_text(json.dumps(TrainConfig().to_json()))
    rows: list[dict[str, float]] = [
        {"iteration": 0, "plans": 100, "elapsed_s": 10, "entropy": 0.5, "rollouts_percent": 3.0,
         "validation/score": -10.0, "validation/above_es_rule": 20.0,
         "validation/one_percent": -10.0, "validation/<b>_percent": -5.0},
        {"iteration": 1, "plans": 300, "elapsed_s": 20, "entropy": 0.4, "rollouts_percent": 2.0},
        {"iteration": 2, "plans": 200, "elapsed_s": 25, "entropy": 0.3, "rollouts_percent": 1.0,
         "validation/score": -19.0, "validation/above_es_rule": -10.0,
         "validation/one_percent": -19.0, "validation/<b>_percent": -15.0},
    ]  # fmt: skip
    lines = [json.dumps(row) for row in rows]
    (path / "metrics.jsonl").write_text("\n".join(lines) + '\n{"iteration": 3, "pl')
    return path


def test_a_training_beside_its_references(tmp_path: Path) -> None:
    """19 % below strict fair and 10 % below es_rule: es_rule itself is 10 % below strict fair."""
    section = training_section(run_folder(tmp_path / "run"))
    assert section.content["best"]["iteration"] == 2
    assert section.content["references"] == [("es_rule", pytest.approx(-10.0))]
    assert section.content["settings"] == [("<b>", -15.0), ("one", -19.0)]
    charts = {chart.title: chart.series for chart in section.charts if isinstance(chart, Lines)}
    score = charts["Average JCT against strict_fair on held-out sequences"]
    assert score.x == [0, 2]
    assert score.y["model"] == [-10.0, -19.0]
    assert score.y["es_rule"] == [-25.0, -10.0]
    assert charts["Throughput"].y == {"Throughput": [10.0, 30.0, 40.0]}
    assert charts["Entropy"].y == {"Entropy": [0.5, 0.4, 0.3]}
    (lengths,) = charts["Length of an episode"].y.values()
    assert lengths[0] == TrainConfig().episodes.start_jobs


def test_a_training_is_called_by_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even where it is named as the folder that one is in."""
    out = tmp_path / "page.html"
    monkeypatch.chdir(run_folder(tmp_path / "trained"))
    result = CliRunner().invoke(main, ["report", ".", "-o", str(out)])
    assert result.exit_code == 0, result.output
    assert "<title>Training run \u201ctrained\u201d</title>" in out.read_text()
    assert "<h2>Training run \u201ctrained\u201d</h2>" in out.read_text()


def test_a_training_before_its_first_iteration(tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "run")
    (folder / "metrics.jsonl").unlink()
    section = training_section(folder)
    assert section.charts == []
    assert "no validation yet" in page([section], title="t", command="c")


def test_a_training_is_reported_while_another_process_holds_it(tmp_path: Path) -> None:
    folder, out = run_folder(tmp_path / "run"), tmp_path / "page.html"
    with RunFolder.open(folder):
        result = CliRunner().invoke(main, ["report", str(folder), "-o", str(out)])
    assert result.exit_code == 0, result.output
    assert "after iteration 2" in out.read_text()
    assert "<b>_percent" not in out.read_text()


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    refused(CliRunner().invoke(main, ["report", str(tmp_path), "-o", str(out)]), "no run")
    folder = run_folder(tmp_path / "run")
    (folder / "metrics.jsonl").write_text('{"iteration": "x"}\n')
    refused(CliRunner().invoke(main, ["report", str(folder), "-o", str(out)]), "metrics.jsonl")
    for figures, words in (
        ({"validation/score": "low"}, "'validation/score' is 'low': no finite number"),
        ({"elapsed_s": None}, "'elapsed_s' is None: no finite number"),
        (
            {"validation/score": 1.0, "validation/above_fifo": -100},
            "'validation/above_fifo' is -100 %: it must be above -100 %",
        ),
    ):
        (folder / "metrics.jsonl").write_text(json.dumps({"iteration": 0} | figures) + "\n")
        refused(CliRunner().invoke(main, ["report", str(folder), "-o", str(out)]), words)
    huge = {"iteration": 0, "plans": 10**300, "elapsed_s": 10**300, "validation/score": -200}
    (folder / "metrics.jsonl").write_text(json.dumps(huge) + "\n")
    assert CliRunner().invoke(main, ["report", str(folder), "-o", str(out)]).exit_code == 0
    out.unlink()
    wrong = ["report", str(folder), "--timeline", str(out), "-o", str(out)]
    refused(CliRunner().invoke(main, wrong), "there is none")


# --- decisions -----------------------------------------------------------------------------------


def test_decisions_show_each_policys_choice_in_the_same_place(
    trace_file: Path, tmp_path: Path
) -> None:
    """Every plan of the run: the choice taken, and the heuristic's at the same moment."""
    network, path = random_network(), tmp_path / "model.safetensors"
    with torch.no_grad():
        network.stage_head.last.weight.mul_(50)  # so that reasons weigh
    save_model(path, network.config, network.state_dict(), {})
    name = str(path)
    config = small_config(trace_file, policies=("strict_fair", name))
    workload = Workload.of(config)
    section = decisions_section(workload, config, name, 1, explained=3)
    run = [one for one in moments(workload, config, name, 1) if one.number == one.planned_at]
    assert [entry["number"] for entry in section.decisions] == [one.number for one in run]
    assert sum(1 for entry in section.decisions if entry["words"]) == 3
    weights = [weight for entry in section.decisions for _, weight in entry["reasons"]]
    assert weights
    assert all(abs(weight) >= LEAST_WEIGHT for weight in weights)
    for entry, moment in zip(section.decisions, run, strict=True):
        seen = moment.observation
        own = (None if entry["taken"] is None else entry["taken"]["job"], moment.action)
        other = (
            None if entry["others"]["strict_fair"] is None
            else entry["others"]["strict_fair"]["job"],
            Heuristic("strict_fair").decide(seen),
        )  # fmt: skip
        for job, action in (own, other):
            assert job == (None if action == PASS else int(seen.stages["job"][action.stage]))
        assert entry["stages"] == moment.num_open
        total = sum(one["p"] for one in entry["likely"]) + entry["end"]["p"]
        assert total == pytest.approx(1.0, abs=1e-3) or entry["stages"] > len(entry["likely"])


# --- the commands --------------------------------------------------------------------------------


def test_evaluate_writes_a_page(trace_file: Path, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    options = ["--trace", str(trace_file), *SMALL, "--policies", "strict_fair,fifo"]
    result = CliRunner().invoke(main, ["evaluate", *options, "--report", str(path)])
    assert result.exit_code == 0, result.output
    text = path.read_text()
    assert "strict_fair" in text
    assert '"tasks":' in text


def test_a_run_that_is_cut_before_its_first_task_has_a_page(
    trace_file: Path, tmp_path: Path
) -> None:
    """No executor has worked: utilisation is zero."""
    path = tmp_path / "page.html"
    options = ["--trace", str(trace_file), *SMALL, "--batch", "--time-limit", "1"]
    asked = ["evaluate", *options, "--policies", "strict_fair,fifo", "--report", str(path)]
    result = CliRunner().invoke(main, asked)
    assert result.exit_code == 0, result.output
    assert "utilisation" in path.read_text()


def test_report_joins_results(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / f"{name}.json").write_text(json.dumps(results_json()))
    out = tmp_path / "page.html"
    names = [str(tmp_path / f"{name}.json") for name in ("one", "two")]
    result = CliRunner().invoke(main, ["report", *names, "-o", str(out)])
    assert result.exit_code == 0, result.output
    assert "Over all settings" in out.read_text()
    assert result.stdout == f"wrote {out}\n"


def test_report_refuses_in_one_line_and_writes_nothing(tmp_path: Path) -> None:
    good, bad, out = tmp_path / "good.json", tmp_path / "bad.json", tmp_path / "page.html"
    good.write_text(json.dumps(results_json()))
    bad.write_text("{")

    def ask(*arguments: object) -> Any:
        return CliRunner().invoke(main, ["report", *map(str, arguments), "-o", str(out)])

    refused(ask(bad), "bad.json")
    refused(ask(tmp_path / "none.json"), "none.json")
    refused(ask(good, "--timeline", tmp_path / "none.parquet"), "none.parquet")
    refused(ask(good, "--timeline", bad), "bad.json", ".parquet or .csv")
    other = tmp_path / "other.csv"
    other.write_text("policy,sequence\na,0\n")
    refused(ask(good, "--timeline", other), "0 columns 'name': 1 is needed")
    wrong = CliRunner().invoke(main, ["report", str(good), "-o", str(tmp_path / "no" / "x.html")])
    refused(wrong, "no")
    assert not out.exists()


def test_figures_for_papers_say_what_made_them_and_are_the_same_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["/somewhere/decima", "report", "one.json"])
    (tmp_path / "one.json").write_text(json.dumps(results_json()))
    pa.parquet.write_table(two_runs().table, tmp_path / "tasks.parquet")
    run = run_folder(tmp_path / "run")
    contents = []
    for folder in ("first", "second"):
        given = [str(tmp_path / "one.json"), "--timeline", str(tmp_path / "tasks.parquet")]
        arguments = ["report", *given, str(run), "--figures", str(tmp_path / folder)]
        result = CliRunner().invoke(main, arguments)
        assert result.exit_code == 0, result.output
        assert result.stdout == f"wrote {tmp_path / folder}\n"
        contents.append({one.name: one.read_bytes() for one in (tmp_path / folder).iterdir()})
    names = {path.partition(".")[0] for path in contents[0]}
    assert len(contents[0]) == 2 * len(names)
    assert {"timelines-a", "timelines-b", "training-0-entropy"} <= names
    assert "evaluation-0-share-of-jobs-complete-within-so-many-seconds-all-sequences" in names
    assert max(map(len, names)) < 80
    assert contents[0] == contents[1]
    for name, content in contents[0].items():
        assert b"decima report one.json" in content, name  # the command, in the metadata


def test_values_without_a_neighbour_are_found() -> None:
    assert lonely([1.0]) == [True]
    assert lonely([None, 1.0, None, 2.0, 3.0]) == [False, True, False, False, False]
    assert lonely([]) == []


def test_a_figure_of_one_iteration_shows_its_point(tmp_path: Path) -> None:
    """As a marker; iterations are whole, ticks differ, and a long label is not cut."""
    label = "a label of the y axis that is longer than the picture is high"
    chart = Lines("One", Series([3.0], {"model": [1e-3]}), "iteration", label)
    write_figures(tmp_path, [Section("s", "S", "table.html", {}, charts=[chart])], "made so")
    text = (tmp_path / "s-one.svg").read_text()
    assert re.search(r"<use [^>]*fill: #0072b2", text)
    words = re.findall(r"<text [^>]*>([^<]+)</text>", text)
    ticks = [word for word in words if re.fullmatch(r"[\d.\u2212]+", word)]
    assert "3" in ticks
    assert len(set(ticks)) == len(ticks)
    assert max(len(word) for word in words) < len(label)


def test_report_asks_for_something_to_write(tmp_path: Path) -> None:
    (tmp_path / "one.json").write_text(json.dumps(results_json()))
    refused(CliRunner().invoke(main, ["report", str(tmp_path / "one.json")]), "nothing to write")


def test_trace_events_hold_every_task_on_its_executors_track(
    trace_file: Path, tmp_path: Path
) -> None:
    """As Perfetto reads them: complete slices in microseconds, named processes and threads."""
    path, table_path = tmp_path / "tasks.json.gz", tmp_path / "tasks.parquet"
    for out in (path, table_path):
        options = ["--trace", str(trace_file), *SMALL, "--policies", "strict_fair,fifo"]
        result = CliRunner().invoke(main, ["evaluate", *options, "--timeline", str(out)])
        assert result.exit_code == 0, result.output
    content = json.loads(gzip.decompress(path.read_bytes()))
    named = [event for event in content["traceEvents"] if event["ph"] == "M"]
    process = {e["pid"]: e["args"]["name"] for e in named if e["name"] == "process_name"}
    thread = {(e["pid"], e["tid"]): e["args"]["name"] for e in named if e["name"] == "thread_name"}
    assert len(process) == 6  # two policies, three sequences
    found = sorted(
        (
            process[e["pid"]], thread[e["pid"], e["tid"]], e["args"]["job"], e["args"]["stage"],
            e["args"]["task"], round(e["ts"], 3), round(e["ts"] + e["dur"], 3),
        )
        for e in content["traceEvents"]
        if e["ph"] == "X"
    )  # fmt: skip
    rows = pa.parquet.read_table(table_path).to_pylist()
    assert found == sorted(
        (
            f"{row['policy']}, sequence {row['sequence']}", f"executor {row['executor']}",
            row["job"], row["stage"], row["task"],
            round(row["start_ms"] * 1000, 3), round(row["finish_ms"] * 1000, 3),
        )
        for row in rows
    )  # fmt: skip


def test_results_survive_a_file(tmp_path: Path) -> None:
    path = tmp_path / "one.json"
    path.write_text(json.dumps(results_json()))
    content = copy.deepcopy(results_json())
    assert read_results(path).label == results_of(content, "here").label
