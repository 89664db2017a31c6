"""What a what-if computes and says, on workloads whose best policy is known."""

from __future__ import annotations

import ast
import io
import re
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from decima.registry import HEURISTICS
from decima.report.gantt import unpack
from decima.report.page import page
from decima.report.whatif import waiting_section, whatif_section, whatif_sections
from decima.rl.parallel.local import LocalPool
from decima.training.descent import Found
from decima.whatif import WhatIf, WhatIfSettings, what_if
from decima.whatif.advice import best_policy, findings
from decima.whatif.caveats import caveats
from decima.whatif.jobs import compared_policy, job_changes
from decima.whatif.load import by_length, known_share
from decima.whatif.replay import ReplaySettings, replay
from decima.whatif.replay.report import verdict
from decima.whatif.replay.workload import ReplayWorkload
from decima.whatif.report import sizes_table, to_json, tuned_lines
from decima.whatif.resample import resampled
from decima.whatif.study import PolicyResult, total_runs
from tests.recordings import FAST, course, exact, never_meeting, recording, short_behind_long
from traces.spark_log import ImportSummary
from traces.spark_log.assemble import UNFINISHED


@pytest.fixture(scope="module")
def contended() -> WhatIf:
    return what_if(short_behind_long(), FAST)


@pytest.fixture(scope="module")
def uncertain() -> WhatIf:
    """The same where tasks of a stage differ, so that draws do."""
    settings = replace(FAST, policies=("fifo", "spark_fair", "tuned_srw"))
    return what_if(short_behind_long(is_varied=True), settings)


def test_draws_that_are_identical_are_evidence_of_one(contended: WhatIf, uncertain: WhatIf) -> None:
    """All tasks of a stage take equally long: no interval, and it is said. Others have one."""
    said = "3 draws of task durations are identical"
    for found, is_repeated in ((contended, True), (uncertain, False)):
        assert found.has_repeats == is_repeated
        figures = to_json(found)["sizes"]["4"]["policies"]["spark_fair"]["recorded"]["avg_jct_s"]
        assert (figures["ci95"] is None) == is_repeated
        assert (figures["difference_percent"]["ci95"] is None) == is_repeated
        assert any(said in line for line in caveats(found, exact(found))) == is_repeated
        words = " ".join(findings(found, exact(found)))
        best = re.search(
            r"Average JCT -\d+ % (\[.*?\] )?with the recorded arrivals, (\S* % .)", words
        )
        assert best is not None
        assert (best[1] is None) == is_repeated
        assert best[2].endswith("[")


@pytest.mark.parametrize("resampled", [(1.0, 0.5, 2.0), (2.0, 2.1, 2.2)])
def test_identical_draws_alone_recommend_nothing(
    contended: WhatIf, resampled: tuple[float, ...]
) -> None:
    """Where the resampled sequences are not certain, or say the opposite."""
    fifo = contended.main.policies["fifo"]
    other = replace(fifo, recorded_jct_s=0.5 * fifo.recorded_jct_s)
    settings = replace(contended.settings, policies=("fifo", "spark_fair"))
    for factors, best in ((resampled, None), ((0.5, 0.6, 0.7), "spark_fair")):
        times_s = fifo.resampled_avg_s * np.resize(factors, len(fifo.resampled_avg_s))
        policies = {"fifo": fifo, "spark_fair": replace(other, resampled_avg_s=times_s)}
        main = replace(contended.main, policies=policies)
        found = replace(contended, settings=settings, sizes={**contended.sizes, 4: main})
        assert best_policy(found) == best


def test_fair_sharing_saves_short_jobs_from_long_ones(contended: WhatIf) -> None:
    """FIFO lets a short job wait for a long one's 10 s, fair sharing for one task's 1 s."""
    groups = by_length(contended.main.alone_s)
    fifo = contended.main.policies["fifo"].recorded_jct_s.mean(axis=0)
    fair = contended.main.policies["spark_fair"].recorded_jct_s.mean(axis=0)
    assert contended.main.alone_s[groups["short"]].tolist() == pytest.approx([0.2] * 8)
    assert fifo[groups["short"]].mean() > 2.0
    assert fair[groups["short"]].max() < 1.5
    # Letting short jobs go first saves them from each other, too.
    assert best_policy(contended) in ("tuned_srw", "es_rule", "decima")


