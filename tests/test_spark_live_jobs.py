"""A live session in the simulator's tables: the same observation, however Spark tells of it."""

from __future__ import annotations

import json
import math
from array import array
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from decima.registry import Heuristic
from decima.spark import AttachError, live_job
from decima.spark.attaching import Guest
from decima.spark.jobs import DEFAULT_TASK_MS, FORGET_MS, LOST_MS, LiveJobs
from decima.spark.planning import Guard, Planner
from decima.spark.priors import Priors
from decima.spark.reports import (
    JobDone,
    Measured,
    SessionReport,
    StageDone,
    TaskSet,
    job_of,
    read_report,
)
from decima.spark.tables import LiveTables
from spark_sim import PASS, Action, Cluster, Observation, Protocol, Simulator, Status
from spark_sim.rounds import Round
from spark_sim.tables import JOB, STAGE
from spark_sim.views import read_only
from tests.stories import job as job_of_stages
from tests.stories import stage as stage_of
from traces import Job, Trace, load_trace, to_arrays
from traces.paths import longest_paths
from traces.spark_log.events import JobStart, StageInfo
from traces.synthetic import chain, fork_join

SLOTS = 12
EPOCH_MS = 1_000_000


def info(stage: int, num_tasks: int, parents: tuple[int, ...] = (), rdds: str = "") -> StageInfo:
    return StageInfo(stage, num_tasks, parents, (rdds or f"r{stage}").encode())


def task_set(stage: int, num_tasks: int, done: int = 0, running: int = 0, job: str = "") -> TaskSet:
    return TaskSet(stage, 0, job or "spark 0", num_tasks, done, running)


def report(
    *events: JobStart | JobDone | StageDone,
    time_ms: int = 0,
    sets: tuple[TaskSet, ...] = (),
    measured: tuple[Measured, ...] = (),
) -> SessionReport:
    return SessionReport(EPOCH_MS + time_ms, SLOTS, 0, False, True, 0, sets, events, measured)


def started(spark_job: int, *stages: StageInfo, time_ms: int = 0, **properties: str) -> JobStart:
    named = {key.replace("_", "."): value for key, value in properties.items()}
    return JobStart(spark_job, EPOCH_MS + time_ms, stages, named)


# --- the same observation ------------------------------------------------------------------------


class Told:
    """What Spark would have told of a simulated session."""

    def __init__(self, jobs: tuple[Job, ...], arrival_ms: list[float]) -> None:
        self.jobs = jobs
        self.arrival_ms = arrival_ms
        self._announced = 0
        self._done: set[int] = set()

    def report(self, simulator: Simulator) -> SessionReport:
        state = simulator.state
        events: list[JobStart | JobDone | StageDone] = []
        sets: list[TaskSet] = []
        while (
            self._announced < len(self.jobs)
            and self.arrival_ms[self._announced] <= simulator.time_ms
        ):
            events.append(
                self._start(self._announced, int(state.jobs["first_stage"][self._announced]))
            )
            self._announced += 1
        for number in range(self._announced):
            job = state.jobs[number]
            first, count = int(job["first_stage"]), int(job["num_stages"])
            for row in range(first, first + count):
                stage = state.stages[row]
                if stage["finished"] == stage["num_tasks"]:
                    if row not in self._done:
                        self._done.add(row)
                        events.append(StageDone(row, 0, True))
                elif stage["runnable"]:
                    running = int(stage["launched"] - stage["finished"])
                    sets.append(TaskSet(row, 0, f"spark {number}", int(stage["num_tasks"]),
                                        int(stage["finished"]), running))  # fmt: skip
            if not np.isnan(job["completion_ms"]) and -number - 1 not in self._done:
                self._done.add(-number - 1)
                events.append(JobDone(number, 0))
        time_ms = EPOCH_MS + round(simulator.time_ms)
        return SessionReport(time_ms, SLOTS, 0, False, True, 0, tuple(sets), tuple(events))

    def _start(self, number: int, first: int) -> JobStart:
        job = self.jobs[number]
        infos = tuple(
            info(first + row, stage.num_tasks, tuple(first + parent for parent in stage.parents))
            for row, stage in enumerate(job.stages)
        )
        time_ms = EPOCH_MS + round(self.arrival_ms[number])
        # Two executions of one trace's job are known by one name, and told apart by their number.
        return JobStart(number, time_ms, infos, {"spark.job.description": job.name})


READ_JOB = [name for name in JOB.names or () if name not in {
    "completion_ms", "template", "limit", "attached", "active", "idle_head", "idle_tail", "pool",
    "commit_head", "commit_tail", "plan_head", "plan_tail", "first_stage",
    "arrival_ms"}]  # fmt: skip
