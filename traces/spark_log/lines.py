"""The lines of a log, one at a time, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from traces.spark_log.damage import DamageError

MAX_LINE_BYTES = 1 << 25
"""an event longer than this is skipped"""


def read_lines(pieces: Iterable[bytes]) -> Iterator[tuple[int, bytes | DamageError]]:
    """(line number, line) of each line that is not empty; a fault instead of a line not kept.

    Faults: the line is longer than `MAX_LINE_BYTES`, the last line lacks its end (a file cut short
    or still written to), the compressed data is damaged (nothing follows).
    """
    number = 1
    held: list[bytes] = []  # pieces of the current line
    size = 0
    try:
        for piece in pieces:
            if b"\n" not in piece:
                size += len(piece)
                _hold(held, piece, size)
                continue
            first, *middle, last = piece.split(b"\n")
            size += len(first)
            _hold(held, first, size)
            if size > 0:
                yield number, _whole(held, size)
            for line in middle:
                number += 1
                if line:
                    yield number, line
            number += 1
            held, size = [last], len(last)
    except DamageError as error:
        yield number, error
        return
    if size > 0:
        yield number, _unended(held, size)


def _hold(held: list[bytes], piece: bytes, size: int) -> None:
    if size <= MAX_LINE_BYTES:
        held.append(piece)
    else:
        held.clear()


def _whole(held: list[bytes], size: int) -> bytes | DamageError:
    if size > MAX_LINE_BYTES:
        return DamageError(f"the event is longer than {MAX_LINE_BYTES >> 20} MiB")
    return b"".join(held)


def _unended(held: list[bytes], size: int) -> bytes | DamageError:
    line = _whole(held, size)
    if isinstance(line, bytes) and not line.endswith(b"}"):
        return DamageError("the file ends in the middle of an event")
    return line