def test_a_learned_policy_saves_short_jobs_too() -> None:
    """By name, in a shared session: the package's model for sessions; a missing file is refused."""
    settings = replace(FAST, policies=("fifo", "decima"), sequences=2)
    found = what_if(short_behind_long(), settings)
    short = by_length(found.main.alone_s)["short"]
    learned = found.main.policies["decima"].recorded_jct_s.mean(axis=0)
    fifo = found.main.policies["fifo"].recorded_jct_s.mean(axis=0)
    assert learned[short].mean() < 0.5 * fifo[short].mean()
    assert "decima" not in found.main.tuned
    with pytest.raises(ValueError, match=r"none\.safetensors"):
        what_if(short_behind_long(), replace(FAST, policies=("none.safetensors",)))


def test_the_summary_names_the_best_policy_and_who_wins(contended: WhatIf) -> None:
    """It says how much waiting there is, what to change, for whom, and what slots would do."""
    words = " ".join(findings(contended, exact(contended)))
    assert "Waiting for others is" in words
    assert f"What would change most: {best_policy(contended)} instead of fifo" in words
    assert "short jobs -" in words
    assert "on 2 (" in words
    assert "on 8 (" in words


def test_the_advice_says_how_to_attach_what_it_recommends(contended: WhatIf) -> None:
    """A line that `attach` takes, with the parameters that were fitted; not for one of Spark's."""
    settings = replace(FAST, policies=("fifo", "tuned_srw"))
    found = what_if(short_behind_long(), settings)
    how = next(words for words in findings(found, exact(found)) if words.startswith("How: "))
    call = re.search(r"decima\.spark\.attach\(spark, (.*?)\), at first", how)
    assert call is not None
    parsed = ast.parse(f"attach({call[1]})", mode="eval").body
    assert isinstance(parsed, ast.Call)
    arguments = {word.arg: ast.literal_eval(word.value) for word in parsed.keywords}
    assert arguments == {"policy": "tuned_srw", "parameters": dict(found.main.tuned["tuned_srw"])}
    apart = replace(settings, protocol="executors")
    assert not any(
        "attach(" in words for words in findings(replace(found, settings=apart), exact(found))
    )


def test_jobs_that_gain_come_first_and_each_keeps_its_name(contended: WhatIf) -> None:
    """Short jobs behind a long one gain under a fair policy, what the long one loses."""
    policy = compared_policy(contended)
    assert policy is not None
    changes = job_changes(contended, policy)
    assert [one.change_s for one in changes] == sorted(one.change_s for one in changes)
    assert {one.name for one in changes} == {job.name for job in contended.recording.trace.jobs}
    assert changes[0].is_sooner
    assert not changes[0].is_later
    average_s = contended.main.policies[policy].avg_s.mean()
    reference_s = contended.main.policies[contended.settings.reference].avg_s.mean()
    mean_change_s = np.mean([one.change_s for one in changes])
    assert mean_change_s == pytest.approx(average_s - reference_s)
    assert min(one.submitted_s for one in changes) == 0.0


def test_the_page_names_the_jobs_and_explains_the_policies(contended: WhatIf) -> None:
    text = page([whatif_section(contended, exact(contended), [])], title="t", command="c")
    policy = compared_policy(contended)
    assert f"Under {policy}, " in text
    for one in contended.recording.trace.jobs:
        assert f'<th scope="row">{one.name}</th>' in text
    for name in contended.settings.policies:
        assert f"<dt>{name}</dt><dd>" in text


def test_the_page_shows_every_task_under_both_policies(contended: WhatIf) -> None:
    """Tasks of the first draw: the last of a job ends when the job does."""
    policy = compared_policy(contended)
    section = waiting_section(contended, exact(contended))
    assert section is not None
    assert [run["policy"] for run in section.timelines] == [contended.settings.reference, policy]
    tasks = sum(job.num_tasks for job in contended.recording.trace.jobs)
    after_ms = [record.after_ms for record in contended.recording.driver]
    for run in section.timelines:
        assert (run["tasks"], run["executors"]) == (tasks, contended.settings.executors)
        jct_s = contended.main.policies[run["policy"]].recorded_jct_s[0]
        drawn = unpack(run)
        stage_job = np.array(run["stages"]["job"])
        for row, place in enumerate(np.argsort(contended.recording.arrival_ms, kind="stable")):
            last_ms = drawn.finish_ms[stage_job[drawn.stage] == row].max() + after_ms[place]
            ended_ms = contended.recording.arrival_ms[place] + 1000 * jct_s[place]
            assert last_ms == pytest.approx(ended_ms, abs=1.0)
    text = page(whatif_sections(contended, exact(contended), []), title="t", command="c")
    assert f"under {policy}. Choose a job" in text