READ_STAGE = [name for name in STAGE.names or () if name in {
    "num_tasks", "launched", "finished", "covered", "open", "runnable", "mean_ms",
    "critical_path_ms"}]  # fmt: skip


def assert_same(live: Observation, simulated: Observation) -> None:
    """All that a policy may read of the jobs in the system, but for where rows are."""
    assert live.num_executors == simulated.num_executors
    assert live.on_offer == simulated.on_offer
    assert live.typical_ms == pytest.approx(simulated.typical_ms)
    assert len(live.active) == len(simulated.active)
    own, other = live.jobs[live.active], simulated.jobs[simulated.active]
    np.testing.assert_allclose(np.diff(own["arrival_ms"]), np.diff(other["arrival_ms"]), atol=1.0)
    for name in READ_JOB:
        np.testing.assert_allclose(own[name], other[name], rtol=1e-9, atol=1e-3, err_msg=name)
    for one, two in zip(own, other, strict=True):
        rows = slice(one["first_stage"], one["first_stage"] + one["num_stages"])
        others = slice(two["first_stage"], two["first_stage"] + two["num_stages"])
        for name in READ_STAGE:
            np.testing.assert_allclose(
                live.stages[rows][name], simulated.stages[others][name], rtol=1e-6, err_msg=name
            )


@pytest.mark.parametrize("policy", ["strict_fair", "tuned_srw", "es_rule"])
def test_observations_and_actions_are_those_of_the_simulator(policy: str) -> None:
    """One run of recorded jobs, told as Spark would: equal at each decision, to the end."""
    trace = load_trace("tpch")
    rng = np.random.default_rng(3)
    rows = rng.choice(len(trace.jobs), 8, replace=False)
    jobs = tuple(trace.jobs[row] for row in rows)
    arrays = to_arrays(Trace("some", jobs))
    arrival_ms = [round(4_000.0 * number) * 1.0 for number in range(len(jobs))]
    cluster = Cluster(num_executors=SLOTS, protocol=Protocol.SESSION)
    simulator = Simulator(arrays, cluster, np.array(arrival_ms), np.arange(8, dtype=np.int32))
    told, live, tables = Told(jobs, arrival_ms), LiveJobs(Priors(Trace("some", jobs))), LiveTables()
    rule = Heuristic(policy)
    rounds = decisions = 0
    begun_ms = -1.0
    round_: Round | None = None
    while simulator.status is Status.DECIDE:
        if round_ is None or not round_.is_open or simulator.time_ms != begun_ms:
            live.update(told.report(simulator))
            round_ = tables.fill(live)
            begun_ms = simulator.time_ms
            rounds += 1
        assert round_ is not None
        assert_same(round_.observation(), simulator.observation())
        action = rule.decide(simulator.observation())
        mine = rule.decide(round_.observation())
        assert mine.limit == action.limit
        round_.assign(mine)
        simulator.step(action)
        decisions += 1
    assert rounds > 50
    assert decisions > rounds


# --- how Spark tells -----------------------------------------------------------------------------


def test_jobs_of_one_execution_are_one_job_that_grows() -> None:
    """Adaptive execution: each stage is a Spark job; what ran is listed again, and skipped."""
    live = LiveJobs()
    sql: Any = {"spark_sql_execution_id": "7"}
    live.update(report(started(0, info(0, 4, rdds="a"), **sql), sets=(task_set(0, 4, 1, 3),)))
    (job,) = live.active()
    assert (job.key, [stage.launched for stage in job.stages]) == ("sql 7", [4])
    live.update(report(StageDone(0, 0, True), JobDone(0, EPOCH_MS)))
    assert live.active() == []
    later = started(1, info(1, 4, rdds="a"), info(2, 6, (1,), rdds="b"), time_ms=9, **sql)
    live.update(report(later, sets=(task_set(2, 6, 0, 1, "sql 7"),), time_ms=9))
    (job,) = live.active()
    assert job.arrival_ms == EPOCH_MS
    assert [stage.num_tasks for stage in job.stages] == [4, 6]
    assert [stage.is_done for stage in job.stages] == [True, False]
    assert job.stages[1].parents == {0}


