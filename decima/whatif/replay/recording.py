"""Event logs as what a replay starts from: jobs, the driver's times, slots, who waits for whom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from decima.whatif.closed_loop import predecessors
from decima.whatif.replay.allocation import Behaviour, Changes, allocation, curve, is_dynamic
from decima.whatif.replay.breakdown import Breakdown
from decima.whatif.replay.demands import Demands
from decima.whatif.replay.dependencies import Dependency
from decima.whatif.replay.driver import DriverRecord, Life, LogNote, NotedJob, note
from decima.whatif.replay.pools import Pools
from spark_sim import Allocation, Slots
from spark_sim.needs import neediest_stage
from spark_sim.tables import NONE
from traces import Job, Trace
from traces.numbers import Float64, Int64
from traces.spark_log import GroupBy, ImportSummary
from traces.spark_log.files import Named, find_logs
from traces.spark_log.reader import HowToRead, ReadLog, joined, read_log, trace_of_logs

FIFO, FAIR, POOLS = "fifo", "spark_fair", "spark_pools"
ORDERS = (FIFO, FAIR, POOLS)
"""the policies that Spark itself has: one queue, a pool for each job, the pools of the recording"""
_FAIR = "FAIR"


class NeedyStage(NamedTuple):
    """A stage whose tasks take several slots, or start all at once."""

    job: str
    name: str
    slots: int  # that it needs at once

    def words(self) -> str:
        return f"{self.name} of {self.job!r:.60} needs {self.slots:,} slots at once"


@dataclass(frozen=True)
class Recording:
    """Event logs as a trace, with what their application met."""

    trace: Trace
    """tasks take as long as they held their slots, retries included"""
    summary: ImportSummary
    driver: tuple[DriverRecord, ...]
    """for each job of the trace"""
    curves: tuple[Slots, ...] = ()
    """for each application its slots over time, on the clock of the arrivals; () where they are not
    known"""
    follows: tuple[int, ...] = ()
    """for each job the one after whose end it was submitted, NONE where it came by itself; () where
    all did"""
    behaviours: tuple[Behaviour, ...] = ()
    """for each application how its executors came and went; () where that is not known"""
    lives: tuple[Life, ...] = ()
    """for each application its start and end, on the clock of the arrivals; () where its jobs are
    all that is known"""
    given_pools: Pools | None = None
    """of the allocation file that a person named; None where there is none"""
    breakdowns: tuple[Breakdown, ...] = ()
    """for each job the parts of its JCT; () where only jobs are known"""
    clean_jobs: tuple[Job, ...] = ()
    """the jobs with one attempt at each task, the first that succeeded; () likewise"""
    dependencies: tuple[Dependency, ...] = ()
    """which jobs need another one, by row; () where only jobs are known"""
    before: Recording | None = None
    """as it was recorded, of one whose tasks have other demands; None of one that has not"""

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
        """Slots of each application: the most that it had at once."""
        return tuple(int(facts["slots"]) for facts in self.trace.metadata["applications"])

    @property
    def followed(self) -> Int64:
        """(J,) as `follows`, always of all jobs."""
        if self.follows:
            return np.array(self.follows, np.int64)
        return np.full(len(self.trace.jobs), NONE)

    def with_jobs(self, jobs: tuple[Job, ...]) -> Recording:
        return replace(self, trace=replace(self.trace, jobs=jobs))

    def curve(self, application: int) -> Slots:
        """The slots over time of one application."""
        if self.curves:
            return self.curves[application]
        return Slots(np.zeros(1), np.array(self.slots[application : application + 1]))

    def life(self, application: int) -> Life:
        if self.lives:
            return self.lives[application]
        rows = self.application == application
        return Life(float(self.arrival_ms[rows].min()), float(self.end_ms[rows].max()), None)

    def settings(self, application: int) -> Mapping[str, str]:
        settings: Mapping[str, str] = self.trace.metadata["applications"][application]["settings"]
        return settings

    def allocation(
        self, application: int, changes: Mapping[str, str] | None = None
    ) -> Allocation | None:
        """The model of one application's dynamic allocation, `changes` made; None without one."""
        settings = self.settings(application)
        if changes is None and not is_dynamic(settings):
            return None
        behaviour = self.behaviours[application] if self.behaviours else Behaviour.unknown()
        return allocation(settings, behaviour, self.curve(application), changes)

    def neediest(self) -> NeedyStage | None:
        """The stage that needs the most slots at once; None where every task takes any one slot."""
        columns = self.trace.columns
        need = neediest_stage(columns, self.slots_each(range(columns.num_jobs)))
        if need is None or need.slots is None:
            return None
        job = columns.job_name[int(columns.job_of_stage[need.stage])]
        return NeedyStage(job, columns.stage_name[need.stage], need.slots)

    def slots_each(self, jobs: Sequence[int]) -> int:
        """Slots of most executors of these jobs' applications, or of the widest task."""
        applications = set(self.application[list(jobs)].tolist())
        sizes = [
            self.behaviours[position].slots_each for position in applications if self.behaviours
        ]
        tasks = [stage.slots for job in jobs for stage in self.trace.jobs[job].stages]
        widest: int = max(1, *sizes, *tasks)
        return widest

    def pools(self, application: int) -> Pools:
        facts = self.trace.metadata["applications"][application]
        return self.given_pools or Pools.without_file(facts["spark_version"])

    def policy(self, application: int) -> str:
        facts = self.trace.metadata["applications"][application]
        if facts["settings"].get("spark.scheduler.mode", "").upper() != _FAIR:
            return FIFO
        rows = np.flatnonzero(self.application == application).tolist()
        names = {self.driver[row].pool for row in rows}
        return FAIR if len(names) == len(rows) and self.given_pools is None else POOLS

    def _rows(self) -> list[dict[str, int]]:
        recorded = self.trace.metadata["recorded"]
        return [recorded[job.name] for job in self.trace.jobs]


