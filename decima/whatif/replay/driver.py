"""Time of the driver between tasks of a job, measured from an event log.

A stage does not start the moment its last parent ends. The driver has to notice, to plan (between
the Spark jobs of one query: broadcasts, adaptive execution), to send tasks out. At the end of a job
it fetches and merges results. A trace holds tasks only, so a replay that knows no more is too fast.
The log has these times, but for one thing: a stage that finds no free slot waits for one, too.
That time is taken off; what is left is at most what stages needed, in the median, that found a free
slot at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from decima.whatif.replay.allocation import Behaviour, Changes, executors_of, task_changes
from decima.whatif.replay.breakdown import (
    Attempts,
    Breakdown,
    Room,
    StageRecord,
    breakdown,
)
from decima.whatif.replay.demands import Demands, other_slots
from decima.whatif.replay.dependencies import Dependency, dependencies
from traces import Job, LevelDurations, Stage
from traces.numbers import Float64, Int64
from traces.spark_log.application import Application
from traces.spark_log.assemble import JobAssembler, RecordedJob
from traces.spark_log.events import EXECUTION_ID, JOB_GROUP, POOL, Outcome
from traces.spark_log.slots import DEFAULT, SHORTEST_MS, Placement

DRIVER = "driver"
"""id of the only executor in local mode"""
_STAGE = "stage "
# How the importer names stages: by Spark's number.


@dataclass(frozen=True)
class DriverRecord:
    """The driver's share of one job."""

    wait_ms: tuple[float, ...]
    """for each stage from the end of its last parent, or from the submission of the job, until it
    could start"""
    after_ms: float
    """from the end of the last task to the end of the job"""
    spark_job: tuple[int, ...]
    """for each stage the Spark job that listed it first; Spark's FIFO goes by these"""
    number: tuple[int, ...]
    """for each stage Spark's number"""
    pool: str | None = None
    """the pool that it was submitted to; None where the log names none"""
    lanes: tuple[str | None, ...] = ()
    """what may identify the client that submitted it: job group, pool, SQL execution"""

    @classmethod
    def none(cls, job: Job) -> DriverRecord:
        """A driver that takes no time and runs `job` as one Spark job."""
        count = len(job.stages)
        return cls((0.0,) * count, 0.0, (0,) * count, tuple(range(count)))

    def without_times(self) -> DriverRecord:
        return replace(self, wait_ms=(0.0,) * len(self.wait_ms), after_ms=0.0)


class Life(NamedTuple):
    """Start and end of an application."""

    begin_ms: float
    """its start, or the submission of its first job where the log lacks it"""
    end_ms: float
    """its end, or that of its last job where the log lacks it"""
    executor_ms: float | None
    """from its start to its first executor; None where that is unknown, or in the driver"""


class NotedJob(NamedTuple):
    """Data of one job."""

    job: Job  # with the times that tasks held their slots, retries included
    driver: DriverRecord
    clean: Job  # as `job`, without attempts that failed or were needless
    breakdown: Breakdown


class LogNote(NamedTuple):
    """Data that a replay needs of one log; times are on the log's own clock."""

    jobs: tuple[NotedJob, ...]
    slots: Changes  # slots that came and went, those that jobs left out took away
    behaviour: Behaviour  # of the executors
    life: Life
    asked: LogNote | None  # under other demands, where these were asked for
    dependencies: tuple[Dependency, ...]  # of the jobs, by their places in `jobs`


def note(
    application: Application,
    assembler: JobAssembler,
    jobs: Sequence[RecordedJob],
    demands: Demands | None = None,
) -> LogNote:
    """Make the note of a log that is read (`traces.spark_log.reader.Note`)."""
    return _Log(application, assembler, jobs).note(demands)


class _Stages(NamedTuple):
    """The stages of one job."""

    first_ms: Int64  # (stages,) start of the first attempt
    last_ms: Int64  # (stages,) end of the last attempt that succeeded
    ready_ms: Float64  # (stages,) end of the last parent, or start of the job
    submitted_ms: Float64  # (stages,) submission of the Spark job that lists the stage first

    @property
    def since_ms(self) -> Float64:
        """(stages,) from when on the stage needs slots."""
        return np.maximum(self.ready_ms, self.submitted_ms)


class _Need(NamedTuple):
    """What a stage needs to start."""

    slots: int  # of one executor, for each task
    at_once: int  # tasks that must start together
    profile: int | None  # of the only executors that may run it; None: all may