def test_two_shuffles_of_one_rdd_are_two_stages() -> None:
    """In one Spark job; a later one that lists the last of them again means the stage that ran."""
    live = LiveJobs()
    sql: Any = {"spark_sql_execution_id": "7"}
    stages = (info(0, 4, rdds="a"), info(1, 4, rdds="a"), info(2, 2, (0, 1)))
    sets = (task_set(0, 4, 1, 3), task_set(1, 4, 0, 1))
    live.update(report(started(0, *stages, **sql), sets=sets))
    (job,) = live.active()
    assert [(stage.num_tasks, stage.launched) for stage in job.stages] == [(4, 4), (4, 1), (2, 0)]
    assert job.stages[2].parents == {0, 1}
    live.update(report(StageDone(0, 0, True), StageDone(1, 0, True), JobDone(0, EPOCH_MS)))
    again = (info(3, 4, rdds="a"), info(4, 4, rdds="a"), info(5, 3, (3, 4)))
    live.update(report(started(1, *again, **sql), sets=(task_set(5, 3, 0, 1, "sql 7"),)))
    (job,) = live.active()
    assert [stage.num_tasks for stage in job.stages] == [4, 4, 2, 3]
    assert job.stages[3].parents == {0, 1}
    live.update(report(started(2, info(6, 4, rdds="a"), info(7, 1, (6,)), **sql)))
    assert job.stages[4].parents == {1}
    assert [stage.is_done for stage in job.stages] == [True, True, False, False, False]


def endless(live: LiveJobs, tables: LiveTables, spark_jobs: int) -> list[int]:
    """Rows of the tables at each plan of a job group whose Spark jobs follow each other at once."""
    rows = []
    for number in range(spark_jobs):
        first = 2 * number
        begun = started(number, info(first, 4), info(first + 1, 2, (first,)), time_ms=20 * number,
                        spark_jobGroup_id="night")  # fmt: skip
        sets = (task_set(first, 4, 0, 1, "group night"),)
        live.update(report(begun, sets=sets, time_ms=20 * number))
        round_ = tables.fill(live)
        assert round_ is not None
        rows.append(len(round_.observation().stages))
        ends = (StageDone(first, 0, True), StageDone(first + 1, 0, True),
                JobDone(number, EPOCH_MS + 20 * number + 10))  # fmt: skip
        live.update(report(*ends, time_ms=20 * number + 10))
    return rows


