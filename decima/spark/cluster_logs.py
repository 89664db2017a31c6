"""Thousands of event logs in parallel, wherever Spark's own file systems can read them.

The driver lists what lies at the paths and sends one task for each log, large ones first.
`EventLogs.java` reads a log through Spark's own file systems and writes pieces of bounded size into
the pipe to Python, where no more than one of them is held. The task gives back the log's jobs. The
driver makes one trace of them, as `traces.spark_log.read_spark_logs` does of logs that lie here.
"""

from __future__ import annotations

import errno
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple, cast
from urllib.parse import urlsplit

from decima.fingerprint import versions
from decima.rl.parallel.errors import ClusterError
from decima.rl.parallel.greeting import check_executors
from decima.rl.parallel.spark import settle
from decima.spark.jvm import first_line, java_class
from traces.codecs import PieceStream
from traces.errors import TraceError
from traces.spark_log import ImportSummary
from traces.spark_log.files import LogFiles, UnreachableError, Unreadable, search
from traces.spark_log.reader import HowToRead, ReadLog, read_log, trace_of_logs
from traces.trace import Trace

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
_POLL_S = 0.5
_DATA, _FAULT = b"D", b"X"
"""kinds of pieces, as `EventLogs.java` writes them: of a file, and in place of its rest"""

LogProgress = Callable[[int, int], None]
"""called with (logs read, logs in all)"""


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


@dataclass(frozen=True)
class _Entry(RemotePath):
    """A file or a folder, as `EventLogs.java` lists it."""

    is_folder: bool
    num_bytes: int


def read_logs_on_cluster(
    context: Any,
    paths: Sequence[str],
    *,
    how: HowToRead,
    name: str | None = None,
    progress: LogProgress | None = None,
) -> tuple[Trace, ImportSummary]:
    """Read logs like `traces.spark_log.read_spark_logs`, with a Spark task for each log.

    `paths` are URIs, or paths that mean the same on every host. The executors must be able to
    import this package (else ClusterError).
    """
    check_executors(context, versions)
    kind = java_class(context, "decima.spark.EventLogs", for_executors=True)
    arguments = context._gateway.new_array(context._jvm.java.lang.Object, 1)
    arguments[0] = context._jsc
    java = kind.getConstructors()[0].newInstance(arguments)
    try:
        logs = find_remote_logs(java, paths)
        sound = [log for log in logs if log.fault is None]
        results = _read_all(context, java, sound, how, progress) if sound else []
    finally:
        java.close()
    read = logs_in_order(logs, results, how)
    return trace_of_logs(read, [*map(RemotePath, paths)], group_by=how.group_by, name=name)


def find_remote_logs(java: Any, paths: Sequence[str]) -> list[RemoteLog]:
    """Return the logs at these paths, as an `EventLogs.java` lists them."""
    logs: dict[str, RemoteLog] = {}
    for path in paths:
        # What is listed anew is what the path names: Hadoop shows it by its full address.
        itself, _ = _list(java, as_uri(path), path)
        for place, parts, named, fault in search(itself, partial(_inside, java)):
            size = sum(part.num_bytes for part in parts)
            files = tuple(part.text for part in parts)
            log = RemoteLog(RemotePath(place.text), files, named, size, fault)
            logs.setdefault(place.text, log)
    return list(logs.values())


def as_uri(path: str) -> str:
    """A path of this machine as the URI by which Hadoop knows it; URIs stay."""
    return path if _SCHEME.match(path) else f"file://{Path(path).absolute()}"


def _inside(java: Any, entry: _Entry) -> list[_Entry] | None:
    """List a folder; None for a file."""
    return _list(java, entry.text, entry.text)[1] if entry.is_folder else None


def _list(java: Any, uri: str, shown: str) -> tuple[_Entry, list[_Entry]]:
    """List a path and, if it is a folder, its entries by name."""
    from py4j.protocol import Py4JJavaError

    try:
        parts = str(java.list(uri)).split("\0")[:-1]
    except Py4JJavaError as error:
        reason = first_line(error)
        if "FileNotFoundException" in reason:
            raise TraceError(f"{shown}: no such file or folder") from error
        kind = TraceError if "AccessControlException" in reason else UnreachableError
        raise kind(f"{shown}: Spark cannot read it: {reason}") from error
    rows = zip(parts[::3], parts[1::3], parts[2::3], strict=True)
    itself, *inside = (_Entry(at, kind == "d", int(size)) for kind, size, at in rows)
    return itself, inside


def _read_all(
    context: Any,
    java: Any,
    logs: Sequence[RemoteLog],
    how: HowToRead,
    progress: LogProgress | None,
) -> list[Any]:
    """Collect the answers of `read_partition` for all logs."""
    from pyspark.rdd import RDD
    from pyspark.serializers import NoOpSerializer

    # The largest first, so that none of them is begun when all the others are done.
    order = sorted(logs, key=lambda log: log.num_bytes, reverse=True)
    pieces = java.pieces(context._jsc, [log.text() for log in order])
    tasks = RDD(pieces, context, NoOpSerializer()).mapPartitions(partial(read_partition, how))
    group = f"import-{time.monotonic_ns()}"
    context.setJobGroup(group, f"reading {len(logs):,} event logs", interruptOnCancel=True)
    try:
        with _watched(context, group, len(logs), progress):
            results: list[Any] = tasks.collect()
    except KeyboardInterrupt:
        context.cancelJobGroup(group)
        raise
    except Exception as error:
        raise ClusterError(f"the cluster gave up reading: {first_line(error)}") from error
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)
        context.setLocalProperty("spark.job.description", None)
    return results


@contextmanager
def _watched(context: Any, group: str, total: int, progress: LogProgress | None) -> Iterator[None]:
    """Report the number of ended tasks from a thread while `collect` blocks."""
    if progress is None:
        yield
        return
    done = threading.Event()

    def watch() -> None:
        tracker = context.statusTracker()
        while not done.wait(_POLL_S):
            jobs = (tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group))
            stages = [tracker.getStageInfo(stage) for job in jobs if job for stage in job.stageIds]
            progress(sum(stage.numCompletedTasks for stage in stages if stage), total)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
    progress(total, total)


def read_partition(how: HowToRead, pieces: Iterable[bytes]) -> Iterator[tuple[str, ReadLog | str]]:
    """Each log of a partition by its path: what it gives, or why it cannot be read."""
    rest = iter(pieces)
    for head in rest:
        path, named, *files = head[1:].decode().rstrip("\0").split("\0")
        streams: list[_RemoteFile] = []
        for file in files:
            streams.append(_RemoteFile(RemotePath(file), rest, tuple(streams)))
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
        self._pieces = self._until_end(pieces)
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

    @staticmethod
    def _until_end(pieces: Iterator[bytes]) -> Iterator[bytes | OSError]:
        """Contents up to the end of the file; a fault instead where it cannot be read on."""
        for piece in pieces:
            if piece[:1] == _DATA:
                yield piece[1:]
                continue
            if piece[:1] == _FAULT:
                yield OSError(errno.EIO, piece[1:].decode())
            return


def logs_in_order(
    logs: Sequence[RemoteLog], results: Iterable[tuple[str, ReadLog | str]], how: HowToRead
) -> Iterator[ReadLog]:
    """Yield the logs read, in order; TraceError where one that a person named cannot be read."""
    by_path = dict(results)
    for log in logs:
        if log.fault is not None:
            entry = Unreadable(log.path, log.fault)
            yield read_log(LogFiles(log.path, (entry,), log.named), how)
            continue
        result = by_path[log.path.text]
        if isinstance(result, str):
            raise TraceError(result)
        yield result
