"""Finding the event logs below the paths that a person names.

A log is one file (``APP``, ``APP.zstd``, ``APP.inprogress``) or a folder ``eventlog_v2_APP`` of
files ``events_1_APP``, ``events_2_APP`` ... between which Spark rolled over. Databricks writes a
folder of ``eventlog-DATE--TIME.gz``, one for each hour, and ``eventlog``, the newest.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import BinaryIO, Literal, NamedTuple, Protocol

from traces.errors import TraceError
from traces.files.errors import reading
from traces.files.names import some

_ROLLED_FOLDER = "eventlog_v2_"
_ROLLED_FILE = re.compile(r"events_(\d{1,9})_.*?(\.compact)?")
_DATABRICKS_FILE = re.compile(r"eventlog(?:-(\d{4}-\d\d-\d\d--\d\d-\d\d))?(?:\.[a-z0-9]{1,6})?")
_MANY_GAPS = 3


class Named(Protocol):
    """A path, here or on another file system; its text is what messages call it."""

    @property
    def name(self) -> str:
        """Last part of the path."""


class LogFile(Named, Protocol):
    """A file, here or on another file system."""

    def open(self, mode: Literal["rb"], /) -> BinaryIO:
        """Open the log's bytes from the beginning, or raise OSError or TraceError."""


@dataclass(frozen=True)
class LogFiles:
    """The log of one application (of one attempt to run it)."""

    path: Named  # the file or the folder that a person would name
    files: tuple[LogFile, ...]  # in the order of writing, at least one
    named: bool  # whether the person named this very log, or a folder in which it lies


def find_logs(paths: Sequence[Path]) -> list[LogFiles]:
    """The logs at `paths`: each a file, a rolled folder, or a folder with any number of either."""
    found: dict[str, LogFiles] = {}
    for path in paths:
        for place, log in _logs_at(path):
            # Not `Path.resolve`, which fails where a link leads to itself.
            found.setdefault(os.path.realpath(place), log)
    return list(found.values())


def is_hidden(name: str) -> bool:
    """Return whether to skip a file in a folder of logs: checksums, markers."""
    return name.startswith((".", "_"))


def is_rolled_folder(name: str, inside: Iterable[str]) -> bool:
    """Return whether a folder is one log, by its name or by the names of what lies in it."""
    names = list(inside)
    is_databricks = any(
        match is not None and match[1] is not None
        for match in map(_DATABRICKS_FILE.fullmatch, names)
    )
    return (
        name.startswith(_ROLLED_FOLDER)
        or is_databricks
        or any(one.startswith("events_1_") for one in names)
    )


def in_order(names: Iterable[str]) -> list[str]:
    """Return the files of a rolled log that count, in the order of writing.

    A compacted file stands for every file up to its own number. Databricks' newest has no date.
    """
    names = list(names)
    dated = [
        (match[1] or "~", name)
        for name in names
        if (match := _DATABRICKS_FILE.fullmatch(name)) is not None
    ]
    if dated:
        return [name for _, name in sorted(dated)]
    numbered = [
        (int(match[1]), match[2] is not None, name)
        for name in names
        if (match := _ROLLED_FILE.fullmatch(name)) is not None
    ]
    compact = max((number for number, compacted, _ in numbered if compacted), default=0)
    kept = [
        (number, name)
        for number, compacted, name in numbered
        if number > compact or (number == compact and compacted)
    ]
    return [name for _, name in sorted(kept)]


class MissingParts(NamedTuple):
    """Files that Spark wrote of a rolled log and that are not there."""

    number: int
    words: str  # part 2 of at least 3 is missing


def missing_parts(in_order: Iterable[str]) -> MissingParts | None:
    """Return the missing parts of a rolled log: Spark numbers its files from 1 without gaps.

    A compacted file stands for those before it, so a log may begin with one of any number.
    """
    last, gaps = 0, []
    for match in filter(None, map(_ROLLED_FILE.fullmatch, in_order)):
        number, is_compacted = int(match[1]), match[2] is not None
        if number > last + 1 and not is_compacted:
            gaps.append(range(last + 1, number))
        last = number
    if not gaps:
        return None
    count = sum(map(len, gaps))
    told = [f"{gap[0]}" if len(gap) == 1 else f"{gap[0]} to {gap[-1]}" for gap in gaps]
    named = some(told, _MANY_GAPS)
    part, verb = ("part", "is") if count == 1 else ("parts", "are")
    return MissingParts(count, f"{part} {named} of at least {last} {verb} missing")


def _logs_at(path: Path) -> list[tuple[Path, LogFiles]]:
    log = _log_at(path, named=True)
    if log is not None:
        return [(path, log)]
    logs = list(_logs_in(path))
    if not logs:
        raise TraceError(f"{path}: the folder holds no event log")
    return logs


def _logs_in(folder: Path) -> Iterator[tuple[Path, LogFiles]]:
    for name in sorted(_names_in(folder)):
        if is_hidden(name):
            continue
        entry = folder / name
        try:
            log = _log_at(entry, named=False)
        except TraceError as error:
            log = LogFiles(entry, (Unreadable(entry, str(error)),), named=False)
        if log is not None:
            yield entry, log


def _log_at(path: Path, *, named: bool) -> LogFiles | None:
    """The log at `path`; None for a folder that is none, but may hold some."""
    with reading(path, TraceError):
        mode = path.stat().st_mode
    if S_ISREG(mode):
        return LogFiles(path, (path,), named)
    if not S_ISDIR(mode):
        raise TraceError(f"{path}: neither a file nor a folder")
    names = _names_in(path)
    if not is_rolled_folder(path.name, names):
        return None
    parts = in_order(names)
    if not parts:
        raise TraceError(f"{path}: the rolled log holds no file events_N_...")
    return LogFiles(path, tuple(path / part for part in parts), named)


def _names_in(folder: Path) -> list[str]:
    with reading(folder, TraceError):
        return [entry.name for entry in folder.iterdir()]


@dataclass(frozen=True)
class Unreadable:
    """An entry of a folder that cannot be read: a fault of its own, not of the logs beside it."""

    path: Named
    reason: str  # names the path

    @property
    def name(self) -> str:
        return self.path.name

    def open(self, _mode: Literal["rb"], /) -> BinaryIO:
        raise TraceError(self.reason)
