"""Reader of line-based files: in pieces, within named bounds."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from traces.files.errors import FileError
from traces.files.reading import opened

PIECE_BYTES = 1 << 16  # read at once


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
