"""`policy="auto"`: what is chosen for a session, why, and when it is believed no more."""

from __future__ import annotations

import logging
import time
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from typing import Any, cast

import pytest

from decima.spark import AutoSettings, attach
from decima.spark.auto import Auto, Choice, EvaluatorError, EvaluatorProcess, News, Question
from decima.spark.candidates import World, compare
from decima.spark.decision_log import logged_job, prior_rows
from tests.commands import raises_one_line
from tests.spark_work import local_spark, sleep_tasks, together, until
from traces import Job, Stage, Trace

SETTINGS = AutoSettings(every_s=60, least_jobs=2)
NOTHING = {
    "best": None, "differences": {"tuned_srw": [1.0, [-2.0, 4.0]]}, "error": None, "jobs": 9,
    "followers": 0.1,
}  # fmt: skip
BETTER = NOTHING | {"best": "tuned_srw", "differences": {"tuned_srw": [-9.0, [-12.0, -4.0]]}}


Row = dict[str, Any]


def logged(
    arrival_ms: int, end_ms: int | None, task_ms: int = 1_000, tasks: int = 1, key: str = "a"
) -> Row:
    """A job, as the decision log has it."""
    (row,) = prior_rows(Trace("one", (Job(key, (Stage.fixed("s0", tasks, task_ms, []),)),)))
    times = {"arrival_ms": arrival_ms, "completion_ms": end_ms, "own_ms": 0}
    return row | times | {"job": key}


def question(*jobs: Row, slots: int = 1) -> Question:
    return Question(slots, "fifo", "fifo", 0, ("tuned_srw",), "exact", jobs, True, {})


# --- comparing -----------------------------------------------------------------------------------


def test_short_jobs_behind_long_ones_make_shortest_first_the_best() -> None:
    """One slot, a job of one second right behind one of ten: 10 and 11 s in order of arrival, 1 and
    11 s the other way round."""
    jobs = [logged(0, None, task_ms) for _ in range(4) for task_ms in (10_000, 1_000)]
    verdict = compare(question(*jobs))
    assert verdict.best == "tuned_srw"
    assert verdict.differences["tuned_srw"].mean < -20
    assert verdict.jobs == 8


def test_neighbours_that_are_slow_together_are_not_many_witnesses() -> None:
    """Half of 36 jobs take three times as long as predicted: twice on average. In turns that is
    certainly more than half as long again; all in one stretch of time, it is not."""
    bounds = {}
    for name, slow in (("in turns", range(0, 36, 2)), ("in one", range(18))):
        begins_ms = range(0, 3_600_000, 100_000)
        jobs = [logged(ms, ms + (3_000 if n in slow else 1_000)) for n, ms in enumerate(begins_ms)]
        error = World(question(*jobs)).error()
        assert error is not None
        assert error.ci95 is not None
        assert error.mean == pytest.approx(100.0)
        bounds[name] = error.ci95[0]
    assert bounds["in turns"] > 60
    assert bounds["in one"] < 50


def test_jobs_of_clients_that_wait_are_recognised() -> None:
    """Three jobs, each 10 ms after the end of the one before; then a minute after it."""
    for pause_ms, share in ((10, 1.0), (60_000, 0.0)):
        begins_ms = [number * (1_000 + pause_ms) for number in range(4)]
        jobs = [logged(ms, ms + 1_000) for ms in begins_ms]
        assert compare(question(*jobs)).followers == share
        assert compare(question(*jobs)._replace(is_timed=False)).followers == 0.0


def test_the_process_gives_the_verdict_and_faults_as_one_line() -> None:
    rows = prior_rows(Trace("p", (Job("a", (Stage.fixed("s0", 4, 1_000, []),)),)))
    asked = Question(2, "fifo", "fifo", 0, ("strict_fair",), "none", rows, False, {})
    process = EvaluatorProcess()
    answer = process.ask(asked).result(timeout=300)
    assert answer["differences"]["strict_fair"][0] == 0.0
    bad = process.ask(asked._replace(candidates=("nobody",)))
    with raises_one_line(EvaluatorError, match="nobody"):
        bad.result(timeout=300)
    process.close()
    process.close()


# --- choosing ------------------------------------------------------------------------------------


class FakeEvaluator:
    """Answers when it is told to."""

    def __init__(self) -> None:
        self.asked: list[Question] = []
        self.answers: list[Future[dict[str, Any]]] = []

    def ask(self, asked: Question) -> Future[dict[str, Any]]:
        self.asked.append(asked)
        self.answers.append(Future())
        return self.answers[-1]

    def close(self) -> None:
        self.answers.clear()


def live_job(number: int, arrival_ms: int, end_ms: int | None) -> Row:
    return logged(arrival_ms, end_ms, tasks=4, key=f"spark {number}")


def session(time_ms: int, *jobs: Row, is_left: bool | None = None) -> News:
    """What the JVM reports; jobs that have ended are being forgotten."""
    over = [job for job in jobs if job["completion_ms"] is not None]
    known = [job for job in jobs if job["completion_ms"] is None]
    return News(time_ms, 4, over, known, 0, 0, 0, is_left is not False, None)


