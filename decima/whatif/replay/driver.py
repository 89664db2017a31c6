"""Time of the driver between tasks of a job, measured from an event log.

A stage does not start the moment its last parent ends. The driver has to notice, to plan (between
the Spark jobs of one query: broadcasts, adaptive execution), to send tasks out. At the end of a job
it fetches and merges results. A trace holds tasks only, so a replay that knows no more is too fast.
The log has these times, with one exception: a stage that finds every slot busy waits for a slot,
too. Then what the driver needed is not seen, and the median of the stages that found a free slot
stands in for it (or the whole wait, if that was shorter).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from traces import Job, Stage, Trace, TraceError
from traces.numbers import Float64
from traces.spark_log import GroupBy, ImportSummary, read_spark_logs
from traces.spark_log.application import Application, read_application
from traces.spark_log.events import POOL, Outcome
from traces.spark_log.files import find_logs
from traces.spark_log.slots import place, task_cpus

SHORTEST_WAIT_MS = 1.0
"""the clock's step; shorter waits are not modelled"""
_STAGE = "stage "
# How the importer names stages: by Spark's number.


@dataclass(frozen=True)
class DriverRecord:
    """The driver's share of one job."""

    before_ms: float
    """from the submission of the job until its first stage could start"""
    wait_ms: tuple[float, ...]
    """for each stage from the end of its last parent, or from the end of `before_ms`, until it
    could start"""
    after_ms: float
    """from the end of the last task to the end of the job"""
    spark_job: tuple[int, ...]
    """for each stage the Spark job that listed it first; Spark's FIFO goes by these"""
    pool: str | None = None
    """the pool that it was submitted to; None where the log names none"""

    @classmethod
    def none(cls, job: Job) -> DriverRecord:
        """A driver that takes no time and runs `job` as one Spark job."""
        return cls(0.0, (0.0,) * len(job.stages), 0.0, (0,) * len(job.stages))

    def without_times(self) -> DriverRecord:
        """Return the record of a driver that takes no time."""
        return replace(self, before_ms=0.0, wait_ms=(0.0,) * len(self.wait_ms), after_ms=0.0)


@dataclass(frozen=True)
class Recording:
    """Event logs as a trace, with what the driver took."""

    trace: Trace
    summary: ImportSummary
    driver: tuple[DriverRecord, ...]
    """for each job of the trace"""

    @property
    def recorded_ms(self) -> Float64:
        """(J,) how long each job took."""
        rows = self._rows()
        return np.array([row["end_ms"] - row["start_ms"] for row in rows], np.float64)

    @property
    def end_ms(self) -> Float64:
        """(J,) when each job ended, on the clock of the arrivals."""
        return np.array([row["end_ms"] for row in self._rows()], np.float64)

    @property
    def arrival_ms(self) -> Float64:
        """(J,) when each job was submitted."""
        return np.array([row["start_ms"] for row in self._rows()], np.float64)

    @property
    def application(self) -> NDArray[np.int64]:
        """(J,) position of each job's application in the metadata."""
        return np.array([row["application"] for row in self._rows()], np.int64)

    @property
    def slots(self) -> tuple[int, ...]:
        """Slots of each application."""
        return tuple(int(facts["slots"]) for facts in self.trace.metadata["applications"])

    def _rows(self) -> list[dict[str, int]]:
        recorded = self.trace.metadata["recorded"]
        return [recorded[job.name] for job in self.trace.jobs]


def read_recording(paths: Sequence[Path], *, group_by: GroupBy = GroupBy.SQL) -> Recording:
    """Read event logs: once for the jobs, once more for the driver's times.

    Raises:
        TraceError: as for `traces.spark_log.read_spark_logs`.
    """
    trace, summary = read_spark_logs(paths, group_by=group_by)
    facts: list[dict[str, Any]] = trace.metadata["applications"]
    jobs_of: list[list[int]] = [[] for _ in facts]
    for index, job in enumerate(trace.jobs):
        jobs_of[trace.metadata["recorded"][job.name]["application"]].append(index)
    driver = [DriverRecord.none(job) for job in trace.jobs]
    for position, application in _applications(paths, facts):
        log = _StageTimes(application, int(facts[position]["slots"]))
        found = log.measure([trace.jobs[index] for index in jobs_of[position]], trace)
        for index, times in zip(jobs_of[position], found, strict=True):
            driver[index] = times
    return Recording(trace, summary, tuple(driver))


