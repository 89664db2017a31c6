"""Reports: what is read, what is computed, what is packed; the page itself is in the browser's."""

from __future__ import annotations

import copy
import gzip
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise, permutations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from decima import EvaluationConfig, Report, evaluate
from decima.cli.evaluate import page_sections
from decima.policy_names import SHIPPED_MODEL
from decima.registry import HEURISTICS
from decima.report import comparison_sections, results_of
from decima.report.comparison import by_size, charts, headline, in_system, table
from decima.report.page import page
from decima.report.section import (
    Bars,
    ForestRow,
    Section,
    Series,
    completion,
    forest,
    share_complete,
)
from decima.rl.statistics import Estimate, difference_percent
from tests.commands import SMALL, decima, refused, small_config, succeeded
from tests.pages import results_json, run_folder, two_runs
from traces.files.errors import FileError

# --- what is read --------------------------------------------------------------------------------


def test_what_evaluate_writes_is_what_a_report_reads(trace_file: Path) -> None:
    report = evaluate(small_config(trace_file, policies=("strict_fair", "fifo")))
    results = results_of(json.loads(json.dumps(report.to_json())), "here")
    assert results.reference == "strict_fair"
    for name, policy in results.policies.items():
        own = report.policies[name]
        np.testing.assert_array_equal(policy.figures["avg_jct_s"], own.avg_jct_s)
        np.testing.assert_array_equal(policy.figures["fairness"], own.fairness)
        for jct_s, run in zip(policy.jct_s, own.runs, strict=True):
            np.testing.assert_allclose(jct_s, run.metrics.jct_s, atol=6e-4)
        assert sum(policy.executor_s.values()) == pytest.approx(
            4 * sum(run.metrics.makespan_s for run in own.runs)
        )
    for sequence in results.sequences:
        assert len(sequence.name) == len(sequence.arrival_s) == 6
        assert (np.diff(sequence.arrival_s) >= 0).all()


@pytest.mark.parametrize("changed", [{"version": 1}, {"version": None}])
def test_results_of_another_version_say_what_to_do(changed: dict[str, Any]) -> None:
    with pytest.raises(FileError, match="evaluate again"):
        results_of({**results_json(), **changed}, "here")


# --- what is computed ----------------------------------------------------------------------------


def test_nothing_is_compared_with_a_figure_that_is_zero() -> None:
    """The utilisation of runs that a time limit ends while executors still move."""
    content = results_json(utilisation={"a": [0.0, 0.0], "b": [0.0, 0.1]})
    cells = table(results_of(content, "here"))
    (own,) = (cell for cell in cells["b"] if cell.figure == "utilisation")
    assert own.against is None
    assert not own.is_best


def test_the_curves_of_two_jobs_worked_out_by_hand() -> None:
    """Sequence 0: jobs at 0 and 4 s that take 6 and 20 s; sequence 1: 2 and 4 s."""
    results = results_of(results_json(), "here")
    series = share_complete(
        {name: np.concatenate(policy.jct_s) for name, policy in results.policies.items()}
    )
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
    executor_time = charts(results)[-1]
    assert isinstance(executor_time, Bars)
    assert list(executor_time.shares["a"].items()) == [
        ("work", 0.4), ("first tasks", 0.2), ("moving", 0.1), ("idle", 0.3),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("a", "b", "parts"),
    [
        ([10.0, 20.0], [5.0, 10.02], ["b has the lowest average JCT", "7.5 s, 49.9 % below"]),
        ([10.0, 12.0], [9.0, 11.9], ["includes zero"]),
        ([10.0, 20.0], [20.0, 40.0], ["The baseline a has the lowest", "b, is 100.0 % above"]),
    ],
)
def test_a_comparison_begins_with_its_result(
    a: list[float], b: list[float], parts: list[str]
) -> None:
    results = results_of(results_json(avg_jct_s={"a": a, "b": b}), "here")
    assert [part for part in parts if part not in headline(results)] == []
    assert headline(results) in page(comparison_sections([results]), title="t", command="c")


def test_a_comparison_of_three_policies_and_of_one() -> None:
    """The second best is named where it is not the baseline; one has nothing beside it."""
    content = results_json(avg_jct_s={"a": [10.0, 20.0], "b": [5.0, 10.0]})
    content["config"]["policies"].append("c")
    content["policies"]["c"] = copy.deepcopy(content["policies"]["b"])
    content["policies"]["c"]["avg_jct_s"]["per_sequence"] = [6.0, 11.0]
    assert "The next, c, is 13.3 % above it" in headline(results_of(content, "here"))
    content["config"]["policies"] = ["a"]
    content["policies"] = {"a": content["policies"]["a"]}
    alone = results_of(content, "here")
    assert "no other policy" in headline(alone)
    assert comparison_sections([alone])[0].forest is None


