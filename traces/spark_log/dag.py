"""Grouping of Spark jobs into jobs of a trace, and the one DAG of their stages.

A query runs as several Spark jobs: one for each broadcast, for the sampling before a sort, with
adaptive execution one for each shuffle. A later Spark job lists the stages that earlier ones ran
under new numbers and skips them. The log does not name the stage that replaces a skipped one, but
both have the same set of RDDs.

A query's Spark jobs also wait for broadcasts, samples, subqueries and the driver's own program.
These waits are known only from the order of events: the driver submitted a Spark job after others
of the query had ended. They become edges too, from the last stages of the ended Spark jobs to the
first stages of the submitted one.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from traces.spark_log.application import Application, SparkJob
from traces.spark_log.events import EXECUTION_ID, JOB_GROUP, OWN_JOB, ROOT_EXECUTION_ID
from traces.spark_log.names import NEXT_RUN_MS
from traces.spark_log.summary import ImportSummary


class GroupBy(Enum):
    """Rule that groups Spark jobs into one job of the trace."""

    SQL = "sql"
    """what the application names by ``decima.job``, else a SQL execution with all its nested ones,
    else a Spark job"""
    JOB = "job"
    """a Spark job"""
    JOB_GROUP = "job-group"
    """what the application names by ``decima.job``, else a job group, else as for `SQL`"""


@dataclass(frozen=True)
class JobKey:
    """Identity of a job inside its application."""

    by: GroupBy
    name: str
    """number of the SQL execution or Spark job, name of the job group or of the application's"""
    run: int = 1
    """of what the application has named, which may come again"""


@dataclass(frozen=True)
class StageGraph:
    """The stages of one job."""

    parents: Mapping[int, tuple[int, ...]]
    """stage -> the stages it waits for, in the order in which Spark numbered the stages"""
    node_of: Mapping[int, int]
    """stage that ran -> the stage it is folded into, most often itself"""


def group_jobs(application: Application, by: GroupBy) -> dict[JobKey, list[int]]:
    """The Spark jobs of each job, by number, in the order of their first submission."""
    groups: dict[JobKey, list[int]] = {}
    # Of a SQL execution's groups, that of its last Spark job: Spark gives broadcasts, which come
    # first, a group of their own.
    group_of_execution: dict[int, str | None] = {}
    if by is GroupBy.JOB_GROUP:
        for _, job in sorted(application.jobs.items()):
            if (execution := root_execution(application, job)) is not None:
                group_of_execution[execution] = job.properties.get(JOB_GROUP)
    runs = {} if by is GroupBy.JOB else _runs(application)
    for number, job in sorted(application.jobs.items()):
        key = JobKey(GroupBy.JOB, str(number))
        if number in runs:
            groups.setdefault(runs[number], []).append(number)
            continue
        execution = None if by is GroupBy.JOB else root_execution(application, job)
        group = job.properties.get(JOB_GROUP)
        if execution is not None:
            group = group_of_execution.get(execution)
            key = JobKey(GroupBy.SQL, str(execution))
        if by is GroupBy.JOB_GROUP and group is not None:
            key = JobKey(GroupBy.JOB_GROUP, group)
        groups.setdefault(key, []).append(number)
    return groups


def _runs(application: Application) -> dict[int, JobKey]:
    """The Spark jobs of jobs that the application names itself: the rule of a live scheduler."""
    keys: dict[int, JobKey] = {}
    newest: dict[str, tuple[JobKey, float]] = {}
    of_execution: dict[tuple[str, int | None], JobKey] = {}
    for number, job in sorted(application.jobs.items()):
        name = job.properties.get(OWN_JOB)
        if not name:
            continue
        key, ended_ms = newest.get(name, (JobKey(GroupBy.JOB_GROUP, name), -math.inf))
        execution = root_execution(application, job)
        same = None if execution is None else of_execution.get((name, execution))
        if same is not None:  # its planning may take its time
            key = same
        elif name in newest and job.start_ms - ended_ms > NEXT_RUN_MS:
            key, ended_ms = replace(key, run=key.run + 1), -math.inf
        of_execution[name, execution] = key
        end_ms = math.inf if job.end_ms is None else float(job.end_ms)
        newest[name] = key, max(ended_ms, end_ms)
        keys[number] = key
    return keys


def root_execution(application: Application, job: SparkJob) -> int | None:
    """The outermost SQL execution that a Spark job runs for; None outside SQL."""
    properties = job.properties
    execution = _number(properties.get(EXECUTION_ID))
    root = _number(properties.get(ROOT_EXECUTION_ID))
    if root is None and execution is not None and execution in application.sql:
        root = application.sql[execution].root
    return execution if root is None else root


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() and len(text) < 19 else None


