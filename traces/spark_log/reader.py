"""Import of the logs at given paths as one trace."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from traces.bounds import DEFAULT, Bounds
from traces.errors import TraceError
from traces.files.names import clean, counted, some
from traces.spark_log.application import Application, read_application
from traces.spark_log.assemble import JobAssembler, RecordedJob
from traces.spark_log.dag import GroupBy
from traces.spark_log.events import SETTINGS
from traces.spark_log.files import LogFiles, Named, find_logs
from traces.spark_log.names import FORMAT
from traces.spark_log.slots import task_cpus
from traces.spark_log.summary import ImportSummary
from traces.thinning import thinned
from traces.trace import Trace


class Extent(NamedTuple):
    """How much there is of an application in one log; of two copies the larger counts."""

    is_complete: bool
    """whether the log has the application's end"""
    events: int


class HowToRead(NamedTuple):
    """Options of `read_spark_logs` beside the paths."""

    group_by: GroupBy = GroupBy.SQL
    executors: int | None = None
    samples: int | None = None
    limits: Bounds = DEFAULT


@dataclass(frozen=True)
class ReadLog:
    """Jobs and summary of one application's log."""

    summary: ImportSummary
    """of this log alone; without the applications and jobs that a trace makes of it"""
    label: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)
    jobs: tuple[RecordedJob, ...] = ()
    """none where the log cannot be used, which the summary reports"""
    notes: tuple[Any, ...] = ()
    """what a caller has noted (`read_log`), one for each log of the application"""
    unread: str | None = None
    """the reason, if it could not be read at all"""
    path: str = ""
    """what messages call it"""
    identity: tuple[str, ...] | None = None
    """the same for copies of one log; None where the log lacks the start of its application"""
    extent: Extent | None = None
    """None if it could not be read at all"""


Note = Callable[[Application, JobAssembler, Sequence[RecordedJob]], Any]
"""called with a log, its assembler and its jobs; its results are in `ReadLog.notes`"""


def read_spark_logs(
    paths: Sequence[Path],
    *,
    group_by: GroupBy = GroupBy.SQL,
    executors: int | None = None,
    samples: int | None = None,
    name: str | None = None,
    limits: Bounds = DEFAULT,
) -> tuple[Trace, ImportSummary]:
    """The jobs of Spark event logs as a trace, in the order of their submission.

    ``metadata["applications"]`` lists the applications (name, id, Spark version, slots, settings).
    ``metadata["recorded"]`` has for each job, by name, its application (position in that list) and
    its times: ``start_ms`` and ``end_ms``, the first submission and the last end of its Spark jobs,
    counted like `Job.arrival_ms` from the first submission in the trace. ``pool`` is the job's pool
    of Spark's FAIR scheduler, if the log names one.

    Args:
        paths: log files, rolled logs, or folders that hold any number of either.
        group_by: what makes one job.
        executors: the executor level under which all durations are filed; None measures it for
            each job: the largest number of its tasks that ran at once.
        samples: number of durations to store of each stage, about (`traces.thinning`); None stores
            all.
        name: of the trace; None takes that of the first path.
        limits: how much is taken in of one log; what lies beyond is not read, which is counted.

    Raises:
        TraceError: a path named by the caller cannot be read or is no event log, a folder holds
            none, or no job of all logs ran to its end.
    """
    how = HowToRead(group_by, executors, samples, limits)
    logs = (read_log(log, how) for log in find_logs(paths))
    return trace_of_logs(logs, paths, group_by=group_by, name=name)


def trace_of_logs(
    logs: Iterable[ReadLog], paths: Sequence[Named], *, group_by: GroupBy, name: str | None = None
) -> tuple[Trace, ImportSummary]:
    """Join the results of reading each log, in order, into one trace."""
    summary = ImportSummary()
    applications: list[ReadLog] = []
    unread: list[str] = []
    for log in joined(logs):
        summary.add(log.summary)
        if log.jobs:
            applications.append(log)
        elif log.unread is not None:
            unread.append(log.unread)
    labels = list(_unique(application.label for application in applications))
    rows = [
        (recorded.start_ms, position, recorded)
        for position, application in enumerate(applications)
        for recorded in application.jobs
    ]
    if not rows:
        raise TraceError(f"{some(paths, 3)}: {_why_empty(summary, unread)}")
    rows.sort(key=lambda row: row[:2])
    summary.applications, summary.jobs = len(applications), len(rows)
    names = list(_unique(f"{labels[position]}/{row.job.name}" for _, position, row in rows))
    origin_ms = rows[0][0]
    jobs = tuple(
        replace(recorded.job, name=job_name, arrival_ms=float(start_ms - origin_ms))
        for job_name, (start_ms, _, recorded) in zip(names, rows, strict=True)
    )
    metadata = {
        "format": FORMAT,
        "source": [clean(path.name) for path in paths],
        "group_by": group_by.value,
        "applications": [dict(application.facts) for application in applications],
        "recorded": {
            job_name: {
                "application": position,
                "start_ms": recorded.start_ms - origin_ms,
                "end_ms": recorded.end_ms - origin_ms,
                "spark_jobs": recorded.spark_jobs,
                **({} if recorded.pool is None else {"pool": recorded.pool}),
            }
            for job_name, (_, position, recorded) in zip(names, rows, strict=True)
        },
        "summary": summary.as_metadata(),
    }
    return Trace(clean(paths[0].name if name is None else name), jobs, metadata), summary


