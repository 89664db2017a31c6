"""Decision logs: what is written is read, played by the simulator, and drawn."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from decima.report import write_page
from decima.report.spark import review_section
from decima.spark import AttachError
from decima.spark.decision_log import (
    DecisionHistory,
    LoggedJob,
    LoggedPlan,
    TaskSet,
    read_decision_log,
)
from decima.spark.review import draw_decisions, held_slots, review, reviewed_policies, words
from tests.commands import decima, refused, succeeded
from tests.decision_logs import job_row, plan_row, write_log
from tests.pages import HOSTILE
from traces import Job, Stage

BEGIN_MS = 5_000_000
SLOTS = 2


def written(path: Path, policy: str = "strict_fair") -> DecisionHistory:
    """Two jobs that arrive together on two slots: one of two stages, one that goes on running."""
    plan: dict[str, Any] = {"slots": SLOTS, "by": policy, "chosen": [3], "limits": {"job day": 2}}
    night, day = (0, 0, "job night #1", 4, 0, 1, False), (3, 0, "job day", 8, 0, 1, False)
    rows = [
        plan_row(1, BEGIN_MS, night, day, **plan),
        plan_row(2, BEGIN_MS + 9_500, (3, 0, "job day", 8, 3, 2, False), **plan),
        job_row("night #1", BEGIN_MS, BEGIN_MS + 9_000, (4, [], 1_000.0), (1, [0], 500.0),
                (9, [], None)),
        job_row("day", BEGIN_MS, None, (8, [], 1_000.0)),
    ]  # fmt: skip
    write_log(path, rows, mode="shadow", policy=policy)
    return read_decision_log(path)


def test_a_log_is_read_as_it_was_written(tmp_path: Path) -> None:
    """Stages that never ran are left out; a job that runs has no end."""
    decisions = written(tmp_path / "log.jsonl")
    assert (decisions.mode, decisions.policy) == ("shadow", "strict_fair")
    first, second = decisions.plans
    assert (first.number, first.slots, first.chosen) == (1, 2, (3,))
    assert first.sets[1] == TaskSet(3, 0, "job day", 8, 0, 1)
    assert second.applied_ms == (BEGIN_MS + 9_501, BEGIN_MS + 9_503)
    night, day = decisions.jobs
    assert (night.key, night.job.name, night.completion_ms, day.completion_ms) == (
        "job night #1", "night", BEGIN_MS + 9_000, None)  # fmt: skip
    stages = [(stage.num_tasks, stage.mean_ms, stage.parents) for stage in night.job.stages]
    assert stages == [(4, 1000, ()), (1, 500, (0,))]


def test_the_simulator_plays_its_jobs(tmp_path: Path) -> None:
    """FIFO by hand: the first job's 4 tasks on 2 slots take 2 s, its second stage 0.5 s beside
    one of the second job's, whose 8 tasks then have two slots.
    """
    verdict = review(written(tmp_path / "log.jsonl"), ("fifo", "strict_fair"))
    assert verdict.slots == 2
    assert verdict.jct_s[0] == 9.0
    assert np.isnan(verdict.jct_s[1])
    np.testing.assert_allclose(verdict.simulated_s["fifo"], [2.5, 6.5])
    # A slot for each: 4 s and half a second; the other has done 4 by then, and gets both.
    np.testing.assert_allclose(verdict.simulated_s["strict_fair"], [4.5, 6.5])


TUNED = {"factor": 0.5, "jobs_power": 1.0, "work_power": 0.2}


def ran_slowly(
    path: Path, work_ms: int = 1_000, own_ms: int = 500, **header: Any
) -> DecisionHistory:
    """One job of four tasks on two slots, measured as `work_ms` each; Spark takes `own_ms` before
    the first of them, and as long again while the second two run.
    """
    end_ms = BEGIN_MS + own_ms + 3_000
    rows = [
        plan_row(1, BEGIN_MS, (0, 0, "job slow", 4, 0, 2, False), slots=SLOTS, by="tuned_srw"),
        plan_row(2, end_ms, slots=SLOTS, by="tuned_srw"),
        job_row("slow", BEGIN_MS, end_ms, (4, [], float(work_ms)), own_ms=own_ms),
    ]
    write_log(path, rows, **{"policy": "tuned_srw", **header})
    return read_decision_log(path)


def test_spark_s_own_time_is_part_of_every_simulated_run(tmp_path: Path) -> None:
    """Four tasks of 1.5 s on two slots take 3 s, and Spark took half a second before them."""
    verdict = review(ran_slowly(tmp_path / "log.jsonl", 1_500), ("fifo", "tuned_srw"))
    assert verdict.own_s.tolist() == [0.5]
    assert verdict.jct_s.tolist() == [3.5]
    assert [values.tolist() for values in verdict.simulated_s.values()] == [[3.5], [3.5]]
    assert (verdict.ran, verdict.error, verdict.is_trusted) == ("tuned_srw", 0.0, True)


@pytest.mark.parametrize(
    ("ran", "part"),
    [
        ("tuned_srw", "But: tuned_srw, which really ran, is -29 % off in the simulator"),
        ("fifo", "But: fifo, which really ran, is -29 % off in the simulator"),
        ("of their own", "The simulator's error is unknown"),
    ],
)
def test_a_simulator_that_is_far_off_says_so(ran: str, part: str, tmp_path: Path) -> None:
    """3.5 s really, 2.5 s simulated, whichever policies are asked for; within 10 % nothing."""
    path = tmp_path / "log.jsonl"

    def said(task_ms: int) -> str:
        ran_slowly(path, task_ms, ran=ran)
        result = succeeded(decima("spark", "review", path, "--policies", "strict_fair"))
        return " ".join(result.stdout.split())

    assert part in said(1_000)
    assert "But:" not in said(1_400)
    assert "Spark itself took 0.50 s of a job's time" in said(1_400)


def under_auto(*plans: tuple[str, bool]) -> DecisionHistory:
    """A job of four tasks of a second on two slots, then others like it, each over before the next
    comes; one plan a job, by that policy, in force or not. No plan was made during the first.
    """
    sets = (TaskSet(0, 0, "job", 4, 0, 2),)
    made = [
        LoggedPlan(n, 10_000 * n + 5, (1, 2), SLOTS, by, sets, (0,), {}, is_in_force=in_force)
        for n, (by, in_force) in enumerate(plans, 1)
    ]
    job = Job("j", (Stage.fixed("0", 4, 1_000.0),))
    # The simulator says 2 s; the first took twice as long, the others a quarter longer.
    took_ms = [4_000] + [2_500] * len(plans)
    jobs = [
        LoggedJob(f"job {n}", job, 10_000 * n, 10_000 * n + ms, 0) for n, ms in enumerate(took_ms)
    ]
    return DecisionHistory("exact", "auto", tuple(made), tuple(jobs), {}, "auto")


def test_under_auto_the_policies_that_decided_are_reviewed() -> None:
    """The check is of that which decided most, over the jobs during which it alone decided."""
    decisions = under_auto(*[("tuned_srw", True)] * 3, ("es_rule", True), ("tuned_srw", False))
    assert reviewed_policies(decisions) == ("fifo", "spark_fair", "strict_fair", "tuned_srw")
    verdict = review(decisions, ("fifo",))
    assert (verdict.ran, verdict.compared, verdict.is_trusted) == ("tuned_srw", 3, False)
    assert verdict.error == pytest.approx(2 / 2.5 - 1)
    assert verdict.decided == {"tuned_srw": 3, "es_rule": 1}
    said = " ".join(words(verdict))
    assert "Plans in force under auto, by the policy that decided: tuned_srw 3, es_rule 1." in said
    assert "tuned_srw is -20 % off in the simulator" in said
    assert "3 of those that ended" in said
    assert "error is unknown" not in said


def test_a_log_tells_which_plans_were_in_force(tmp_path: Path) -> None:
    """One that does not say, of an earlier version of this package, had no other."""
    path = tmp_path / "log.jsonl"
    rows = [plan_row(n, BEGIN_MS, slots=SLOTS, in_force=n == 1) for n in (1, 2)]
    write_log(path, rows, policy="auto")
    assert [plan.is_in_force for plan in read_decision_log(path).plans] == [True, False]
    path.write_text(path.read_text().replace(', "in_force": false', ""))
    assert [plan.is_in_force for plan in read_decision_log(path).plans] == [True, True]


def test_a_log_is_reviewed_with_the_parameters_of_its_policy(tmp_path: Path) -> None:
    """Half of the slots for the only job: four tasks one after the other; `--tuned` says others."""
    path, tuned = tmp_path / "log.jsonl", tmp_path / "tuned.json"
    decisions = ran_slowly(path, parameters=TUNED)
    assert decisions.parameters == TUNED
    assert review(decisions, ("tuned_srw",)).simulated_s["tuned_srw"].tolist() == [4.5]
    content = {"format": "decima-tuned", "version": 1, "policy": "tuned_srw"}
    tuned.write_text(json.dumps({**content, "parameters": {**TUNED, "factor": 1.5}}))
    command = ["spark", "review", path, "--policies", "tuned_srw"]
    assert "4.50 s" in decima(*command).stdout
    assert "2.50 s" in decima(*command, "--tuned", tuned).stdout


def test_what_jobs_held_is_drawn(tmp_path: Path) -> None:
    decisions = written(tmp_path / "log.jsonl")
    time_s, held = held_slots(decisions)
    np.testing.assert_array_equal(time_s, [0.0, 9.5])
    np.testing.assert_array_equal(held["job day"], [1, 2])
    np.testing.assert_array_equal(held["job night #1"], [1, 0])
    picture, again = tmp_path / "a.svg", tmp_path / "b.svg"
    draw_decisions(decisions, picture)
    draw_decisions(decisions, again)
    assert "job day" in picture.read_text()
    assert picture.read_bytes() == again.read_bytes()
    with pytest.raises(AttachError, match=r"\.gif"):
        draw_decisions(decisions, tmp_path / "a.gif")


def test_the_command(tmp_path: Path) -> None:
    """Prints figures of the log's own policy too, where it is one of ours, and draws the slots. The
    page has what it prints, and the slots of each job; one line where it has no folder.
    """
    path, picture, page = (tmp_path / name for name in ("log.jsonl", "slots.svg", "review.html"))
    written(path, "tuned_srw")
    command = ["spark", "review", path]
    refused(decima(*command, "--report", tmp_path / "no" / "a.html"), "no")
    refused(decima(*command, "--policies", "x"), "'x'")
    assert [*tmp_path.iterdir()] == [path]
    done = succeeded(decima(*command, "--draw", picture, "--report", page))
    for part in ("as it ran (tuned_srw, shadow)", "simulated: fifo", "simulated: tuned_srw"):
        assert part in done.stdout
    assert picture.exists()
    text = page.read_text()
    figures = re.findall(r"\d+\.\d\d s\b|[+-]\d+\.\d %", done.stdout)
    assert len(figures) == 13
    assert [figure for figure in figures if figure not in text] == []
    decisions = read_decision_log(path)
    for line in words(review(decisions, reviewed_policies(decisions))):
        assert line in " ".join(html.unescape(text).split())
    data = json.loads(text.partition('id="data">')[2].partition("</script>")[0])
    held = data["charts"][0]["series"]
    assert held == {"x": [0.0, 9.5], "y": {"job night #1": [1, 0], "job day": [1, 2]}}
    written(path, "of their own")
    assert "simulated: of their own" not in decima(*command).stdout


def test_hostile_names_in_a_log_are_text_on_its_page(tmp_path: Path) -> None:
    plan = LoggedPlan(1, 1_000, (1, 2), SLOTS, "x", (TaskSet(0, 0, HOSTILE, 4, 0, 2),), (0,), {})
    job = Job(HOSTILE, (Stage.fixed("0", 4, 1_000.0),))
    jobs = (LoggedJob(HOSTILE, job, 0, 4_000, 0),)
    decisions = DecisionHistory("exact", HOSTILE, (plan,), jobs, {}, HOSTILE)
    verdict = review(decisions, ("fifo",))
    write_page(tmp_path / "a.html", [review_section(verdict, decisions)], title="t", command="c")
    text = (tmp_path / "a.html").read_text()
    assert "alert(1)" in text
    assert HOSTILE not in text
    assert "<script>alert" not in text


@pytest.mark.parametrize(
    ("change", "part"),
    [
        (lambda lines: [], "not a decision log"),
        (lambda lines: ['{"format": "other"}'], "not a decision log"),
        (lambda lines: ["[]", *lines], "not a decision log"),
        (lambda lines: [lines[0].replace('"version": 3', '"version": 9')], "version 9"),
        (lambda lines: [lines[0], "{", lines[1]], "line 2 is no JSON"),
        (lambda lines: [lines[0], '{"plan": 1}'], "damaged: KeyError"),
        (lambda lines: [lines[0], lines[1].replace('{"job day": 2}', "[2]")], "damaged: Attribute"),
        (lambda lines: [lines[0], lines[1].replace("false]", '"x", 1, 2]')], "sets is 'x'"),
        (lambda lines: lines[:3], "holds no job that ran"),
        (lambda lines: [line for line in lines if '"plan"' not in line], "and no plan: Spark's"),
    ],
)  # fmt: skip
def test_damaged_logs_are_one_line(
    change: Callable[[list[str]], list[str]], part: str, tmp_path: Path
) -> None:
    path = tmp_path / "log.jsonl"
    written(path)
    path.write_text("\n".join(change(path.read_text().splitlines())))
    refused(decima("spark", "review", path), part)


def test_a_last_line_that_was_cut_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    whole = written(path)
    path.write_text(path.read_text()[:-10])
    assert [job.key for job in read_decision_log(path).jobs] == [whole.jobs[0].key]


def test_jobs_without_a_successful_task_are_counted_and_named(tmp_path: Path) -> None:
    """And so is what the simulator does not know of them: the slots that they held at each plan."""
    path = tmp_path / "log.jsonl"
    assert not any("left out" in line for line in words(review(written(path), ("fifo",))))
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for row in rows:
        if "plan" in row:
            row["sets"].append([50, 0, "job doomed", 2, 0, 2, False])
    rows.append(job_row("doomed", BEGIN_MS, BEGIN_MS + 2_500, (2, [], None), own_ms=2_500))
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    verdict = review(read_decision_log(path), ("fifo",))
    count, left_out, lost = list(words(verdict))[:3]
    assert "2 jobs, 1 of them ended" in count
    assert "1 more left out, no task succeeded: doomed" in left_out
    assert lost.startswith("But: slots held by tasks that did not succeed are not sim")
    assert "up to 2 at once" in lost
    assert (verdict.left_out, verdict.lost_slots) == (("doomed",), 2)
    np.testing.assert_allclose(verdict.simulated_s["fifo"], [2.5, 6.5])
