"""An evaluation's table, JSON and page from figures made by hand, nothing simulated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from decima.evaluation.config import EvaluationConfig
from decima.evaluation.report import PolicyReport, PolicyRun, Report
from decima.objectives import OBJECTIVES
from decima.report.comparison import best_policy as best_of_page
from decima.report.comparison import summary
from decima.report.comparison import table as page_table
from decima.report.results import results_of
from decima.rl.statistics import difference_percent, mean_of
from spark_sim.metrics import ClassUse, RunMetrics
from tests.commands import cells_of
from tests.pages import results_json
from tests.stories import stage
from traces import Job, Trace


def run_of(policy: str, number: int, factor: float, **more: Any) -> PolicyRun:
    """Three jobs on 50 executors for 100 s: 30 % busy, 10 % moving, 60 % idle."""
    scale = factor * (1 + 0.1 * number)
    metrics = RunMetrics(
        jct_s=scale * np.array([10.0, 20.0, 60.0]), job=np.zeros(3, np.int32),
        weight=np.ones(3), deadline_s=np.full(3, np.inf),
        slowdown=np.array([1.0, 2.0, 3.0 + number]),
        unfinished=0, not_arrived=0, makespan_s=100.0 * factor, busy_executor_s=1500.0 * factor,
        moving_executor_s=500.0 * factor, idle_executor_s=3000.0 * factor, first_executor_s=100.0,
        inflation_executor_s=50.0, mean_jobs_in_system=1.0, task_events=400, decisions=500,
        forced=1,
    )  # fmt: skip
    return PolicyRun(policy, number, replace(metrics, **more), 0.25, 0.5, None)


def report_of(*rows: Sequence[PolicyRun]) -> Report:
    """An evaluation that played these runs."""
    names = tuple(runs[0].policy for runs in rows)
    config = EvaluationConfig(policies=names, sequences=len(rows[0]), jobs=3, executors=50)
    reports = {runs[0].policy: PolicyReport.of(runs, OBJECTIVES["avg_jct"]) for runs in rows}
    return Report(config, Trace("t", (Job("j", (stage("s", 1, 1.0),)),)), reports)


def three(policy: str, factor: float, **more: Any) -> list[PolicyRun]:
    return [run_of(policy, number, factor, **more) for number in range(3)]


def test_the_table_of_an_evaluation_by_hand() -> None:
    """Averages of 30, 33 and 36 s; 33 s times 4.303 / sqrt(3) standard deviations of 3 s, in
    logarithms: a factor of exp(7.453 / 33). Moving took 500 of 50 x 100 executor-seconds."""
    other = three("fifo", 0.5)
    other[1] = replace(other[1], metrics=replace(other[1].metrics, unfinished=2, not_arrived=1))
    report = report_of(three("strict_fair", 1.0), other)
    assert cells_of(report.table()) == [
        ["policy", "average JCT [95 %]", "vs strict_fair [95 %]", "median", "p95", "p99",
         "makespan", "busy", "moving", "decisions"],
        ["strict_fair", "33.0 s [26.3, 41.4]", "", "22.0", "61.6", "65.1", "100",
         "30 %", "10 %", "1,500"],
        ["fifo", "16.5 s [13.2, 20.7]", "-50.0 % [-50.0, -50.0]", "11.0", "30.8", "32.6",
         "50 (2 unfinished, 1 not arrived)", "30 %", "10 %", "1,500"],
    ]  # fmt: skip


def test_the_json_of_an_evaluation_by_hand() -> None:
    report = report_of(three("strict_fair", 1.0), three("fifo", 0.5))
    values = report.to_json()["policies"]["fifo"]
    assert values["avg_jct_s"]["mean"] == pytest.approx(16.5)
    assert values["avg_jct_s"]["ci95"] == mean_of(np.array([15.0, 16.5, 18.0])).ci95
    assert values["difference_to_first"]["mean_percent"] == pytest.approx(-50.0)
    sums = ("busy_executor_s", "moving_executor_s", "idle_executor_s", "first_executor_s",
            "inflation_executor_s", "jobs", "task_events", "decisions", "forced")  # fmt: skip
    assert [values[name] for name in sums] == [2250, 750, 4500, 300, 150, 9, 1200, 1500, 3]
    assert [values[f"{name}_jct_s"]["per_sequence"][0] for name in ("median", "p95", "p99")] == [
        10.0, pytest.approx(28.0), pytest.approx(29.6),
    ]  # fmt: skip
    assert values["avg_slowdown"]["per_sequence"] == pytest.approx([2.0, 7 / 3, 8 / 3])
    assert values["fairness"]["per_sequence"] == pytest.approx([36 / 42, 49 / 63, 64 / 90])
    assert values["utilisation"]["mean"] == pytest.approx(0.3)
    assert values["makespan_s"]["mean"] == pytest.approx(50.0)
    late = report_of(three("fifo", 0.5, not_arrived=2)).to_json()["policies"]["fifo"]
    assert (late["jobs"], late["not_arrived"]) == (9, 6)
    assert report.timings_json()["cpu_s"]["fifo"] == {"policy": 0.75, "environment": 1.5}


def test_intervals_of_shares_end_where_shares_do() -> None:
    """Jain's index of two sequences: 1 and 0.4, whose interval as of times would end beyond 1."""
    runs = [
        run_of("fifo", number, 1.0, slowdown=np.array(slowdown))
        for number, slowdown in enumerate(([1.0, 1.0, 1.0], [1.0, 1.0, 13.0]))
    ]
    fairness = report_of(runs).to_json()["policies"]["fifo"]["fairness"]
    low, high = fairness["ci95"]
    assert 0.0 <= low < fairness["mean"] < high == 1.0
    values = {name: [0.5, 0.99] for name in ("a", "b")}
    content = results_json(fairness=values, utilisation=values)
    for row in page_table(results_of(content, "here")).values():
        for cell in row:
            if cell.figure in ("fairness", "utilisation"):
                assert cell.estimate.ci95 is not None
                assert cell.estimate.ci95[1] == 1.0
    assert mean_of(np.array([0.0, 3.0])).within(0, 1).mean == 1.5


