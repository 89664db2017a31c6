"""The lines of a log, one at a time, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from traces.errors import DamageError
from traces.files.lines import split_lines

MAX_LINE_BYTES = 1 << 25  # an event longer than this is skipped


def read_lines(pieces: Iterable[bytes]) -> Iterator[tuple[int, bytes | DamageError]]:
    """Yield (line number, line) of each non-empty line, or a fault in place of an unusable line.

    Faults: the line is longer than `MAX_LINE_BYTES`, the last line lacks its end (a file cut short
    or still written to), the compressed data is damaged (nothing follows).
    """
    number = 0
    try:
        for number, (line, has_end) in enumerate(split_lines(pieces, MAX_LINE_BYTES), 1):
            if line is None:
                yield number, DamageError(f"the event is longer than {MAX_LINE_BYTES >> 20} MiB")
            elif not has_end and not line.endswith(b"}"):
                yield number, DamageError("the file ends in the middle of an event")
            elif line:
                yield number, line
    except DamageError as error:
        yield number + 1, error
