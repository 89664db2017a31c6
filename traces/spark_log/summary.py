"""Summary of an import: its contents, and what was left out and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, get_type_hints

from traces.files.names import clean

MAX_FAULTS = 20  # faults listed one by one; further ones are only counted
_FEW_FAULTS = 3
MAX_UNKNOWN_TYPES = 100  # types of unknown events counted one by one


@dataclass
class ImportSummary:
    """Counts of one import; `lines` gives those that have words."""

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

    unused_jobs: Annotated[Counter[str], "jobs left out, "] = field(default_factory=Counter)
    unused_tasks: Annotated[Counter[str], "task attempts that are no work, "] = field(
        default_factory=Counter
    )
    stages_replaced: Annotated[
        int, "skipped stages replaced by the one that ran in their place"
    ] = 0
    stages_ready: Annotated[int, "skipped stages whose output came from outside their job"] = 0
    stages_retried: Annotated[int, "further attempts folded into their stage"] = 0
    driver_edges: Annotated[
        int, "edges from the order in which the driver submitted Spark jobs"
    ] = 0
    tasks_missing: Annotated[int, "tasks whose end is missing from the log"] = 0
    clock_repairs: Annotated[int, "time stamps that went back, repaired"] = 0
    zero_length: Annotated[int, "tasks of no measurable duration, set to the shortest"] = 0
    unknown_events: Annotated[Counter[str], "events of the unknown type "] = field(
        default_factory=Counter
    )
    lines_skipped: Annotated[int, "lines skipped"] = 0
    files_skipped: Annotated[int, "files skipped"] = 0
    parts_missing: Annotated[int, "parts of rolled logs that are missing"] = 0
    stages_wide: Annotated[int, "stages whose tasks take several slots"] = 0
    stages_barrier: Annotated[int, "barrier stages, whose tasks start at once"] = 0
    stages_own_executors: Annotated[
        int, "stages with executors of their own (resource profile)"
    ] = 0
    slots_inferred: Annotated[
        int, "applications whose slots are inferred, as the log lacks the cores"
    ] = 0
    copies: Annotated[int, "logs left out as copies of others"] = 0
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
        _list(fault, self.faults)

    def skip_file(self, reason: str) -> None:
        """Count an unusable file of a folder; `reason` names it."""
        self.files_skipped += 1
        _list(reason, self.faults)

    def miss_parts(self, reason: str, count: int) -> None:
        """Count the missing files of a rolled log; `reason` names it."""
        self.parts_missing += count
        _list(reason, self.incomplete)

    def leave_out_copy(self, path: str, other: str) -> None:
        """Count a log at `path` as left out for that at `other`, which has more."""
        self.copies += 1
        words = f"{path}: of the same application as {other}, which has as much or more"
        _list(words, self.named_copies)

    def count_unknown(self, event: str, times: int = 1) -> None:
        """Count events of a type that no Spark version known here writes."""
        counts = self.unknown_events
        name = clean(event)
        if name not in counts and len(counts) >= MAX_UNKNOWN_TYPES:
            name = "(other)"
        counts[name] += times

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
        for name in ("faults", "incomplete", "named_copies"):
            for fault in getattr(other, name):
                _list(fault, getattr(self, name))

    def as_metadata(self) -> dict[str, int | dict[str, int]]:
        return {
            name: dict(value) if isinstance(value, Counter) else value
            for name, value in vars(self).items()
            if isinstance(value, Counter | int)
        }

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
        for name, hint in get_type_hints(ImportSummary, include_extras=True).items():
            value = getattr(self, name)
            for words in getattr(hint, "__metadata__", ()):
                if isinstance(value, Counter):
                    yield from ((f"{words}{key}", count) for key, count in value.items())
                else:
                    yield words, value


def _list(fault: str, faults: list[str]) -> None:
    if len(faults) < MAX_FAULTS:
        faults.append(fault)
