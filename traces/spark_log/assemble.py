"""Assembly of a trace's jobs from the tables of an application."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from traces.arrays import FIRST, FRESH, REST
from traces.errors import TraceError
from traces.model import Job, LevelDurations, Stage
from traces.numbers import Int64
from traces.spark_log.application import Application
from traces.spark_log.dag import GraphBuilder, GroupBy, JobKey, StageGraph, group_jobs
from traces.spark_log.events import CALL_SITE, JOB_DESCRIPTION, POOL, Outcome
from traces.spark_log.names import MANY, query_of, stand_in
from traces.spark_log.slots import SHORTEST_MS, Placement, most_at_once, place
from traces.spark_log.summary import ImportSummary

NO_STAGE = "none of its tasks succeeded"
FAILED = "failed"
UNFINISHED = "not finished when the log ends"
INCONSISTENT = "its stages wait for each other"


@dataclass(frozen=True)
class RecordedJob:
    """A job and when it ran, on the clock of its driver (ms since 1970)."""

    job: Job  # its name is a label, not yet unique; without arrival
    start_ms: int  # submission of its first Spark job
    end_ms: int  # end of its last Spark job
    spark_jobs: int
    pool: str | None = None  # of Spark's FAIR scheduler; None where the log names none
    numbers: tuple[int, ...] = ()  # of its Spark jobs, ascending


class _Work:
    """Task attempts that count as work, and their measurements."""

    def __init__(self, application: Application, placement: Placement) -> None:
        tasks = application.tasks
        self.stage = np.array(tasks.stage, np.int64)
        self.partition = np.array(tasks.partition, np.int64)
        self.outcome = np.array(tasks.outcome, np.int8)
        self.speculative = np.array(tasks.speculative, np.bool_)
        self.placement = placement
        self.held_ms = placement.finish_ms - placement.launch_ms
        self.in_trace = np.zeros(len(tasks), np.bool_)  # attempts of jobs in the trace
        self.counted = np.zeros(len(tasks), np.bool_)  # those of them that are work
        order = np.argsort(self.stage, kind="stable")
        stages, starts = np.unique(self.stage[order], return_index=True)
        self._rows = dict(zip(stages.tolist(), np.split(order, starts[1:]), strict=False))

    def measured(self) -> set[int]:
        """Stages with at least one success."""
        return set(np.unique(self.stage[self.outcome == Outcome.SUCCESS]).tolist())

    def attempts(self, stages: Iterable[int]) -> Int64:
        """All attempts in `stages`, in the order of their ends."""
        rows = [self._rows[stage] for stage in stages if stage in self._rows]
        return np.sort(np.concatenate(rows)) if rows else np.zeros(0, np.int64)

    def first_successes(self, attempts: Int64) -> Int64:
        """Return the first success of each partition among `attempts`."""
        successes = attempts[self.outcome[attempts] == Outcome.SUCCESS]
        _, first = np.unique(self.partition[successes], return_index=True)
        counted: Int64 = successes[np.sort(first)]
        return counted

    def level(self, executors: int, rows: Int64) -> LevelDurations:
        """The durations of `rows` by wave."""
        wave = self.placement.wave[rows]
        duration_ms = np.maximum(self.held_ms[rows], SHORTEST_MS)
        fresh, first, rest = (duration_ms[wave == column] for column in (FRESH, FIRST, REST))
        return LevelDurations.of(executors, fresh_ms=fresh, first_ms=first, rest_ms=rest)

    def unused(self) -> Iterable[tuple[str, int]]:
        """Yield the number of attempts that do not count as work, by reason."""
        is_unused = self.in_trace & ~self.counted
        tasks = np.stack([self.stage, self.partition]).T
        speculated = set(map(tuple, tasks[self.speculative].tolist()))
        copied = np.zeros(len(is_unused), np.bool_)
        copied[is_unused] = [tuple(task) in speculated for task in tasks[is_unused].tolist()]
        failed = is_unused & (self.outcome == Outcome.FAILED)
        killed = is_unused & (self.outcome == Outcome.KILLED)
        again = is_unused & (self.outcome == Outcome.SUCCESS)
        yield "their job is not in the trace", int((~self.in_trace).sum())
        yield "failed", int(failed.sum())
        yield "overtaken by another copy (speculation)", int(((killed | again) & copied).sum())
        yield "killed", int((killed & ~copied).sum())
        yield "done again after a loss", int((again & ~copied).sum())


class JobAssembler:
    """Assembler of the jobs of one application."""

    def __init__(
        self, application: Application, executors: int | None, summary: ImportSummary
    ) -> None:
        """`executors`: as for `traces.spark_log.read_spark_logs`."""
        self._application = application
        self._executors = executors
        self._summary = summary
        self.placement = place(application)
        self._work = _Work(application, self.placement)
        self._builder = GraphBuilder(application, self._work.measured(), summary)
        self.attempts: list[tuple[Int64, ...]] = []
        """of each stage of each job, the rows of its attempts, in the order of their ends"""

    def jobs(self, by: GroupBy) -> list[RecordedJob]:
        """The jobs that ran to their end; what is left out is counted in the summary."""
        recorded: list[RecordedJob] = []
        places: list[str | None] = []
        for key, numbers in group_jobs(self._application, by).items():
            try:
                self._check_end(key, numbers)
                recorded.append(self._job(key, numbers))
            except _UnusableError as error:
                self._summary.unused_jobs[str(error)] += 1
                continue
            is_described = key.by is not GroupBy.JOB_GROUP
            properties = self._application.jobs[numbers[0]].properties
            places.append(properties.get(CALL_SITE) if is_described else None)
        recorded = _named_apart(recorded, places)
        self._summary.clock_repairs += self.placement.clock_repairs
        for reason, count in self._work.unused():
            if count > 0:
                self._summary.unused_tasks[reason] += count
        self._summary.tasks += int(self._work.counted.sum())
        return recorded

    def _check_end(self, key: JobKey, numbers: Sequence[int]) -> None:
        """Refuse a job that failed or whose end the log lacks."""
        log = self._application
        if any(log.jobs[number].end_ms is None for number in numbers):
            raise _UnusableError(UNFINISHED)
        # A query may cancel a Spark job that it no longer needs; the last one decides.
        if not log.jobs[numbers[-1]].succeeded:
            raise _UnusableError(FAILED)
        if key.by is GroupBy.SQL:
            execution = int(key.name)
            if log.sql_failed.get(execution, False):
                raise _UnusableError(FAILED)
            is_open = execution in log.sql and execution not in log.sql_failed
            if is_open and log.end_ms is None:
                raise _UnusableError(UNFINISHED)

    def _job(self, key: JobKey, numbers: Sequence[int]) -> RecordedJob:
        graph = self._builder.build(numbers)
        if not graph.parents:
            raise _UnusableError(NO_STAGE)
        work = self._work
        members: defaultdict[int, list[int]] = defaultdict(list)  # with the stages folded in
        for stage, node in graph.node_of.items():
            if node in graph.parents:
                members[node].append(stage)
        attempts = {node: work.attempts(stages) for node, stages in members.items()}
        counted = {node: work.first_successes(rows) for node, rows in attempts.items()}
        all_rows = np.concatenate(list(attempts.values()))
        level = self._executors
        if level is None:
            level = most_at_once(
                self.placement.launch_ms[all_rows], self.placement.finish_ms[all_rows]
            )
        try:
            job = Job(self._label(key, numbers), self._stages(graph, counted, level))
        except TraceError as error:
            raise _UnusableError(INCONSISTENT) from error
        for rows in counted.values():
            work.counted[rows] = True
        work.in_trace[all_rows] = True
        self.attempts.append(tuple(attempts[node] for node in graph.parents))
        spark_jobs = [self._application.jobs[number] for number in numbers]
        start_ms = min(spark_job.start_ms for spark_job in spark_jobs)
        end_ms = max(spark_job.end_ms or 0 for spark_job in spark_jobs)
        self._summary.clock_repairs += end_ms < start_ms
        self._summary.stages += len(job.stages)
        self._summary.spark_jobs += len(spark_jobs)
        pool = self._application.jobs[min(numbers)].properties.get(POOL)
        return RecordedJob(
            job, start_ms, max(start_ms, end_ms), len(spark_jobs), pool, tuple(numbers)
        )

    def _stages(
        self, graph: StageGraph, counted: dict[int, Int64], level: int
    ) -> tuple[Stage, ...]:
        index = {node: position for position, node in enumerate(graph.parents)}
        application, needs = self._application, self.placement.needs
        stages: list[Stage] = []
        for node, parents in graph.parents.items():
            rows = counted[node]
            self._summary.zero_length += int((self._work.held_ms[rows] < SHORTEST_MS).sum())
            info = application.listed[node]
            slots = needs.of_stage(application, node)
            self._summary.stages_wide += slots > 1
            self._summary.stages_barrier += info.barrier
            self._summary.stages_own_executors += info.profile in needs.own_executors
            # Under load Spark drops events, which explains a few missing ends. A stage that misses
            # more than half is not reliable, and counts only its seen tasks.
            measured = len(rows)
            missing = max(0, application.ran[node].num_tasks - measured)
            self._summary.tasks_missing += missing
            stages.append(
                Stage(
                    f"stage {node}",
                    measured + missing if missing <= measured else measured,
                    tuple(sorted(index[parent] for parent in parents)),
                    (self._work.level(level, rows),),
                    slots=slots,
                    barrier=info.barrier,
                )
            )
        return tuple(stages)

    def _label(self, key: JobKey, numbers: Sequence[int]) -> str:
        """Return the name that a user gave the job, else its number."""
        properties = self._application.jobs[numbers[0]].properties
        description = properties.get(JOB_DESCRIPTION)
        if key.by is GroupBy.JOB_GROUP:
            return key.name
        if key.by is GroupBy.SQL:
            started = self._application.sql.get(int(key.name))
            label = description if started is None else started.description
            return label or stand_in("query", key.name)
        return description or properties.get(CALL_SITE) or stand_in("job", key.name)


def _named_apart(jobs: Sequence[RecordedJob], places: Sequence[str | None]) -> list[RecordedJob]:
    """Name jobs by their places in the program, where one description is that of most jobs.

    A notebook describes all of its jobs by its own text: they would be taken for runs of one query.
    """
    named = list(jobs)
    for name, count in Counter(recorded.job.name for recorded in jobs).items():
        if count < MANY or 2 * count <= len(jobs):
            continue
        place_of = {
            row: place
            for row, place in enumerate(places)
            if jobs[row].job.name == name and place is not None and query_of(place) is not None
        }
        if len(set(place_of.values())) > 1:
            for row, place in place_of.items():
                named[row] = replace(jobs[row], job=replace(jobs[row].job, name=place))
    return named


class _UnusableError(Exception):
    """A job that is not in the trace, and why."""