def with_waits(job: Job, times: DriverRecord) -> Job:
    """`job` with a stage of one task for each wait, so that a simulator knows it.

    The wait takes a slot, which the driver's work does not: one slot for the time of the wait.
    `before_ms` and `after_ms` are left out; they need no slot and move the job's ends.
    """
    stages = list(job.stages)
    for index, (stage, wait_ms) in enumerate(zip(job.stages, times.wait_ms, strict=True)):
        if wait_ms < SHORTEST_WAIT_MS:
            continue
        wait = Stage.fixed(f"driver before {stage.name}", 1, wait_ms, stage.parents)
        stages.append(wait)
        parents = (len(stages) - 1,)
        stages[index] = Stage(
            stage.name, stage.num_tasks, parents, stage.durations, stage.cpu, stage.memory_mb
        )
    return Job(job.name, tuple(stages), job.arrival_ms)


def _applications(
    paths: Sequence[Path], facts: Sequence[dict[str, Any]]
) -> Iterator[tuple[int, Application]]:
    """The logs that have jobs in the trace, read again, with their position in `facts`."""
    position = 0
    for log in find_logs(paths):
        if position == len(facts):
            return
        wanted = facts[position]
        if log.path.name != wanted["log"]:
            continue
        try:
            application = read_application(log, ImportSummary())
        except TraceError:
            continue
        if application.app_id == wanted["id"]:
            yield position, application
            position += 1


class _StageTimes:
    """Times when the stages of one application ran, and when all its slots were busy."""

    def __init__(self, application: Application, slots: int) -> None:
        """`slots`: of the application, where the log lacks an executor's cores."""
        self._application = application
        tasks = application.tasks
        placed = place(application)
        stage = np.array(tasks.stage, np.int64)
        won = np.array(tasks.outcome, np.int8) == Outcome.SUCCESS
        self._stages, row = np.unique(stage[won], return_inverse=True)
        self._first_ms = np.full(len(self._stages), np.inf)
        self._last_ms = np.full(len(self._stages), -np.inf)
        np.minimum.at(self._first_ms, row, placed.launch_ms[won])
        np.maximum.at(self._last_ms, row, placed.finish_ms[won])
        self._full = _full_time(application, placed.launch_ms, placed.finish_ms, slots)

    def measure(self, jobs: Sequence[Job], trace: Trace) -> list[DriverRecord]:
        """The driver's times in `jobs`, all jobs that the application has in `trace`.

        Raises:
            TraceError: the log is not the one that `trace` comes from.
        """
        self._check(jobs)
        recorded = trace.metadata["recorded"]
        rows = [self._rows(job) for job in jobs]
        submitted = [self._submitted_ms(job) for job in jobs]
        starts = [float(recorded[job.name]["start_ms"]) for job in jobs]
        # The trace counts from its first submission, the log from 1970.
        origin_ms = min(
            float(times.min()) - start for times, start in zip(submitted, starts, strict=True)
        )
        ready = [self._ready_ms(job, rows[k], origin_ms + starts[k]) for k, job in enumerate(jobs)]
        typical_ms = self._typical_launch_ms(rows, ready, submitted)
        found = []
        for k, job in enumerate(jobs):
            launch_ms = self._launch_ms(rows[k], ready[k], submitted[k], typical_ms)
            wait_ms = np.maximum(submitted[k] - ready[k], 0.0) + launch_ms
            end_ms = origin_ms + float(recorded[job.name]["end_ms"])
            after_ms = max(0.0, end_ms - float(self._last_ms[rows[k]].max()))
            spark_jobs = self._spark_jobs(job)
            first = self._application.jobs[min(spark_jobs)]
            pool = first.start.properties.get(POOL)
            found.append(_split(job, wait_ms, after_ms, spark_jobs, pool))
        return found

    def _check(self, jobs: Sequence[Job]) -> None:
        known = self._application.first_job.keys() & set(self._stages.tolist())
        for job in jobs:
            if not known.issuperset(_numbers(job)):
                raise TraceError(f"{self._application.path}: changed while it was read")

    def _spark_jobs(self, job: Job) -> tuple[int, ...]:
        return tuple(self._application.first_job[number] for number in _numbers(job))

    def _rows(self, job: Job) -> NDArray[np.int64]:
        return np.searchsorted(self._stages, _numbers(job))

    def _submitted_ms(self, job: Job) -> Float64:
        """(stages,) submission of the Spark job that lists each stage first."""
        spark_jobs = self._application.jobs
        return np.array(
            [spark_jobs[number].start.time_ms for number in self._spark_jobs(job)], np.float64
        )

    def _ready_ms(self, job: Job, rows: NDArray[np.int64], start_ms: float) -> Float64:
        """(stages,) the end of the last parent, for a stage without parents the job's start."""
        return np.array(
            [
                max((self._last_ms[rows[parent]] for parent in stage.parents), default=start_ms)
                for stage in job.stages
            ]
        )

    def _typical_launch_ms(
        self,
        rows: Sequence[NDArray[np.int64]],
        ready: Sequence[Float64],
        submitted: Sequence[Float64],
    ) -> float:
        """Median time from submission to first task over the stages that found a free slot."""
        if not rows:
            return 0.0
        since = np.maximum(np.concatenate(ready), np.concatenate(submitted))
        first = self._first_ms[np.concatenate(rows)]
        free = (first >= since) & ~self._was_full(since, first)
        return float(np.median((first - since)[free])) if free.any() else 0.0

    def _launch_ms(
        self, rows: NDArray[np.int64], ready: Float64, submitted: Float64, typical_ms: float
    ) -> Float64:
        since = np.maximum(ready, submitted)
        first = self._first_ms[rows]
        seen = np.maximum(first - since, 0.0)
        known: Float64 = np.where(self._was_full(since, first), np.minimum(seen, typical_ms), seen)
        return known

    def _was_full(self, begin_ms: Float64, end_ms: Float64) -> NDArray[np.bool_]:
        """Return whether every slot was busy at some time in the interval."""
        times, total = self._full
        spent = np.interp(end_ms, times, total) - np.interp(begin_ms, times, total)
        found: NDArray[np.bool_] = spent > 0
        return found


