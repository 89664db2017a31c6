"""Finding the event logs below the paths that a person names.

A log is one file (``APP``, ``APP.zstd``, ``APP.inprogress``) or a folder ``eventlog_v2_APP`` of
files ``events_1_APP``, ``events_2_APP`` ... between which Spark rolled over. Databricks writes a
folder of ``eventlog-DATE--TIME.gz``, one for each hour, and ``eventlog``, the newest. Logs may lie
several folders deep, and in zip archives, as history servers hand them out.

An archive is searched like a folder, and nothing of it is unpacked to disk. It is untrusted: its
list of files is bounded, and all that its files unfold to together, as for any compressed file.
"""

from __future__ import annotations

import io
import os
import re
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from errno import EISDIR
from os import strerror
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import BinaryIO, Generic, Literal, NamedTuple, Protocol, TypeVar, cast
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile

from traces.codecs import ZIP_MAGIC, Allowance, PieceStream, open_codec
from traces.errors import DamageError, TraceError
from traces.files.errors import reading
from traces.files.names import clean, some

MAX_LIST_BYTES = 1 << 20
"""size of an archive's list of files, some ten thousand of them"""
_EMPTY_MAGIC = b"PK\x05\x06"
MAX_DEPTH = 5
"""levels below a folder that are searched; Databricks delivers to CLUSTER/eventlog/IP/CONTEXT"""
MAX_ENTRIES = 200_000
"""files and folders that are looked at below one path"""
_ROLLED_FOLDER = "eventlog_v2_"
_ROLLED_FILE = re.compile(r"events_(\d{1,9})_.*?(\.compact)?")
_DATABRICKS_FILE = re.compile(r"eventlog(?:-(\d{4}-\d\d-\d\d--\d\d-\d\d))?(?:\.[a-z0-9]{1,6}){0,3}")
_MANY_GAPS = 3


def is_archive(path: Path) -> bool:
    """Return whether a file begins as a zip archive does."""
    with reading(path, TraceError), path.open("rb") as file:
        return file.read(4) in (ZIP_MAGIC, _EMPTY_MAGIC)


def open_archive(path: Path) -> ZippedFolder:
    """The files of an archive as a folder; TraceError where its list cannot be read."""
    archive = _Archive(path)
    try:
        with reading(path, TraceError), archive.opened() as content:
            names = [info.filename for info in content.infolist() if not info.is_dir()]
    except DamageError as error:
        raise TraceError(f"{path}: {error}") from error
    entries = {tuple(part for part in name.split("/") if part): name for name in names}
    return ZippedFolder(archive, (), {place: name for place, name in entries.items() if place})


