"""What a what-if computes and says, on workloads whose best policy is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from decima.registry import HEURISTICS
from decima.report.page import page
from decima.report.timelines import unpack
from decima.report.whatif import compared_policy, waiting_section, whatif_section, whatif_sections
from decima.rl.parallel.local import LocalPool
from decima.training.descent import Best
from decima.whatif import WhatIf, WhatIfSettings, what_if
from decima.whatif.advice import caveats, findings
from decima.whatif.load import by_length, known_share
from decima.whatif.replay import ReplaySettings, replay
from decima.whatif.replay.workload import ReplayWorkload, resampled
from decima.whatif.report import to_json, tuned_lines
from decima.whatif.study import total_runs
from tests.recordings import FAST, course, exact, never_meeting, recording, short_behind_long


@pytest.fixture(scope="module")
def contended() -> WhatIf:
    return what_if(short_behind_long(), FAST)


def test_fair_sharing_saves_short_jobs_from_long_ones(contended: WhatIf) -> None:
    """FIFO lets a short job wait for a long one's 10 s, fair sharing for one task's 1 s."""
    groups = by_length(contended.alone.by_job_s)
    fifo = contended.main.policies["fifo"].by_job_s
    fair = contended.main.policies["spark_fair"].by_job_s
    assert contended.alone.by_job_s[groups["short"]].tolist() == pytest.approx([0.2] * 8)
    assert fifo[groups["short"]].mean() > 2.0
    assert fair[groups["short"]].max() < 1.5
    # Letting short jobs go first saves them from each other, too.
    assert contended.best() in ("tuned_srw", "es_rule", "decima")
    # No policy beats a job that is alone: tasks take the same time under every policy.
    for size in contended.sizes.values():
        for result in size.policies.values():
            assert (result.by_job_s >= size.alone.by_job_s - 1e-9).all()


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
        jct_s = contended.main.policies[run["policy"]].jct_s[0]
        drawn = unpack(run)
        stage_job = np.array(run["stages"]["job"])
        for row, place in enumerate(np.argsort(contended.recording.arrival_ms, kind="stable")):
            last_ms = drawn.finish_ms[stage_job[drawn.stage] == row].max() + after_ms[place]
            ended_ms = contended.recording.arrival_ms[place] + 1000 * jct_s[place]
            assert last_ms == pytest.approx(ended_ms, abs=1.0)
    text = page(whatif_sections(contended, exact(contended)), title="t", command="c")
    assert f"under {policy}. Choose a job" in text


def test_the_page_names_the_jobs_that_gain_first(contended: WhatIf) -> None:
    """Short jobs behind a long one gain what the long one loses; every policy is explained."""
    section = whatif_section(contended, exact(contended))
    jobs, policy = section.content["jobs"], compared_policy(contended)
    assert policy is not None
    assert {row["name"] for row in jobs["rows"]} == {j.name for j in contended.recording.trace.jobs}
    changes_s = [row["cells"][-1]["value"] for row in jobs["rows"]]
    assert changes_s == sorted(changes_s)
    assert changes_s[0] < 0
    difference_s = contended.policies[policy].avg_s.mean() - contended.reference.avg_s.mean()
    assert np.mean(changes_s) == pytest.approx(difference_s)
    assert min(row["cells"][0]["value"] for row in jobs["rows"]) == 0.0
    assert jobs["sooner"] == sum(row["cells"][-1]["value"] < 0 for row in jobs["rows"])
    text = page([section], title="t", command="c")
    assert f"Under {policy}, " in text
    assert all(f"<dt>{name}</dt><dd>" in text for name in contended.settings.policies)


def test_a_page_of_a_replay_that_fails_has_no_advice(contended: WhatIf) -> None:
    check = exact(contended)
    for factor, is_trusted in ((1.15, True), (1.3, False)):
        off = replace(check, simulated_s=factor * check.recorded_s)
        text = page(whatif_sections(contended, off), title="t", command="c")
        assert ("No policy is recommended" in text) != is_trusted
        assert ("Jobs that gain and lose" in text) == is_trusted
        assert ("Which jobs wait for which" in text) == is_trusted


def test_every_size_has_a_job_alone_in_the_draws_of_its_policies() -> None:
    settings = replace(FAST, policies=("fifo", "spark_fair"), draws=6, sequences=2)
    runs: list[int] = []
    study = what_if(
        short_behind_long(is_varied=True), settings, progress=lambda _, count: runs.append(count)
    )
    draws = {n: len(size.policies["fifo"].avg_s) for n, size in study.sizes.items()}
    assert draws == {2: 4, 4: 6, 8: 4}
    assert draws == {n: len(size.alone.avg_s) for n, size in study.sizes.items()}
    assert 0 < sum(runs) <= total_runs(settings)


def test_one_draw_or_sequence_says_nothing_for_certain() -> None:
    settings = replace(FAST, policies=("fifo", "spark_fair"))
    for few in (replace(settings, draws=1), replace(settings, sequences=1)):
        assert what_if(short_behind_long(), few).best() is None
    assert what_if(short_behind_long(), settings).best() == "spark_fair"


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
    together = replace(contended, recording=both)
    words = " ".join(findings(together, exact(together)))
    assert ("How: these jobs came from 2 applications" in words) == at_once
    assert ("attach(" in words) != at_once
    assert (
        any("which they did not" in line for line in caveats(together, exact(together))) == at_once
    )


def test_parameters_that_are_worse_on_other_sequences_are_not_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shipped = HEURISTICS["tuned_weighted_fair"].defaults
    bad = {**shipped, "limit_factor": 0.05}
    only_bad = lambda searches, _: {key: Best(bad, 0.0, 1) for key in searches}  # noqa: E731
    monkeypatch.setattr("decima.whatif.study.descend_together", only_bad)
    settings = replace(FAST, policies=("fifo", "tuned_weighted_fair"))
    study = what_if(short_behind_long(), settings)
    assert all(size.tuned["tuned_weighted_fair"] == shipped for size in study.sizes.values())
    assert "as shipped" in next(tuned_lines(study))


def test_a_learned_policy_in_lockstep_plays_as_one_by_one() -> None:
    """Runs of different lengths side by side give the completion times that each has alone."""
    workload = ReplayWorkload.of(short_behind_long(9))
    cluster = WhatIfSettings(4).cluster(4)
    recorded = workload.recorded()
    later = course(recorded.arrivals.arrival_ms + 5000.0, recorded.arrivals.job)
    runs = [(recorded, 3), (resampled(later, np.random.default_rng(1)), 4)]
    together = workload.learned_states(cluster, "decima", runs)
    for (arrivals, key), state in zip(runs, together, strict=True):
        alone = workload.jct_s(cluster, "decima", arrivals, key)
        np.testing.assert_allclose(workload.jct_of(arrivals, state), alone, rtol=1e-12)


def test_without_durations_the_shortest_job_is_not_known() -> None:
    settings = replace(FAST, policies=("fifo", "tuned_srw"), sequences=4)
    recorded = short_behind_long()
    runs_of_one = (
        replace(job, name=f"q #{k}") for k, job in enumerate(recorded.trace.jobs, start=1)
    )
    known = what_if(recorded, settings)
    blind = what_if(recorded, replace(settings, estimates="none"))
    fifo_s, srw_s = (
        [study.main.policies[name].avg_s.mean() for study in (known, blind)]
        for name in settings.policies
    )
    assert fifo_s[0] == fifo_s[1]
    assert srw_s[0] < srw_s[1]
    assert known_share(recorded) == 0.0
    assert known_share(recording(*runs_of_one)) == pytest.approx(23 / 24)


def test_processes_find_what_one_does() -> None:
    """The grid is played elsewhere, tuning included; so is the check."""
    settings = replace(FAST, policies=("fifo", "tuned_weighted_fair", "decima"), sequences=2)
    recorded = short_behind_long(8)
    with LocalPool(2) as pool:
        spread = to_json(what_if(recorded, settings, pool=pool))
        check = replay(recorded, ReplaySettings(draws=2), pool=pool)
    assert spread == to_json(what_if(recorded, settings))
    assert check.to_json() == replay(recorded, ReplaySettings(draws=2)).to_json()


def test_one_application_for_each_job_pays_for_moving() -> None:
    """The executors protocol adds 2 s before the first tasks, and 1 s to them."""
    settings = replace(FAST, protocol="executors", policies=("fifo",), draws=1)
    study = what_if(never_meeting(3), settings)
    shared = what_if(never_meeting(3), replace(settings, protocol="session"))
    assert shared.alone.by_job_s.tolist() == pytest.approx([1.0] * 3)
    assert (study.alone.by_job_s > 2.9).all()
