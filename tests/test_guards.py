"""Numbers that recommend, refuse and report: each from figures made by hand, nothing simulated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from rich.table import Table

from decima.evaluation.config import EvaluationConfig
from decima.evaluation.report import PolicyReport, Report
from decima.evaluation.runner import PolicyRun
from decima.report.comparison import best_policy as best_of_page
from decima.report.comparison import executor_time, summary
from decima.report.comparison import table as page_table
from decima.report.results import results_of
from decima.report.whatif import whatif_section
from decima.rl.statistics import difference_percent, mean_of
from decima.spark import candidates
from decima.spark.decision_log import prior_rows
from decima.spark.evaluator_process import Question
from decima.whatif import WhatIfSettings
from decima.whatif.advice import best_policy, can_be_trusted, findings
from decima.whatif.caveats import caveats
from decima.whatif.load import (
    by_length,
    known_share,
    offered_load,
    recorded_avg_s,
    recorded_reference,
    recorded_slots,
    span_s,
)
from decima.whatif.replay import DriverRecord, Recording, ReplayReport, check
from decima.whatif.replay.check import Fidelity, overlapping, relative_error
from decima.whatif.replay.report import fidelity_table, verdict, worst_jobs_table
from decima.whatif.report import lengths_table, policies_table, sizes_table, to_json
from decima.whatif.study import PolicyResult, SizeResult, WhatIf
from spark_sim.metrics import ClassUse, RunMetrics
from tests.pages import results_json
from tests.stories import stage
from traces import Job, Trace
from traces.numbers import Float64
from traces.spark_log import ImportSummary
from traces.spark_log.assemble import UNFINISHED


def text(table: Table) -> list[list[str]]:
    """The cells of a table, row by row, headings first."""
    found = [[str(column.header) for column in table.columns]]
    cells = [list(column.cells) for column in table.columns]
    return found + [[str(cell) for cell in row] for row in zip(*cells, strict=True)]


# --- what if -------------------------------------------------------------------------------------

ALONE_S = np.array([1.0, 2.0, 4.0, 8.0, 16.0, 29.0])
"""six jobs; 10 s on average"""
DRAWS = np.array([0.98, 1.0, 1.02])


def recorded() -> Recording:
    """Six jobs of one application on 8 slots, 60 s from the first submission to the last end."""
    jobs = tuple(
        Job(f"job {k}", (stage("s", 8, 1000.0 * alone_s),), arrival_ms=6000.0 * k)
        for k, alone_s in enumerate(ALONE_S)
    )
    ends_ms = [2_000.0, 9_000.0, 17_000.0, 30_000.0, 50_000.0, 60_000.0]
    rows = {
        job.name: {"application": 0, "start_ms": job.arrival_ms, "end_ms": end_ms}
        for job, end_ms in zip(jobs, ends_ms, strict=True)
    }
    application = {"name": "app", "slots": 8, "settings": {}, "spark_version": "4.0.0"}
    trace = Trace("made", jobs, {"recorded": rows, "applications": [application]})
    return Recording(trace, ImportSummary(), tuple(DriverRecord.none(job) for job in jobs))


def result(
    times_s: Sequence[float] | Float64, resampled_s: Sequence[float], draws: Float64
) -> PolicyResult:
    """Times of each job in the mean draw, and averages of three resampled sequences."""
    resampled = np.array(resampled_s)
    return PolicyResult(draws[:, None] * np.array(times_s), resampled, 2 * resampled)


def what_was_found(
    *,
    executors: int = 8,
    policies: Mapping[str, tuple[Sequence[float], Sequence[float]]] | None = None,
    draws: Float64 = DRAWS,
    tuned: Mapping[str, Mapping[str, float]] | None = None,
    **settings: Any,
) -> WhatIf:
    """A study of fifo, fair sharing and tuned_srw, on 4, 8 and 16 slots.

    Half the slots take 3 times as long, twice the slots 0.6 times.
    """
    policies = policies or {
        "fifo": ([4, 8, 12, 24, 28, 44], [20.0, 22.0, 21.0]),
        "spark_fair": ([2, 5, 10, 22, 29, 46], [19.0, 20.8, 20.1]),
        "tuned_srw": ([1, 2, 5, 10, 20, 50], [15.0, 16.6, 15.6]),
    }
    said = WhatIfSettings(executors, tuple(policies), draws=len(draws), sequences=3, **settings)
    # Draws of one policy are not exactly those of another, so that differences are uncertain, too.
    uneven = {name: draws * (1 + 0.01 * n * (draws - 1) * 50) for n, name in enumerate(policies)}
    sizes = {}
    for size, factor in ((executors // 2, 3.0), (executors, 1.0), (2 * executors, 0.6)):
        results = {
            name: result(factor * np.array(times_s), resampled_s, uneven[name] ** factor)
            for name, (times_s, resampled_s) in policies.items()
        }
        alone_s = draws[:, None] ** 2 * ALONE_S * max(1.0, factor / 1.5)
        sizes[size] = SizeResult(size, alone_s, tuned or {}, results)
    return WhatIf(recorded(), said, sizes)


def checked(factor: float = 1.0, found: Recording | None = None) -> ReplayReport:
    """A replay in which every job takes `factor` times as long as recorded."""
    recording = found or recorded()
    recorded_s = recording.recorded_ms / 1000
    count = len(recorded_s)
    simulated_s = factor * recorded_s
    return ReplayReport(
        recording, ("fifo",), (8,), recorded_s, simulated_s, np.full(count, 0.25),
        0.5 * recorded_s, np.arange(count) % 2 == 0,
    )  # fmt: skip


WAITING = (
    "Do jobs wait for each other? Yes. Under fifo on 8 slots a job takes 20.0 s on average; "
    "without other jobs it would take 10.0 s. "
)
EXPECTED = [
    WAITING + "Waiting for others is 50 % [48, 53] of it: no policy can save more.",
    "What would change most: tuned_srw instead of fifo. Average JCT -27 % [-30, -23] with the "
    "recorded arrivals, -25 % [-27, -24] with resampled ones; p95 +6 % [+1, +12] with the recorded "
    "ones: the slowest jobs pay.",
    "How sure: both intervals exclude 0, and the simulator is 0 % off the recorded times (median), "
    "+0 % on average.",
    "spark_fair, which is a setting of Spark, gives -5 % [-7, -3] and -5 % [-6, -3] by itself.",
    "For whom: short jobs -75 %, middle jobs -58 %, long jobs -3 %. 5 of 6 jobs end clearly "
    "earlier, 1 clearly later (by more than 10 %).",
    'How: in the driver, decima.spark.attach(spark, policy="tuned_srw", parameters={"factor": '
    '1.25, "jobs_power": 1, "work_power": 0.2}), at first with mode="shadow", a decision_log, and '
    "as priors the trace that `decima traces import spark` makes of these logs (docs/spark.md).",
    "Slots: under fifo the average JCT is 20.0 s on 8, 60.0 s on 4 (+200 % [+172, +232]), 12.0 s "
    "on 16 (-40 % [-41, -39]).",
    "4 slots could not keep up with the recorded arrivals: there the JCT grows with the length of "
    "the recording.",
    "Lowest average with the recorded arrivals: on 4 tuned_srw (-26 % [-37, -15]), on 8 tuned_srw "
    "(-27 % [-30, -23]), on 16 tuned_srw (-27 % [-29, -24]).",
    "tuned_srw on the same slots gives 67 % [56, 79] of what twice the slots would give under "
    "fifo.",
]
"""20, 19 and 14.67 s recorded, 21, 19.97 and 15.73 s resampled; 60 s on half, 12 s on twice the
slots: tuned_srw saves 5.33 s of the 8 s that these save"""
TUNED = {"tuned_srw": {"factor": 1.25, "jobs_power": 1.0, "work_power": 0.2}}


def test_the_findings_word_for_word() -> None:
    assert list(findings(what_was_found(tuned=TUNED), checked())) == EXPECTED


def test_a_policy_needs_both_intervals_below_zero() -> None:
    """Recorded and resampled; a mean below zero is not enough, nor one interval."""
    sure, unsure, worse = [18.0, 19.6, 18.9], [18.0, 23.0, 19.0], [21.0, 23.3, 22.1]
    fifo = ([10.0] * 6, [20.0, 22.0, 21.0])
    for recorded_s, resampled_s, best in (
        ([9.0] * 6, sure, "spark_fair"),
        ([9.0] * 6, unsure, None),
        ([9.0] * 6, worse, None),
        ([10.0] * 6, sure, None),
        ([11.0] * 6, sure, None),
    ):
        found = what_was_found(policies={"fifo": fifo, "spark_fair": (recorded_s, resampled_s)})
        assert best_policy(found) == best
    # Recorded draws of the other policy that are lower on average and higher in one of three.
    found = what_was_found(policies={"fifo": fifo, "spark_fair": ([9.0] * 6, sure)})
    results = dict(found.main.policies)
    uneven_s = np.array([[8.0], [12.0], [8.5]]) * np.ones(6)
    results["spark_fair"] = replace(results["spark_fair"], recorded_jct_s=uneven_s)
    main = replace(found.main, policies=results)
    assert best_policy(replace(found, sizes={**found.sizes, 8: main})) is None


def test_identical_draws_leave_it_to_the_resampled_arrivals() -> None:
    """Without an interval, and not certain by themselves."""
    fifo, once = ([10.0] * 6, [20.0, 22.0, 21.0]), np.ones(3)
    for resampled_s, best in (([18.0, 19.6, 18.9], "spark_fair"), ([18.0, 23.0, 19.0], None)):
        policies = {"fifo": fifo, "spark_fair": ([9.0] * 6, resampled_s)}
        found = what_was_found(policies=policies, draws=once)
        assert found.has_repeats
        assert best_policy(found) == best
        assert any(
            "3 draws of task durations are identical" in one for one in caveats(found, checked())
        )
    worse = {"fifo": fifo, "spark_fair": ([11.0] * 6, [18.0, 19.6, 18.9])}
    assert best_policy(what_was_found(policies=worse, draws=once)) is None


@pytest.mark.parametrize(
    ("ahead", "best"), [(0.005, "spark_fair"), (0.015, "spark_fair"), (0.025, "tuned_srw")]
)
def test_a_setting_of_spark_is_preferred_within_two_percent(ahead: float, best: str) -> None:
    """In a session; between applications no setting gives either."""
    fair = ([9.0] * 6, [18.0, 19.7, 19.0])
    other = ([9.0 * (1 - ahead)] * 6, [one * (1 - ahead) for one in fair[1]])
    three = {"fifo": ([10.0] * 6, [20.0, 22.0, 21.0]), "spark_fair": fair, "tuned_srw": other}
    assert best_policy(what_was_found(policies=three)) == best
    assert best_policy(what_was_found(policies=three, protocol="executors")) == "tuned_srw"


def test_where_waiting_may_matter_it_is_not_called_nothing() -> None:
    """3 % on average, and up to 16 %: the upper end decides; with 1 to 3 % there is nothing."""
    for widths, is_nothing in (([-0.02, 0.0, 0.02], False), ([-0.004, 0.0, 0.004], True)):
        found = what_was_found(policies={"fifo": ([10.3] * 6, [20.0, 22.0, 21.0])})
        alone_s = found.main.policies["fifo"].recorded_jct_s * (0.97 + np.array(widths))[:, None]
        main = replace(found.main, alone_jct_s=alone_s)
        (words, *_) = findings(replace(found, sizes={**found.sizes, 8: main}), checked())
        assert ("Jobs hardly wait for each other" in words) == is_nothing
        assert ("Waiting for others is 3 % [1, 16]" in words) != is_nothing
        if is_nothing:
            assert words.endswith("next to nothing to gain (at most 4 %).")


@pytest.mark.parametrize(
    ("factor", "is_trusted"),
    [(1.0, True), (1.17, True), (1.19, False), (0.83, True), (0.81, False)],
)
def test_nothing_is_recommended_beyond_18_percent(factor: float, is_trusted: bool) -> None:
    assert can_be_trusted(checked(factor)) == is_trusted
    words = " ".join(findings(what_was_found(), checked(factor)))
    assert ("What would change most" in words) == is_trusted
    percent = 100 * (factor - 1)
    off = f"({abs(percent):.0f} % off in the median, {percent:+.0f} % on average)"
    assert (f"does not repeat this recording {off}" in words) != is_trusted
    firm = ("Lowest average", "nothing to gain", "Waiting for others is", "on 16")
    assert any(one in words for one in firm) == is_trusted


def test_a_check_is_useless_by_its_bias_alone() -> None:
    """One of six jobs takes 2.2 times as long: the median is 0, the mean 20 %."""
    check = checked()
    factors = np.array([1, 1, 1, 1, 1, 2.2])
    assert not can_be_trusted(replace(check, simulated_s=factors * check.recorded_s))


def at_size(found: WhatIf, size: int, **times_s: Float64) -> WhatIf:
    """The study where policies take these times on so many slots; (draws,) or (draws, 1)."""
    results = dict(found.sizes[size].policies)
    for name, each_s in times_s.items():
        results[name] = replace(results[name], recorded_jct_s=each_s[:, None] * np.ones(6))
    return replace(found, sizes={**found.sizes, size: replace(found.sizes[size], policies=results)})


def test_the_lowest_of_a_size_is_certain_and_the_recommended_one_where_as_good() -> None:
    """Lower by a tenth on average, but not for certain, is none; 1 % lower is as good."""
    fifo, fair = ([20.0] * 6, [20.0, 22.0, 21.0]), ([15.0] * 6, [15.0, 16.6, 15.8])
    found = what_was_found(policies={"fifo": fifo, "spark_fair": fair})
    rows = (
        ([14.0, 25.0, 15.0], "on 4 none below fifo"),
        ([17.9, 18.0, 18.1], "on 4 spark_fair (-10 %"),
        ([19.7, 19.8, 19.9], "on 4 none below fifo"),
    )
    for fair_s, words in rows:
        other = at_size(found, 4, fifo=np.array([19.9, 20.0, 20.1]), spark_fair=np.array(fair_s))
        assert words in " ".join(findings(other, checked()))
    three = what_was_found(
        policies={"fifo": fifo, "spark_fair": fair, "tuned_srw": ([18.0] * 6, [18.0, 19.6, 18.8])}
    )
    for srw_s, best in ((9.9, "spark_fair"), (9.7, "tuned_srw")):
        draws = np.array([0.99, 1.0, 1.01])
        other = at_size(
            three, 16, fifo=12 * draws, spark_fair=10 * draws, tuned_srw=srw_s * draws**2
        )
        assert f"on 16 {best} (" in " ".join(findings(other, checked()))


def test_who_wins_counts_jobs_beyond_a_tenth() -> None:
    """Of six: 9 % earlier and later are neither."""
    fifo, fair = [20.0] * 6, [10.0, 16.0, 18.34, 21.8, 22.4, 20.0]
    rows = {"fifo": (fifo, [20.0, 22.0, 21.0]), "spark_fair": (fair, [18.0, 19.7, 19.0])}
    words = next(
        one
        for one in findings(what_was_found(policies=rows), checked())
        if one.startswith("For whom")
    )
    assert "2 of 6 jobs end clearly earlier, 1 clearly later" in words
    assert "short jobs -35 %, middle jobs 0 %, long jobs +6 %" in words


def test_half_the_slots_pile_up_where_work_exceeds_them_and_times_double() -> None:
    """8 slots are busy 100 % of the time, so 4 have twice what they can do."""
    said = "could not keep up"
    for factor, executors, is_said in ((3.0, 8, True), (1.9, 8, False), (3.0, 17, False)):
        found = what_was_found(executors=executors)
        half = found.sizes[executors // 2]
        results = {
            name: replace(one, recorded_jct_s=factor / 3.0 * one.recorded_jct_s)
            for name, one in half.policies.items()
        }
        sizes = {**found.sizes, executors // 2: replace(half, policies=results)}
        words = " ".join(findings(replace(found, sizes=sizes), checked()))
        assert (said in words) == is_said


def test_the_tables_of_a_what_if() -> None:
    found = what_was_found()
    assert text(policies_table(found, "recorded")) == [
        ["policy", "average JCT", "vs fifo", "p95 JCT", "vs fifo"],
        ["fifo", "20.0 s [19.0, 21.0]", "", "40.0 s [38.1, 42.0]", ""],
        ["spark_fair", "19.0 s [17.6, 20.5]", "-5 % [-7, -3]", "41.8 s [38.8, 45.0]",
         "+4 % [+2, +7]"],
        ["tuned_srw", "14.7 s [13.3, 16.2]", "-27 % [-30, -23]", "42.5 s [38.5, 47.0]",
         "+6 % [+1, +12]"],
    ]  # fmt: skip
    assert text(policies_table(found, "resampled"))[1:] == [
        ["fifo", "21.0 s [18.7, 23.6]", "", "42.0 s [37.3, 47.3]", ""],
        ["spark_fair", "20.0 s [17.8, 22.4]", "-5 % [-6, -3]", "39.9 s [35.7, 44.7]",
         "-5 % [-6, -3]"],
        ["tuned_srw", "15.7 s [13.8, 17.9]", "-25 % [-27, -24]", "31.5 s [27.7, 35.8]",
         "-25 % [-27, -24]"],
    ]  # fmt: skip
    assert text(sizes_table(found)) == [
        ["average JCT", "4 slots (200 % load)", "8 slots (100 % load)", "16 slots (50 % load)"],
        ["fifo", "60.0 s", "20.0 s", "12.0 s"],
        ["spark_fair", "57.1 s (-5 %)", "19.0 s (-5 %)", "11.4 s (-5 %)"],
        ["tuned_srw", "44.2 s (-26 %)", "14.7 s (-27 %)", "8.80 s (-27 %)"],
        ["no other jobs", "20.0 s", "10.0 s", "10.0 s"],
    ]
    assert text(lengths_table(found)) == [
        ["jobs", "number", "no other jobs", "fifo", "spark_fair", "tuned_srw"],
        ["short", "2", "1.50 s", "6.00 s", "3.50 s", "1.50 s"],
        ["middle", "2", "6.00 s", "18.0 s", "16.0 s", "7.50 s"],
        ["long", "2", "22.5 s", "36.0 s", "37.5 s", "35.0 s"],
    ]


def test_the_json_and_the_page_of_a_what_if() -> None:
    """The figures of the tables, each interval from its lower to its upper end."""
    found = what_was_found()
    size = to_json(found)["sizes"]["8"]
    assert size["load"] == pytest.approx(1.0)
    assert size["alone_s"] == pytest.approx((1 + 2 * 0.02**2 / 3) * ALONE_S)
    own = size["policies"]["tuned_srw"]["recorded"]["avg_jct_s"]
    result = found.main.policies["tuned_srw"]
    assert own["mean"] == pytest.approx(result.avg_s.mean())
    assert own["each"] == result.avg_s.tolist()
    each_s = size["policies"]["tuned_srw"]["jct_s"]
    assert each_s == pytest.approx(result.recorded_jct_s.mean(axis=0))
    assert each_s != pytest.approx(result.recorded_jct_s[0])
    low, high = own["difference_percent"]["ci95"]
    assert low < own["difference_percent"]["mean"] < high < 0
    rows = whatif_section(found, checked(), []).content["policies"]
    texts = [[cell["text"] for cell in row["cells"]] for row in rows]
    both = zip(
        text(policies_table(found, "recorded"))[1:],
        text(policies_table(found, "resampled"))[1:],
        strict=True,
    )
    assert texts == [[one[1], one[3], other[1], other[3]] for one, other in both]
    versus = [[cell["versus"] for cell in row["cells"]] for row in rows]
    assert versus[2] == [
        "-27 % [-30, -23]",
        "+6 % [+1, +12]",
        "-25 % [-27, -24]",
        "-25 % [-27, -24]",
    ]


def test_sizes_share_the_first_four_draws() -> None:
    """Of six: the last two, ten times as long, are of one size alone."""
    found = what_was_found(draws=np.array([0.98, 1.0, 1.02, 1.0, 10.0, 10.0]))
    for name in ("fifo", None):
        assert len(found.shared_avg_s(8, name)) == 4
    assert found.shared_avg_s(8, "fifo").mean() == pytest.approx(20.0)


def test_facts_of_a_recording_by_hand() -> None:
    """480 executor-seconds of work in 60 s are 8 slots; jobs took 2, 3, 5, 12, 26 and 30 s."""
    recording = recorded()
    assert span_s(recording) == 60.0
    assert [offered_load(recording, slots) for slots in (4, 8, 16)] == [2.0, 1.0, 0.5]
    assert recorded_slots(recording) == 8
    assert recorded_avg_s(recording) == pytest.approx(13.0)
    assert known_share(recording) == 0.0
    groups = by_length(ALONE_S[::-1])
    assert {label: rows.tolist() for label, rows in groups.items()} == {
        "short": [5, 4], "middle": [3, 2], "long": [1, 0],
    }  # fmt: skip


def test_caveats_come_where_they_should() -> None:
    """And not before."""

    def said(found: WhatIf, factor: float = 1.0) -> str:
        return " ".join(caveats(found, checked(factor)))

    found = what_was_found()
    assert "The replay itself is 10 % off the recorded durations (median), +10 % on" in said(
        found, 1.1
    )
    assert "The replay itself" not in said(found, 1.08)
    assert "6 jobs are few: one long job moves the averages, and the p95" in said(found)
    assert "tuned_srw knows here how long tasks take" in said(found)
    assert "0 % of the jobs are further runs" in said(found)
    assert "knows here how" not in said(found, 1.5), "nothing is recommended then"
    assert "knows here how" not in said(what_was_found(estimates="none"))
    assert "On more slots than recorded" in said(found)
    assert "On more slots than recorded" not in said(what_was_found(executors=4))
    assert "identical" not in said(found)
    assert "came right after another had ended" not in said(found)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("decima.whatif.caveats.waiting_share", lambda _: 0.51)
        assert "51 % of the jobs came right after another had ended" in said(found)
    assert "had not ended" not in said(found)
    moving = said(what_was_found(protocol="executors"))
    assert "One takes 2 s to start in another application and 1 s longer" in moving
    cut = ImportSummary(unused_jobs=Counter({UNFINISHED: 1}))
    other = replace(found, recording=replace(found.recording, summary=cut))
    assert "1 job had not ended" in said(other)


# --- the replay check ----------------------------------------------------------------------------


def test_fidelity_by_hand() -> None:
    """Errors of 10, -20, 60 and 2 %: 15 % in the median, 13 % on average."""
    error = relative_error(np.array([11.0, 8.0, 16.0, 10.2]), np.full(4, 10.0))
    found = Fidelity.of(error)
    assert found is not None
    assert found.jobs == 4
    assert found.median_error_percent == pytest.approx(15.0)
    assert found.bias_percent == pytest.approx(13.0)
    assert found.above(14.0) == ["median error"]
    assert found.above(12.0) == ["median error", "mean bias"]
    assert found.above(15.1) == []
    assert Fidelity(4, 1.0, -19.0).above(18.0) == ["mean bias"]
    assert relative_error(np.array([0.002]), np.array([0.0])).tolist() == [2.0]


def test_the_replay_tables_by_hand() -> None:
    """Jobs 0, 2 and 4 overlapped; tasks alone took half of what was recorded."""
    check = checked()
    factors = np.array([1.1, 1.02, 0.8, 1.02, 1.6, 0.99])
    check = replace(check, simulated_s=factors * check.recorded_s)
    assert text(fidelity_table(check)) == [
        ["jobs that ran", "jobs", "median |error|", "mean bias", "aim", "without driver times"],
        ["alone", "3", "2.0 %", "+1.0 %", "5 %", "50.0 %, bias -50.0 %"],
        ["overlapping", "3", "20.0 %", "+16.7 %", "9 %", "50.0 %, bias -50.0 %"],
        ["all", "6", "6.0 %", "+8.8 %", "", "50.0 %, bias -50.0 %"],
    ]
    assert text(worst_jobs_table(check, 3)) == [
        ["job", "recorded", "simulated", "error", "tasks alone", "ran"],
        ["job 4", "26.00 s", "41.60 ± 0.25 s", "+60 %", "13.00 s", "overlapping"],
        ["job 2", "5.00 s", "4.00 ± 0.25 s", "-20 %", "2.50 s", "overlapping"],
        ["job 0", "2.00 s", "2.20 ± 0.25 s", "+10 %", "1.00 s", "overlapping"],
    ]
    assert verdict(check).endswith("can be relied on.")
    content = check.to_json()
    assert content["fidelity"]["all"]["bias_percent"] == pytest.approx(8.8333, rel=1e-3)
    assert content["fidelity"]["all"]["tasks_only"]["bias_percent"] == pytest.approx(-50.0)
    assert content["jobs"][4] == {
        "name": "job 4", "recorded_s": 26.0, "simulated_s": pytest.approx(41.6), "spread_s": 0.25,
        "tasks_only_s": 13.0, "overlapped": True,
    }  # fmt: skip


def test_who_overlapped_by_hand() -> None:
    """2 of 6 end before the next comes: the first; then 9 < 12, 17 < 18; 30, 50 and 60 overlap."""
    assert overlapping(recorded()).tolist() == [False, False, False, True, True, True]


def test_the_verdict_grows_with_the_error() -> None:
    """Up to 9 %, to 18 %, and beyond."""
    for factor, words in ((1.08, "relied on."), (1.12, "for nothing."), (1.2, "--group-by.")):
        assert verdict(checked(factor)).endswith(words)


def test_a_short_job_inside_a_long_one_overlaps() -> None:
    """The second ends long before the third begins; the first goes on."""
    made = recorded()
    ends_ms = dict(zip("012345", (90e3, 7e3, 13e3, 19e3, 25e3, 31e3), strict=True))
    rows = {
        name: {**row, "end_ms": ends_ms[name[-1]]}
        for name, row in made.trace.metadata["recorded"].items()
    }
    trace = replace(made.trace, metadata={**made.trace.metadata, "recorded": rows})
    assert overlapping(replace(made, trace=trace)).all()


def test_the_recorded_policy_is_that_of_most_jobs() -> None:
    """Four of six jobs ran under FAIR, however it is written; three are not most."""
    made = recorded()
    (application,) = made.trace.metadata["applications"]
    both = [application, {**application, "settings": {"spark.scheduler.mode": "Fair"}}]
    for first, policy in ((2, "spark_pools"), (3, "fifo")):
        rows = {
            name: {**row, "application": int(number >= first)}
            for number, (name, row) in enumerate(made.trace.metadata["recorded"].items())
        }
        metadata = {**made.trace.metadata, "recorded": rows, "applications": both}
        assert (
            recorded_reference(replace(made, trace=replace(made.trace, metadata=metadata)))
            == policy
        )


def test_a_replay_averages_its_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 1 and 3 s: 2 s, with a spread of 1 s; without driver times half of that."""

    def played(_shared: Any, task: Any) -> Float64:
        each = np.array([[1.0], [3.0]]) * np.ones(6)
        return each if task.driver_times else each / 2

    monkeypatch.setattr(check, "_simulated_s", played)
    found = check.replay(recorded(), check.ReplaySettings(draws=2))
    assert found.simulated_s.tolist() == [2.0] * 6
    assert found.spread_s.tolist() == [1.0] * 6
    assert found.tasks_only_s.tolist() == [1.0] * 6
    assert found.recorded_s.tolist() == [2.0, 3.0, 5.0, 12.0, 26.0, 30.0]