class _Archive:
    """An archive and what its files may still unfold to."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with reading(path, TraceError):
            size = path.stat().st_size
        self._allowance = Allowance(lambda: size)

    @contextmanager
    def opened(self) -> Iterator[ZipFile]:
        """Open the archive; DamageError for its faults in the block."""
        try:
            with _BoundedFile(io.FileIO(self.path)) as file, ZipFile(file) as content:
                yield content
        except (BadZipFile, EOFError, ValueError, struct.error, zlib.error) as error:
            raise DamageError(f"zip: {error}") from error
        except (NotImplementedError, RuntimeError) as error:  # encrypted, or of another version
            raise DamageError(f"zip: cannot be read: {error}") from error

    def pieces(self, name: str) -> Iterator[bytes]:
        """The content of a file, which may itself be compressed."""
        with self.opened() as content:
            info = content.getinfo(name)
            if info.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
                raise DamageError(f"zip: method {info.compress_type} is not read, only deflate")
            with content.open(info) as packed:
                yield from self._allowance.within(open_codec(cast(BinaryIO, packed)))


class _BoundedFile(io.BufferedReader):
    """A file of which no more is read at once than a list of files may have."""

    def read(self, size: int | None = -1, /) -> bytes:
        if size is not None and size > MAX_LIST_BYTES:
            raise BadZipFile(f"its list of files is longer than {MAX_LIST_BYTES >> 20} MiB")
        return super().read(size)


@dataclass(frozen=True, eq=False)
class ZippedFile:
    """A file of an archive."""

    archive: _Archive
    place: tuple[str, ...]
    entry: str

    @property
    def name(self) -> str:
        return self.place[-1]

    def __str__(self) -> str:
        return f"{self.archive.path}/{clean('/'.join(self.place))}"

    def open(self, _mode: Literal["rb"], /) -> BinaryIO:
        return cast(BinaryIO, PieceStream(self.archive.pieces(self.entry)))


@dataclass(frozen=True, eq=False)
class ZippedFolder:
    """A folder of an archive, or all of it."""

    archive: _Archive
    place: tuple[str, ...]
    entries: dict[tuple[str, ...], str]
    """below it: the archive's names by their parts, counted from the archive's root"""

    @property
    def name(self) -> str:
        return self.place[-1] if self.place else self.archive.path.name

    def __str__(self) -> str:
        return "/".join((str(self.archive.path), *map(clean, self.place)))

    def open(self, _mode: Literal["rb"], /) -> BinaryIO:
        """Refuse, as the system does for a folder."""
        raise IsADirectoryError(EISDIR, strerror(EISDIR))

    def inside(self) -> list[ZippedFile | ZippedFolder]:
        depth = len(self.place) + 1
        files: list[ZippedFile | ZippedFolder] = []
        folders: dict[tuple[str, ...], dict[tuple[str, ...], str]] = {}
        for place, entry in self.entries.items():
            if len(place) == depth:
                files.append(ZippedFile(self.archive, place, entry))
            else:
                folders.setdefault(place[:depth], {})[place] = entry
        return files + [ZippedFolder(self.archive, *folder) for folder in folders.items()]


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


P = TypeVar("P", bound=Named)


class FoundLog(NamedTuple, Generic[P]):
    """A log at a place, here or on another file system."""

    place: P
    parts: tuple[P, ...]
    """its files, in the order of writing"""
    named: bool
    """whether the search began at this very log, not at a folder in which it lies"""
    fault: str | None = None
    """why it cannot be read, where the search has shown so already"""


class UnreachableError(TraceError):
    """Error of a whole file system: no fault of one of its logs."""


def find_logs(paths: Sequence[Path]) -> list[LogFiles]:
    """The logs at `paths`: files, rolled folders, archives, or folders that hold any of them."""
    logs: dict[str, LogFiles] = {}
    places: Sequence[_Place] = paths
    for path in places:
        for place, parts, named, fault in search(path, _inside):
            files = parts if fault is None else (Unreadable(place, fault),)
            # Not `Path.resolve`, which fails where a link leads to itself.
            logs.setdefault(os.path.realpath(str(place)), LogFiles(place, files, named))
    return list(logs.values())


def search(place: P, inside: Callable[[P], Sequence[P] | None]) -> list[FoundLog[P]]:
    """The logs at a place, or up to `MAX_DEPTH` levels below it; TraceError without any.

    `inside` lists a folder or an archive; None for a file.
    """
    log, level = _look(place, inside, named=True)
    logs = [] if log is None else [log]
    looked_at = 0
    for _ in range(0 if logs else MAX_DEPTH):
        entries = [entry for entry in level if not is_hidden(entry.name)]
        looked_at, level = looked_at + len(entries), []
        if looked_at > MAX_ENTRIES:
            raise TraceError(
                f"{place}: more than {MAX_ENTRIES:,} files and folders; name folders below it"
            )
        for entry in sorted(entries, key=lambda entry: entry.name):
            try:
                log, below = _look(entry, inside, named=False)
            except UnreachableError:
                raise
            except TraceError as error:  # no fault of the logs beside it
                log, below = FoundLog(entry, (), named=False, fault=str(error)), ()
            level += below
            if log is not None:
                logs.append(log)
    if not logs:
        raise TraceError(
            f"{place}: the folder holds no event log, down to {MAX_DEPTH} levels below it"
        )
    return logs


def _look(
    place: P, inside: Callable[[P], Sequence[P] | None], *, named: bool
) -> tuple[FoundLog[P] | None, Sequence[P]]:
    """Return the log at a place, or, of a folder that is none, what lies in it."""
    entries = inside(place)
    if entries is None:
        return FoundLog(place, (place,), named), ()
    if not is_rolled_folder(place.name, (entry.name for entry in entries)):
        return None, entries
    by_name = {entry.name: entry for entry in entries}
    parts: list[P] = []
    for name in in_order(by_name):
        # A part may be an archive of one file.
        packed = inside(by_name[name]) or []
        parts.append(packed[0] if len(packed) == 1 else by_name[name])
    if not parts:
        raise TraceError(f"{place}: the rolled log holds no file events_N_...")
    return FoundLog(place, tuple(parts), named), ()


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
        or any(entry.startswith("events_1_") for entry in names)
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
    counting = [
        (number, name)
        for number, compacted, name in numbered
        if number > compact or (number == compact and compacted)
    ]
    return [name for _, name in sorted(counting)]


class MissingParts(NamedTuple):
    """Files that Spark wrote of a rolled log and that are not there."""

    number: int
    words: str  # part 2 of at least 3 is missing


def missing_parts(in_order: Iterable[str], rollovers: Iterable[int] = ()) -> MissingParts | None:
    """Missing parts of a rolled log, whose parts Spark numbers from 1 without gaps.

    A compacted file stands for those before it, so a log may begin with one of any number.
    `rollovers`: what Databricks' files begin with, counted from 0.
    """
    last, gaps = 0, []
    numbers = [(number + 1, False) for number in sorted(rollovers)]
    numbers += [
        (int(match[1]), match[2] is not None)
        for match in map(_ROLLED_FILE.fullmatch, in_order)
        if match is not None
    ]
    for number, is_compacted in numbers:
        if number > last + 1 and not is_compacted:
            gaps.append(range(last + 1, number))
        last = number
    if not gaps:
        return None
    count = sum(gap.stop - gap.start for gap in gaps)
    words = [f"{gap[0]}" if gap.stop - gap.start == 1 else f"{gap[0]} to {gap[-1]}" for gap in gaps]
    part, verb = ("part", "is") if count == 1 else ("parts", "are")
    return MissingParts(
        count, f"{part} {some(words, _MANY_GAPS)} of at least {last} {verb} missing"
    )


_Place = Path | ZippedFile | ZippedFolder


def _inside(place: _Place) -> Sequence[_Place] | None:
    """List a folder or an archive; None for a file."""
    if isinstance(place, ZippedFile):
        return None
    if isinstance(place, ZippedFolder):
        return place.inside()
    with reading(place, TraceError):
        mode = place.stat().st_mode
        if S_ISDIR(mode):
            return list(place.iterdir())
    if not S_ISREG(mode):
        raise TraceError(f"{place}: neither a file nor a folder")
    return open_archive(place).inside() if is_archive(place) else None


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
