"""Event logs as what a replay starts from: jobs, the driver's times, slots, who waits for whom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from decima.whatif.closed_loop import predecessors
from decima.whatif.replay.allocation import Behaviour, allocation, is_dynamic
from decima.whatif.replay.capacity import Changes, curve
from decima.whatif.replay.driver import DriverRecord, Life, LogNote, note
from decima.whatif.replay.pools import Pools
from spark_sim import Allocation, Slots
from spark_sim.needs import neediest_stage
from spark_sim.tables import NONE
from traces import Job, Trace
from traces.numbers import Float64, Int64
from traces.spark_log import GroupBy, ImportSummary
from traces.spark_log.files import find_logs
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
        """Describe what it needs."""
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

    def curve(self, application: int) -> Slots:
        """The slots over time of one application."""
        if self.curves:
            return self.curves[application]
        return Slots(np.zeros(1), np.array(self.slots[application : application + 1]))

    def life(self, application: int) -> Life:
        """Return start and end of one application, on the clock of the arrivals."""
        if self.lives:
            return self.lives[application]
        rows = self.application == application
        return Life(float(self.arrival_ms[rows].min()), float(self.end_ms[rows].max()), None)

    def settings(self, application: int) -> Mapping[str, str]:
        """Spark's settings of one application, as far as they shape jobs."""
        found: Mapping[str, str] = self.trace.metadata["applications"][application]["settings"]
        return found

    def allocation(
        self, application: int, changes: Mapping[str, str] | None = None
    ) -> Allocation | None:
        """The model of one application's dynamic allocation, with other settings if asked.

        None where neither the log nor `changes` has dynamic allocation.
        """
        settings = self.settings(application)
        if changes is None and not is_dynamic(settings):
            return None
        behaviour = self.behaviours[application] if self.behaviours else Behaviour.unknown()
        return allocation(settings, behaviour, self.curve(application), changes)

    def neediest(self) -> NeedyStage | None:
        """The stage that needs the most slots at once; None where every task takes any one slot."""
        columns = self.trace.columns
        found = neediest_stage(columns, self.slots_each(range(columns.num_jobs)))
        if found is None or found.slots is None:
            return None
        job = columns.job_name[int(columns.job_of_stage[found.stage])]
        return NeedyStage(job, columns.stage_name[found.stage], found.slots)

    def slots_each(self, jobs: Sequence[int]) -> int:
        """Slots of most executors of these jobs' applications, or of the widest task."""
        applications = set(self.application[list(jobs)].tolist())
        sizes = [self.behaviours[one].slots_each for one in applications if self.behaviours]
        tasks = [stage.slots for job in jobs for stage in self.trace.jobs[job].stages]
        found: int = max(1, *sizes, *tasks)
        return found

    def pools(self, application: int) -> Pools:
        """The settings of the pools of one application."""
        facts = self.trace.metadata["applications"][application]
        return self.given_pools or Pools.without_file(facts["spark_version"])

    def policy(self, application: int) -> str:
        """The policy that the application's own settings name."""
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
    paths: Sequence[Path], *, group_by: GroupBy = GroupBy.SQL, pools: Pools | None = None
) -> Recording:
    """Read event logs with all that a replay needs; arguments as for `read_spark_logs`.

    `pools` are the settings of all applications; None means that they had no allocation file.
    """
    how = HowToRead(group_by)
    logs = joined(read_log(log, how, note) for log in find_logs(paths))
    trace, summary = trace_of_logs(logs, paths, group_by=group_by)
    found = Recording(trace, summary, ())
    jobs, driver = list(trace.jobs), [DriverRecord.none(job) for job in trace.jobs]
    curves: list[Slots] = []
    behaviours: list[Behaviour] = []
    lives: list[Life] = []
    origin_ms = float(min(job.start_ms for log in logs for job in log.jobs))
    for position, log in enumerate(one for one in logs if one.jobs):
        rows = np.flatnonzero(found.application == position).tolist()
        for row, (job, record) in zip(rows, _in_order(log), strict=True):
            jobs[row] = replace(job, name=jobs[row].name, arrival_ms=jobs[row].arrival_ms)
            driver[row] = record
        curves.append(_curve(log, origin_ms))
        behaviours.append(_behaviour(log))
        lives.append(_life(log, origin_ms))
    found = replace(found, trace=replace(trace, jobs=tuple(jobs)), driver=tuple(driver))
    return replace(
        found,
        curves=tuple(curves),
        follows=_follows(found),
        behaviours=tuple(behaviours),
        lives=tuple(lives),
        given_pools=pools,
    )


def _in_order(log: ReadLog) -> list[tuple[Job, DriverRecord]]:
    """The jobs of a log as noted, in the order of the trace: by submission."""
    notes: tuple[LogNote, ...] = log.notes
    jobs = [job for one in notes for job in one.jobs]
    driver = [record for one in notes for record in one.driver]
    order = np.argsort([recorded.start_ms for recorded in log.jobs], kind="stable").tolist()
    return [(jobs[place], driver[place]) for place in order]


def _curve(log: ReadLog, origin_ms: float) -> Slots:
    changes: Changes = log.notes[0].slots
    for one in log.notes[1:]:
        changes = changes.then(one.slots)
    return curve(changes, origin_ms, float(max(job.end_ms for job in log.jobs)))


def _behaviour(log: ReadLog) -> Behaviour:
    """That of the first attempt to run the application, with the executors of all."""
    every: list[Behaviour] = [one.behaviour for one in log.notes]
    return replace(every[0], executors=sum(one.executors or 0 for one in every) or None)


def _life(log: ReadLog, origin_ms: float) -> Life:
    every: list[Life] = [one.life for one in log.notes]
    begin_ms = min(one.begin_ms for one in every) - origin_ms
    end_ms = max(one.end_ms for one in every) - origin_ms
    return Life(begin_ms, end_ms, every[0].executor_ms)


def _follows(recording: Recording) -> tuple[int, ...]:
    """Return for each job the one that its client waited for."""
    found = np.full(len(recording.trace.jobs), NONE)
    arrival_ms, end_ms = recording.arrival_ms, recording.end_ms
    work_ms = np.array([job.work_ms for job in recording.trace.jobs])
    shapes = [tuple(stage.num_tasks for stage in job.stages) for job in recording.trace.jobs]
    for position in range(len(recording.slots)):
        rows = np.flatnonzero(recording.application == position)
        lanes = list(zip(*(recording.driver[row].lanes for row in rows.tolist()), strict=True))
        alike = [shapes[row] for row in rows.tolist()]
        own = predecessors(arrival_ms[rows], end_ms[rows], work_ms[rows], lanes, alike)
        found[rows[own != NONE]] = rows[own[own != NONE]]
    return tuple(found.tolist())