# --- comparing for a session ------------------------------------------------------------------


def compared(monkeypatch: pytest.MonkeyPatch, **averages_s: Sequence[float]) -> candidates.Verdict:
    """What is best of candidates with these averages on four sequences; fifo takes 10 to 13 s."""
    known = {"fifo": [10.0, 11.0, 12.0, 13.0], **averages_s}
    average_s = lambda _world, name, _runs: np.array(known[name])  # noqa: E731
    monkeypatch.setattr(candidates.World, "average_s", average_s)
    monkeypatch.setattr(candidates.World, "resampled", lambda _world, number: number)
    row = {"name": "j", "arrival_ms": 0, "completion_ms": None, "own_ms": 0, "stages": []}
    asked = Question(4, "fifo", "fifo", 0, tuple(averages_s), "exact", [row], False, {})
    monkeypatch.setattr(candidates.World, "__init__", lambda world, question: None)
    monkeypatch.setattr(candidates.World, "error", lambda _world: None)
    monkeypatch.setattr(candidates.World, "followers", lambda _world: 0.0)
    return candidates.compare(asked)


def test_a_session_changes_only_for_what_is_certainly_better(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Lower by a tenth on average, but not for certain; certainly by a twentieth."""
    unsure, sure = [5.0, 12.5, 9.0, 14.9], [9.6, 10.4, 11.5, 12.2]
    assert compared(monkeypatch, tuned_srw=unsure).best is None
    assert compared(monkeypatch, tuned_srw=unsure).differences["tuned_srw"].mean == pytest.approx(
        -10.0
    )
    assert compared(monkeypatch, tuned_srw=sure).best == "tuned_srw"
    assert compared(monkeypatch, tuned_srw=unsure, es_rule=sure).best == "es_rule"
    better = [one * 0.97 for one in sure]
    assert compared(monkeypatch, tuned_srw=sure, es_rule=better).best == "es_rule"
    assert compared(monkeypatch, tuned_srw=better, es_rule=sure).best == "tuned_srw"
    assert compared(monkeypatch, tuned_srw=[11.0, 12.1, 13.1, 14.3]).best is None
    assert compared(monkeypatch).best is None


def logged(number: int, end_ms: int | None, own_ms: int = 500) -> dict[str, Any]:
    """A job of four tasks of 2 s that came in the second of its number."""
    (row,) = prior_rows(Trace("one", (Job(f"job {number}", (stage("s", 4, 2000.0),)),)))
    return row | {"arrival_ms": 1000 * number, "completion_ms": end_ms, "own_ms": own_ms}


def world_of(
    *rows: dict[str, Any], is_timed: bool = True, ran_since_ms: int = 0
) -> candidates.World:
    asked = Question(4, "fifo", "es_rule", ran_since_ms, (), "exact", rows, is_timed, {})
    return candidates.World(asked)


def test_the_error_is_of_what_ran_and_counts_sparks_own_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """1.5 s are predicted and 0.5 s are Spark's own: 3 s are half as much again."""
    asked: list[str] = []

    def jct_s(_world: Any, policy: str, runs: Sequence[Any]) -> list[Float64]:
        asked.append(policy)
        return [np.full(len(run.job), 1.5) for run in runs]

    monkeypatch.setattr(candidates.World, "_jct_s", jct_s)
    rows = [logged(number, 1000 * number + 3000) for number in range(4)]
    error = world_of(*rows).error()
    assert error is not None
    assert error.mean == pytest.approx(50.0)
    assert asked == ["es_rule"]
    world = world_of(*rows)
    assert world.average_s("fifo", [world.resampled(0), world.resampled(1)]).tolist() == [2.0, 2.0]
    assert world_of(rows[0], logged(1, None)).error() is None, "one job is no stretch"
    assert world_of(*rows, ran_since_ms=2500).error() is None
    assert world_of(*rows, ran_since_ms=1500).error() is not None
    assert world_of(*rows, is_timed=False).error() is None


def test_resampled_jobs_begin_at_0_and_fill_the_slots_to_four_fifths() -> None:
    """8 s of work on 4 slots: one job each 2.5 s where only jobs are known; else their gaps."""
    rows = [logged(number, None) for number in range(60)]
    untimed = world_of(*rows, is_timed=False)
    runs = [untimed.resampled(number) for number in range(30)]
    assert {run.arrival_ms[0] for run in runs} == {0.0}
    gaps_s = [np.diff(run.arrival_ms).mean() / 1000 for run in runs]
    assert np.mean(gaps_s) == pytest.approx(2.0 / candidates.ASSUMED_LOAD, rel=0.05)
    timed = world_of(*rows).resampled(0)
    assert np.diff(timed.arrival_ms) == pytest.approx(1000.0)
    assert timed.arrival_ms[0] == 0.0


# --- evaluations ---------------------------------------------------------------------------------


def run_of(policy: str, number: int, factor: float, **more: Any) -> PolicyRun:
    """Three jobs on 50 executors for 100 s: 30 % busy, 10 % moving, 60 % idle."""
    scale = factor * (1 + 0.1 * number)
    metrics = RunMetrics(
        jct_s=scale * np.array([10.0, 20.0, 60.0]), slowdown=np.array([1.0, 2.0, 3.0 + number]),
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
    reports = {runs[0].policy: PolicyReport.of(runs) for runs in rows}
    return Report(config, Trace("t", (Job("j", (stage("s", 1, 1.0),)),)), reports)


def three(policy: str, factor: float, **more: Any) -> list[PolicyRun]:
    return [run_of(policy, number, factor, **more) for number in range(3)]


def test_the_table_of_an_evaluation_by_hand() -> None:
    """Averages of 30, 33 and 36 s; 33 s times 4.303 / sqrt(3) standard deviations of 3 s, in
    logarithms: a factor of exp(7.453 / 33). Moving took 500 of 50 x 100 executor-seconds."""
    other = three("fifo", 0.5)
    other[1] = replace(other[1], metrics=replace(other[1].metrics, unfinished=2, not_arrived=1))
    report = report_of(three("strict_fair", 1.0), other)
    assert text(report.table()) == [
        ["policy", "average JCT [95 %]", "vs strict_fair [95 %]", "median", "p95", "p99",
         "makespan", "busy", "moving", "decisions"],
        ["strict_fair", "33.0 s [26.3, 41.4]", "", "22.0", "61.6", "65.1", "100",
         "30 %", "10 %", "1,500"],
        ["fifo", "16.5 s [13.2, 20.7]", "-50.0 % [-50.0, -50.0]", "11.0", "30.8", "32.6",
         "50 (2 unfinished, 1 not arrived)", "30 %", "10 %", "1,500"],
    ]  # fmt: skip


def test_the_json_of_an_evaluation_by_hand() -> None:
    report = report_of(three("strict_fair", 1.0), three("fifo", 0.5))
    found = report._policy_json("fifo")
    assert found["avg_jct_s"]["mean"] == pytest.approx(16.5)
    assert found["avg_jct_s"]["ci95"] == mean_of(np.array([15.0, 16.5, 18.0])).ci95
    assert found["difference_to_first"]["mean_percent"] == pytest.approx(-50.0)
    sums = ("busy_executor_s", "moving_executor_s", "idle_executor_s", "first_executor_s",
            "inflation_executor_s", "jobs", "task_events", "decisions", "forced")  # fmt: skip
    assert [found[name] for name in sums] == [2250, 750, 4500, 300, 150, 9, 1200, 1500, 3]
    assert [found[f"{name}_jct_s"]["per_sequence"][0] for name in ("median", "p95", "p99")] == [
        10.0, pytest.approx(28.0), pytest.approx(29.6),
    ]  # fmt: skip
    assert found["avg_slowdown"]["per_sequence"] == pytest.approx([2.0, 7 / 3, 8 / 3])
    assert found["fairness"]["per_sequence"] == pytest.approx([36 / 42, 49 / 63, 64 / 90])
    assert found["utilisation"]["mean"] == pytest.approx(0.3)
    assert found["makespan_s"]["mean"] == pytest.approx(50.0)
    late = report_of(three("fifo", 0.5, not_arrived=2))._policy_json("fifo")
    assert (late["jobs"], late["not_arrived"]) == (9, 6)
    assert report.timings_json()["cpu_s"]["fifo"] == {"policy": 0.75, "environment": 1.5}


def test_a_difference_is_that_of_the_averages() -> None:
    """20, 20.33 and 20.67 s against 30, 33 and 36 s; the medians are 20 s against 20, 22, 24 s."""
    other = [run_of("fifo", n, 1.0, jct_s=np.array([10.0, 20.0, 30.0 + n])) for n in range(3)]
    report = report_of(three("strict_fair", 1.0), other)
    expected = difference_percent(np.array([60, 61, 62]) / 3, np.array([30.0, 33.0, 36.0]))
    assert expected.mean == pytest.approx(-38.38, abs=0.01)
    assert report.difference("fifo").mean == pytest.approx(expected.mean)
    found = report._policy_json("fifo")["difference_to_first"]
    assert found["mean_percent"] == pytest.approx(expected.mean)
    assert found["ci95_percent"] == pytest.approx(expected.ci95)


def test_intervals_of_shares_end_where_shares_do() -> None:
    """Jain's index of two sequences: 1 and 0.4, whose interval as of times would end beyond 1."""
    runs = [
        run_of("fifo", number, 1.0, slowdown=np.array(slowdown))
        for number, slowdown in enumerate(([1.0, 1.0, 1.0], [1.0, 1.0, 13.0]))
    ]
    found = report_of(runs)._policy_json("fifo")["fairness"]
    low, high = found["ci95"]
    assert 0.0 <= low < found["mean"] < high == 1.0
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
    assert text(report.table())[1:] == [
        ["strict_fair", "30.0 s", "", "20.0", "56.0", "59.2", "100", "30 %", "10 %", "1,500"],
        ["fifo", "15.0 s", "-50.0 %", "10.0", "28.0", "29.6", "50", "30 %", "10 %", "1,500"],
    ]
    assert report._policy_json("fifo")["difference_to_first"]["ci95_percent"] is None
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
    found = report_of(three("strict_fair", 1.0, classes=classes)).class_table()
    assert found is not None
    assert text(found) == [
        ["busy, memory idle meanwhile", "2 of 4 GB", "1 of 8 GB"],
        ["strict_fair", "25%, 50%", "80%, 25%"],
    ]


def test_the_page_counts_settings_and_shares_of_time() -> None:
    """b is lower for certain in one setting and higher in another; over both it is level."""
    lower = results_json(avg_jct_s={"a": [10.0, 12.0], "b": [5.0, 6.0]})
    higher = results_json(avg_jct_s={"a": [10.0, 12.0], "b": [20.0, 24.0]})
    unsure = results_json(avg_jct_s={"a": [10.0, 12.0], "b": [8.0, 14.0]})
    found = summary([results_of(one, "here") for one in (lower, higher, unsure)])
    assert found["b"][0] == pytest.approx(0.0)
    assert found["b"][1:] == (1, 1)
    mean = summary([results_of(one, "here") for one in (lower, unsure)])["b"][0]
    assert mean == pytest.approx(100 * (0.5**0.5 - 1))
    shares = executor_time(results_of(lower, "here"))["a"]
    assert shares == {"work": 0.4, "first tasks": 0.2, "moving": 0.1, "idle": pytest.approx(0.3)}


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
    cells = {cell.figure: cell for cell in page_table(results)["b"]}
    against = cells["p99_jct_s"].against
    assert against is not None
    assert against == difference_percent(np.array(one["b"]), np.array(one["a"]))
    assert cells["p99_jct_s"].estimate == mean_of(np.array(one["b"]))
    assert all(cell.against is None for cell in page_table(results)["a"])