def auto(
    settings: AutoSettings = SETTINGS, priors: Trace | None = None, *, acts: bool = True
) -> tuple[Auto, FakeEvaluator]:
    evaluator = FakeEvaluator()
    return Auto(settings, "fifo", priors, cast(EvaluatorProcess, evaluator), acts=acts), evaluator


def two_jobs(time_ms: int = 9_000, *, is_left: bool = True) -> News:
    jobs = live_job(0, 0, 4_000), live_job(1, 1_000, 8_000)
    return session(time_ms, *jobs, is_left=is_left)


def answered(
    chooser: Auto, evaluator: FakeEvaluator, verdict: dict[str, Any], now_s: float
) -> Choice | None:
    """What a verdict changes, at once."""
    before = chooser.choice
    chooser.look(two_jobs(is_left=chooser.is_spark_order), now_s)
    assert chooser.choice == before
    evaluator.answers[-1].set_result(verdict)
    at_ms = round(1_000 * now_s)
    chooser.look(session(at_ms, is_left=chooser.is_spark_order), now_s + 1)
    chooser.look(session(at_ms, is_left=chooser.is_spark_order), now_s + 1)
    return None if chooser.choice[:2] == before[:2] else chooser.choice


def test_nothing_is_asked_before_enough_jobs_have_ended() -> None:
    chooser, evaluator = auto()
    chooser.look(session(5_000, live_job(0, 0, 4_000), live_job(1, 1_000, None)), 5)
    assert evaluator.asked == []
    assert chooser.is_spark_order
    chooser.look(session(9_000, live_job(1, 1_000, 8_000), live_job(2, 2_000, None)), 9)
    (asked,) = evaluator.asked
    assert [row["job"] for row in asked.jobs] == ["spark 0", "spark 1", "spark 2"]
    assert (asked.slots, asked.order, asked.ran, asked.estimates) == (4, "fifo", "fifo", "none")
    assert logged_job(asked.jobs[0]) is not None


def test_the_best_is_put_in_force_and_the_reason_is_told(caplog: pytest.LogCaptureFixture) -> None:
    chooser, evaluator = auto()
    choice = answered(chooser, evaluator, BETTER, 10)
    assert choice is not None
    assert choice[:2] == ("tuned_srw", False)
    assert "-9.0 % [-12.0, -4.0] against fifo (9 jobs of this session)" in choice.why
    assert not chooser.is_spark_order
    assert "tuned_srw instead of fifo" in caplog.text