class _Log:
    """Times at which the stages of one application ran, or found no free slot."""

    def __init__(
        self, application: Application, assembler: JobAssembler, jobs: Sequence[RecordedJob]
    ) -> None:
        self._application = application
        self._placement: Placement = assembler.placement
        self._attempts = assembler.attempts
        self._jobs = jobs
        self._won = np.array(application.tasks.outcome, np.int8) == Outcome.SUCCESS
        self._partition = np.array(application.tasks.partition, np.int64)
        self._stages = [
            self._times(recorded, rows)
            for recorded, rows in zip(jobs, assembler.attempts, strict=True)
        ]
        since = np.concatenate([times.since_ms for times in self._stages])
        first = np.concatenate([times.first_ms for times in self._stages])
        self._executors = executors_of(
            application, self._placement, (since.astype(np.int64), np.maximum(first, since))
        )
        self._slots = self._executors.changes()
        self._rooms: dict[_Need, Room] = {}

    def note(self, demands: Demands | None) -> LogNote:
        # Median time from need to first task over the stages that found a free slot.
        since = np.concatenate([times.since_ms for times in self._stages])
        first = np.concatenate([times.first_ms for times in self._stages])
        stages = [stage for recorded in self._jobs for stage in recorded.job.stages]
        free = (first >= since) & (self._without_room(stages, since, first) == 0)
        typical_ms = float(np.median((first - since)[free])) if free.any() else 0.0
        in_trace = np.zeros(len(self._won), np.bool_)
        for rows in self._attempts:
            in_trace[np.concatenate(rows)] = True
        jobs = []
        for place, recorded in enumerate(self._jobs):
            job = self._job(place)
            record = self._record(recorded, self._stages[place], typical_ms)
            jobs.append(NotedJob(job, record, self._clean(place, job), self._breakdown(place)))
        times, by = [], []  # at which tasks began and ceased to wait
        for stages_of_job, attempts in zip(self._stages, self._attempts, strict=True):
            for since_ms, tries in zip(stages_of_job.since_ms.tolist(), attempts, strict=True):
                launch_ms = np.maximum(self._placement.launch_ms[tries], int(since_ms))
                times.append(np.append(launch_ms, int(since_ms)))
                by.append(np.append(np.full(len(tries), -1), len(tries)))
        waiting = Changes(np.concatenate(times), np.concatenate(by))
        behaviour = Behaviour.of(self._executors, waiting, self._application.properties)
        slots = self._slots.then(task_changes(self._placement, ~in_trace))
        log = self._application
        first_ms = float(min(recorded.start_ms for recorded in self._jobs))
        last_ms = float(max(recorded.end_ms for recorded in self._jobs))
        executor_ms = None
        added = [executor.added_ms for executor in log.executors if executor.added_ms is not None]
        if log.begin_ms is not None and added and DRIVER not in log.executor_ids:
            executor_ms = float(max(0, min(added) - log.begin_ms))
        life = Life(
            first_ms if log.begin_ms is None else min(first_ms, float(log.begin_ms)),
            last_ms if log.end_ms is None else max(last_ms, float(log.end_ms)),
            executor_ms,
        )
        needed = dependencies(log, self._jobs)
        noted = LogNote(tuple(jobs), slots, behaviour, life, None, needed)
        return (
            noted
            if demands is None
            else noted._replace(asked=self._asked(noted, demands, ~in_trace))
        )

    def _asked(self, noted: LogNote, demands: Demands, left_out: NDArray[np.bool_]) -> LogNote:
        """Return the note of the same tasks and executors under other demands."""
        slots = other_slots(self._application, demands, self._placement, self._executors, left_out)
        jobs = tuple(
            job._replace(
                job=slots.applied(job.job, numbers), clean=slots.applied(job.clean, numbers)
            )
            for job in noted.jobs
            for numbers in [job.driver.number]
        )
        behaviour = replace(noted.behaviour, slots_each=slots.each)
        return noted._replace(jobs=jobs, slots=slots.changes, behaviour=behaviour)

    def _times(self, recorded: RecordedJob, rows: Sequence[Int64]) -> _Stages:
        launch, finish, won = self._placement.launch_ms, self._placement.finish_ms, self._won
        first = np.array([launch[attempts].min() for attempts in rows], np.int64)
        last = np.array([finish[attempts][won[attempts]].max() for attempts in rows], np.int64)
        ready = [
            max((float(last[parent]) for parent in stage.parents), default=float(recorded.start_ms))
            for stage in recorded.job.stages
        ]
        starts = [
            float(self._application.jobs[number].start_ms)
            for number in self._spark_jobs(recorded.job)
        ]
        return _Stages(first, last, np.array(ready), np.array(starts))

    def _job(self, place: int) -> Job:
        """The job whose tasks take as long as they held their slots."""
        job, times = self._jobs[place].job, self._stages[place]
        stages = []
        for stage, rows, end_ms in zip(
            job.stages, self._attempts[place], times.last_ms.tolist(), strict=True
        ):
            held = held_ms(
                self._partition[rows],
                self._placement.launch_ms[rows],
                self._placement.finish_ms[rows],
                end_ms,
                barrier=stage.barrier,
            )
            measured = sum(len(wave) for wave in stage.durations[0].waves)
            missing = max(0, stage.num_tasks - measured)
            level = LevelDurations.of(stage.durations[0].executors, rest_ms=held)
            stages.append(replace(stage, num_tasks=len(held) + missing, durations=(level,)))
        return replace(job, stages=tuple(stages))

    def _clean(self, place: int, job: Job) -> Job:
        """Return `job` with one attempt at each task: the first that succeeded."""
        stages, had_one_attempt = list(job.stages), True
        for row, (stage, attempts) in enumerate(
            zip(self._jobs[place].job.stages, self._attempts[place], strict=True)
        ):
            level = stage.durations[0]
            durations_ms = np.concatenate(level.waves)
            if len(durations_ms) < len(attempts):
                once = LevelDurations.of(level.executors, rest_ms=durations_ms)
                num_tasks = max(stage.num_tasks, len(durations_ms))
                stages[row] = replace(stages[row], num_tasks=num_tasks, durations=(once,))
                had_one_attempt = False
        return job if had_one_attempt else replace(job, stages=tuple(stages))

    def _breakdown(self, place: int) -> Breakdown:
        recorded, times = self._jobs[place], self._stages[place]
        needs = self._needs(recorded.job.stages)
        stages = [
            StageRecord(
                Attempts(
                    self._partition[rows],
                    self._placement.launch_ms[rows],
                    self._placement.finish_ms[rows],
                    self._won[rows],
                ),
                since_ms,
                last_ms,
                self._room(need),
            )
            for rows, since_ms, last_ms, need in zip(
                self._attempts[place],
                times.since_ms.tolist(),
                times.last_ms.tolist(),
                needs,
                strict=True,
            )
        ]
        return breakdown(float(recorded.start_ms), float(recorded.end_ms), stages)

    def _record(self, recorded: RecordedJob, times: _Stages, typical_ms: float) -> DriverRecord:
        since = times.since_ms
        waited_ms = np.maximum(times.first_ms - since, 0.0)
        blocked = self._without_room(recorded.job.stages, since, times.first_ms)
        launch = np.where(blocked > 0, np.minimum(waited_ms - blocked, typical_ms), waited_ms)
        wait_ms = np.maximum(times.submitted_ms - times.ready_ms, 0.0) + np.maximum(launch, 0.0)
        spark_jobs = self._spark_jobs(recorded.job)
        properties = self._application.jobs[min(spark_jobs)].properties
        return DriverRecord(
            tuple(wait_ms.tolist()),
            max(0.0, float(recorded.end_ms - times.last_ms.max())),
            spark_jobs,
            _numbers(recorded.job),
            properties.get(POOL),
            (properties.get(JOB_GROUP), properties.get(POOL), properties.get(EXECUTION_ID)),
        )

    def _spark_jobs(self, job: Job) -> tuple[int, ...]:
        return tuple(self._application.first_job[number] for number in _numbers(job))

    def _needs(self, stages: Sequence[Stage]) -> list[_Need]:
        own_executors = self._placement.needs.own_executors
        needs = []
        for stage in stages:
            profile = None
            if own_executors:
                requested = self._application.listed[_number(stage)].profile
                profile = requested if requested in own_executors else DEFAULT
            needs.append(_Need(stage.slots, stage.num_tasks if stage.barrier else 1, profile))
        return needs

    def _without_room(
        self, stages: Sequence[Stage], begin_ms: Float64, end_ms: NDArray[np.int64]
    ) -> Float64:
        """(S,) how long each of the stages could not have started a task between the times."""
        needs = self._needs(stages)
        kinds = list(dict.fromkeys(needs))
        kind_of = np.array([kinds.index(need) for need in needs], np.int64)
        blocked_ms = np.zeros(len(stages))
        for kind, need in enumerate(kinds):
            rows = kind_of == kind
            times, total = self._room(need).full
            until, since = (np.interp(at[rows], times, total) for at in (end_ms, begin_ms))
            blocked_ms[rows] = until - since
        return blocked_ms

    def _room(self, need: _Need) -> Room:
        if need not in self._rooms:
            all_rows = np.arange(len(self._won))
            self._rooms[need] = Room(
                self._time_without_room(need, all_rows), self._time_without_room(need, all_rows[:0])
            )
        return self._rooms[need]

    def _time_without_room(self, need: _Need, tasks: Int64) -> tuple[Float64, Float64]:
        """(M,) times, and (M,) for how long until then fewer tasks had room than must start.

        Beside the `tasks`, given as rows, that hold slots.
        """
        if need.slots == 1 and need.profile is None:
            held = task_changes(self._placement, tasks)
            return _time_below(self._slots.then(held), need.at_once)
        executor = np.array(self._application.tasks.executor, np.int64)[tasks]
        order = tasks[np.argsort(executor, kind="stable")]
        edges = np.searchsorted(np.sort(executor), np.arange(len(self._executors.slots) + 1))
        parts = []
        for number, executor_of_log in enumerate(self._application.executors):
            if need.profile not in (None, executor_of_log.profile):
                continue
            held = task_changes(self._placement, order[edges[number] : edges[number + 1]])
            times, free = self._executors.only(number).changes().then(held).steps()
            fit = np.maximum(free, 0) // need.slots
            parts.append(Changes(times, np.diff(fit, prepend=0)))
        if not parts:  # the log lacks the executors of this profile
            return np.zeros(1), np.zeros(1)
        room = Changes(*map(np.concatenate, zip(*parts, strict=True)))
        return _time_below(room, need.at_once)


