"""What-if findings, tables and caveats from figures made by hand, nothing simulated."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from decima.report.whatif import whatif_section
from decima.whatif import Result, SizeResult, WhatIf, WhatIfSettings
from decima.whatif.advice import advised, caveats, findings
from decima.whatif.changes import AllocationChange, PoolChange
from decima.whatif.load import (
    by_length,
    known_share,
    offered_load,
    recorded_avg_s,
    recorded_slots,
    span_s,
)
from decima.whatif.replay import Recording, ReplayReport
from decima.whatif.replay.pools import Pool
from decima.whatif.replay.report import can_be_trusted, verdict
from decima.whatif.report import summary_table, to_json
from spark_sim import Allocation
from tests.commands import cells_of
from tests.recordings import recording
from tests.stories import stage
from traces import Job
from traces.numbers import Float64
from traces.spark_log import ImportSummary
from traces.spark_log.assemble import UNFINISHED

ALONE_S = np.array([1.0, 2.0, 4.0, 8.0, 16.0, 29.0])
"""six jobs; 10 s on average"""
DRAWS = np.array([0.98, 1.0, 1.02])


def recorded() -> Recording:
    """Six jobs of one application on 8 slots, 60 s from the first submission to the last end."""
    jobs = [
        Job(f"job {k}", (stage("s", 8, 1000.0 * alone_s),), arrival_ms=6000.0 * k)
        for k, alone_s in enumerate(ALONE_S)
    ]
    made = recording(*jobs, slots=8)
    ends_ms = [2_000.0, 9_000.0, 17_000.0, 30_000.0, 50_000.0, 60_000.0]
    for row, end_ms in zip(made.trace.metadata["recorded"].values(), ends_ms, strict=True):
        row["end_ms"] = end_ms
    return made


def result(
    times_s: Sequence[float] | Float64, resampled_s: Sequence[float], draws: Float64
) -> Result:
    """Times of each job in the mean draw, and averages of three resampled sequences."""
    resampled = np.array(resampled_s)
    return Result(draws[:, None] * np.array(times_s), resampled, 2 * resampled)


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
        sizes[size] = SizeResult(Result(alone_s), tuned or {}, results)
    return WhatIf(recorded(), said, sizes)


def checked(factor: float = 1.0, record: Recording | None = None) -> ReplayReport:
    """A replay in which every job takes `factor` times as long as recorded."""
    made = record or recorded()
    recorded_s = made.recorded_ms / 1000
    count = len(recorded_s)
    return ReplayReport(
        made, ("fifo",), (8,), recorded_s, factor * recorded_s, np.full(count, 0.25),
        0.5 * recorded_s, np.arange(count) % 2 == 0,
    )  # fmt: skip


TUNED = {"tuned_srw": {"factor": 1.25, "jobs_power": 1.0, "work_power": 0.2}}


def test_the_verdict_who_gains_and_how() -> None:
    """20, 19 and 14.67 s recorded, 21, 19.97 and 15.73 s resampled."""
    verdict, who, how = findings(what_was_found(tuned=TUNED), checked())
    assert verdict.startswith(
        "tuned_srw instead of fifo: average JCT -27 % [-30, -23] (resampled: -25 % [-27, -24]); "
        "the slowest jobs pay, p95 +6 % [+1, +12]."
    )
    assert "50 % [48, 53]" in verdict  # waiting
    assert "short jobs -75 %, middle jobs -58 %, long jobs -3 %" in who
    assert "Of 6 jobs, 5 end clearly earlier, 1 clearly later" in who
    call = re.search(r"decima\.spark\.attach\(spark, (.*?)\), at first", how)
    assert call is not None
    parsed = ast.parse(f"attach({call[1]})", mode="eval").body
    assert isinstance(parsed, ast.Call)
    arguments = {word.arg: ast.literal_eval(word.value) for word in parsed.keywords}
    assert arguments == {"policy": "tuned_srw", "parameters": TUNED["tuned_srw"]}
    apart = findings(what_was_found(tuned=TUNED, protocol="executors"), checked())
    assert not any("attach(" in words for words in apart)


def test_who_gains_counts_jobs_beyond_a_tenth() -> None:
    """Of six: 9 % earlier and later are neither."""
    fifo, fair = [20.0] * 6, [10.0, 16.0, 18.34, 21.8, 22.4, 20.0]
    rows = {"fifo": (fifo, [20.0, 22.0, 21.0]), "spark_fair": (fair, [18.0, 19.7, 19.0])}
    _, who, _ = findings(what_was_found(policies=rows), checked())
    assert "2 end clearly earlier, 1 clearly later" in who


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
        study = what_was_found(policies={"fifo": fifo, "spark_fair": (recorded_s, resampled_s)})
        assert study.best() == best
    # Recorded draws of the other policy that are lower on average and higher in one of three.
    study = what_was_found(policies={"fifo": fifo, "spark_fair": ([9.0] * 6, sure)})
    results = dict(study.main.policies)
    uneven_s = np.array([[8.0], [12.0], [8.5]]) * np.ones(6)
    results["spark_fair"] = replace(results["spark_fair"], jct_s=uneven_s)
    main = replace(study.main, policies=results)
    assert replace(study, sizes={**study.sizes, 8: main}).best() is None


def test_identical_draws_leave_it_to_the_resampled_arrivals() -> None:
    fifo, once = ([10.0] * 6, [20.0, 22.0, 21.0]), np.ones(3)
    for resampled_s, best in (([18.0, 19.6, 18.9], "spark_fair"), ([18.0, 23.0, 19.0], None)):
        policies = {"fifo": fifo, "spark_fair": ([9.0] * 6, resampled_s)}
        study = what_was_found(policies=policies, draws=once)
        assert study.has_repeats
        assert study.best() == best
        assert "3 draws of task durations are identical" in doubts(study)
        fair = to_json(study)["sizes"]["8"]["policies"]["spark_fair"]["recorded"]["avg_jct_s"]
        assert fair["ci95"] is fair["difference_percent"]["ci95"] is None
    worse = {"fifo": fifo, "spark_fair": ([11.0] * 6, [18.0, 19.6, 18.9])}
    assert what_was_found(policies=worse, draws=once).best() is None


@pytest.mark.parametrize(
    ("ahead", "best"), [(0.005, "spark_fair"), (0.015, "spark_fair"), (0.025, "tuned_srw")]
)
def test_a_setting_of_spark_is_preferred_within_two_percent(ahead: float, best: str) -> None:
    """In a session; between applications no setting gives either."""
    fair = ([9.0] * 6, [18.0, 19.7, 19.0])
    other = ([9.0 * (1 - ahead)] * 6, [average_s * (1 - ahead) for average_s in fair[1]])
    three = {"fifo": ([10.0] * 6, [20.0, 22.0, 21.0]), "spark_fair": fair, "tuned_srw": other}
    assert what_was_found(policies=three).best() == best
    assert what_was_found(policies=three, protocol="executors").best() == "tuned_srw"


def test_where_waiting_may_matter_it_is_not_called_nothing() -> None:
    """3 % on average, and up to 16 %: the upper end decides; with 1 to 3 % there is nothing."""
    for widths, is_nothing in (([-0.02, 0.0, 0.02], False), ([-0.004, 0.0, 0.004], True)):
        both = {
            "fifo": ([10.3] * 6, [20.0, 22.0, 21.0]),
            "tuned_srw": ([10.0] * 6, [15.0, 16.6, 15.6]),
        }
        study = what_was_found(policies=both)
        alone_s = study.reference.jct_s * (0.97 + np.array(widths))[:, None]
        main = replace(study.main, alone=Result(alone_s))
        words, *_ = findings(replace(study, sizes={**study.sizes, 8: main}), checked())
        assert ("tuned_srw instead of fifo" in words) != is_nothing
        assert ("Next to nothing to gain" in words) == is_nothing
        assert ("at most 4 %" if is_nothing else "3 % [1, 16]") in words


@pytest.mark.parametrize(
    ("factor", "is_trusted"),
    [(1.0, True), (1.17, True), (1.19, False), (0.83, True), (0.81, False)],
)
def test_nothing_is_recommended_beyond_18_percent(factor: float, is_trusted: bool) -> None:
    assert can_be_trusted(checked(factor)) == is_trusted
    first, *others = findings(what_was_found(), checked(factor))
    assert ("tuned_srw" in first) == is_trusted
    assert bool(others) == bool([*advised(what_was_found(), checked(factor))]) == is_trusted
    percent = 100 * (factor - 1)
    off = f"({abs(percent):.0f} % off in the median, {percent:+.0f} % on average)"
    assert (off in first) != is_trusted


def test_the_table_of_a_what_if() -> None:
    """Fair sharing in pools gives 19, the slots that never go 18 s."""
    study = what_was_found()
    pools = PoolChange("etl", Pool(weight=4), "weight 4"), study.policies["spark_fair"]
    study = replace(study, pools=pools, all_slots=Result(0.9 * study.reference.jct_s))
    assert cells_of(summary_table(study)) == [
        ["policy", "average JCT", "vs fifo", "resampled", "p95 change", "4 slots", "16 slots"],
        ["fifo", "20.0 s", "", "", "", "+200 %", "-40 %"],
        ["spark_fair", "19.0 s", "-5 % [-7, -3]", "-5 % [-6, -3]", "+4 %", "+201 %", "-40 %"],
        ["tuned_srw", "14.7 s", "-27 % [-30, -23]", "-25 % [-27, -24]", "+6 %", "+201 %", "-40 %"],
        ["weight 4 for pool 'etl'", "19.0 s", "-5 % [-7, -3]", "-5 % [-6, -3]", "+4 %", "", ""],
        ["fifo, slots never go", "18.0 s", "-10 % [-10, -10]", "", "-10 %", "", ""],
        ["no other jobs", "10.0 s", "-50 % [-52, -47]", "", "-36 %", "+100 %", "0 %"],
    ]


def test_the_json_and_the_page_of_a_what_if() -> None:
    """Each interval from its lower to its upper end."""
    study = what_was_found()
    size = to_json(study)["sizes"]["8"]
    assert size["load"] == pytest.approx(1.0)
    assert size["alone_s"] == pytest.approx((1 + 2 * 0.02**2 / 3) * ALONE_S)
    own = size["policies"]["tuned_srw"]["recorded"]["avg_jct_s"]
    result = study.policies["tuned_srw"]
    assert own["mean"] == pytest.approx(result.avg_s.mean())
    assert own["each"] == result.avg_s.tolist()
    each_s = size["policies"]["tuned_srw"]["jct_s"]
    assert each_s == pytest.approx(result.by_job_s)
    assert each_s != pytest.approx(result.jct_s[0])
    low, high = own["difference_percent"]["ci95"]
    assert low < own["difference_percent"]["mean"] < high < 0
    content = whatif_section(study, checked()).content
    cells = content["policies"]["tuned_srw"]
    assert {heading: (cell.text, cell.versus) for heading, cell in cells.items()} == {
        "average": ("14.7 s [13.3, 16.2]", "-27 % [-30, -23]"),
        "p95": ("42.5 s [38.5, 47.0]", "+6 % [+1, +12]"),
        "average, resampled arrivals": ("15.7 s [13.8, 17.9]", "-25 % [-27, -24]"),
        "p95, resampled arrivals": ("31.5 s [27.7, 35.8]", "-25 % [-27, -24]"),
    }
    groups = [(label, jobs, *(cell.text for cell in row)) for label, jobs, row in content["groups"]]
    assert groups == [
        ("short", 2, "6.00 s", "3.50 s", "1.50 s", "1.50 s"),
        ("middle", 2, "18.0 s", "16.0 s", "7.50 s", "6.00 s"),
        ("long", 2, "36.0 s", "37.5 s", "35.0 s", "22.5 s"),
    ]


def test_sizes_share_the_first_four_draws() -> None:
    """Of six: the last two, ten times as long, are of one size alone."""
    study = what_was_found(draws=np.array([0.98, 1.0, 1.02, 1.0, 10.0, 10.0]))
    for name in ("fifo", None):
        assert len(study.shared_avg_s(8, name)) == 4
    assert study.shared_avg_s(8, "fifo").mean() == pytest.approx(20.0)
    assert cells_of(summary_table(study))[1][-2:] == ["+200 %", "-40 %"]


def test_facts_of_a_recording_by_hand() -> None:
    """480 executor-seconds of work in 60 s are 8 slots; jobs took 2, 3, 5, 12, 26 and 30 s."""
    made = recorded()
    assert span_s(made) == 60.0
    assert [offered_load(made, slots) for slots in (4, 8, 16)] == [2.0, 1.0, 0.5]
    assert recorded_slots(made) == 8
    assert recorded_avg_s(made) == pytest.approx(13.0)
    assert known_share(made) == 0.0
    groups = by_length(ALONE_S[::-1])
    assert {label: rows.tolist() for label, rows in groups.items()} == {
        "short": [5, 4], "middle": [3, 2], "long": [1, 0],
    }  # fmt: skip


def doubts(study: WhatIf, factor: float = 1.0) -> str:
    return " ".join(caveats(study, checked(factor)))


def test_caveats_come_where_they_should(monkeypatch: pytest.MonkeyPatch) -> None:
    study = what_was_found()
    words = doubts(study)
    for part in (
        "6 jobs are few: one long job moves the averages, and the p95",
        "tuned_srw knows here how long tasks take",
        "0 % of the jobs are further runs",
        "On more slots than recorded",
        "4 slots could not keep up",
    ):
        assert part in words
    for part in ("identical", "came right after another", "had not ended", "missing", "inferred"):
        assert part not in words
    assert "knows here how" not in doubts(study, 1.5), "nothing is recommended then"
    assert "knows here how" not in doubts(what_was_found(estimates="none"))
    assert "On more slots than recorded" not in doubts(what_was_found(executors=4))
    moving = doubts(what_was_found(protocol="executors"))
    assert "One takes 2 s to start in another application and 1 s longer" in moving
    cut = ImportSummary(unused_jobs=Counter({UNFINISHED: 1}), parts_missing=2, slots_inferred=1)
    other = replace(study, recording=replace(study.recording, summary=cut))
    assert "1 job had not ended" in doubts(other)
    assert "2 parts of the recorded logs are missing" in doubts(other)
    assert "The slots of 1 application had to be inferred" in doubts(other)
    assert "parts of the logs are missing" in verdict(replace(checked(), recording=other.recording))
    monkeypatch.setattr("decima.whatif.load.waiting_share", lambda _: 0.51)
    assert "51 % of the jobs came right after another had ended" in doubts(study)


@pytest.mark.parametrize(
    ("factor", "executors", "piles_up"), [(3.0, 8, True), (1.9, 8, False), (3.0, 17, False)]
)
def test_half_the_slots_pile_up_where_work_exceeds_them_and_times_double(
    factor: float, executors: int, piles_up: bool
) -> None:
    """8 slots are busy 100 % of the time, so 4 have twice what they can do."""
    study = what_was_found(executors=executors)
    half = study.sizes[executors // 2]
    results = {name: Result(factor / 3.0 * result.jct_s) for name, result in half.policies.items()}
    sizes = {**study.sizes, executors // 2: replace(half, policies=results)}
    assert ("could not keep up" in doubts(replace(study, sizes=sizes))) == piles_up


def test_a_change_of_a_setting_must_be_lower_for_certain() -> None:
    """20 s on average before: 15 s in every draw is certain, 17 s with a spread is not."""
    spread = np.array([-1.2, -0.4, 1.0])  # of three draws: its interval holds 0
    lower_s, lower_too_s = np.array([15.0, 15.1, 14.9]), np.array([16.0, 17.0, 16.5])
    unsure_s, unsure_too_s = 18.0 + 4 * spread, 19.0 + 4 * spread
    outcome = what_was_found(draws=np.array([1.0, 1.001, 0.999]))
    change = PoolChange("etl", Pool(weight=4), "weight 4")
    held_s = np.array([100.0, 101.0, 99.0])
    rules = Allocation(slots_each=1, least=0, most=4, first=1, present=1)
    base = Result(np.array([[20.0], [20.1], [19.9]]), np.array([21.0, 20.9, 21.1]), held_s=held_s)
    for recorded_s, resampled_s, is_sure in (
        (lower_s, lower_too_s, True),
        (unsure_s, lower_too_s, False),
        (lower_s, unsure_too_s, False),
    ):
        result = Result(recorded_s[:, None], resampled_s, held_s=held_s)
        study = replace(outcome, pools=(change, result))
        assert (study.best_pool_change() is not None) == is_sure
        changes = [change.words for change in advised(study, checked())]
        assert any(words.startswith("Pools: ") for words in changes) == is_sure
        allocations = (AllocationChange("", rules), base), (AllocationChange("a=1", rules), result)
        study = replace(outcome, allocations=allocations)
        fastest = study.fastest_allocation()
        assert (fastest is not None) == is_sure