def test_identical_sequences_are_no_evidence() -> None:
    """Three repeats of one: no interval, and nothing is sure. With another of its own, there is."""
    alike = [[replace(run_of(name, 0, factor), sequence=k) for k in range(3)]
             for name, factor in (("strict_fair", 1.0), ("fifo", 0.5))]  # fmt: skip
    report = report_of(*alike)
    assert report.has_repeats
    assert cells_of(report.table())[1:] == [
        ["strict_fair", "30.0 s", "", "20.0", "56.0", "59.2", "100", "30 %", "10 %", "1,500"],
        ["fifo", "15.0 s", "-50.0 %", "10.0", "28.0", "29.6", "50", "30 %", "10 %", "1,500"],
    ]
    assert report.to_json()["policies"]["fifo"]["difference_to_first"]["ci95_percent"] is None
    assert not report_of(three("strict_fair", 1.0), three("fifo", 0.5)).has_repeats
    assert not report_of([run_of("fifo", 0, 1.0)]).has_repeats
    same = {"a": [10.0, 10.0], "b": [9.0, 9.0]}
    results = results_of(results_json(avg_jct_s=same), "here")
    assert best_of_page(results.policies, "avg_jct_s") is None
    assert summary([results])["b"][1:] == (0, 0)
    # What differs by the same share on different sequences is certain.
    assert difference_percent(np.array([2.0, 4.0]), np.array([1.0, 2.0])).ci95 == pytest.approx(
        (100, 100)
    )
    assert difference_percent(np.array([2.0, 2.0]), np.array([1.0, 2.0])).ci95 is not None


def test_the_table_of_classes_by_hand() -> None:
    """2 executors of 4 GB busy 50 of 200 s, 1 of 8 GB busy 80 of 100 s; in all three sequences."""
    classes = (ClassUse(4096.0, 2, 50.0, 0.5), ClassUse(8192.0, 1, 80.0, 0.25))
    table = report_of(three("strict_fair", 1.0, classes=classes)).class_table()
    assert table is not None
    assert cells_of(table) == [
        ["busy, memory idle meanwhile", "2 of 4 GB", "1 of 8 GB"],
        ["strict_fair", "25%, 50%", "80%, 25%"],
    ]


def test_the_page_counts_settings() -> None:
    """b is lower for certain in one setting and higher in another; over both it is level."""
    lower = results_json(avg_jct_s={"a": [10.0, 12.0], "b": [5.0, 6.0]})
    higher = results_json(avg_jct_s={"a": [10.0, 12.0], "b": [20.0, 24.0]})
    unsure = results_json(avg_jct_s={"a": [10.0, 12.0], "b": [8.0, 14.0]})
    figures = summary([results_of(values, "here") for values in (lower, higher, unsure)])
    assert figures["b"][0] == pytest.approx(0.0)
    assert figures["b"][1:] == (1, 1)
    mean = summary([results_of(values, "here") for values in (lower, unsure)])["b"][0]
    assert mean == pytest.approx(100 * (0.5**0.5 - 1))


def test_a_star_goes_to_what_is_better_than_each_other() -> None:
    """Of JCT the lower, of fairness the higher, both for certain."""
    one, other = {"a": [10.0, 12.0], "b": [9.0, 10.7]}, {"a": [0.5, 0.6], "b": [0.4, 0.485]}
    results = results_of(results_json(p99_jct_s=one, fairness=other), "here")
    assert best_of_page(results.policies, "p99_jct_s") == "b"
    assert best_of_page(results.policies, "fairness") == "a"
    assert best_of_page(results.policies, "utilisation") is None
    unsure = results_of(results_json(p99_jct_s={"a": [10.0, 12.0], "b": [9.0, 11.9]}), "here")
    assert best_of_page(unsure.policies, "p99_jct_s") is None
    assert best_of_page({"a": results.policies["a"]}, "p99_jct_s") is None
    rows = page_table(results)
    stars = {name: {cell.figure for cell in row if cell.is_best} for name, row in rows.items()}
    assert stars == {"a": {"fairness"}, "b": {"p99_jct_s"}}
    cells = {cell.figure: cell for cell in rows["b"]}
    against = cells["p99_jct_s"].against
    assert against is not None
    assert against == difference_percent(np.array(one["b"]), np.array(one["a"]))
    assert cells["p99_jct_s"].estimate == mean_of(np.array(one["b"]))
    assert all(cell.against is None for cell in rows["a"])