@pytest.mark.parametrize(
    ("verdict", "policy", "is_shadow", "why"),
    [
        (NOTHING, "fifo", False, "no policy is below fifo for certain"),
        # What the simulator promises holds for jobs that come by themselves.
        ({"followers": 0.9}, "fifo", False, "90 % of the jobs came right after another had ended"),
        # Off for certain by more than half, either way: 1.5 times as long, or two thirds.
        ({"error": [60.0, [52.0, 70.0]]}, "tuned_srw", True, "was predicted under tuned_srw"),
        ({"error": [-40.0, [-50.0, -35.0]]}, "tuned_srw", True, "was predicted under tuned_srw"),
        ({"error": [60.0, [40.0, 90.0]]}, "tuned_srw", False, None),
        ({"error": [-30.0, [-40.0, -20.0]]}, "tuned_srw", False, None),
        ({"error": [200.0, None]}, "tuned_srw", False, None),
    ],
)
def test_a_verdict_on_the_policy_in_force(
    verdict: dict[str, Any],
    policy: str,
    is_shadow: bool,
    why: str | None,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Spark's order returns where nothing is better for certain; a policy whose predictions are
    wrong goes into shadow, loudly.
    """
    chooser, evaluator = auto()
    answered(chooser, evaluator, BETTER, 10)
    choice = answered(chooser, evaluator, BETTER | verdict, 100)
    assert chooser.choice[:2] == (policy, is_shadow)
    assert (choice is None) == (why is None)
    if choice is not None and why is not None:
        assert why in choice.why
    assert chooser.is_spark_order == (policy == "fifo" or is_shadow)
    assert any(record.levelno >= logging.ERROR for record in caplog.records) == is_shadow


def test_until_a_policy_is_ready_sparks_order_is_what_ran() -> None:
    """Chosen after 10 s, and its process decides from the 80th on: what ran before was fifo."""
    chooser, evaluator = auto()
    chooser.look(two_jobs(), 10)
    evaluator.answers[-1].set_result(BETTER)
    chooser.look(session(11_000), 11)
    chooser.look(session(12_000, is_left=True), 12)
    chooser.look(two_jobs(), 71)
    assert evaluator.asked[-1].ran == "fifo"
    chooser.look(session(80_000, is_left=False), 80)
    evaluator.answers[-1].set_result(BETTER | {"error": [60.0, [52.0, 70.0]]})
    chooser.look(session(81_000, is_left=False), 81)
    assert chooser.choice.is_shadow
    assert "predicted under fifo" in chooser.choice.why
    chooser.look(session(82_000, is_left=True), 82)
    chooser.look(session(90_000, is_left=False), 90)
    chooser.look(two_jobs(is_left=False), 140)
    assert (evaluator.asked[-1].ran, evaluator.asked[-1].ran_since_ms) == ("tuned_srw", 90_000)


def test_in_mode_shadow_what_happened_is_held_against_sparks_order() -> None:
    """The policy is chosen, and Spark's order runs: predictions are for that."""
    chooser, evaluator = auto(acts=False)
    answered(chooser, evaluator, BETTER, 10)
    assert chooser.choice.policy == "tuned_srw"
    chooser.look(two_jobs(), 100)
    assert evaluator.asked[-1].ran == "fifo"


def test_out_of_the_shadow_once_predictions_hold_again() -> None:
    chooser, evaluator = auto()
    answered(chooser, evaluator, BETTER, 10)
    answered(chooser, evaluator, BETTER | {"error": [60.0, [52.0, 70.0]]}, 100)
    assert answered(chooser, evaluator, BETTER | {"error": [80.0, [60.0, 99.0]]}, 200) is None
    assert evaluator.asked[-1].ran == "fifo"
    choice = answered(chooser, evaluator, BETTER | {"error": [8.0, [2.0, 12.0]]}, 300)
    assert choice is not None
    assert choice[:2] == ("tuned_srw", False)


def test_without_a_verdict_all_stays(caplog: pytest.LogCaptureFixture) -> None:
    chooser, evaluator = auto()
    answered(chooser, evaluator, BETTER, 10)
    chooser.look(two_jobs(), 100)
    evaluator.answers[-1].set_exception(EvaluatorError("out of memory"))
    chooser.look(session(0), 101)
    assert chooser.choice.policy == "tuned_srw"
    assert "no verdict (out of memory): tuned_srw stays" in caplog.text


def test_priors_are_asked_about_at_once() -> None:
    stage = Stage.fixed("s0", 4, 1_000, [])
    chooser, evaluator = auto(priors=Trace("p", (Job("a", (stage,)), Job("b", (stage,)))))
    chooser.look(session(1_000), 1)
    assert [row["job"] for row in evaluator.asked[0].jobs] == ["a", "b"]
    assert (evaluator.asked[0].is_timed, evaluator.asked[0].estimates) == (False, "exact")
    evaluator.answers[0].set_result(BETTER)
    chooser.look(session(2_000), 2)
    assert chooser.choice.policy == "tuned_srw"
    assert "earlier runs" in chooser.choice.why
    chooser.look(two_jobs(), 3)  # at once: what was observed is worth more
    assert len(evaluator.asked) == 2


def test_jobs_that_ended_long_ago_do_not_count() -> None:
    chooser, evaluator = auto(replace(SETTINGS, window_s=10))
    chooser.look(two_jobs(time_ms=15_000), 15)
    assert evaluator.asked == []


def test_a_policy_that_was_given_up_leaves_the_order_to_spark() -> None:
    """Until the next verdict, which may choose it again."""
    chooser, evaluator = auto()
    answered(chooser, evaluator, BETTER, 10)
    chooser.look(session(20_000, is_left=True)._replace(given_up="the policy failed"), 20)
    assert chooser.choice == ("fifo", False, "tuned_srw: the policy failed")
    assert chooser.message()["is_spark_order"]
    choice = answered(chooser, evaluator, BETTER, 100)
    assert choice is not None
    assert choice.policy == "tuned_srw"


# --- in a session --------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.real_spark
def test_a_real_session_is_handed_over_once_jobs_were_seen_to_queue() -> None:
    """Eight slots, and two jobs of four tasks behind each of 120: under fifo they wait for it."""
    settings = AutoSettings(candidates=("tuned_srw",), every_s=1_000, least_jobs=8)
    with local_spark() as spark, attach(spark, "auto", auto=settings) as scheduler:

        def chosen() -> str | None:
            choice = scheduler.status().choice
            return None if choice is None else choice.policy

        assert chosen() == "fifo"

        def job(name: str, tasks: int, after_s: float) -> None:
            time.sleep(after_s)  # the long job has taken the slots by then
            sleep_tasks(spark, name, tasks)

        def round_of_jobs(number: int) -> None:
            jobs = (("long", 120, 0.0), ("first", 4, 0.3), ("second", 4, 0.3))
            together(*(partial(job, f"{name} #{number}", tasks, s) for name, tasks, s in jobs))

        for number in range(4):
            round_of_jobs(number)
        assert until(lambda: chosen() == "tuned_srw", 600)
        round_of_jobs(4)
        assert chosen() == "tuned_srw"
        status = scheduler.status()
    assert status.plans > 0
    assert status.jvm["faults"] == status.fallbacks == 0