def held_ms(
    partition: Int64, launch_ms: Int64, finish_ms: Int64, end_ms: int, *, barrier: bool = False
) -> Float64:
    """Durations of the tasks of a stage from (A,) attempts, in no order; `end_ms` completes it.

    Spark starts a failed task anew as soon as a slot is free, so a task counts as one that takes as
    long as its attempts together. A copy that ran beside its task (speculation) counts as a task of
    its own. What still ran when its stage was complete (a copy that was overtaken) counts up to
    there. Spark never copies a task of a barrier stage: all its attempts are one task, and are as
    many as must start at once.
    """
    began = launch_ms < end_ms
    partition, launch_ms = partition[began], launch_ms[began]
    finish_ms = np.minimum(finish_ms[began], end_ms)
    order = np.lexsort((launch_ms, partition))
    partition, launch_ms, finish_ms = partition[order], launch_ms[order], finish_ms[order]
    length = np.maximum(finish_ms - launch_ms, SHORTEST_MS).astype(np.float64)
    if len(partition) == 0:
        return np.full(1, float(SHORTEST_MS))
    # An attempt continues its task if all of its earlier ones had ended.
    latest = finish_ms.copy()
    continues = np.zeros(len(partition), np.bool_)
    for row in np.flatnonzero(partition[1:] == partition[:-1]) + 1:
        continues[row] = barrier or launch_ms[row] >= latest[row - 1] - SHORTEST_MS
        latest[row] = max(latest[row], latest[row - 1])
    held = np.zeros(int((~continues).sum()))
    np.add.at(held, np.cumsum(~continues) - 1, length)
    return held


def _numbers(job: Job) -> tuple[int, ...]:
    """Spark's numbers of the stages of `job`."""
    return tuple(_number(stage) for stage in job.stages)


def _number(stage: Stage) -> int:
    return int(stage.name.removeprefix(_STAGE))


def _time_below(changes: Changes, least: int) -> tuple[Float64, Float64]:
    """(M,) times, and (M,) for how long until then the number was lower than `least`."""
    steps, free = changes.steps()
    spent = np.diff(steps, append=steps[-1:]) * (free < least)
    return steps.astype(np.float64), np.concatenate([[0.0], spent.cumsum()[:-1]])