def _numbers(job: Job) -> list[int]:
    """Spark's numbers of the stages of `job`."""
    return [int(stage.name.removeprefix(_STAGE)) for stage in job.stages]


def _split(
    job: Job, wait_ms: Float64, after_ms: float, spark_job: tuple[int, ...], pool: str | None
) -> DriverRecord:
    """Take what all first stages wait for out of their waits."""
    roots = [index for index, stage in enumerate(job.stages) if not stage.parents]
    before_ms = float(wait_ms[roots].min())
    wait_ms[roots] -= before_ms
    return DriverRecord(before_ms, tuple(wait_ms.tolist()), after_ms, spark_job, pool)


def _full_time(
    application: Application,
    launch_ms: NDArray[np.int64],
    finish_ms: NDArray[np.int64],
    slots: int,
) -> tuple[Float64, Float64]:
    """(M,) times and (M,) for how long until then every slot was busy."""
    free_changes = [
        (launch_ms, np.full(len(launch_ms), -1)),
        (finish_ms, np.full(len(finish_ms), 1)),
        _capacity_changes(application, slots),
    ]
    times = np.concatenate([change[0] for change in free_changes])
    change = np.concatenate([change[1] for change in free_changes])
    steps, place_of = np.unique(times, return_inverse=True)
    free = np.bincount(place_of, weights=change).cumsum()
    spent = np.diff(steps, append=steps[-1:]) * (free <= 0)
    return steps.astype(np.float64), np.concatenate([[0.0], spent.cumsum()[:-1]])


def _capacity_changes(
    application: Application, slots: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Times when the application gained and lost slots."""
    executors = application.executors
    if any(executor.cores is None or executor.added_ms is None for executor in executors):
        return np.zeros(1, np.int64), np.full(1, slots)
    cpus = task_cpus(application)
    changes = [(0, 0)]
    for executor in executors:
        capacity = max(1, (executor.cores or 0) // cpus)
        changes.append((executor.added_ms or 0, capacity))
        if executor.removed_ms is not None:
            changes.append((executor.removed_ms, -capacity))
    return np.array([when for when, _ in changes]), np.array([number for _, number in changes])
