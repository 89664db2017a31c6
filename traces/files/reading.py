"""Reading of untrusted files, lines, JSON and TOML: every fault is one kind of error."""

from __future__ import annotations

import errno
import json
import os
import tomllib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import Any, BinaryIO

from traces.files.errors import FileError, reading

MAX_JSON_BYTES = 2**26
"""JSON is parsed as a whole and can take twenty times its length, so a larger file is refused"""
MAX_TOML_BYTES = 2**20
PIECE_BYTES = 1 << 16  # read at once


def check_regular(path: Path, error: type[ValueError] = FileError) -> None:
    """Refuse what is no regular file: a pipe may wait for ever, a device may never end."""
    if "\0" in str(path):
        raise error(f"{str(path)!r:.200}: cannot read: no file has such a name")
    with reading(path, error):
        mode = path.stat().st_mode
        if S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not S_ISREG(mode):
        raise error(f"{path}: cannot read: a pipe or a device, where a regular file is needed")


@contextmanager
def opened(path: Path, error: type[ValueError] = FileError) -> Iterator[BinaryIO]:
    """Open a regular file; a fault of the system in the block is one line, too."""
    check_regular(path, error)
    with reading(path, error):
        # The name may mean a pipe by now, on which plain opening waits for a writer.
        number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(number, "rb") as file:
            yield file


def read_bytes(
    path: Path, error: type[ValueError] = FileError, max_bytes: int | None = None
) -> bytes:
    """The content of a file of at most `max_bytes` (None: of any size)."""
    with opened(path, error) as file:
        # A file may grow while it is read, so it is read up to the bound.
        content = file.read() if max_bytes is None else file.read(max_bytes + 1)
        size = path.stat().st_size
    if max_bytes is not None and len(content) > max_bytes:
        raise error(f"{path}: {max(size, len(content)):,} bytes, at most {max_bytes:,} are read")
    return content


def read_json(
    path: Path, error: type[ValueError] = FileError, max_bytes: int = MAX_JSON_BYTES
) -> Any:
    """The content of a JSON file, as `parse_json` gives it."""
    return parse_json(read_bytes(path, error, max_bytes), str(path), error)


def parse_json(text: bytes | str, where: str, error: type[ValueError] = FileError) -> Any:
    """The value of a JSON text without duplicate keys, NaN, huge integers and deep nesting."""
    try:
        decoded = text if isinstance(text, str) else text.decode("utf-8-sig")
        return json.loads(decoded, object_pairs_hook=_unique, parse_constant=_no_constant)
    except json.JSONDecodeError as fault:
        raise error(f"{where}:{fault.lineno}: not JSON: {fault.msg}") from fault
    except UnicodeDecodeError as fault:
        raise error(f"{where}: not UTF-8 text, at byte {fault.start}") from fault
    except RecursionError as fault:
        raise error(f"{where}: JSON nested too deeply") from fault
    except ValueError as fault:  # duplicate keys, constants, integers of absurd length
        raise error(f"{where}: {fault}") from fault


def parse_object(content: bytes, where: str, error: type[ValueError]) -> dict[str, Any]:
    """Parse a JSON object from elsewhere, as `parse_json`."""
    parsed = parse_json(content, where, error)
    if not isinstance(parsed, dict):
        raise error(f"{where}: {parsed!r:.60} is no JSON object")
    return parsed


def check_format(
    content: Any, where: object, kind: tuple[str, int], words: str, error: type[ValueError]
) -> None:
    """Refuse content that is not of a format and version (`kind`); `words` name what it is not."""
    known, version = kind
    if not isinstance(content, dict) or content.get("format") != known:
        raise error(f"{where}: {words}")
    if content.get("version") != version:
        stored = content.get("version")
        raise error(f"{where}: version {stored!r:.40}, this reader knows {version}")