def test_spark_with_its_pools_is_not_called_a_learned_policy() -> None:
    found = what_if(short_behind_long(), replace(FAST, policies=("spark_pools", "fifo")))
    summaries = whatif_section(found, exact(found), []).content["summaries"]
    assert "pools of the recording" in summaries["spark_pools"]
    assert len(set(summaries.values())) == 2


def test_no_policy_beats_a_job_that_is_alone(contended: WhatIf) -> None:
    """The time without other jobs is a bound: tasks take the same time under every policy."""
    for size in contended.sizes.values():
        for result in size.policies.values():
            assert (result.recorded_jct_s.mean(axis=0) >= size.alone_s - 1e-9).all()


def test_sizes_are_compared_in_the_draws_that_all_have() -> None:
    """Of six draws at four slots, the two that no other size has say nothing of sizes; a job alone
    has all six, as the policies that it is compared with."""
    settings = replace(FAST, policies=("fifo", "spark_fair"), draws=6, sequences=2)
    found = what_if(short_behind_long(is_varied=True), settings)
    draws = {n: len(size.policies["fifo"].avg_s) for n, size in found.sizes.items()}
    assert draws == {2: 4, 4: 6, 8: 4}
    assert draws == {n: len(size.alone_avg_s) for n, size in found.sizes.items()}
    shared_s = found.main.policies["fifo"].avg_s[:4]
    assert found.shared_avg_s(4, "fifo").tolist() == shared_s.tolist()

    slow = {name: with_slow_draws(one) for name, one in found.main.policies.items()}
    main = replace(found.main, policies=slow)
    other = replace(found, sizes={**found.sizes, 4: main})
    lines = [of_sizes(one) for one in (found, other)]
    assert lines[0] == lines[1]
    assert re.search(r"on 2 \(\+\d+ % \[[+-]?\d+, \+\d+\]\)", lines[0])


def with_slow_draws(result: PolicyResult) -> PolicyResult:
    """All but the first four draws take a hundred times as long."""
    factors = np.where(np.arange(len(result.recorded_jct_s)) < 4, 1.0, 100.0)
    return replace(result, recorded_jct_s=result.recorded_jct_s * factors[:, None])


def of_sizes(found: WhatIf) -> str:
    """What is said of numbers of slots, and their table."""
    words = [one for one in findings(found, exact(found)) if "on 2" in one]
    console = Console(width=120, file=io.StringIO())
    console.print(sizes_table(found))
    assert isinstance(console.file, io.StringIO)
    return "\n".join((*words, console.file.getvalue()))


def test_what_waiting_costs_has_an_interval(uncertain: WhatIf) -> None:
    """Of the same draws with other jobs and without."""
    words = next(iter(findings(uncertain, exact(uncertain))))
    found = re.search(r"Waiting for others is (\d+) % \[(\d+), (\d+)\] of it", words)
    assert found is not None
    share, low, high = map(int, found.groups())
    assert low <= share <= high
    assert low < high
    main = uncertain.main
    part = 1 - main.alone_avg_s.mean() / main.policies["fifo"].avg_s.mean()
    assert share == round(100 * part)


def test_where_jobs_never_meet_there_is_nothing_to_gain() -> None:
    """The summary says so, names no policy, and warns of how few jobs there are."""
    found = what_if(never_meeting(), FAST)
    words = " ".join(findings(found, exact(found)))
    assert "next to nothing to gain" in words
    assert "What would change most" not in words
    check = replay(found.recording, ReplaySettings(draws=1))
    assert any("6 jobs are few" in line for line in caveats(found, check))


def test_a_check_of_large_bias_is_a_caveat() -> None:
    """One of six jobs is three times too long: the median is 0, and the average is off."""
    found = what_if(never_meeting(), FAST)
    check = replay(found.recording, ReplaySettings(draws=1))
    said = "The replay itself is 0 % off the recorded durations (median), +33 % on average"
    assert not any(said in line for line in caveats(found, check))
    off_s = check.recorded_s * [1, 1, 1, 1, 1, 3]
    assert any(said in line for line in caveats(found, replace(check, simulated_s=off_s)))


