"""Finding the event logs below the paths that a person names.

A log is one file (``APP``, ``APP.zstd``, ``APP.inprogress``) or a folder ``eventlog_v2_APP`` of
files ``events_1_APP``, ``events_2_APP`` ... between which Spark rolled over.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISREG

from traces.errors import TraceError

_ROLLED_FOLDER = "eventlog_v2_"
_ROLLED_FILE = re.compile(r"events_(\d{1,9})_.*?(\.compact)?")


@dataclass(frozen=True)
class LogFiles:
    """The log of one application (of one attempt to run it)."""

    path: Path
    """the file or the folder that a person would name"""
    files: tuple[Path, ...]
    """in the order of writing, at least one"""
    named: bool
    """whether the person named this very log, or a folder in which it lies"""


def find_logs(paths: Sequence[Path]) -> list[LogFiles]:
    """The logs at `paths`: each a file, a rolled folder, or a folder with any number of either.

    Raises:
        TraceError: a path does not exist, cannot be listed, or holds no log.
    """
    found: dict[Path, LogFiles] = {}
    for path in paths:
        for log in _logs_at(path):
            found.setdefault(log.path.resolve(), log)
    return list(found.values())


def _logs_at(path: Path) -> list[LogFiles]:
    try:
        if not path.is_dir():
            if not S_ISREG(path.stat().st_mode):
                raise TraceError(f"{path}: neither a file nor a folder")
            return [LogFiles(path, (path,), named=True)]
        if _is_rolled(path):
            return [LogFiles(path, _rolled_files(path), named=True)]
        logs = list(_logs_in(path))
    except OSError as error:
        raise TraceError(f"{path}: cannot read: {error.strerror or error}") from error
    if not logs:
        raise TraceError(f"{path}: the folder holds no event log")
    return logs


def _logs_in(folder: Path) -> Iterator[LogFiles]:
    for entry in sorted(folder.iterdir()):
        if entry.name.startswith((".", "_")):  # checksums, markers
            continue
        if entry.is_file():
            yield LogFiles(entry, (entry,), named=False)
        elif _is_rolled(entry):
            yield LogFiles(entry, _rolled_files(entry), named=False)


def _is_rolled(folder: Path) -> bool:
    return folder.name.startswith(_ROLLED_FOLDER) or any(folder.glob("events_1_*"))


def _rolled_files(folder: Path) -> tuple[Path, ...]:
    """The files by number; a compacted file stands for every file up to its own number."""
    numbered = [
        (int(match[1]), match[2] is not None, entry)
        for entry in folder.iterdir()
        if (match := _ROLLED_FILE.fullmatch(entry.name)) is not None
    ]
    if not numbered:
        raise TraceError(f"{folder}: the rolled log holds no file events_N_...")
    compact = max((number for number, compacted, _ in numbered if compacted), default=0)
    kept = [
        (number, entry)
        for number, compacted, entry in numbered
        if number > compact or (number == compact and compacted)
    ]
    return tuple(entry for _, entry in sorted(kept))