def test_quantiles_stand_apart_where_distributions_lie_on_each_other() -> None:
    """Of jobs of 1 to 100 s, and the same at half and at twice the time; 0 s divides nothing."""
    jct_s = np.arange(1.0, 101.0)
    chart = completion("jobs", {"a": jct_s, "half": jct_s / 2, "twice": 2 * jct_s})
    assert chart.series.x == list(range(1, 100))
    assert set(chart.series.y["a"]) == {0.0}
    assert set(chart.series.y["half"]) == {-50.0}
    assert set(chart.series.y["twice"]) == {100.0}
    assert completion("jobs", {"a": jct_s}).y == "share of jobs"
    nothing = completion("jobs", {"a": np.zeros(3), "b": np.ones(3)})
    assert set(nothing.series.y["b"]) == {None}
    assert share_complete({"a": np.full(3, 2.0), "b": np.full(2, 2.0)}) == Series(
        [2.0], {"a": [1.0], "b": [1.0]}
    )


# --- the forest plot -----------------------------------------------------------------------------


def forest_rows(section: Section) -> Sequence[ForestRow]:
    assert section.forest is not None
    return section.forest.rows


def test_a_comparison_opens_with_the_paired_differences() -> None:
    """A row for each policy but the baseline; of several settings, a row for each."""
    content = results_json(avg_jct_s={"a": [10.0, 20.0], "b": [5.0, 10.02]})
    results = results_of(content, "here")
    (row,) = forest_rows(comparison_sections([results])[0])
    assert row.label == "b"
    assert row.difference == difference_percent(np.array([5.0, 10.02]), np.array([10.0, 20.0]))
    assert row.verdict == "below"
    shown = page(comparison_sections([results]), title="t", command="c")
    words = row.difference.words("+.1f", " %")
    assert 0 < shown.index('class="forest"') < shown.index(words) < shown.index("<table")
    summary, *_ = comparison_sections([results, results])
    assert [row.label for row in forest_rows(summary)] == [
        f"b: {number}. {results.label}" for number in (1, 2)
    ]


def test_the_axis_of_a_forest_plot_holds_zero_and_all_but_the_longest_intervals() -> None:
    """Places are shares of the width; an interval of 900 % is cut beside ones of some percent."""
    rows = {
        "lower": Estimate(-20.0, (-30.0, -10.0)),
        "open": Estimate(5.0, (-5.0, 10.0)),
        "random": Estimate(900.0, (800.0, 1000.0)),
    }
    drawn = forest("Forest", rows)
    assert drawn is not None
    assert [row.verdict for row in drawn.rows] == ["below", "open", "above"]
    axis = drawn.axis
    assert axis.low < -30.0
    assert 10.0 < axis.high < 800.0
    assert axis.share(axis.low) == 0.0
    assert axis.share(1000.0) == 100.0
    assert 0.0 in axis.ticks
    assert all(axis.low <= tick <= axis.high for tick in axis.ticks)
    assert 3 <= len(axis.ticks) <= 12
    equal = forest("Forest", {"same": Estimate(0.0, (0.0, 0.0)), "unknown": None})
    assert equal is not None
    assert [row.label for row in equal.rows] == ["same"]
    assert 0.0 < equal.axis.share(0.0) < 100.0


# --- the commands --------------------------------------------------------------------------------


def test_a_run_that_is_cut_before_its_first_task_has_a_page(
    trace_file: Path, tmp_path: Path
) -> None:
    path = tmp_path / "page.html"
    options = ("--batch", "--time-limit", 1, "--policies", "strict_fair,fifo", "--report", path)
    succeeded(decima("evaluate", "--trace", trace_file, *SMALL, *options))
    assert "utilisation" in path.read_text()


def test_report_joins_results(tmp_path: Path) -> None:
    out, paths = tmp_path / "page.html", [tmp_path / name for name in ("one.json", "two.json")]
    for path in paths:
        path.write_text(json.dumps(results_json()))
    result = succeeded(decima("report", *paths, "-o", out))
    assert "Over all settings" in out.read_text()
    assert result.stdout == f"wrote {out}\n"


def test_report_refuses_in_one_line_and_writes_nothing(tmp_path: Path) -> None:
    good, bad, out = tmp_path / "good.json", tmp_path / "bad.json", tmp_path / "page.html"
    good.write_text(json.dumps(results_json()))
    bad.write_text("{")
    other = tmp_path / "other.csv"
    other.write_text("policy,sequence\na,0\n")
    for arguments, words in (
        ((bad, "-o", out), "bad.json"),
        ((tmp_path / "none.json", "-o", out), "none.json"),
        ((good, "-o", out, "--timeline", tmp_path / "none.parquet"), "none.parquet"),
        ((good, "-o", out, "--timeline", bad), ".parquet or .csv"),
        ((good, "-o", out, "--timeline", other), "0 columns 'name': 1 is needed"),
        ((good, "-o", tmp_path / "no" / "x.html"), "no"),
        ((good,), "nothing to write"),
    ):
        refused(decima("report", *arguments), words)
    assert not out.exists()