def joined(logs: Iterable[ReadLog]) -> list[ReadLog]:
    """One log of each application: one of several copies, and its attempts together."""
    applications: list[ReadLog] = []
    place_of: dict[str, int] = {}
    for log in _without_copies(logs):
        app_id, attempts = str(log.facts.get("id")), log.facts.get("attempts", ())
        place = place_of.get(app_id) if attempts else None
        if place is not None and attempts[0] not in applications[place].facts["attempts"]:
            applications[place] = _joined(applications[place], log)
            continue
        if attempts:
            place_of[app_id] = len(applications)
        applications.append(log)
    return applications


def _without_copies(logs: Iterable[ReadLog]) -> Iterator[ReadLog]:
    """Yield of several logs with one identity that of the largest extent, which names the others.

    Such are a finished log beside its own in progress, or two copies of it.
    """
    groups: list[list[ReadLog]] = []
    copies_of: dict[tuple[str, ...], list[ReadLog]] = {}
    for log in logs:
        copies: list[ReadLog] = []
        if log.identity is not None:
            copies = copies_of.setdefault(log.identity, copies)
        if not copies:
            groups.append(copies)
        copies.append(log)
    for copies in groups:
        best = max(copies, key=lambda log: log.extent or Extent(False, 0))
        for log in copies:
            if log is not best:
                best.summary.leave_out_copy(log.path, best.path)
        yield best


def _joined(first: ReadLog, second: ReadLog) -> ReadLog:
    summary = ImportSummary()
    summary.add(first.summary)
    summary.add(second.summary)
    slots = max(first.facts["slots"], second.facts["slots"])
    attempts = [*first.facts["attempts"], *second.facts["attempts"]]
    facts = {**first.facts, "slots": slots, "attempts": attempts}
    return replace(
        first,
        summary=summary,
        facts=facts,
        jobs=first.jobs + second.jobs,
        notes=first.notes + second.notes,
    )


def read_log(log: LogFiles, how: HowToRead, note: Note | None = None) -> ReadLog:
    """The jobs of one log; its tables, which may be large, are gone when this returns."""
    summary = ImportSummary()
    try:
        application = read_application(log, summary, how.limits)
    except TraceError as error:
        if log.named:
            raise
        summary.skip_file(str(error))
        return ReadLog(summary, unread=str(error))
    extent = Extent(application.end_ms is not None, summary.events)
    identity = None
    if application.app_id is not None and application.begin_ms is not None:
        # Ids alone are unique within a cluster only.
        name, attempt, begin_ms = application.name, application.attempt, application.begin_ms
        identity = application.app_id, str(attempt), str(name), str(begin_ms)
    read = ReadLog(summary, path=str(log.path), identity=identity, extent=extent)
    assembler = JobAssembler(application, how.executors, summary)
    jobs = assembler.jobs(how.group_by)
    if not jobs:
        summary.skip_file(f"{log.path}: no job ran to its end")
        return read
    summary.slots_inferred = int(assembler.placement.is_inferred)
    if how.samples is not None:
        jobs = [replace(recorded, job=thinned(recorded.job, how.samples)) for recorded in jobs]
    facts = _facts(application, assembler.placement.slots)
    notes = () if note is None else (note(application, assembler, jobs),)
    return replace(read, label=facts["name"], facts=facts, jobs=tuple(jobs), notes=notes)


def _facts(application: Application, slots: int) -> dict[str, Any]:
    has_attempts = application.attempt is not None and application.app_id is not None
    settings = dict(application.properties)
    for _, spark_job in sorted(application.jobs.items()):
        settings.update(spark_job.properties)  # settings of a session change at run time
    return {
        "name": application.name or application.app_id or clean(application.path.name),
        "id": application.app_id,
        "spark_version": application.spark_version,
        "slots": slots,
        "task_cpus": task_cpus(application),
        "settings": {key: settings[key] for key in SETTINGS if key in settings},
        "log": clean(application.path.name),
        **({"attempts": [application.attempt]} if has_attempts else {}),
    }


def _unique(names: Iterable[str]) -> Iterator[str]:
    """The names, repeated ones numbered: a, b, a #2."""
    counts: dict[str, int] = {}
    taken: set[str] = set()
    for name in names:
        unique = name
        while unique in taken:
            counts[name] = counts.get(name, 1) + 1
            unique = f"{name} #{counts[name]}"
        taken.add(unique)
        yield unique


def _why_empty(summary: ImportSummary, unread: Sequence[str]) -> str:
    """`unread`: why logs of a folder could not be read."""
    reasons_found: list[str] = []
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in summary.unused_jobs.items())
    if reasons:
        reasons_found.append(f"no job of the log ran to its end (left out: {reasons})")
    elif len(unread) < summary.files_skipped:
        reasons_found.append("the log has no job")
    if summary.first_line_skipped is not None:
        reasons_found.append(
            f"{counted(summary.lines_skipped, 'line')} cannot be read, the first: "
            f"{summary.first_line_skipped}"
        )
    if len(unread) == 1:
        reasons_found.append(f"1 file cannot be read: {unread[0]}")
    elif unread:
        reasons_found.append(f"{len(unread):,} files cannot be read, the first: {unread[0]}")
    return "; ".join(reasons_found)