def test_finished_stages_leave_the_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job group that never pauses costs a plan the same after any number of Spark jobs; of its
    past so much is kept that memory does not grow either.
    """
    monkeypatch.setattr(live_job, "KEPT_FINISHED", 150)
    live, tables = LiveJobs(), LiveTables()
    rows = endless(live, tables, 400)
    assert rows[:50] == [2 * number + 2 for number in range(50)]
    assert set(rows[50:]) == {live_job.SHOWN_FINISHED + 2}
    (job,) = live.known()
    assert len(job.stages) <= 2 * 150 + 2
    assert len(live._place) == len(job.stages) == len(job.rows_of)
    assert [sorted(stage.parents) for stage in job.stages[-4:]] == [
        [], [len(job.stages) - 4], [], [len(job.stages) - 2]]  # fmt: skip
    assert job.measured == 0


def test_a_job_s_time_is_its_tasks_its_waiting_or_spark_s_own() -> None:
    """Arrives at 0; first tasks run from 30 to 130 and the second stage waits for slots of others
    from 140 on, to run from 500 to 700; Spark is done at 720: 30 + 10 + 20 ms are its own.
    """
    live = LiveJobs()
    other = started(0, info(9, 100))
    mine = started(1, info(0, 2), info(1, 2, (0,)), time_ms=0, decima_job="mine")
    live.update(report(other, mine, sets=(task_set(9, 100, 0, 4), task_set(0, 2, job="job mine"))))
    full = task_set(9, 100, 0, SLOTS)
    measured: tuple[Measured, ...] = (Measured(0, 2, 200.0, EPOCH_MS + 30, EPOCH_MS + 130),)
    sets = (full, task_set(1, 2, job="job mine"))
    live.update(report(StageDone(0, 0, True), sets=sets, measured=measured, time_ms=140))
    job = next(one for one in live.known() if one.key == "job mine")
    assert job.own_ms() is None
    rest = (Measured(1, 1, 100.0, EPOCH_MS + 500, EPOCH_MS + 600),
            Measured(1, 1, 200.0, EPOCH_MS + 500, EPOCH_MS + 700))  # fmt: skip
    ends = (StageDone(1, 0, True), JobDone(1, EPOCH_MS + 720))
    live.update(report(*ends, sets=(full,), measured=rest, time_ms=725))
    assert job.own_ms() == 60
    job.stages[0].last_finish_ms = None
    assert job.own_ms() is None


def test_a_skipped_stage_counts_as_done() -> None:
    """It is never submitted; that a stage above it runs says that its output is there."""
    live = LiveJobs()
    stages = (info(0, 5), info(1, 5, (0,)), info(2, 2, (1,)))
    live.update(report(started(0, *stages), sets=(task_set(2, 2, 0, 1),)))
    assert [stage.is_done for stage in live.active()[0].stages] == [True, True, False]


def test_a_lost_stage_runs_again() -> None:
    """Its new attempt has only the tasks that were lost."""
    live = LiveJobs()
    live.update(report(started(0, info(0, 5), info(1, 3, (0,))), sets=(task_set(0, 5, 5),)))
    live.update(report(StageDone(0, 0, True), sets=(task_set(1, 3, 1, 1),)))
    again = TaskSet(0, 1, "spark 0", 2, 0, 1)
    live.update(report(StageDone(1, 0, False), sets=(again,)))
    first, second = live.active()[0].stages
    assert (first.is_done, first.num_tasks, first.launched) == (False, 2, 1)
    assert not second.is_submitted


def test_a_task_set_may_be_seen_before_its_job() -> None:
    """The bus is slower than the scheduler; the event then completes what is known."""
    live = LiveJobs()
    live.update(report(sets=(task_set(4, 3, 0, 2, "job x"),)))
    assert [stage.num_tasks for stage in live.active()[0].stages] == [3]
    begun = started(0, info(4, 3), info(5, 2, (4,)), decima_job="x")
    live.update(report(begun, sets=(task_set(4, 3, 1, 2, "job x"),)))
    (job,) = live.active()
    assert [stage.num_tasks for stage in job.stages] == [3, 2]
    assert job.stages[1].parents == {0}


def test_durations_are_measured_else_known_else_guessed() -> None:
    """Of the stage; of earlier runs; of the job; of everything; a second."""
    jobs = (replace(chain("q", (3, 2)), name="q"),)
    live = LiveJobs(Priors(Trace("earlier", jobs)))
    live.update(report(started(0, info(0, 3), info(1, 9, (0,)), decima_job="q")))
    (job,) = live.active()
    assert live.mean_ms(job, job.stages[0]) == jobs[0].stages[0].mean_ms
    assert live.mean_ms(job, job.stages[1]) == DEFAULT_TASK_MS
    tasks = (Measured(0, 2, 600.0), Measured(99, 1, 9_000.0))  # the other is of a job long gone
    live.update(report(sets=(task_set(0, 3, 2),), measured=tasks))
    # Two tasks against the four that earlier runs count as.
    known_ms = jobs[0].stages[0].mean_ms
    assert live.mean_ms(job, job.stages[0]) == pytest.approx((300 * known_ms**2) ** (1 / 3))
    assert live.mean_ms(job, job.stages[1]) == 300
    live.update(report(started(1, info(7, 1)), sets=(task_set(7, 1),)))
    other = live.active()[-1]
    assert live.mean_ms(other, other.stages[0]) == 300


def test_a_slow_first_wave_does_not_hide_what_earlier_runs_took() -> None:
    """400 ms a task before; the first four take eight times as long, as on new executors do."""
    live = LiveJobs(Priors(Trace("earlier", (job_of_stages("q", stage_of("s", 20, 400)),))))
    live.update(report(started(0, info(0, 20), decima_job="q")))
    (job,) = live.active()
    live.update(report(measured=(Measured(0, 4, 4 * 3_200.0),), sets=(task_set(0, 20, 4),)))
    assert live.mean_ms(job, job.stages[0]) == pytest.approx(math.sqrt(400 * 3_200))
    live.update(report(measured=(Measured(0, 12, 12 * 400.0),), sets=(task_set(0, 20, 16),)))
    # A mean of 1,100 by now, that counts four times as much.
    assert live.mean_ms(job, job.stages[0]) == pytest.approx((1_100**4 * 400) ** (1 / 5))


def test_what_a_stage_took_is_known_when_it_is_over() -> None:
    """Earlier runs say nothing any more: of one task that took 40 s where they took 0.4."""
    live = LiveJobs(Priors(Trace("earlier", (job_of_stages("q", stage_of("s", 1, 400)),))))
    live.update(report(started(0, info(0, 1), decima_job="q")))
    (job,) = live.active()
    assert live.mean_ms(job, job.stages[0]) == 400
    live.update(report(measured=(Measured(0, 1, 40_000.0),), sets=(task_set(0, 1, 1),)))
    assert live.mean_ms(job, job.stages[0]) == 40_000


def test_the_number_of_tasks_alone_says_less() -> None:
    """An unnamed stage of four tasks: earlier ones count as a single task."""
    earlier = Trace("earlier", (job_of_stages("q", stage_of("s", 4, 400)),))
    live = LiveJobs(Priors(earlier))
    live.update(report(started(0, info(0, 4))))
    (job,) = live.active()
    live.update(report(measured=(Measured(0, 3, 3 * 100.0),), sets=(task_set(0, 4, 3),)))
    assert live.mean_ms(job, job.stages[0]) == pytest.approx((100**3 * 400) ** (1 / 4))


def test_finished_jobs_are_forgotten() -> None:
    """After a minute in which they did not grow; nothing of them is kept."""
    live = LiveJobs()
    for number in range(3):
        live.update(report(started(number, info(number, 1)), time_ms=number))
    live.update(report(*(JobDone(number, EPOCH_MS) for number in range(3))))
    assert live.active() == []
    version = live.version
    live.update(report(time_ms=FORGET_MS + 10))
    assert live.version > version
    assert not live._jobs
    assert not live._place


def test_what_is_typical_is_told_by_all_jobs_so_far() -> None:
    """Of 2, 8 and 32 tasks of a second each: while they run, when two are over, when two are
    forgotten.
    """
    live = LiveJobs()
    for number, tasks in enumerate((2, 8, 32)):
        live.update(report(started(number, info(number, tasks)), time_ms=number))
    assert live.typical_ms() == pytest.approx(8 * DEFAULT_TASK_MS)
    live.update(report(*(JobDone(number, EPOCH_MS) for number in range(2))))
    assert len(live.active()) == 1
    assert live.typical_ms() == pytest.approx(8 * DEFAULT_TASK_MS)
    live.update(report(time_ms=FORGET_MS + 10))
    assert len(live._jobs) == 1
    assert live.typical_ms() == pytest.approx(8 * DEFAULT_TASK_MS)


def test_a_job_whose_end_was_never_told_is_forgotten() -> None:
    """Events may be lost: it would count among the jobs of the moment for ever."""
    live = LiveJobs()
    live.update(report(started(0, info(0, 1)), sets=(task_set(0, 1),)))
    live.update(report(time_ms=LOST_MS - 10))
    assert len(live.active()) == 1
    live.update(report(time_ms=LOST_MS + 10))
    assert live.active() == []
    live.update(report(JobDone(0, EPOCH_MS)))


def test_critical_paths() -> None:
    """The longest sum of durations below, also of a chain deeper than Python may recurse."""
    fork = [list(row) for row in fork_join("f", (2, 5)).children]
    assert max(longest_paths(fork, [1.0] * len(fork))) == fork_depth(fork)
    deep = [[row + 1] for row in range(4_999)] + [[]]
    assert longest_paths(deep, [1.0] * 5_000)[0] == 5_000


def fork_depth(children: list[list[int]], row: int = 0) -> int:
    return 1 + max((fork_depth(children, child) for child in children[row]), default=0)


def test_names_of_jobs() -> None:
    """The rule of the JVM: our property, the SQL execution, the job group, the Spark job."""
    every = {
        "decima.job": "mine",
        "spark.sql.execution.root.id": "1",
        "spark.sql.execution.id": "2",
        "spark.jobGroup.id": "night",
    }
    names = []
    while every:
        names.append(job_of(every, 5))
        every.pop(next(iter(every)))
    assert [*names, job_of({}, 5)] == ["job mine", "sql 1", "sql 2", "group night", "spark 5"]


def test_tasks_that_nobody_needs_hold_slots_and_nothing_else() -> None:
    """A cancelled job of 1000 tasks, five of which run on: its stage is not to be had."""
    live = LiveJobs()
    begun = (started(0, info(0, 1000)), started(1, info(1, 20)))
    sets = (TaskSet(0, 0, "spark 0", 1000, 0, 5), TaskSet(1, 0, "spark 1", 20, 0, 3))
    live.update(report(*begun, sets=sets))
    dead = sets[0]._replace(is_zombie=True)
    assert dead.waiting == 0
    live.update(report(JobDone(0, EPOCH_MS), sets=(dead, sets[1])))
    plan = Planner(lambda _: Heuristic("strict_fair"), Guard()).plan(live)
    assert plan is not None
    assert (plan.chosen, plan.limits) == ((1,), {"spark 1": SLOTS - 5})


def test_an_attempt_that_ends_does_not_hide_the_next_one() -> None:
    """Five tasks of the first run on; all five of the second are to start."""
    live = LiveJobs()
    old = TaskSet(0, 0, "spark 0", 10, 5, 5, is_zombie=True)
    live.update(report(started(0, info(0, 10)), sets=(old, TaskSet(0, 1, "spark 0", 5, 0, 0))))
    (stage,) = live.active()[0].stages
    assert (stage.num_tasks, stage.all_tasks, stage.launched) == (5, 10, 0)
    plan = Planner(lambda _: Heuristic("strict_fair"), Guard()).plan(live)
    assert plan is not None
    # The classes in the JVM count the five too.
    assert (plan.chosen, plan.limits) == ((0,), {"spark 0": SLOTS})


def test_where_no_slot_will_come_back_stages_wait_for_the_next_plan() -> None:
    """All are busy with last tasks; the plan names who waits, so that nobody starts unasked."""
    live = LiveJobs()
    begun = (started(0, info(0, SLOTS)), started(1, info(1, 4)))
    sets = (TaskSet(0, 0, "spark 0", SLOTS, 0, SLOTS), TaskSet(1, 0, "spark 1", 4, 0, 0))
    live.update(report(*begun, sets=sets))
    plan = Planner(lambda _: Heuristic("strict_fair"), Guard()).plan(live)
    assert plan is not None
    assert (plan.chosen, plan.limits, plan.considered) == ((), {}, (1,))


def test_a_name_that_comes_again_is_another_job_unless_it_goes_on() -> None:
    """After five seconds of nothing; a SQL execution has its number, and may take its time."""
    live = LiveJobs()
    for number, time_ms in enumerate((0, 1_000, 20_000)):
        live.update(report(started(number, info(number, 1), time_ms=time_ms, decima_job="night")))
        live.update(report(JobDone(number, EPOCH_MS + time_ms + 100), time_ms=time_ms + 100))
    (job,) = live.known()
    assert (job.arrival_ms, len(job.stages)) == (EPOCH_MS + 20_000, 1)
    live.update(report(time_ms=20_200))
    sql: Any = {"spark_sql_execution_id": "7"}
    for number, time_ms in ((3, 21_000), (4, 41_000)):
        live.update(report(started(number, info(number, 1), time_ms=time_ms, **sql)))
        live.update(report(JobDone(number, EPOCH_MS + time_ms + 100), time_ms=time_ms + 100))
    assert [len(job.stages) for job in live.known() if job.key == "sql 7"] == [2]


def test_a_named_sql_execution_may_take_its_time() -> None:
    """The driver plans for six seconds between two stages of one execution: one job."""
    live = LiveJobs()
    for number, (execution, time_ms) in enumerate((("7", 0), ("7", 6_000), ("8", 12_000))):
        named: Any = {"decima_job": "night", "spark_sql_execution_id": execution}
        live.update(report(started(number, info(number, 1), time_ms=time_ms, **named)))
        live.update(report(JobDone(number, EPOCH_MS + time_ms + 100), time_ms=time_ms + 100))
        (job,) = live.known()
        assert len(job.stages) == (2 if number == 1 else 1)


def test_a_job_seen_before_its_name_is_known_gets_it() -> None:
    """And with it what earlier runs say of its stages."""
    jobs = (replace(chain("q", (3, 2)), name="q"),)
    live = LiveJobs(Priors(Trace("earlier", jobs)))
    live.update(report(sets=(task_set(0, 3, 0, 1, "job q #2"),)))
    live.update(report(started(0, info(0, 3), info(1, 2, (0,)), decima_job="q #2")))
    (job,) = live.active()
    assert job.name == "q"
    assert [live.mean_ms(job, one) for one in job.stages] == [
        stage.mean_ms for stage in jobs[0].stages
    ]


def test_reports_are_read() -> None:
    """As the JVM writes them."""
    text = json.dumps(
        {
            "time_ms": 5, "plan": 2, "lapsed": False, "attached": True, "dropped": 1, "slots": 8,
            "sets": [[3, 0, "sql 1", 10, 4, 2]],
            "events": [["J", 7, 4, [[3, 10, [2], [9, 8]], [2, 5, [], [6]]],
                        {"decima.job": "a"}, "job a"],
                       ["S", 2, 0, False], ["E", 7, 5]],
            "measured": [[3, 4, 1200]], "idle_ms": 40, "idle_slots": 3,
        }
    )  # fmt: skip
    found = read_report(text)
    assert found.sets[0].waiting == 4
    begun, *others = found.events
    assert isinstance(begun, JobStart)
    assert (begun.job, begun.time_ms, begun.properties) == (7, 4, {"decima.job": "a"})
    assert [stage[:3] for stage in begun.stages] == [(3, 10, (2,)), (2, 5, ())]
    assert begun.stages[0].rdds == array("q", [8, 9]).tobytes()
    assert others == [StageDone(2, 0, False), JobDone(7, 5)]
    assert found.measured == (Measured(3, 4, 1200),)
    assert (found.running, found.slots, found.dropped) == (2, 8, 1)
    assert (found.idle_ms, found.idle_slots) == (40, 3)


# --- plans ---------------------------------------------------------------------------------------


class Scripted:
    """Answers what it is told to."""

    name = "scripted"

    def __init__(self, answer: object) -> None:
        self.answer = answer

    def decide(self, seen: Observation) -> Action:
        if isinstance(self.answer, BaseException):
            raise self.answer
        if callable(self.answer):
            found: Action = self.answer(seen)
            return found
        return self.answer  # type: ignore[return-value]


def two_jobs() -> LiveJobs:
    live = LiveJobs()
    sets = (task_set(0, 9, 0, 4), task_set(1, 9, 0, 0, "spark 1"))
    live.update(report(started(0, info(0, 9)), started(1, info(1, 9), time_ms=5), sets=sets))
    return live


def test_a_plan_orders_stages_and_limits_jobs() -> None:
    """In the order of the answers; what is not chosen is named too, so that it need not wait."""
    picks = iter([Action(1, 5), PASS])
    planner = Planner(lambda _: Scripted(lambda _seen: next(picks)), Guard())
    plan = planner.plan(two_jobs())
    planner.close()
    assert plan is not None
    assert (plan.chosen, plan.limits, plan.considered) == ((1,), {"spark 1": 5}, (0, 1))
    told = {"number": 3, "limits": {"spark 1": 5}, "chosen": [1], "others": [0]}
    assert json.loads(plan.text(3)) == told


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (ValueError("no idea"), "ValueError: no idea"),
        (Action(99, 3), "stage 99 is not one of 0..1"),
        (Action(0, 99), "limit 99 must lie in 1..12"),
        (None, "illegal action None"),
        ("all of it", "illegal action 'all of it'"),
        (SystemExit(), "SystemExit"),
    ],
    ids=str,
)
def test_strict_fair_stands_in_for_a_policy_that_fails(answer: object, fault: str) -> None:
    """For that round; the failure is counted and told."""
    planner = Planner(lambda _: Scripted(answer), Guard())
    plan = planner.plan(two_jobs())
    planner.close()
    assert plan is not None
    assert plan.by == "strict_fair"
    assert plan.limits == {"spark 0": 6, "spark 1": 6}
    assert fault in str(planner.last_fault)
    assert (planner.failures, planner.failures_in_a_row) == (1, 1)


def test_a_policy_that_hangs_is_left_behind() -> None:
    """Strict fair decides in time, and goes on deciding while the policy is busy."""
    import threading

    release = threading.Event()
    planner = Planner(lambda _: Scripted(lambda _: release.wait(5) and PASS), Guard(decision_s=0.1))
    live = two_jobs()
    for count in (1, 2, 3):
        plan = planner.plan(live)
        assert plan is not None
        assert plan.by == "strict_fair"
        assert planner.failures_in_a_row == count
    release.set()
    planner.close()


def test_a_job_does_not_starve() -> None:
    """Beyond the bound it gets a slot first, even if the policy never schedules anything."""
    planner = Planner(lambda _: Scripted(PASS), Guard(starve_s=60))
    live = two_jobs()
    sets = (task_set(0, 9, 0, 4), task_set(1, 9, 0, 0, "spark 1"))
    for second, expected in ((0, {}), (59, {}), (61, {"spark 1": 1})):
        live.update(report(time_ms=1000 * second + 5, sets=sets))
        plan = planner.plan(live)
        assert plan is not None
        assert plan.limits == expected
    assert planner.starved == 1
    planner.close()


def test_a_job_that_ran_meanwhile_has_not_starved() -> None:
    """Two minutes without a plan, since nothing waited: only what waits after them counts."""
    planner = Planner(lambda _: Scripted(PASS), Guard(starve_s=60))
    live = two_jobs()
    runs = (task_set(0, 9, 0, 4), task_set(1, 9, 0, 4, "spark 1"))
    waits = (task_set(0, 9, 0, 4), task_set(1, 9, 0, 0, "spark 1"))
    for second, sets, expected in (
        (0, runs, {}),
        (120, waits, {}),
        (179, waits, {}),
        (181, waits, {"spark 1": 1}),
    ):
        live.update(report(time_ms=1000 * second + 5, sets=sets))
        plan = planner.plan(live)
        assert plan is not None
        assert plan.limits == expected, second
    planner.close()


def plans_for_idle_slots(policy: object, live: LiveJobs, idle_slots: int) -> Planner:
    """A planner that was told every second for 26 s that so many slots stand idle."""
    planner = Planner(lambda _: policy, Guard(idle_s=5.0, starve_s=3_600))  # type: ignore[arg-type,return-value]
    sets = (task_set(0, 9, 0, 4), task_set(1, 9, 0, 0, "spark 1"))
    for second in range(27):
        live.update(report(time_ms=1000 * second, sets=sets))
        plan = planner.plan(live, idle_ms=1000 * second, idle_slots=idle_slots)
        assert plan is not None
        assert (plan.by == "strict_fair") == (plan.fault is not None), second
    planner.close()
    return planner


@pytest.mark.parametrize(
    "answer",
    [PASS, lambda seen: Action(int(seen.open_stages()[0]), 1)],
    ids=["only passes", "limits too low"],
)
def test_idle_slots_are_a_fault_of_the_policy(answer: Any) -> None:
    """Each time the bound is over; rounds that leave slots idle do not make it well again."""
    planner = plans_for_idle_slots(Scripted(answer), two_jobs(), idle_slots=8)
    assert planner.last_fault == "8 slots idle for 26.0 s beside tasks that wait"
    assert (planner.failures, planner.failures_in_a_row) == (5, 5)


def test_slots_that_strict_fair_leaves_idle_are_no_fault() -> None:
    """One job runs its last tasks, and the other is at its share."""
    policy = Heuristic("weighted_fair", {"alpha": 0.0, "limit_factor": 1.0})
    for idle_slots, faults in ((2, 0), (3, 5)):
        live = LiveJobs()
        sets = (task_set(0, 4, 0, 4), task_set(1, 90, 0, 6, "spark 1"))
        begun = (started(0, info(0, 4)), started(1, info(1, 90), time_ms=5))
        live.update(report(*begun, sets=sets))
        planner = Planner(lambda _: policy, Guard(idle_s=5.0))
        for second in range(27):
            live.update(report(time_ms=1000 * second, sets=sets))
            planner.plan(live, idle_ms=1000 * second, idle_slots=idle_slots)
        planner.close()
        assert planner.failures == faults


def test_a_moment_of_idleness_is_no_fault() -> None:
    """Policies may wait for something, as long as slots do not stand idle for the bound."""
    planner = Planner(lambda _: Scripted(PASS), Guard(idle_s=5.0))
    live = two_jobs()
    sets = (task_set(0, 9, 0, 4), task_set(1, 9, 0, 0, "spark 1"))
    for second in range(20):
        live.update(report(time_ms=1000 * second, sets=sets))
        planner.plan(live, idle_ms=1000 * (second % 5), idle_slots=8)
    planner.close()
    assert planner.failures == 0


def test_guards_are_checked() -> None:
    """In one line that names the bound."""
    with pytest.raises(AttachError, match="guard: idle_s must be a number above 0, got -1"):
        Guard(idle_s=-1)


def test_a_policy_of_others_cannot_write() -> None:
    """It fails for it, and nothing has changed; one that asks ours gets the same answers."""

    def writes(seen: Observation) -> Action:
        seen.jobs["held"][:] = 0
        return PASS

    rule = Heuristic("strict_fair")
    plans = []
    for policy in (Scripted(writes), Scripted(rule.decide)):
        guest = Guest(policy)
        planner = Planner(lambda _, guest=guest: guest, Guard(decision_s=60))  # type: ignore[misc]
        plans.append(planner.plan(two_jobs()))
        planner.close()
    replaced, asked = plans
    assert replaced is not None
    assert asked is not None
    assert replaced.fault is not None
    assert "read-only" in replaced.fault
    assert asked.fault is None
    assert asked.limits == replaced.limits == {"spark 0": 6, "spark 1": 6}


def test_read_only_views_compile_nothing_anew() -> None:
    """That would take a minute, inside a decision."""
    from decima.heuristics.run import decide

    live = two_jobs()
    round_ = LiveTables().fill(live)
    assert round_ is not None
    rule = Heuristic("strict_fair")
    expected = rule.decide(round_.observation())
    compiled = len(decide.signatures)  # type: ignore[attr-defined]
    assert rule.decide(read_only(round_.observation())) == expected
    assert len(decide.signatures) == compiled  # type: ignore[attr-defined]


def test_nothing_to_decide() -> None:
    """No job, no slot, or no task to start: no plan."""
    planner = Planner(lambda _: Heuristic("strict_fair"), Guard())
    assert planner.plan(LiveJobs()) is None
    live = two_jobs()
    live.slots = 0
    assert planner.plan(live) is None
    live = LiveJobs()
    live.update(report(started(0, info(0, 2)), sets=(task_set(0, 2, 0, 2),)))
    assert planner.plan(live) is None
    planner.close()


def test_jobs_are_in_the_order_of_arrival() -> None:
    """Whatever order they were told in, as the simulator has them."""
    live = two_jobs()
    assert all(one.arrival_ms <= two.arrival_ms for one, two in pairwise(live.active()))
