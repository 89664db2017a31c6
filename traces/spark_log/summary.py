"""Summary of an import: its contents, and what was left out and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from traces.files.names import clean

MAX_FAULTS = 20  # faults listed one by one; further ones are only counted
_FEW_FAULTS = 3
MAX_UNKNOWN_TYPES = 100  # types of unknown events counted one by one


@dataclass
class ImportSummary:
    """Counts of one import. `lines` puts them into words."""

    applications: int = 0
    """whose jobs are in the trace"""
    jobs: int = 0
    spark_jobs: int = 0
    """Spark jobs that the trace's jobs are made of"""
    stages: int = 0
    tasks: int = 0
    """counted as work"""
    events: int = 0
    """lines that named an event"""
    bytes_read: int = 0
    """decompressed"""

    unused_jobs: Counter[str] = field(default_factory=Counter)
    """jobs that are not in the trace, by the reason"""
    unused_tasks: Counter[str] = field(default_factory=Counter)
    """attempts at tasks that are not counted as work, by the reason"""
    stages_replaced: int = 0
    """skipped stages in whose place an earlier one ran"""
    stages_ready: int = 0
    """skipped stages whose output came from outside their job (another job, a cache)"""
    stages_retried: int = 0
    """further attempts at a stage, folded into it"""
    driver_edges: int = 0
    """edges that follow from the order in which the driver submitted Spark jobs of one job"""
    tasks_missing: int = 0
    """tasks of stages in the trace whose end the log lacks"""
    clock_repairs: int = 0
    """time stamps that went back, moved to the earliest time possible"""
    zero_length: int = 0
    """tasks of no measurable duration, given `slots.SHORTEST_MS`"""
    unknown_events: Counter[str] = field(default_factory=Counter)
    """events of types that no Spark version known here writes"""
    lines_skipped: int = 0
    """unusable lines"""
    files_skipped: int = 0
    """files of a folder that hold no usable log"""
    parts_missing: int = 0
    """files that Spark wrote of rolled logs and that are not there"""
    stages_wide: int = 0
    """stages whose tasks take several slots"""
    stages_barrier: int = 0
    """stages whose tasks start all at once"""
    stages_own_executors: int = 0
    """stages of a resource profile that has executors of its own"""
    slots_inferred: int = 0
    """applications whose log lacks an executor's cores: its slots are the tasks seen at once"""
    copies: int = 0
    """logs that are left out, as another log has more of the same application"""
    incomplete: list[str] = field(default_factory=list)
    """the first `MAX_FAULTS` rolled logs of which parts are missing: where and which"""
    named_copies: list[str] = field(default_factory=list)
    """the first `MAX_FAULTS` copies"""
    faults: list[str] = field(default_factory=list)
    """the first `MAX_FAULTS` skipped lines and files: where and why"""
    first_line_skipped: str | None = None
    """where and why"""

    def skip_line(self, where: str, reason: str) -> None:
        """Count an unusable line."""
        self.lines_skipped += 1
        fault = f"{where}: {reason}"
        self.first_line_skipped = self.first_line_skipped or fault
        self._list(fault, self.faults)

    def skip_file(self, reason: str) -> None:
        """Count an unusable file of a folder; `reason` names it."""
        self.files_skipped += 1
        self._list(reason, self.faults)

    def miss_parts(self, reason: str, count: int) -> None:
        """Count the missing files of a rolled log; `reason` names it."""
        self.parts_missing += count
        self._list(reason, self.incomplete)

    def leave_out_copy(self, path: str, other: str) -> None:
        """Count a log at `path` as left out for that at `other`, which has more."""
        self.copies += 1
        words = f"{path}: of the same application as {other}, which has as much or more"
        self._list(words, self.named_copies)

    def count_unknown(self, event: str, times: int = 1) -> None:
        """Count events of a type that no Spark version known here writes."""
        known = self.unknown_events
        name = clean(event)
        if name not in known and len(known) >= MAX_UNKNOWN_TYPES:
            name = "(other)"
        known[name] += times

    def add(self, other: ImportSummary) -> None:
        """Count what `other` counts, too."""
        for name, value in vars(other).items():
            if isinstance(value, int):
                setattr(self, name, getattr(self, name) + value)
        self.first_line_skipped = self.first_line_skipped or other.first_line_skipped
        self.unused_jobs.update(other.unused_jobs)
        self.unused_tasks.update(other.unused_tasks)
        for event, times in other.unknown_events.items():
            self.count_unknown(event, times)
        for fault in other.faults:
            self._list(fault, self.faults)
        for fault in other.incomplete:
            self._list(fault, self.incomplete)
        for words in other.named_copies:
            self._list(words, self.named_copies)

    def _list(self, fault: str, faults: list[str]) -> None:
        if len(faults) < MAX_FAULTS:
            faults.append(fault)

    def as_metadata(self) -> dict[str, int | dict[str, int]]:
        """The counts as JSON-like data."""
        found: dict[str, int | dict[str, int]] = {}
        for name, value in vars(self).items():
            if isinstance(value, Counter):
                found[name] = dict(value)
            elif isinstance(value, int):
                found[name] = value
        return found

    def lines(self) -> Iterator[str]:
        """The summary for a person, one fact a line, what is zero left out."""
        yield (
            f"applications: {self.applications:,}, jobs: {self.jobs:,} (Spark jobs: "
            f"{self.spark_jobs:,}), stages: {self.stages:,}, tasks: {self.tasks:,}"
        )
        yield f"read: {self.events:,} events, {self.bytes_read / 1e6:,.1f} MB uncompressed"
        yield from (f"incomplete: {fault}" for fault in self.incomplete)
        yield from (f"left out: {words}" for words in self.named_copies)
        for words, count in self._facts():
            if count > 0:
                yield f"{words}: {count:,}"
        yield from (f"  {fault}" for fault in self.faults)

    def left_out(self) -> Iterator[str]:
        """Yield what the trace lacks of the logs, one line each, with the first faults."""
        yield from (f"Incomplete: {fault}." for fault in self.incomplete[:_FEW_FAULTS])
        yield from (f"Left out: {words}." for words in self.named_copies[:_FEW_FAULTS])
        for reason, count in self.unused_jobs.items():
            yield f"Left out, {reason}: {count:,} job{'s' if count > 1 else ''}."
        if self.files_skipped + self.lines_skipped > 0:
            yield f"Skipped: {self.files_skipped:,} files, {self.lines_skipped:,} lines."
        yield from (f"Skipped: {fault}" for fault in self.faults[:_FEW_FAULTS])

    def _facts(self) -> Iterator[tuple[str, int]]:
        for reason, count in self.unused_jobs.items():
            yield f"jobs left out, {reason}", count
        for reason, count in self.unused_tasks.items():
            yield f"task attempts that are no work, {reason}", count
        yield "skipped stages replaced by the one that ran in their place", self.stages_replaced
        yield "skipped stages whose output came from outside their job", self.stages_ready
        yield "further attempts folded into their stage", self.stages_retried
        yield "edges from the order in which the driver submitted Spark jobs", self.driver_edges
        yield "tasks whose end is missing from the log", self.tasks_missing
        yield "time stamps that went back, repaired", self.clock_repairs
        yield "tasks of no measurable duration, set to the shortest", self.zero_length
        for name, count in self.unknown_events.items():
            yield f"events of the unknown type {name}", count
        yield "parts of rolled logs that are missing", self.parts_missing
        yield "stages whose tasks take several slots", self.stages_wide
        yield "barrier stages, whose tasks start at once", self.stages_barrier
        yield "stages with executors of their own (resource profile)", self.stages_own_executors
        yield (
            "applications whose slots are inferred, as the log lacks the cores",
            (self.slots_inferred),
        )
        yield "logs left out as copies of others", self.copies
        yield "files skipped", self.files_skipped
        yield "lines skipped", self.lines_skipped
