"""Jobs of a live session as the JVM puts them together, however Spark tells of them."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from decima.spark.decision_log import check_order, logged_job
from tests.jvm import Talk
from tests.live import (
    EPOCH_MS,
    SLOTS,
    Live,
    Row,
    info,
    job_done,
    measured,
    report,
    stage_done,
    started,
    task_set,
)
from tests.shapes import chain
from tests.stories import job as job_of_stages
from tests.stories import stage as stage_of
from traces import Trace

pytestmark = pytest.mark.real_spark

DEFAULT_TASK_MS = 1_000
FORGET_MS, LOST_MS = 60_000, 600_000
SHOWN_FINISHED, KEPT_FINISHED = 100, 10_000
SQL: dict[str, Any] = {"spark_sql_execution_id": "7"}


def known(live: Live, told: dict[str, Any]) -> list[dict[str, Any]]:
    """Jobs that run, and those that ended a short while ago."""
    answer: list[dict[str, Any]] = live.tell(told, "jobs")["jobs"]
    return answer


# --- stages --------------------------------------------------------------------------------------


def test_jobs_of_one_execution_are_one_job_that_grows(jvm: Talk) -> None:
    """Adaptive execution: each stage is a Spark job; what ran is listed again, and skipped."""
    live = Live(jvm)
    (job,) = live.jobs(report(started(0, info(0, 4, rdd=100), **SQL), sets=[task_set(0, 4, 1, 3)]))
    assert (job["job"], job["launched"]) == ("sql 7", [4])
    assert live.jobs(report(*stage_done(0), job_done(0))) == []
    later = started(1, info(1, 4, rdd=100), info(2, 6, (1,), rdd=101), time_ms=9, **SQL)
    (job,) = live.jobs(report(later, sets=[task_set(2, 6, 0, 1, "sql 7")], time_ms=9))
    assert job["arrival_ms"] == EPOCH_MS
    assert job["num_tasks"] == [4, 6]
    assert job["is_done"] == [True, False]
    assert job["parents"][1] == [0]


def test_two_shuffles_of_one_rdd_are_two_stages(jvm: Talk) -> None:
    """In one Spark job; a later one that lists the last of them again means the stage that ran."""
    live = Live(jvm)
    stages = info(0, 4, rdd=100), info(1, 4, rdd=100), info(2, 2, (0, 1))
    sets = [task_set(0, 4, 1, 3), task_set(1, 4, 0, 1)]
    (job,) = live.jobs(report(started(0, *stages, **SQL), sets=sets))
    assert (job["num_tasks"], job["launched"]) == ([4, 4, 2], [4, 1, 0])
    assert job["parents"][2] == [0, 1]
    live.jobs(report(*stage_done(0, 1), job_done(0)))
    again = info(3, 4, rdd=100), info(4, 4, rdd=100), info(5, 3, (3, 4))
    told = report(started(1, *again, **SQL), sets=[task_set(5, 3, 0, 1, "sql 7")])
    (job,) = live.jobs(told)
    assert job["num_tasks"] == [4, 4, 2, 3]
    assert job["parents"][3] == [0, 1]
    (job,) = live.jobs(report(started(2, info(6, 4, rdd=100), info(7, 1, (6,)), **SQL)))
    assert job["parents"][4] == [1]
    assert job["is_done"] == [True, True, False, False, False]


def spark_jobs(first: int, count: int) -> list[Row]:
    """Events of a job group whose Spark jobs, of two stages each, follow each other at once."""
    jobs = []
    for number in range(first, first + count):
        earlier, two, at_ms = 2 * number, 2 * number + 1, 20 * number
        stages = info(earlier, 4), info(two, 2, (earlier,))
        jobs += [
            started(number, *stages, time_ms=at_ms, spark_jobGroup_id="night"),
            *stage_done(earlier, two),
            job_done(number, at_ms + 10),
        ]
    return jobs


def test_finished_stages_leave_the_tables(jvm: Talk) -> None:
    """A job group that never pauses costs a plan the same after any number of Spark jobs."""
    live, rows = Live(jvm), []
    for number in range(200):
        begun, *ends = spark_jobs(number, 1)
        sets = [task_set(2 * number, 4, 0, 1, "group night")]
        tables = live.tell(report(begun, sets=sets, time_ms=20 * number), "tables")["tables"]
        rows.append(len(tables["num_tasks"]))
        live.tell(report(*ends, time_ms=20 * number + 10))
    assert rows[:50] == [2 * number + 2 for number in range(50)]
    assert set(rows[50:]) == {SHOWN_FINISHED + 2}


def test_memory_does_not_grow_with_the_past(jvm: Talk) -> None:
    """So many finished stages are known, and who the parents of these are."""
    live, a_report = Live(jvm), 100
    for first in range(0, KEPT_FINISHED + 2 * a_report, a_report):
        answer = live.tell(report(*spark_jobs(first, a_report), time_ms=20 * (first + a_report)))
    told = report(*spark_jobs(first + a_report, 1), time_ms=20 * (first + a_report))
    answer = live.tell(told, "jobs")
    (job,) = answer["jobs"]
    count = job["stages"]
    assert KEPT_FINISHED < count <= KEPT_FINISHED + 4 * a_report
    assert job["parents"][-4:] == [[], [count - 4], [], [count - 2]]


def test_a_skipped_stage_counts_as_done(jvm: Talk) -> None:
    """It is never submitted; that a stage above it runs says that its output is there."""
    begun = started(0, info(0, 5), info(1, 5, (0,)), info(2, 2, (1,)))
    (job,) = Live(jvm).jobs(report(begun, sets=[task_set(2, 2, 0, 1)]))
    assert job["is_done"] == [True, True, False]


def test_a_lost_stage_runs_again(jvm: Talk) -> None:
    """Its new attempt has only the tasks that were lost."""
    live = Live(jvm)
    live.tell(report(started(0, info(0, 5), info(1, 3, (0,))), sets=[task_set(0, 5, 5)]))
    live.tell(report(*stage_done(0), sets=[task_set(1, 3, 1, 1)]))
    again = task_set(0, 2, 0, 1, attempt=1)
    (job,) = live.jobs(report({"kind": "STAGE_END", "id": 1, "succeeded": False}, sets=[again]))
    assert (job["is_done"], job["num_tasks"], job["launched"]) == ([False] * 2, [2, 3], [1, 1])
    assert job["is_submitted"] == [True, False]


def test_a_task_set_may_be_seen_before_its_job(jvm: Talk) -> None:
    """The bus is slower than the scheduler; the event then completes what is known."""
    live = Live(jvm)
    (job,) = live.jobs(report(sets=[task_set(4, 3, 0, 2, "job x")]))
    assert job["num_tasks"] == [3]
    begun = started(0, info(4, 3), info(5, 2, (4,)), decima_job="x")
    (job,) = live.jobs(report(begun, sets=[task_set(4, 3, 1, 2, "job x")]))
    assert job["num_tasks"] == [3, 2]
    assert job["parents"] == [[], [0]]


def test_an_attempt_that_ends_does_not_hide_the_next_one(jvm: Talk) -> None:
    """Five tasks of the first run on; all five of the second are to start."""
    sets = [task_set(0, 10, 5, 5, is_zombie=True), task_set(0, 5, attempt=1)]
    told = report(started(0, info(0, 10)), sets=sets)
    (job,) = Live(jvm).jobs(told)
    assert (job["num_tasks"], job["all_tasks"], job["launched"]) == ([5], [10], [0])
    plan = Live(jvm).plan(told)
    # The limit counts the five that run on.
    assert (plan["chosen"], plan["limits"]) == ([0], {"spark 0": SLOTS})


def test_jobs_are_in_the_order_of_arrival(jvm: Talk) -> None:
    begun = [started(number, info(number, 9), time_ms=-number) for number in range(3)]
    jobs = Live(jvm).jobs(report(*begun))
    assert [job["job"] for job in jobs] == ["spark 2", "spark 1", "spark 0"]


def test_a_critical_path_may_be_deeper_than_a_thread_may_recurse(jvm: Talk) -> None:
    deep = [info(row, 1, (row - 1,) if row else ()) for row in range(20_000)]
    told = report(started(0, *deep), sets=[task_set(0, 1)])
    expected = [DEFAULT_TASK_MS * levels for levels in range(20_000, 0, -1)]
    assert Live(jvm).tell(told, "tables")["tables"]["critical_path_ms"] == expected


# --- durations -----------------------------------------------------------------------------------


def test_durations_are_measured_else_known_else_guessed(jvm: Talk) -> None:
    """Of the stage; of earlier runs; of the job; of everything; a second."""
    earlier = chain("q", (3, 2))
    known_ms = earlier.stages[0].mean_ms
    live = Live(jvm, priors=Trace("earlier", (earlier,)))
    (job,) = live.jobs(report(started(0, info(0, 3), info(1, 9, (0,)), decima_job="q")))
    assert job["mean_ms"] == [known_ms, DEFAULT_TASK_MS]
    tasks = [measured(0, 2, 600), measured(99, 1, 9_000)]  # the other is of a job long gone
    (job,) = live.jobs(report(sets=[task_set(0, 3, 2, job="job q")], measured=tasks))
    # Two tasks against the four that earlier runs count as.
    assert job["mean_ms"] == [pytest.approx((300 * known_ms**2) ** (1 / 3)), 300]
    *_, other = live.jobs(report(started(1, info(7, 1)), sets=[task_set(7, 1)]))
    assert other["mean_ms"] == [300]


@pytest.mark.parametrize(
    ("name", "tasks", "took", "expected_ms"),
    [
        # A slow first wave, as on new executors, does not hide what earlier runs took.
        ("q", 20, [(4, 3_200)], math.sqrt(400 * 3_200)),
        ("q", 20, [(4, 3_200), (12, 400)], (1_100**4 * 400) ** (1 / 5)),
        # Once a stage is over, earlier runs say nothing any more.
        ("q", 1, [], 400),
        ("q", 1, [(1, 40_000)], 40_000),
        # A stage that is known by its number of tasks alone counts as a single task.
        (None, 4, [(3, 100)], (100**3 * 400) ** (1 / 4)),
    ],
)
def test_measured_durations_and_those_of_earlier_runs(
    jvm: Talk, name: str | None, tasks: int, took: list[tuple[int, int]], expected_ms: float
) -> None:
    """A geometric mean, by how many tasks each speaks for; 400 ms a task before."""
    live = Live(jvm, priors=Trace("earlier", (job_of_stages("q", stage_of("s", tasks, 400)),)))
    named: dict[str, Any] = {} if name is None else {"decima_job": name}
    key = "spark 0" if name is None else f"job {name}"
    (job,) = live.jobs(report(started(0, info(0, tasks), **named)))
    done = 0
    for count, task_ms in took:
        done += count
        sets = [task_set(0, tasks, done, job=key)]
        (job,) = live.jobs(report(sets=sets, measured=[measured(0, count, count * task_ms)]))
    assert job["mean_ms"] == [pytest.approx(expected_ms)]


def test_a_job_seen_before_its_name_is_known_gets_it(jvm: Talk) -> None:
    """And with it what earlier runs say of its stages; each stage is counted once."""
    earlier = chain("q", (3, 2))
    live = Live(jvm, priors=Trace("earlier", (earlier,)))
    answer = live.tell(report(sets=[task_set(0, 3, 0, 1, "job q #2")]), "jobs", "sums")
    assert (answer["jobs"][0]["match"], answer["matches"]) == (["SHAPE"], [1, 0])
    begun = started(0, info(0, 3), info(1, 2, (0,)), info(2, 7), decima_job="q #2")
    answer = live.tell(report(begun), "jobs", "sums")
    (job,) = answer["jobs"]
    assert (job["name"], job["match"]) == ("q", ["NAME", "NAME", "UNKNOWN"])
    assert job["mean_ms"][:2] == [stage.mean_ms for stage in earlier.stages]
    assert answer["matches"] == [2, 1]


def test_earlier_runs_may_come_late(jvm: Talk) -> None:
    live = Live(jvm)
    begun = started(0, info(0, 3), info(1, 2, (0,)), decima_job="q")
    answer = live.tell(report(begun, sets=[task_set(1, 2, 0, 1, "job q")]), "jobs", "sums")
    assert (answer["jobs"][0]["match"], answer["matches"]) == ([None, None], [0, 0])
    live.learn(Trace("earlier", (replace(chain("q", (3, 2)), name="q"),)))
    answer = live.tell(report(), "jobs", "sums")
    assert (answer["jobs"][0]["match"], answer["matches"]) == ([None, "NAME"], [1, 0])


def test_a_broadcast_takes_no_name_from_its_job(jvm: Talk) -> None:
    """Nor what earlier runs say of stages to come: only its place in the program has a name."""
    live = Live(jvm, priors=Trace("earlier", (job_of_stages("the report", stage_of("s", 3, 400)),)))
    broadcast = "broadcast exchange (runId 1)"
    names, matches = [], []
    for number, described in enumerate((broadcast, "the report", broadcast)):
        named: dict[str, Any] = {"spark_job_description": described, "callSite_short": "a at b:1"}
        (job,) = live.jobs(report(started(number, info(number, 3), **SQL, **named)))
        names.append(job["name"])
        matches.append(job["match"])
    assert names == ["7", "the report", "the report"]
    assert matches == [["SHAPE"], ["NAME"] * 2, ["NAME"] * 3]


# --- names ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "told",
    [
        [(None, 0, 1), (None, 1_000, 2), (None, 20_000, 1)],
        # The driver plans for six seconds between two stages of one execution: one job.
        [("7", 0, 1), ("7", 6_000, 2), ("8", 12_000, 1)],
    ],
    ids=["a name", "a named SQL execution"],
)
def test_a_name_that_comes_again_is_another_job_unless_it_goes_on(
    jvm: Talk, told: list[tuple[str | None, int, int]]
) -> None:
    live = Live(jvm)
    for number, (execution, at_ms, stages) in enumerate(told):
        of_sql = {} if execution is None else {"spark_sql_execution_id": execution}
        begun = started(number, info(number, 1), time_ms=at_ms, decima_job="night", **of_sql)
        live.tell(report(begun, time_ms=at_ms))
        (job,) = known(live, report(job_done(number, at_ms + 100), time_ms=at_ms + 100))
        assert job["stages"] == stages
    assert job["arrival_ms"] == EPOCH_MS + at_ms


# --- ends ----------------------------------------------------------------------------------------


def test_finished_jobs_are_forgotten(jvm: Talk) -> None:
    """After a minute in which they did not grow. Nothing of them is left but what is typical: of 2,
    8 and 32 tasks of a second each.
    """
    live, versions = Live(jvm), []
    begun = [started(number, info(number, tasks)) for number, tasks in enumerate((2, 8, 32))]
    for told, counts in (
        (report(*begun), (3, 3)),
        (report(job_done(0), job_done(1)), (3, 1)),
        (report(time_ms=FORGET_MS + 10), (1, 1)),
    ):
        answer = live.tell(told, "jobs", "sums", "ends")
        versions.append(answer["version"])
        assert (len(answer["jobs"]), len(answer["active"])) == counts
        assert answer["typical_ms"] == pytest.approx(8 * DEFAULT_TASK_MS)
    assert versions[2] > versions[1]
    assert [job["job"] for job in answer["forgotten"]] == ["spark 0", "spark 1"]
    jobs = live.jobs(report(sets=[task_set(0, 1, job="spark 9")], time_ms=FORGET_MS + 20))
    assert [job["job"] for job in jobs] == ["spark 2", "spark 9"]


def test_a_job_whose_end_was_never_told_is_forgotten(jvm: Talk) -> None:
    """Events may be lost: it would count among the jobs of the moment for ever."""
    live = Live(jvm)
    live.tell(report(started(0, info(0, 1)), sets=[task_set(0, 1)]))
    assert len(live.jobs(report(time_ms=LOST_MS - 10))) == 1
    answer = live.tell(report(time_ms=LOST_MS + 10), "jobs", "ends")
    assert (answer["jobs"], answer["unreported"]) == ([], [])
    (lost,) = answer["ended"]
    assert (lost["job"], lost["completion_ms"], lost["own_ms"]) == ("spark 0", None, None)
    assert live.jobs(report(job_done(0))) == []


def test_a_job_has_ended_when_it_has_been_quiet(jvm: Talk) -> None:
    """Half a second, not the minute until it is forgotten: a process may be killed. One that goes
    on ends again, as one that has grown.
    """
    live, took = Live(jvm), [measured(0, 1, 300, 100, 400)]
    begun, again = (
        started(number, info(number, 1), time_ms=at_ms, decima_job="q")
        for number, at_ms in ((0, 0), (1, 2_000))
    )
    ended = []
    for told in (
        report(begun, job_done(0, 300), time_ms=400, measured=took),
        report(time_ms=800),
        report(time_ms=1_200),
        report(again, time_ms=2_200, measured=[measured(1, 1, 300, 2_100, 2_400)]),
        report(job_done(1, 2_500), time_ms=2_600),
        report(time_ms=3_000),
    ):
        answer = live.tell(told, "ends")
        ended.append(answer["ended"])
    assert [len(rows) for rows in ended] == [0, 1, 0, 0, 0, 1]
    assert answer["unreported"] == []
    first, last = (logged_job(row) for rows in ended for row in rows)
    assert first is not None
    assert last is not None
    check_order(last)
    assert (first.key, first.arrival_ms, first.completion_ms) == ("job q", EPOCH_MS, EPOCH_MS + 300)
    assert (last.arrival_ms, last.completion_ms) == (EPOCH_MS, EPOCH_MS + 2_500)
    assert (len(first.job.stages), len(last.job.stages)) == (1, 2)


def test_a_job_that_ends_with_the_last_report_is_not_told_yet(jvm: Talk) -> None:
    """One that ended long before has been; a run of the same name is forgotten, and told."""
    live, later_ms = Live(jvm), 2 * FORGET_MS
    begun = [started(number, info(number, 1), decima_job=f"j{number}") for number in range(2)]
    answer = live.tell(report(*begun, job_done(0, 1_000), time_ms=1_500), "ends")
    assert [job["job"] for job in answer["ended"]] == ["job j0"]
    assert [job["job"] for job in answer["unreported"]] == ["job j1"]
    answer = live.tell(report(job_done(1, later_ms), time_ms=later_ms), "ends")
    assert [job["job"] for job in answer["forgotten"]] == ["job j0"]
    assert (answer["ended"], [job["job"] for job in answer["unreported"]]) == ([], ["job j1"])
    assert answer["unreported"][0]["completion_ms"] == EPOCH_MS + later_ms
    next_ms = later_ms + 5_001
    again = started(2, info(2, 1), time_ms=next_ms, decima_job="j1")
    answer = live.tell(report(again, time_ms=next_ms), "ends")
    assert [job["arrival_ms"] for job in answer["forgotten"]] == [EPOCH_MS]
    assert answer["ended"] == answer["forgotten"]
    assert [job["arrival_ms"] for job in answer["unreported"]] == [EPOCH_MS + next_ms]


def test_a_job_s_time_is_its_tasks_its_waiting_or_spark_s_own(jvm: Talk) -> None:
    """Arrives at 0; first tasks run from 30 to 130 and the second stage waits for slots of others
    from 140 on, to run from 500 to 700; Spark is done at 720: 30 + 10 + 20 ms are its own.
    """
    live = Live(jvm)
    begun = started(0, info(9, 100)), started(1, info(0, 2), info(1, 2, (0,)), decima_job="mine")
    live.tell(report(*begun, sets=[task_set(9, 100, 0, 4), task_set(0, 2, job="job mine")]))
    full = task_set(9, 100, 0, SLOTS)
    sets = [full, task_set(1, 2, job="job mine")]
    first = [measured(0, 2, 200, 30, 130)]
    _, mine = known(live, report(*stage_done(0), sets=sets, measured=first, time_ms=140))
    assert (mine["completion_ms"], mine["own_ms"]) == (None, None)
    rest = [measured(1, 1, 100, 500, 600), measured(1, 1, 200, 500, 700)]
    ends = report(*stage_done(1), job_done(1, 720), sets=[full], measured=rest, time_ms=725)
    live.tell(ends)
    (row,) = live.tell(report(sets=[full], time_ms=1_300), "ends")["ended"]
    assert row == {
        "job": "job mine", "name": "mine", "arrival_ms": EPOCH_MS,
        "completion_ms": EPOCH_MS + 720, "own_ms": 60,
        "stages": [{"num_tasks": 2, "parents": [], "mean_ms": 100},
                   {"num_tasks": 2, "parents": [0], "mean_ms": 150}],
    }  # fmt: skip
