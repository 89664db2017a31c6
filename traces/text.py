"""Reading of CSV files and numbers: every fault names file and line."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

from traces.bounds import DEFAULT, TO_READ_MORE
from traces.errors import TraceError
from traces.files.reading import LineBounds
from traces.files.rows import cells_of, check_names

_TO_READ_MORE = f"several smaller files can be imported as one trace; {TO_READ_MORE}"


def read_table(
    path: Path,
    required: Sequence[str],
    optional: Sequence[str] = (),
    max_bytes: int = DEFAULT.text_bytes,
) -> Iterator[tuple[int, dict[str, str]]]:
    """Rows of a CSV file as (line number, stripped cell of each column), after its header.

    Empty lines and lines that begin with ``#`` are skipped. Columns may come in any order.
    """
    header: list[str] | None = None
    bounds = LineBounds(max_bytes, to_read_more=_TO_READ_MORE)
    for line, cells in cells_of(path, bounds, TraceError):
        if header is None:
            header = cells
            check_names(f"{path}:{line}", header, required, optional, TraceError)
        elif len(cells) != len(header):
            raise TraceError(f"{path}:{line}: {len(cells)} cells, the header has {len(header)}")
        else:
            yield line, dict(zip(header, cells, strict=True))
    if header is None:
        raise TraceError(f"{path}: empty, expected a header with {', '.join(required)}")


def parse_number(text: str, column: str) -> float:
    try:
        value = float(text)
    except ValueError as error:
        raise TraceError(f"{column} {text!r:.60} is not a number") from error
    if not math.isfinite(value):
        raise TraceError(f"{column} {text!r:.60} must be finite")
    return value


def parse_count(text: str, column: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise TraceError(f"{column} {text!r:.60} is not a whole number") from error


def json_number(value: object, where: str) -> float:
    """Return `value` as a finite number; JSON's true and false are refused."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TraceError(f"{where}: expected a number, found {value!r:.60}")
    try:
        number = float(value)
    except OverflowError as error:
        raise TraceError(f"{where}: a number of {len(str(value))} digits is too large") from error
    if not math.isfinite(number):
        raise TraceError(f"{where}: {number} must be finite")
    return number
