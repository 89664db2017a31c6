"""Event logs on a History Server or in an object store, copied into a folder.

A History Server hands out each application's logs as a zip archive through its REST interface
(Spark's "Monitoring and Instrumentation": ``/api/v1/applications``, ``.../ID/logs``). ``hdfs://``,
``s3://`` and ``gs://`` are read by `pyarrow.fs`, with the credentials that its file systems find in
the environment.
"""

from __future__ import annotations

import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http.client import HTTPException, HTTPMessage
from pathlib import Path
from typing import IO, NoReturn
from urllib.parse import SplitResult, quote, urlencode, urlsplit
from zipfile import is_zipfile

import pyarrow
from pyarrow import fs

from traces.errors import TraceError
from traces.files.errors import reason
from traces.files.names import clean, counted
from traces.files.reading import parse_json

STORES = ("hdfs", "viewfs", "s3", "gs", "file")
"""pyarrow ends the process where Azure's credentials are wrong, so abfs is none of them"""
MAX_BYTES = 50 << 30
"""of all logs at one address"""
MAX_FILES = 200_000
MAX_APPLICATIONS = 1_000
"""of one History Server"""
SILENCE_S = 30.0
"""without a byte, after which a server counts as hung"""
LONGEST_S = 1800.0
"""for one answer, however steadily it drips"""
_MAX_LIST_BYTES = 256 << 20
_PIECE = 1 << 20
_IDENTIFIER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,199}")
_SINCE = re.compile(r"(\d{1,5})([hdw])")
_UNITS = {"h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}

Progress = Callable[[str, int, int], None]
"""called with what is copied, its number from 1, and how many there are"""


@dataclass(frozen=True)
class Selection:
    """Which applications of a History Server are copied."""

    applications: tuple[str, ...] = ()
    """by their ids; none: all that have ended"""
    since: timedelta | None = None
    """those that ended in this time before now"""


def is_elsewhere(place: str) -> bool:
    """Return whether a place is an address, not a path of this machine."""
    return "://" in place


def is_history_server(place: str) -> bool:
    """Return whether an address is that of a History Server."""
    return place.lower().startswith(("http://", "https://"))


def without_credentials(place: str) -> str:
    """Return an address for messages, without a user, a password, or options that may hold keys."""
    scheme, _, rest = place.partition("://")
    # First: a key that was not escaped may hold a / or a ?. So what is cut may be part of a path.
    _, cut, rest = rest.rpartition("@")
    shown = re.split("[?#]", rest, maxsplit=1)[0]
    return clean(f"{scheme}://{'...@' if cut else ''}{shown}")


def parse_since(text: str) -> timedelta:
    """Return the time that ``12h``, ``7d`` or ``2w`` means; ValueError for others."""
    parts = _SINCE.fullmatch(text)
    if parts is None:
        raise ValueError(f"{clean(text)!r}: hours, days or weeks are needed, such as 12h, 7d or 2w")
    return int(parts[1]) * _UNITS[parts[2]]


def copy_logs(
    place: str, folder: Path, selection: Selection = Selection(), progress: Progress | None = None
) -> list[str]:
    """Copy the logs at an address into an empty folder; return those that had gone by then.

    `place` is ``http://HOST:18080`` of a History Server, from which `selection` chooses, or an
    address of an object store. TraceError (one line) says what is at fault.
    """
    show = progress or (lambda _what, _number, _all: None)
    if is_history_server(place):
        return _HistoryServer(place).copy(folder, selection, show)
    if _split(place).scheme.lower() not in STORES:
        known = ", ".join(f"{scheme}://" for scheme in ("http", "https", *STORES))
        raise TraceError(f"{without_credentials(place)}: unknown kind of address; known: {known}")
    _copy_tree(place, folder, show)
    return []


def _split(place: str) -> SplitResult:
    try:
        return urlsplit(place)
    except ValueError as error:
        raise TraceError(f"{without_credentials(place)}: {error}") from error


def _copy_tree(place: str, folder: Path, progress: Progress) -> None:
    shown = without_credentials(place)
    uri = place
    if uri.lower().startswith("gs://") and "retry_limit_seconds" not in uri:
        # Without it, Google's client tries for a quarter of an hour.
        uri += f"{'&' if '?' in uri else '?'}retry_limit_seconds={SILENCE_S:g}"
    try:
        system, path = fs.FileSystem.from_uri(uri)
        info = system.get_file_info(path)
        if info.type == fs.FileType.NotFound:
            raise TraceError(f"{shown}: no such file or folder")
        is_folder = info.type == fs.FileType.Directory
        selector = fs.FileSelector(path, recursive=True)
        listed = system.get_file_info(selector) if is_folder else [info]
        files = [entry for entry in listed if entry.type == fs.FileType.File]
        size = sum(entry.size or 0 for entry in files)
        if len(files) > MAX_FILES or size > MAX_BYTES:
            raise TraceError(
                f"{shown}: {counted(len(files), 'file')} of {size:,} bytes; at most {MAX_FILES:,} "
                f"of {MAX_BYTES:,} bytes are copied"
            )
        for number, entry in enumerate(files, start=1):
            inside = entry.path.removeprefix(path).strip("/") or entry.base_name
            target = folder / inside
            if not target.resolve().is_relative_to(folder.resolve()):
                raise TraceError(f"{shown}: {clean(inside)!r} is outside of it")
            target.parent.mkdir(parents=True, exist_ok=True)
            progress(clean(inside), number, len(files))
            fs.copy_files(entry.path, str(target), source_filesystem=system)
    except OSError as error:
        words = reason(error).replace(uri, shown)
        raise TraceError(f"{shown}: cannot read: {clean(words, 300)}") from error
    except pyarrow.ArrowException as error:
        words = str(error).replace(uri, shown)
        raise TraceError(f"{shown}: {clean(words, 300)}") from error


class _GoneError(TraceError):
    """Error of a server that does not have what was asked for."""


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: HTTPMessage,
        newurl: str,
    ) -> NoReturn:
        raise TraceError(
            f"{req.full_url}: redirects to {clean(newurl)}; give the address of the History Server "
            "itself, as a page in between may want a login"
        )