def test_figures_for_papers_say_what_made_them_and_are_the_same_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["/somewhere/decima", "report", "one.json"])
    results, tasks = tmp_path / "one.json", tmp_path / "tasks.parquet"
    results.write_text(json.dumps(results_json()))
    pa.parquet.write_table(two_runs().table, tasks)
    contents = []
    for folder, more in ((tmp_path / "a", [run_folder(tmp_path / "run")]), (tmp_path / "b", [])):
        asked = ("report", results, *more, "--timeline", tasks, "--figures", folder)
        assert succeeded(decima(*asked)).stdout == f"wrote {folder}\n"
        contents.append({figure.name: figure.read_bytes() for figure in folder.iterdir()})
    names = {path.partition(".")[0] for path in contents[0]}
    assert len(contents[0]) == 2 * len(names)
    assert {"timelines-a", "timelines-b", "training-0-entropy"} <= names
    assert "evaluation-0-quantiles-of-jct-against-a-jobs-of-all-sequences" in names
    assert "evaluation-0-average-jct-against-a-paired-by-sequence" in names
    assert max(map(len, names)) < 80
    assert len(contents[1]) > 6
    assert contents[1].items() <= contents[0].items()
    for name, content in contents[0].items():
        assert b"decima report one.json" in content, name  # the command, in the metadata


def test_trace_events_hold_every_task_on_its_executors_track(
    trace_file: Path, tmp_path: Path
) -> None:
    """As Perfetto reads them: complete slices in microseconds, named processes and threads."""
    path, table_path = tmp_path / "tasks.json.gz", tmp_path / "tasks.parquet"
    for out in (path, table_path):
        options = ("--trace", trace_file, *SMALL, "--policies", "strict_fair,fifo")
        succeeded(decima("evaluate", *options, "--timeline", out))
    content = json.loads(gzip.decompress(path.read_bytes()))
    named = [event for event in content["traceEvents"] if event["ph"] == "M"]
    process = {e["pid"]: e["args"]["name"] for e in named if e["name"] == "process_name"}
    thread = {(e["pid"], e["tid"]): e["args"]["name"] for e in named if e["name"] == "thread_name"}
    assert len(process) == 6  # two policies, three sequences
    events = sorted(
        (
            process[e["pid"]], thread[e["pid"], e["tid"]], e["args"]["job"], e["args"]["stage"],
            e["args"]["task"], round(e["ts"], 3), round(e["ts"] + e["dur"], 3),
        )
        for e in content["traceEvents"]
        if e["ph"] == "X"
    )  # fmt: skip
    rows = pa.parquet.read_table(table_path).to_pylist()
    assert events == sorted(
        (
            f"{row['policy']}, sequence {row['sequence']}", f"executor {row['executor']}",
            row["job"], row["stage"], row["task"],
            round(row["start_ms"] * 1000, 3), round(row["finish_ms"] * 1000, 3),
        )
        for row in rows
    )  # fmt: skip


# --- every pair of policies ----------------------------------------------------------------------


POLICIES = (*HEURISTICS, SHIPPED_MODEL)


def data_of(text: str) -> dict[str, Any]:
    """The data that a page's script draws, by the rules of JSON: no NaN, no infinity."""
    match = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)
    assert match is not None

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    content: dict[str, Any] = json.loads(match.group(1), parse_constant=refuse)
    return content


@pytest.mark.parametrize(
    "more",
    [{"interarrival_s": 3.0}, {"arrivals": "batch", "classes": "4x1,8x1", "demands": "drawn"}],
    ids=["one by one", "classes"],
)
def test_every_policy_makes_a_page_with_others(trace_file: Path, more: dict[str, Any]) -> None:
    """Three jobs on two executors: every policy decides, beside the network and beside the next
    one, in both orders.
    """
    small: dict[str, Any] = {"executors": 2, "jobs": 3, "sequences": 2}
    config = EvaluationConfig(str(trace_file), POLICIES, **small, **more)
    every = evaluate(config, timelines=range(2))
    neighbours = {*pairwise(POLICIES), *((name, SHIPPED_MODEL) for name in HEURISTICS)}
    for pair in {order for two in neighbours for order in permutations(two)}:
        both = {name: every.policies[name] for name in pair}
        report = Report(replace(every.config, policies=pair), every.trace, both)
        data = data_of(page(page_sections(report), title="t", command="c"))
        assert [run["policy"] for run in data["timelines"][:2]] == list(pair), pair
        assert bool(data["decisions"]) == (SHIPPED_MODEL in pair), pair