def read_toml(path: Path, error: type[ValueError] = FileError) -> dict[str, Any]:
    """The table in a TOML file."""
    content = read_bytes(path, error, MAX_TOML_BYTES)
    try:
        return parse_toml(content.decode("utf-8"), str(path), error)
    except UnicodeDecodeError as fault:
        raise error(f"{path}: not TOML: not UTF-8 text, at byte {fault.start}") from fault


def parse_toml(text: str, where: str, error: type[ValueError] = FileError) -> dict[str, Any]:
    """The table of a TOML text."""
    try:
        return tomllib.loads(text)
    except RecursionError as fault:
        raise error(f"{where}: TOML nested too deeply") from fault
    except ValueError as fault:
        raise error(f"{where}: not TOML: {fault}") from fault


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) < len(pairs):
        names = set[str]()
        for name, _ in pairs:
            if name in names:
                raise ValueError(f"key {name!r:.60} appears twice in one object")
            names.add(name)
    return record


def _no_constant(name: str) -> float:
    raise ValueError(f"the value {name} is not a number in JSON")


@dataclass(frozen=True)
class LineBounds:
    """Bounds on a file of lines; a larger file is refused."""

    content_bytes: int
    """size of all lines, decompressed"""
    line_bytes: int = 1 << 22
    """size of one line"""
    to_read_more: str = ""
    """remedy for content that is too large; ends the message"""


def split_lines(pieces: Iterable[bytes], line_bytes: int) -> Iterator[tuple[bytes | None, bool]]:
    """Yield (line without its end, whether it has one); None for a line above `line_bytes`."""
    held: list[bytes] = []  # parts of the current line
    size = 0
    for piece in pieces:
        first, *others = piece.split(b"\n")
        size += len(first)
        _hold(held, first, size, line_bytes)
        if not others:
            continue
        yield _whole(held, size, line_bytes), True
        for line in others[:-1]:
            yield (line if len(line) <= line_bytes else None), True
        last = others[-1]
        held, size = [], len(last)
        _hold(held, last, size, line_bytes)
    if size > 0:
        yield _whole(held, size, line_bytes), False


def lines_of(
    pieces: Iterable[bytes], where: str, bounds: LineBounds, error: type[ValueError] = FileError
) -> Iterator[tuple[int, bytes]]:
    """Yield (line number, line without its end), empty lines included, within `bounds`."""
    within = _within(pieces, where, bounds, error)
    for number, (line, _) in enumerate(split_lines(within, bounds.line_bytes), 1):
        if line is None:
            raise error(
                f"{where}:{number}: a line of more than {bounds.line_bytes:,} bytes is not read"
            )
        yield number, line


def read_lines(
    path: Path, bounds: LineBounds, error: type[ValueError] = FileError
) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a file, as `lines_of` does."""
    with opened(path, error) as file:
        # A file may grow, or have no size as those of /proc: what is read is counted as well.
        if os.fstat(file.fileno()).st_size > bounds.content_bytes:
            raise error(_too_large(str(path), bounds))
        pieces = iter(lambda: file.read(PIECE_BYTES), b"")
        yield from lines_of(pieces, str(path), bounds, error)


def _within(
    pieces: Iterable[bytes], where: str, bounds: LineBounds, error: type[ValueError]
) -> Iterator[bytes]:
    """The pieces, up to the bound on all of them."""
    size = 0
    for piece in pieces:
        size += len(piece)
        if size > bounds.content_bytes:
            raise error(_too_large(where, bounds))
        yield piece


def _too_large(where: str, bounds: LineBounds) -> str:
    more = f" ({bounds.to_read_more})" if bounds.to_read_more else ""
    return f"{where}: more than {bounds.content_bytes:,} bytes of content are not read{more}"


def _hold(held: list[bytes], part: bytes, size: int, line_bytes: int) -> None:
    """Store a part of a line, or drop all parts of one that is too long."""
    if size <= line_bytes:
        held.append(part)
    else:
        held.clear()


def _whole(held: list[bytes], size: int, line_bytes: int) -> bytes | None:
    return b"".join(held) if size <= line_bytes else None
