"""Files of an event log that Java passes to a task, piece by piece.

`EventLogs.java` reads through Spark's own file systems and writes pieces of bounded size into the
pipe to this process; no more than one of them is held here.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO, Literal, NamedTuple, cast
from urllib.parse import urlsplit

from decima.rl.parallel.spark import settle
from traces.codecs import PieceStream
from traces.errors import TraceError
from traces.spark_log.files import LogFiles, Unreadable
from traces.spark_log.reader import HowToRead, ReadLog, read_log

LOG, DATA, END, FAULT = b"L", b"D", b"E", b"X"
"""kinds of pieces, as `EventLogs.java` writes them"""


@dataclass(frozen=True)
class RemotePath:
    """A path on another file system, as Hadoop writes it."""

    text: str

    @property
    def name(self) -> str:
        return urlsplit(self.text).path.rstrip("/").rpartition("/")[2] or self.text

    def __str__(self) -> str:
        return self.text


class RemoteLog(NamedTuple):
    """The log of one application, as `LogFiles` but for where it is."""

    path: RemotePath
    files: tuple[str, ...]
    named: bool
    num_bytes: int
    fault: str | None = None
    """why it cannot be read, where the listing has shown so already"""

    def text(self) -> str:
        """Format the request as `EventLogs.java` takes and returns it."""
        return "".join(f"{part}\0" for part in (self.path.text, int(self.named), *self.files))


def read_partition(how: HowToRead, pieces: Iterable[bytes]) -> Iterator[tuple[str, ReadLog | str]]:
    """Each log of a partition by its path: what it gives, or why it cannot be read."""
    left = iter(pieces)
    for head in left:
        path, named, *files = head[1:].decode().rstrip("\0").split("\0")
        streams: list[_RemoteFile] = []
        for file in files:
            streams.append(_RemoteFile(RemotePath(file), left, tuple(streams)))
        log = LogFiles(RemotePath(path), tuple(streams), named=named == "1")
        try:
            yield path, read_log(log, how)
        except TraceError as error:
            yield path, str(error)
        for stream in streams:
            stream.skip()
    settle()


class _RemoteFile:
    """A file of a log whose pieces come after those of the files before it."""

    def __init__(
        self, path: RemotePath, pieces: Iterator[bytes], before: tuple[_RemoteFile, ...]
    ) -> None:
        self._path = path
        self._before = before
        self._pieces = _of_one_file(pieces)
        self.name = path.name

    def __str__(self) -> str:
        return str(self._path)

    def open(self, _mode: Literal["rb"], /) -> BinaryIO:
        for file in self._before:
            file.skip()
        return cast(BinaryIO, PieceStream(self._pieces))

    def skip(self) -> None:
        """Read and drop the rest, for example of a damaged file."""
        for _ in self._pieces:
            pass


def _of_one_file(pieces: Iterator[bytes]) -> Iterator[bytes | OSError]:
    """Contents up to the end of the file; a fault instead where it cannot be read on."""
    for piece in pieces:
        kind = piece[:1]
        if kind == DATA:
            yield piece[1:]
            continue
        if kind == FAULT:
            yield OSError(errno.EIO, piece[1:].decode())
        return


def logs_in_order(
    logs: Sequence[RemoteLog], found: Iterable[tuple[str, ReadLog | str]], how: HowToRead
) -> Iterator[ReadLog]:
    """Yield the logs read, in order; a log that could not be listed carries its error.

    Raises:
        TraceError: a log that a person named cannot be read.
    """
    by_path = dict(found)
    for log in logs:
        if log.fault is not None:
            entry = Unreadable(log.path, log.fault)
            yield read_log(LogFiles(log.path, (entry,), log.named), how)
            continue
        one = by_path[log.path.text]
        if isinstance(one, str):
            raise TraceError(one)
        yield one
