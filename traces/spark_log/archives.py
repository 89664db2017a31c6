"""Zip archives of event logs, as history servers hand them out.

An archive is searched like a folder, and nothing of it is unpacked to disk. It is untrusted: its
list of files is bounded, and all that its files unfold to together, as for any compressed file.
"""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from errno import EISDIR
from os import strerror
from pathlib import Path
from typing import BinaryIO, Literal, cast
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile

from traces.codecs import ZIP_MAGIC, Allowance, PieceStream, open_codec
from traces.errors import DamageError, TraceError
from traces.files.errors import reading
from traces.files.names import clean

MAX_LIST_BYTES = 1 << 20
"""size of an archive's list of files, some ten thousand of them"""
_EMPTY_MAGIC = b"PK\x05\x06"


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
        """Return its files and folders."""
        depth = len(self.place) + 1
        files: list[ZippedFile | ZippedFolder] = []
        folders: dict[tuple[str, ...], dict[tuple[str, ...], str]] = {}
        for place, entry in self.entries.items():
            if len(place) == depth:
                files.append(ZippedFile(self.archive, place, entry))
            else:
                folders.setdefault(place[:depth], {})[place] = entry
        return files + [ZippedFolder(self.archive, *folder) for folder in folders.items()]