def test_nothing_is_recommended_where_the_replay_fails(contended: WhatIf) -> None:
    """Which the summary says in place of a policy; up to twice the aim it is a caveat."""
    check = exact(contended)
    for factor, is_said in ((1.15, False), (1.3, True)):
        off = replace(check, simulated_s=factor * check.recorded_s)
        words = " ".join(findings(contended, off))
        assert ("No policy is recommended" in words) == is_said
        assert ("What would change most" in words) != is_said
        assert any("The replay itself is" in line for line in caveats(contended, off))
        text = page(whatif_sections(contended, off, []), title="t", command="c")
        assert ("Jobs that gain and lose" in text) != is_said
        assert ("Which jobs wait for which" in text) != is_said


def test_one_policy_is_called_best_and_none_that_was_not_compared(contended: WhatIf) -> None:
    """At every size the recommended one, where it is as good; one alone is best of nothing."""
    best = best_policy(contended)
    words = next(
        line for line in findings(contended, exact(contended)) if line.startswith("Lowest average")
    )
    assert all(f"on {size} {best} (" in words for size in contended.sizes)
    alone = what_if(short_behind_long(8), replace(FAST, policies=("tuned_srw",), draws=1))
    said = " ".join(findings(alone, exact(alone)))
    assert "better" not in said
    assert "Lowest average" not in said
    # fair sharing is the reference: what is worse than it is no reason to call policies equal
    fair = what_if(short_behind_long(), replace(FAST, policies=("spark_fair", "fifo")))
    assert "is a policy surely better than spark_fair." in " ".join(findings(fair, exact(fair)))


def test_one_draw_or_sequence_says_nothing_for_certain() -> None:
    """It has no interval."""
    settings = replace(FAST, policies=("fifo", "spark_fair"))
    for few in (replace(settings, draws=1), replace(settings, sequences=1)):
        assert best_policy(what_if(short_behind_long(), few)) is None
    assert best_policy(what_if(short_behind_long(), settings)) == "spark_fair"


def test_what_a_setting_of_spark_gives_by_itself_is_said(contended: WhatIf) -> None:
    """Beside what must be attached."""
    words = " ".join(findings(contended, exact(contended)))
    assert "spark_fair, which is a setting of Spark, gives -" in words


def test_jobs_that_had_not_ended_are_a_caveat(contended: WhatIf) -> None:
    """They are missing from all figures, and are those that waited longest."""
    recorded = contended.recording
    assert not any("had not ended" in line for line in caveats(contended, exact(contended)))
    cut = ImportSummary(unused_jobs=Counter({UNFINISHED: 3, "failed": 1}))
    found = replace(contended, recording=replace(recorded, summary=cut))
    assert any("3 jobs had not ended" in line for line in caveats(found, exact(found)))
    assert list(cut.left_out()) == [f"Left out, {UNFINISHED}: 3 jobs.", "Left out, failed: 1 job."]


def test_missing_parts_and_inferred_slots_are_caveats(contended: WhatIf) -> None:
    """The replay repeats what is left of the logs; that is not all that was recorded."""
    check = exact(contended)
    cut = ImportSummary(parts_missing=2, slots_inferred=1)
    found = replace(contended, recording=replace(contended.recording, summary=cut))
    said = " ".join(set(caveats(found, check)) - set(caveats(contended, check)))
    assert "2 parts of the recorded logs are missing" in said
    assert "The slots of 1 application had to be inferred" in said
    assert verdict(check).endswith("can be relied on.")
    assert "but parts of the logs are missing" in verdict(replace(check, recording=found.recording))


