"""`LiveJobs`: Spark's jobs and stages, put together from reports to the jobs that a policy knows.

A job is a SQL execution, a job group, or a Spark job (`reports.job_of`). Under adaptive execution
every stage is a Spark job of its own: they are joined into one job that grows. A stage that is
listed again because its output is reused is the stage that ran: both have the same RDDs.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable

from decima.spark.live_job import LiveJob, LiveStage
from decima.spark.priors import Match, Prior, Priors
from decima.spark.reports import (
    JobDone,
    Measured,
    SessionReport,
    StageDone,
    TaskSet,
    execution_of,
    job_of,
)
from spark_sim.tables import LEAST_WORK_MS
from traces.spark_log.events import JobStart, StageInfo
from traces.spark_log.names import NEXT_RUN_MS, queries_of

FORGET_MS = 60_000
"""a job without an unfinished Spark job may still grow for so long"""
LOST_MS = 600_000
"""a job that held no task set for so long has ended, and its event was lost"""
QUIET_MS = 500
"""a job of which nothing was heard since its last end for so long is taken to be over"""
DEFAULT_TASK_MS = 1_000.0
"""of a task, while nothing at all has been measured"""
PRIOR_TASKS = {Match.NAME: 4.0, Match.SHAPE: 1.0}
"""number of measured tasks that earlier runs of a stage count for, by how the runs
were found"""


class LiveJobs:
    """All jobs in the system, updated by `update`."""

    def __init__(self, priors: Priors | None = None) -> None:
        self._priors = priors
        self.version = 0
        """grows when a job, a stage or an edge comes or goes"""
        self.slots = 0
        self.time_ms = 0
        self.last_arrival_ms = 0
        """of any job, those that are over included"""
        self._first_arrival_ms = math.inf
        self.forgotten: list[LiveJob] = []
        """jobs that the last `update` found to be over"""
        self._next_forgotten: list[LiveJob] = []
        self.ended: list[LiveJob] = []
        """jobs that the last `update` found to have ended, or to be lost; one that goes on after
        its end comes again"""
        self._ending: dict[str, LiveJob] = {}
        """jobs whose last end was not in `ended` yet"""
        self._dropped: list[LiveJob] = []
        """likewise, of those that are known no more"""
        self._jobs: dict[str, LiveJob] = {}
        self._place: dict[int, tuple[LiveJob, int]] = {}
        """Spark's stage id -> job, row"""
        self._job_of_spark_job: dict[int, LiveJob] = {}
        self.lost_slots: dict[str, int] = {}
        """by job: slots of tasks that still run although their results are not needed"""
        self._forgotten_jobs = 0
        self._forgotten_work_log = 0.0
        """sum over them of log(work in ms)"""
        self._measured = 0
        self._measured_ms = 0.0
        self._submitted: list[tuple[LiveJob, LiveStage]] = []
        """in the newest report"""
        self.matches: Counter[Match] = Counter()
        """stages so far, by how earlier runs were found for them"""

    def known(self) -> list[LiveJob]:
        """Jobs that run, and those that ended a short while ago."""
        return list(self._jobs.values())

    def untold(self) -> list[LiveJob]:
        """Jobs that run, and those that ended since the last `update` of `ended`."""
        return [job for key, job in self._jobs.items() if job.is_active or key in self._ending]

    def active(self) -> list[LiveJob]:
        """Jobs with something left to run, by arrival."""
        return sorted(
            (job for job in self._jobs.values() if job.is_active and job.stages),
            key=lambda job: job.arrival_ms,
        )

    def update(self, report: SessionReport) -> None:
        """Take in the events, then the task sets, which have the last word."""
        self.time_ms = report.time_ms
        self.slots = report.slots
        for event in report.events:
            if isinstance(event, JobStart):
                self._start(event)
            elif isinstance(event, JobDone):
                self._end(event)
            else:
                self._finish_stage(event)
        for tasks in report.measured:
            self._measure(tasks)
        self._take_sets(report)
        self._forget()

    def mean_ms(self, job: LiveJob, stage: LiveStage) -> float:
        """Expected duration of the stage's tasks: measured and earlier runs', else the mean of
        the job's, else of all tasks so far.
        """
        prior = stage.prior
        if stage.measured:
            measured_ms = max(1.0, stage.measured_ms / stage.measured)
            is_over = stage.is_done or stage.measured >= stage.num_tasks
            return measured_ms if is_over else _between(measured_ms, stage.measured, prior)
        if prior is not None and prior.mean_ms is not None:
            return prior.mean_ms
        if job.measured:
            return max(1.0, job.measured_ms / job.measured)
        return max(1.0, self._measured_ms / self._measured) if self._measured else DEFAULT_TASK_MS

    def typical_ms(self) -> float:
        """Work of a job: geometric mean over all so far, those that are over included."""
        count = self._forgotten_jobs + len(self._jobs)
        total = self._forgotten_work_log + sum(map(self._work_log, self._jobs.values()))
        return math.exp(total / max(1, count))

    def mean_gap_ms(self) -> float:
        """Mean time between arrivals so far, of jobs that are over, too; infinity before the
        second.
        """
        gaps = self._forgotten_jobs + len(self._jobs) - 1
        return (self.last_arrival_ms - self._first_arrival_ms) / gaps if gaps > 0 else math.inf

    def _work_log(self, job: LiveJob) -> float:
        work_ms = sum(stage.num_tasks * self.mean_ms(job, stage) for stage in job.stages)
        return math.log(max(work_ms, LEAST_WORK_MS))

    # --- events ----------------------------------------------------------------------------------

    def _start(self, event: JobStart) -> None:
        key = job_of(event.properties, event.job)
        known = self._jobs.get(key)
        if known is not None and self._is_over(known, event):
            self._next_forgotten.append(self._drop(key))
        job = self._job(key, event.time_ms)
        job.execution = execution_of(event.properties)
        self._trim(job)
        self._take_names(job, event)
        job.unfinished.add(event.job)
        job.seen_ms = event.time_ms
        self._job_of_spark_job[event.job] = job
        infos = sorted(event.stages, key=lambda info: info.stage)
        self._add_stages(job, infos)
        for info in infos:
            self._add_parents(job, info)

    @staticmethod
    def _is_over(job: LiveJob, event: JobStart) -> bool:
        """Return whether this event begins another job of the same name, not more of a SQL
        execution.
        """
        execution = execution_of(event.properties)
        goes_on = job.is_active or (execution is not None and execution == job.execution)
        return not goes_on and event.time_ms - job.seen_ms > NEXT_RUN_MS

    def _job(self, key: str, time_ms: int) -> LiveJob:
        if key not in self._jobs:
            self._jobs[key] = LiveJob(key, key.partition(" ")[2], time_ms, seen_ms=time_ms)
            self.last_arrival_ms = max(self.last_arrival_ms, time_ms)
            self._first_arrival_ms = min(self._first_arrival_ms, time_ms)
            self.version += 1
        return self._jobs[key]

    def _trim(self, job: LiveJob) -> None:
        new_of = job.trim()
        if not new_of:
            return
        for number in list(job.spark_stages):
            row = new_of.get(self._place[number][1])
            if row is None:
                job.spark_stages.remove(number)
                del self._place[number]
            else:
                self._place[number] = (job, row)
        self.version += 1

    def _take_names(self, job: LiveJob, event: JobStart) -> None:
        """Take the names of the newest Spark job, unless it has fewer: a broadcast has no name."""
        queries = queries_of(event.properties)
        if not queries or queries == job.queries or (job.queries and not queries[0].is_given):
            return
        job.queries = queries
        if queries[0].is_given:
            job.name = queries[0].name
        self._look_up(job, [job.stages[row] for row in job.open_rows])

    def _look_up(self, job: LiveJob, stages: Iterable[LiveStage]) -> None:
        """Look up these stages in earlier runs of the job."""
        if self._priors is None:
            return
        for stage in stages:
            if stage.prior is not None:
                self.matches[stage.prior.match] -= 1
            stage.prior = self._priors.find(job.queries, stage.all_tasks, stage.place)
            self.matches[stage.prior.match] += 1

    def _add_stages(self, job: LiveJob, infos: list[StageInfo]) -> None:
        rows = self._known_rows(job, infos)
        for info in infos:
            row = rows.get(info.stage)
            if row is None:
                row = self._new_stage(job, info.stage, info.num_tasks)
            self._place[info.stage] = (job, row)
            job.spark_stages.add(info.stage)
            over_same = job.rows_of.setdefault(info.rdds, [])
            if row not in over_same:
                over_same.append(row)

    def _known_rows(self, job: LiveJob, infos: list[StageInfo]) -> dict[int, int]:
        """Return the rows of stages that are known already, by Spark's id.

        They were seen before this event, or are over the same RDDs. Two stages of one Spark job are
        always distinct: the last of those over the same RDDs is the last known.
        """
        found: dict[int, int] = {}
        for info in infos:
            known = self._place.get(info.stage)
            if known is not None and known[0] is job:
                found[info.stage] = known[1]
        taken = set(found.values())
        for info in reversed(infos):
            free = [row for row in job.rows_of.get(info.rdds, ()) if row not in taken]
            if info.stage not in found and free:
                found[info.stage] = free[-1]
                taken.add(free[-1])
        return found

    def _new_stage(self, job: LiveJob, spark_stage: int, num_tasks: int) -> int:
        row = job.add_stage(num_tasks)
        job.stages[row].spark_stage = spark_stage
        self._look_up(job, [job.stages[row]])
        self.version += 1
        return row

    def _add_parents(self, job: LiveJob, info: StageInfo) -> None:
        row = self._place[info.stage][1]
        for parent in info.parents:
            place = self._place.get(parent)
            if place is None or place[0] is not job or place[1] == row:
                continue
            if place[1] not in job.stages[row].parents:
                job.stages[row].parents.add(place[1])
                self.version += 1

    def _end(self, event: JobDone) -> None:
        job = self._job_of_spark_job.pop(event.job, None)
        if job is not None:
            job.unfinished.discard(event.job)
            job.seen_ms = job.done_ms = event.time_ms
            self._ending[job.key] = job
            self.version += 1

    def _finish_stage(self, event: StageDone) -> None:
        place = self._place.get(event.stage)
        if place is not None and event.succeeded:
            place[0].set_done(place[1], True)

    def _measure(self, tasks: Measured) -> None:
        place = self._place.get(tasks.stage)
        if place is None:
            return
        job, row = place
        stage = job.stages[row]
        stage.measured += tasks.num_tasks
        stage.measured_ms += tasks.total_ms
        job.measured += tasks.num_tasks
        job.measured_ms += tasks.total_ms
        self._measured += tasks.num_tasks
        self._measured_ms += tasks.total_ms
        if tasks.first_launch_ms is not None and tasks.last_finish_ms is not None:
            first, last = stage.first_launch_ms, stage.last_finish_ms
            begin_ms, end_ms = tasks.first_launch_ms, tasks.last_finish_ms
            stage.first_launch_ms = begin_ms if first is None else min(first, begin_ms)
            stage.last_finish_ms = end_ms if last is None else max(last, end_ms)

    # --- task sets -------------------------------------------------------------------------------

    def _take_sets(self, report: SessionReport) -> None:
        self.lost_slots = {}
        for job, stage in self._submitted:
            stage.is_submitted = False
            stage.running = job.submitted = job.running = 0
        self._submitted = []
        is_full = report.running >= report.slots
        for one in sorted(report.sets, key=lambda one: (one.stage, one.attempt)):
            job, row = self._place.get(one.stage) or self._unannounced(one)
            job.seen_ms = self.time_ms
            if one.is_zombie:
                lost = self.lost_slots.get(job.key, 0)
                self.lost_slots[job.key] = lost + one.running
                continue
            self._take_set(job, row, one)
            stage = job.stages[row]
            if is_full and stage.launched == 0 and stage.kept_since_ms is None:
                stage.kept_since_ms = self.time_ms

    def _take_set(self, job: LiveJob, row: int, one: TaskSet) -> None:
        stage = job.stages[row]
        stage.spark_stage = one.stage
        stage.num_tasks = one.num_tasks
        stage.all_tasks = max(stage.all_tasks, one.num_tasks)
        stage.successful = one.successful
        stage.running = one.running
        if not stage.is_submitted:
            stage.is_submitted = True
            job.submitted += 1
            self._submitted.append((job, stage))
        job.running += one.running
        job.set_done(row, one.successful >= one.num_tasks)
        self._finish_ancestors(job, row)

    def _unannounced(self, one: TaskSet) -> tuple[LiveJob, int]:
        """A task set whose job's event is still on its way."""
        job = self._job(one.job, self.time_ms)
        self._place[one.stage] = (job, self._new_stage(job, one.stage, one.num_tasks))
        job.spark_stages.add(one.stage)
        return self._place[one.stage]

    def _finish_ancestors(self, job: LiveJob, row: int) -> None:
        """A stage runs, so what it waits for is complete, or was skipped."""
        waiting = list(job.stages[row].parents)
        while waiting:
            row = waiting.pop()
            stage = job.stages[row]
            if not stage.is_submitted and not stage.is_done:
                job.set_done(row, True)
                waiting.extend(stage.parents)

    def _forget(self) -> None:
        gone = [
            key
            for key, job in self._jobs.items()
            if self.time_ms - job.seen_ms > (LOST_MS if job.is_active else FORGET_MS)
        ]
        self.forgotten = [*self._next_forgotten, *(self._drop(key) for key in gone)]
        self._next_forgotten = []
        quiet = [
            key
            for key, job in self._ending.items()
            if not job.is_active and self.time_ms - job.seen_ms >= QUIET_MS
        ]
        self.ended = [*self._dropped, *(self._ending.pop(key) for key in quiet)]
        self._dropped = []

    def _drop(self, key: str) -> LiveJob:
        job = self._jobs.pop(key)
        if self._ending.pop(key, None) is not None or job.is_active:
            self._dropped.append(job)
        self._forgotten_jobs += 1
        self._forgotten_work_log += self._work_log(job)
        for stage in job.spark_stages:
            self._place.pop(stage, None)
        for number in job.unfinished:
            self._job_of_spark_job.pop(number, None)
        self.version += 1
        return job


def _between(measured_ms: float, tasks: int, prior: Prior | None) -> float:
    """Geometric mean of both, by how many tasks each speaks for: the first tasks of a new executor
    may take ten times as long, and those that end first are the short ones.
    """
    if prior is None or prior.mean_ms is None:
        return measured_ms
    weight = PRIOR_TASKS[prior.match] / (PRIOR_TASKS[prior.match] + tasks)
    log_ms = (1.0 - weight) * math.log(measured_ms) + weight * math.log(prior.mean_ms)
    return max(1.0, math.exp(log_ms))
