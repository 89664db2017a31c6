"""`LiveJobs`: Spark's jobs and stages, put together from reports to the jobs that a policy knows.

A job is a SQL execution, a job group, or a Spark job (`reports.job_of`). Under adaptive execution
every stage is a Spark job of its own: they are joined into one job that grows. A stage that is
listed again because its output is reused is the stage that ran: both have the same RDDs.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from decima.spark.priors import Priors
from decima.spark.reports import JobDone, Measured, Report, StageDone, TaskSet, job_of
from traces.spark_log.events import JOB_DESCRIPTION, OWN_JOB, JobStart, StageInfo

FORGET_MS = 60_000
"""a job without an unfinished Spark job may still grow for so long"""
NEXT_RUN_MS = 5_000
"""one that the application has named: after so long it is another run by the same name"""
LOST_MS = 600_000
"""a job that held no task set for so long has ended, and its event was lost"""
DEFAULT_TASK_MS = 1_000.0
"""of a task, while nothing at all has been measured"""


@dataclass
class LiveStage:
    """What is known of one stage; counts are those of its newest attempt."""

    num_tasks: int
    """of its newest attempt"""
    all_tasks: int = 0
    """of its largest attempt: a later one may only repeat what was lost"""
    parents: set[int] = field(default_factory=set)
    """rows of the same job"""
    spark_stage: int = -1
    """the id under which it runs or ran last"""
    successful: int = 0
    running: int = 0
    is_submitted: bool = False
    """Spark holds tasks of it"""
    is_done: bool = False
    measured: int = 0
    measured_ms: float = 0.0
    prior_ms: float | None = None

    @property
    def launched(self) -> int:
        return self._at_most_all(self.successful + self.running)

    @property
    def finished(self) -> int:
        return self._at_most_all(self.successful)

    def _at_most_all(self, count: int) -> int:
        return self.num_tasks if self.is_done else min(self.num_tasks, count)


@dataclass
class LiveJob:
    """Stages in the order in which Spark named them."""

    key: str
    name: str
    """by which earlier runs of it are known"""
    arrival_ms: int
    stages: list[LiveStage] = field(default_factory=list)
    row_of: dict[bytes, int] = field(default_factory=dict)
    """stage by its RDDs"""
    unfinished: set[int] = field(default_factory=set)
    """Spark jobs"""
    seen_ms: int = 0
    """when a Spark job of it last began or ended, or held a task set"""
    done_ms: int | None = None
    """when the last of its Spark jobs ended"""

    @property
    def is_active(self) -> bool:
        return bool(self.unfinished) or any(stage.is_submitted for stage in self.stages)


class LiveJobs:
    """All jobs in the system, kept up to date by `update`."""

    def __init__(self, priors: Priors | None = None) -> None:
        self._priors = priors
        self.version = 0
        """grows when a job, a stage or an edge comes or goes"""
        self.slots = 0
        self.time_ms = 0
        self.forgotten: list[LiveJob] = []
        """jobs that the last `update` found to be over"""
        self._next_forgotten: list[LiveJob] = []
        self._jobs: dict[str, LiveJob] = {}
        self._place: dict[int, tuple[LiveJob, int]] = {}
        """Spark's stage id -> job, row"""
        self._job_of_spark_job: dict[int, LiveJob] = {}
        self.lost_slots: dict[str, int] = {}
        """by job: slots of tasks that run on though nobody needs them any more"""
        self._measured = 0
        self._measured_ms = 0.0

    def known(self) -> list[LiveJob]:
        """Jobs that run, and those that ended a short while ago."""
        return list(self._jobs.values())

    def active(self) -> list[LiveJob]:
        """Jobs with something left to run, by arrival."""
        return sorted(
            (job for job in self._jobs.values() if job.is_active and job.stages),
            key=lambda job: job.arrival_ms,
        )

    def update(self, report: Report) -> None:
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
        self._take_sets(report.sets)
        self._forget()

    def mean_ms(self, job: LiveJob, stage: LiveStage) -> float:
        """Expected duration of the stage's tasks: measured, else earlier runs', else the mean of
        the job's, else of all tasks so far.
        """
        if stage.measured:
            return max(1.0, stage.measured_ms / stage.measured)
        if stage.prior_ms is not None:
            return stage.prior_ms
        count = sum(one.measured for one in job.stages)
        if count:
            return max(1.0, sum(one.measured_ms for one in job.stages) / count)
        return max(1.0, self._measured_ms / self._measured) if self._measured else DEFAULT_TASK_MS

    # --- events ----------------------------------------------------------------------------------

    def _start(self, event: JobStart) -> None:
        key = job_of(event.properties, event.job)
        known = self._jobs.get(key)
        if known is not None and self._is_over(known, event.time_ms):
            self._next_forgotten.append(self._drop(key))
        job = self._job(key, event.time_ms)
        # "q5 #17": the seventeenth run of q5
        named = event.properties.get(OWN_JOB) or event.properties.get(JOB_DESCRIPTION)
        if named is not None:
            job.name = named.partition(" #")[0]
        job.unfinished.add(event.job)
        job.seen_ms = event.time_ms
        self._job_of_spark_job[event.job] = job
        infos = sorted(event.stages, key=lambda info: info.stage)
        for info in infos:
            self._add_stage(job, info)
        for info in infos:
            self._add_parents(job, info)
        self._look_up(job)

    @staticmethod
    def _is_over(job: LiveJob, time_ms: int) -> bool:
        """Whether what begins now under its name is another job: a SQL execution has its own."""
        is_named = not job.key.startswith("sql ")
        return is_named and not job.is_active and time_ms - job.seen_ms > NEXT_RUN_MS

    def _job(self, key: str, time_ms: int) -> LiveJob:
        if key not in self._jobs:
            self._jobs[key] = LiveJob(key, key.partition(" ")[2], time_ms, seen_ms=time_ms)
            self.version += 1
        return self._jobs[key]

    def _look_up(self, job: LiveJob) -> None:
        """What earlier runs of the job say of its stages: the n-th with so many tasks is known."""
        if self._priors is None:
            return
        seen: Counter[int] = Counter()
        for stage in job.stages:
            place = seen[stage.all_tasks]
            stage.prior_ms = self._priors.mean_ms(job.name, stage.all_tasks, place)
            seen[stage.all_tasks] += 1

    def _add_stage(self, job: LiveJob, info: StageInfo) -> None:
        known = self._place.get(info.stage)
        if known is not None and known[0] is job:  # its tasks were there before this event
            row = known[1]
        elif info.rdds in job.row_of:
            row = job.row_of[info.rdds]
        else:
            row = self._new_stage(job, info.num_tasks)
            job.stages[row].spark_stage = info.stage
        job.row_of[info.rdds] = row
        self._place[info.stage] = (job, row)

    def _new_stage(self, job: LiveJob, num_tasks: int) -> int:
        job.stages.append(LiveStage(num_tasks, all_tasks=num_tasks))
        self.version += 1
        return len(job.stages) - 1

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
            self.version += 1

    def _finish_stage(self, event: StageDone) -> None:
        place = self._place.get(event.stage)
        if place is not None and event.succeeded:
            place[0].stages[place[1]].is_done = True

    def _measure(self, tasks: Measured) -> None:
        place = self._place.get(tasks.stage)
        if place is None:
            return
        stage = place[0].stages[place[1]]
        stage.measured += tasks.num_tasks
        stage.measured_ms += tasks.total_ms
        self._measured += tasks.num_tasks
        self._measured_ms += tasks.total_ms

    # --- task sets -------------------------------------------------------------------------------

    def _take_sets(self, sets: tuple[TaskSet, ...]) -> None:
        self.lost_slots = {}
        for job in self._jobs.values():
            for stage in job.stages:
                stage.is_submitted = False
                stage.running = 0
        for one in sorted(sets, key=lambda one: (one.stage, one.attempt)):
            job, row = self._place.get(one.stage) or self._unannounced(one)
            job.seen_ms = self.time_ms
            if one.is_zombie:
                lost = self.lost_slots.get(job.key, 0)
                self.lost_slots[job.key] = lost + one.running
                continue
            stage = job.stages[row]
            stage.spark_stage = one.stage
            stage.num_tasks = one.num_tasks
            stage.all_tasks = max(stage.all_tasks, one.num_tasks)
            stage.successful = one.successful
            stage.running = one.running
            stage.is_submitted = True
            stage.is_done = one.successful >= one.num_tasks
            self._finish_ancestors(job, row)

    def _unannounced(self, one: TaskSet) -> tuple[LiveJob, int]:
        """A task set whose job's event is still on its way."""
        job = self._job(one.job, self.time_ms)
        self._place[one.stage] = (job, self._new_stage(job, one.num_tasks))
        return self._place[one.stage]

    def _finish_ancestors(self, job: LiveJob, row: int) -> None:
        """A stage runs, so what it waits for is complete, or was skipped."""
        waiting = list(job.stages[row].parents)
        while waiting:
            stage = job.stages[waiting.pop()]
            if not stage.is_submitted and not stage.is_done:
                stage.is_done = True
                waiting.extend(stage.parents)

    def _forget(self) -> None:
        gone = [
            key
            for key, job in self._jobs.items()
            if self.time_ms - job.seen_ms > (LOST_MS if job.is_active else FORGET_MS)
        ]
        self.forgotten = [*self._next_forgotten, *(self._drop(key) for key in gone)]
        self._next_forgotten = []

    def _drop(self, key: str) -> LiveJob:
        job = self._jobs.pop(key)
        self._place = {stage: at for stage, at in self._place.items() if at[0] is not job}
        for number in job.unfinished:
            self._job_of_spark_job.pop(number, None)
        self.version += 1
        return job