class GraphBuilder:
    """Builder of the graphs of one application's jobs."""

    def __init__(
        self, application: Application, measured: Iterable[int], summary: ImportSummary
    ) -> None:
        """`measured`: the stages with at least one task that counts."""
        self._application = application
        self._measured = set(measured)
        self._summary = summary
        self._ran_with_rdds: defaultdict[bytes, list[int]] = defaultdict(list)
        for stage, ran in sorted(application.ran.items()):
            if ran.is_map and stage in application.listed:
                self._ran_with_rdds[application.listed[stage].rdds].append(stage)

    def build(self, jobs: Sequence[int]) -> StageGraph:
        """The graph of the job made of the Spark jobs `jobs`."""
        listed_in = {
            info.stage: number
            for number in jobs
            for info in self._application.jobs[number].stages
            if self._application.first_job[info.stage] == number
        }
        node_of = self._nodes(jobs, listed_in)
        parents: dict[int, list[int]] = {}
        for node in sorted(set(node_of.values())):
            listed = self._application.listed[node].parents
            nodes = dict.fromkeys(node_of[parent] for parent in listed if parent in node_of)
            parents[node] = [parent for parent in nodes if parent != node]
        # Stages of which no task counts go; their children wait for their parents instead.
        for gone in [stage for stage in parents if stage not in self._measured]:
            inherited = parents.pop(gone)
            for above in parents.values():
                if gone in above:
                    position = above.index(gone)
                    above[position : position + 1] = [new for new in inherited if new not in above]
        self._summary.driver_edges += self._add_driver_edges(jobs, parents, listed_in)
        return StageGraph({node: tuple(above) for node, above in parents.items()}, node_of)

    def _nodes(self, jobs: Sequence[int], listed_in: Mapping[int, int]) -> dict[int, int]:
        """Return, for each stage of the job, the node that has its work, if any."""
        ran = self._application.ran
        ranks = self._ranks(jobs)
        node_of: dict[int, int] = {}
        for stage in sorted(listed_in):
            info = self._application.listed[stage]
            # Stages of the job that ran earlier over the same RDDs; rank 1 is the latest.
            earlier = [
                other
                for other in self._ran_with_rdds.get(info.rdds, ())
                if other < stage and node_of.get(other) == other
            ]
            rank = min(ranks.get(stage, 1), len(earlier))
            stand_in = earlier[-rank] if earlier and info.rdds else None
            if stage in ran:
                self._summary.stages_retried += max(0, ran[stage].attempts - 1)
                # A stage may rerun only the tasks whose output was lost.
                is_retry = (ran[stage].first_attempt or 0) > 0
                is_partial = is_retry or 0 < ran[stage].num_tasks < info.num_tasks
                if stand_in is None or not is_partial:
                    node_of[stage] = stage
                else:
                    node_of[stage] = stand_in
                    self._summary.stages_retried += 1
            elif stand_in is None:
                self._summary.stages_ready += 1
            else:
                node_of[stage] = stand_in
                self._summary.stages_replaced += 1
        return node_of

    def _ranks(self, jobs: Sequence[int]) -> dict[int, int]:
        """1 for the last skipped stage over some RDDs in its Spark job, 2 for the last but one ...

        Two shuffles of one RDD are two stages over the same RDDs, distinguished by their order.
        """
        ranks: dict[int, int] = {}
        for number in jobs:
            skipped: defaultdict[bytes, int] = defaultdict(int)
            stages = self._application.jobs[number].stages
            for info in sorted(stages, key=lambda info: -info.stage):
                if info.stage not in self._application.ran:
                    skipped[info.rdds] += 1
                    ranks[info.stage] = skipped[info.rdds]
        return ranks

    def _add_driver_edges(
        self, jobs: Sequence[int], parents: dict[int, list[int]], listed_in: Mapping[int, int]
    ) -> int:
        """Let the first stages of each Spark job wait for what had ended when it was submitted.

        Of the Spark jobs that had ended only those are named that none of the others waits for.
        """
        first, last = _ends(parents, listed_in)
        spark_jobs = [(number, self._application.jobs[number]) for number in jobs if number in last]
        by_end = sorted(
            (job.end_ms, number) for number, job in spark_jobs if job.end_ms is not None
        )
        added = 0
        for number, job in spark_jobs:
            for earlier in self._waits_for(number, job.start_ms, by_end):
                for stage in first[number]:
                    new = [parent for parent in last[earlier] if parent not in parents[stage]]
                    parents[stage] += new
                    added += len(new)
        return added

    def _waits_for(
        self, number: int, submitted_ms: int, by_end: Sequence[tuple[int, int]]
    ) -> list[int]:
        """The earlier Spark jobs that ended by then, but none that another of them followed."""
        latest_start = -1
        ended: list[int] = []
        for end_ms, earlier in reversed(by_end[: bisect_right(by_end, (submitted_ms, number))]):
            if end_ms < latest_start:
                break
            if earlier < number:
                ended.append(earlier)
                latest_start = max(latest_start, self._application.jobs[earlier].start_ms)
        return ended


def _ends(
    parents: Mapping[int, Sequence[int]], listed_in: Mapping[int, int]
) -> tuple[dict[int, list[int]], dict[int, list[int]]]:
    """Return, for each Spark job, its stages without a parent in it, and without a child in it."""
    inner = {
        parent
        for stage, above in parents.items()
        for parent in above
        if listed_in[parent] == listed_in[stage]
    }
    first: defaultdict[int, list[int]] = defaultdict(list)
    last: defaultdict[int, list[int]] = defaultdict(list)
    for stage, above in parents.items():
        number = listed_in[stage]
        if all(listed_in[parent] != number for parent in above):
            first[number].append(stage)
        if stage not in inner:
            last[number].append(stage)
    return first, last