class _HistoryServer:
    """A History Server at an address."""

    def __init__(self, place: str) -> None:
        parts = _split(place)
        if not parts.hostname or parts.username is not None or parts.query or parts.fragment:
            raise TraceError(
                f"{without_credentials(place)}: http://HOST:PORT of a History Server is needed"
            )
        path = parts.path.rstrip("/").removesuffix("/api/v1")
        self.address = f"{parts.scheme}://{parts.netloc}{quote(path, safe='/%')}"
        self._opener = urllib.request.build_opener(_NoRedirects)
        self._copied_bytes = 0

    def copy(self, folder: Path, selection: Selection, progress: Progress) -> list[str]:
        """Copy the logs of the applications asked for, each an archive; return those gone."""
        named = selection.applications
        ids = named or self._ended(selection.since)
        gone: list[str] = []
        for number, application in enumerate(ids, start=1):
            progress(application, number, len(ids))
            try:
                self._copy_application(application, folder)
            except _GoneError:
                if named or len(gone) + 1 == len(ids):
                    raise
                gone.append(application)
        return gone

    def _ended(self, since: timedelta | None) -> list[str]:
        """Ids of the applications that have ended, as the server lists them."""
        query = {"status": "completed", "limit": str(MAX_APPLICATIONS + 1)}
        if since is not None:
            earliest = datetime.now(UTC) - since
            query["minEndDate"] = earliest.strftime("%Y-%m-%dT%H:%M:%S.000GMT")
        url = f"{self.address}/api/v1/applications?{urlencode(query)}"
        listed = parse_json(b"".join(self._pieces(url, _MAX_LIST_BYTES)), url, TraceError)
        if not isinstance(listed, list) or not all(isinstance(entry, dict) for entry in listed):
            raise TraceError(f"{url}: no list of applications: is it a History Server?")
        ids = [str(entry.get("id", "")) for entry in listed]
        if not ids:
            words = "" if since is None else f" in the last {since}"
            raise TraceError(f"{self.address}: no application has ended{words}")
        if len(ids) > MAX_APPLICATIONS:
            raise TraceError(
                f"{self.address}: more than {MAX_APPLICATIONS:,} applications; ask for fewer, by "
                "the time since they ended or by their ids"
            )
        return ids

    def _copy_application(self, application: str, folder: Path) -> None:
        if _IDENTIFIER.fullmatch(application) is None:
            raise TraceError(f"{self.address}: {clean(application)!r} is no id of an application")
        url = f"{self.address}/api/v1/applications/{application}/logs"
        path = folder / f"{application}.zip"
        pieces = self._pieces(url, MAX_BYTES - self._copied_bytes)
        first = next(pieces, b"")  # no file is left where there is no answer
        with path.open("wb") as file:
            self._copied_bytes += file.write(first)
            for piece in pieces:
                self._copied_bytes += file.write(piece)
        if not is_zipfile(path):
            raise TraceError(f"{url}: the answer is no zip archive, or a broken one")

    def _pieces(self, url: str, most_bytes: int) -> Iterator[bytes]:
        """Yield the content at a URL in pieces."""
        deadline = time.monotonic() + LONGEST_S
        bytes_left = most_bytes
        try:
            with self._opener.open(url, timeout=SILENCE_S) as answer:
                while piece := answer.read1(_PIECE):
                    bytes_left -= len(piece)
                    if bytes_left < 0:
                        raise TraceError(f"{url}: more than {most_bytes:,} bytes")
                    if time.monotonic() > deadline:
                        raise TraceError(f"{url}: no end after {LONGEST_S:g} s")
                    yield piece
        except urllib.error.HTTPError as error:
            hint = {401: ": it needs a login", 403: ": it needs a login", 404: ": not there"}
            kind = _GoneError if error.code == 404 else TraceError
            raise kind(
                f"{url}: the server answers {error.code}{hint.get(error.code, '')}"
            ) from error
        except urllib.error.URLError as error:
            cause = error.reason
            if isinstance(cause, TimeoutError):
                raise TraceError(f"{url}: no answer for {SILENCE_S:g} s") from error
            words = reason(cause) if isinstance(cause, OSError) else str(cause)
            raise TraceError(f"{url}: cannot connect: {clean(words, 300)}") from error
        except TimeoutError as error:
            raise TraceError(f"{url}: no answer for {SILENCE_S:g} s") from error
        except (OSError, HTTPException, UnicodeError) as error:
            raise TraceError(f"{url}: cannot read: {clean(str(error), 300)}") from error