@pytest.mark.parametrize("at_once", [True, False])
def test_jobs_of_applications_that_ran_at_once_have_no_scheduler(
    contended: WhatIf, at_once: bool
) -> None:
    """No attached driver orders those of another; nightly runs of one are another matter."""
    trace = contended.recording.trace
    application = dict(trace.metadata["applications"][0])
    half = len(trace.jobs) // 2
    recorded = {
        name: {**facts, "application": number % 2 if at_once else number // half}
        for number, (name, facts) in enumerate(trace.metadata["recorded"].items())
    }
    metadata = {**trace.metadata, "recorded": recorded, "applications": [application] * 2}
    both = replace(contended.recording, trace=replace(trace, metadata=metadata))
    found = replace(contended, recording=both)
    words = " ".join(findings(found, exact(found)))
    assert ("How: these jobs came from 2 applications" in words) == at_once
    assert ("attach(" in words) != at_once
    assert any("which they did not" in line for line in caveats(found, exact(found))) == at_once


def test_parameters_that_are_worse_on_other_sequences_are_not_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The shipped ones stay, and are said to be those."""
    shipped = HEURISTICS["tuned_weighted_fair"].defaults
    bad = {**shipped, "limit_factor": 0.05}
    only_bad = lambda searches, _: {key: Found(bad, 0.0, 1) for key in searches}  # noqa: E731
    monkeypatch.setattr("decima.whatif.study.descend_together", only_bad)
    settings = replace(FAST, policies=("fifo", "tuned_weighted_fair"))
    found = what_if(short_behind_long(), settings)
    assert all(size.tuned["tuned_weighted_fair"] == shipped for size in found.sizes.values())
    assert "as shipped" in next(tuned_lines(found))


def test_equal_seeds_give_equal_results() -> None:
    """All randomness comes from the seed."""
    found = [to_json(what_if(short_behind_long(8), FAST)) for _ in range(2)]
    assert found[0] == found[1]


def test_progress_counts_every_run() -> None:
    """The runs told add up to the total announced, so that a bar ends full."""
    told: list[int] = []
    what_if(never_meeting(3), FAST, progress=lambda _, runs: told.append(runs))
    assert sum(told) == total_runs(FAST)


def test_a_learned_policy_in_lockstep_plays_as_one_by_one() -> None:
    """Runs of different lengths side by side give the completion times that each has alone."""
    workload = ReplayWorkload.of(short_behind_long(9))
    cluster = WhatIfSettings(4).cluster(4)
    recorded = workload.recorded()
    later = course(recorded.arrivals.arrival_ms + 5000.0, recorded.arrivals.job)
    runs = [(recorded, 3), (resampled(later, np.random.default_rng(1)), 4)]
    together = workload.learned_jct_s(cluster, "decima", runs)
    for (arrivals, key), found in zip(runs, together, strict=True):
        alone = workload.jct_s(cluster, "decima", arrivals, key)
        np.testing.assert_allclose(found, alone, rtol=1e-12)


def test_what_is_told_of_durations_is_a_setting_and_a_caveat() -> None:
    """Without durations the shortest job is not known; with them, the advice says who knows."""
    settings = replace(FAST, policies=("fifo", "tuned_srw"), sequences=4)
    recorded = short_behind_long()
    runs_of_one = (
        replace(job, name=f"q #{k}") for k, job in enumerate(recorded.trace.jobs, start=1)
    )
    known = what_if(recorded, settings)
    blind = what_if(recorded, replace(settings, estimates="none"))
    fifo_s, srw_s = (
        [found.main.policies[name].avg_s.mean() for found in (known, blind)]
        for name in settings.policies
    )
    assert fifo_s[0] == fifo_s[1]
    assert srw_s[0] < srw_s[1]
    check = exact(known)
    said = [line for line in caveats(known, check) if "knows here how long" in line]
    assert "0 % of the jobs are further runs" in said[0]
    assert not any("knows here how" in line for line in caveats(blind, check))
    assert known_share(recorded) == 0.0
    assert known_share(recording(*runs_of_one)) == pytest.approx(23 / 24)


def test_processes_find_what_one_does() -> None:
    """The grid is played elsewhere, tuning included; so is the check."""
    settings = replace(FAST, policies=("fifo", "tuned_weighted_fair", "decima"), sequences=2)
    recorded = short_behind_long(8)
    with LocalPool(2) as pool:
        found = to_json(what_if(recorded, settings, pool=pool))
        check = replay(recorded, ReplaySettings(draws=2), pool=pool)
    assert found == to_json(what_if(recorded, settings))
    assert check.to_json() == replay(recorded, ReplaySettings(draws=2)).to_json()


def test_one_application_for_each_job_pays_for_moving() -> None:
    """The executors protocol adds 2 s before the first tasks, and 1 s to them."""
    settings = replace(FAST, protocol="executors", policies=("fifo",), draws=1)
    found = what_if(never_meeting(3), settings)
    shared = what_if(never_meeting(3), replace(settings, protocol="session"))
    assert shared.main.alone_s.tolist() == pytest.approx([1.0] * 3)
    assert (found.main.alone_s > 2.9).all()