def read_recording(
    paths: Sequence[Path],
    *,
    group_by: GroupBy = GroupBy.SQL,
    pools: Pools | None = None,
    demands: Demands | None = None,
) -> Recording:
    """Read event logs with all that a replay needs; arguments as for `read_spark_logs`.

    `pools` are the settings of all applications; None means that they had no allocation file.
    With `demands` tasks and slots are as these ask for, and `Recording.before` is the recording.
    """
    how = HowToRead(group_by)
    noted = partial(note, demands=demands)
    logs = joined(read_log(log, how, noted) for log in find_logs(paths))
    recording = recording_of(logs, paths, group_by=group_by, pools=pools)
    if demands is None:
        return recording
    asked = [replace(log, notes=tuple(part.asked for part in log.notes)) for log in logs]
    changed = recording_of(asked, paths, group_by=group_by, pools=pools)
    return replace(changed, before=recording)


def recording_of(
    logs: list[ReadLog],
    paths: Sequence[Named],
    *,
    group_by: GroupBy = GroupBy.SQL,
    pools: Pools | None = None,
) -> Recording:
    """Make a recording of logs that were read with the note `driver.note`, and joined."""
    trace, summary = trace_of_logs(logs, paths, group_by=group_by)
    application = Recording(trace, summary, ()).application
    noted_jobs: dict[int, NotedJob] = {}
    curves, behaviours, lives, needed = [], [], [], list[Dependency]()
    origin_ms = float(min(job.start_ms for log in logs for job in log.jobs))
    for position, log in enumerate(log for log in logs if log.jobs):
        notes: tuple[LogNote, ...] = log.notes  # one for each attempt to run the application
        noted = [job for attempt in notes for job in attempt.jobs]
        # Jobs of the trace are in the order of submission.
        order = np.argsort([recorded.start_ms for recorded in log.jobs], kind="stable")
        rows = np.flatnonzero(application == position).tolist()
        noted_jobs |= {row: noted[place] for row, place in zip(rows, order.tolist(), strict=True)}
        row_of = dict(zip(order.tolist(), rows, strict=True))
        first = 0
        for attempt in notes:
            needed += [
                each._replace(job=row_of[first + each.job], on=row_of[first + each.on])
                for each in attempt.dependencies
            ]
            first += len(attempt.jobs)
        changes = Changes(
            *map(np.concatenate, zip(*(attempt.slots for attempt in notes), strict=True))
        )
        curves.append(curve(changes, origin_ms, float(max(job.end_ms for job in log.jobs))))
        executors = sum(attempt.behaviour.executors or 0 for attempt in notes) or None
        behaviours.append(replace(notes[0].behaviour, executors=executors))
        begin_ms = min(attempt.life.begin_ms for attempt in notes) - origin_ms
        end_ms = max(attempt.life.end_ms for attempt in notes) - origin_ms
        lives.append(Life(begin_ms, end_ms, notes[0].life.executor_ms))
    jobs, clean_jobs = (
        tuple(
            replace(job, name=named.name, arrival_ms=named.arrival_ms)
            for job, named in zip(column, trace.jobs, strict=True)
        )
        for column in (
            [noted_jobs[row].job for row in range(len(trace.jobs))],
            [noted_jobs[row].clean for row in range(len(trace.jobs))],
        )
    )
    recording = Recording(
        replace(trace, jobs=jobs),
        summary,
        tuple(noted_jobs[row].driver for row in range(len(jobs))),
        tuple(curves),
        (),
        tuple(behaviours),
        tuple(lives),
        pools,
        tuple(noted_jobs[row].breakdown for row in range(len(jobs))),
        clean_jobs,
        tuple(needed),
    )
    return replace(recording, follows=_follows(recording))


def _follows(recording: Recording) -> tuple[int, ...]:
    """Return for each job the one that its client waited for."""
    leaders = np.full(len(recording.trace.jobs), NONE)
    arrival_ms, end_ms = recording.arrival_ms, recording.end_ms
    work_ms = np.array([job.work_ms for job in recording.trace.jobs])
    shapes = [tuple(stage.num_tasks for stage in job.stages) for job in recording.trace.jobs]
    for position in range(len(recording.slots)):
        rows = np.flatnonzero(recording.application == position)
        lanes = list(zip(*(recording.driver[row].lanes for row in rows.tolist()), strict=True))
        alike = [shapes[row] for row in rows.tolist()]
        followed = predecessors(arrival_ms[rows], end_ms[rows], work_ms[rows], lanes, alike)
        leaders[rows[followed != NONE]] = rows[followed[followed != NONE]]
    return tuple(leaders.tolist())
