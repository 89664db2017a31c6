"""Small tables of text (CSV): reader with checked columns, one line for each fault; writer."""

from __future__ import annotations

import codecs
import csv
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from math import isfinite
from pathlib import Path

from traces.files.errors import FileError
from traces.files.names import suggestion
from traces.files.reading import LineBounds, read_lines
from traces.files.writing import written_whole

MAX_ROWS = 5_000_000
_MAX_CELL = 10_000
_MOST_BYTES = 2**34


@dataclass(frozen=True)
class Row:
    """One row, by the names of its columns."""

    where: str
    """file and line, for messages"""
    cells: dict[str, str]
    error: type[ValueError]

    def number(self, name: str, least: float, most: float) -> float:
        """Return a number within bounds; `error` if the cell holds none."""
        try:
            number = float(self.cells[name])
        except ValueError:
            number = float("nan")
        if not (isfinite(number) and least <= number <= most):
            raise self._fault(name, f"a number from {least:g} to {most:g} is needed")
        return number

    def whole(self, name: str, least: int, most: int) -> int:
        """Return a whole number within bounds; `error` if the cell holds none."""
        number = self.number(name, least, most)
        if number != int(number):
            raise self._fault(name, "a whole number is needed")
        return int(number)

    def seconds(self, name: str) -> float:
        """Return a time as seconds, from 2020-04-01 00:00:03; `error` if the cell holds none."""
        try:
            return (datetime.fromisoformat(self.cells[name]) - datetime(1970, 1, 1)).total_seconds()
        except (ValueError, TypeError) as fault:
            rule = "a time such as 2020-04-01 00:00:03 is needed"
            raise self._fault(name, rule) from fault

    def _fault(self, name: str, rule: str) -> ValueError:
        return self.error(f"{self.where}: {name} is {self.cells[name]!r:.40}: {rule}")


def read_rows(
    path: Path,
    columns: Sequence[str],
    error: type[ValueError] = FileError,
    *,
    optional: Sequence[str] = (),
    others: bool = False,
    headless: bool = False,
) -> Iterator[Row]:
    """Yield the rows of a table of comma-separated values in UTF-8; `error` names a fault.

    All `columns` are needed; `optional` may be there, `others` allows any further ones. `headless`:
    the first row may be of values, in the order of `columns`.
    """
    table = cells_of(path, LineBounds(_MOST_BYTES), error)
    names = list(columns) if headless else next(table, (0, []))[1]
    check_names(path, names, columns, None if others else optional, error)
    for line, cells in table:
        where = f"{path}:{line}"
        if line > MAX_ROWS:
            raise error(f"{where}: more than {MAX_ROWS:,} rows are not read")
        if cells == names:
            continue
        if len(cells) != len(names) or max(map(len, cells)) > _MAX_CELL:
            raise error(f"{where}: {len(cells)} cells, where {len(names)} are needed")
        yield Row(where, dict(zip(names, cells, strict=True)), error)


def write_rows(path: Path, rows: Iterable[Sequence[object]], error: type[ValueError]) -> None:
    """Write a table, headings first, whole or not at all; `error` if it cannot be written."""
    with written_whole(path, error) as file:
        writer = csv.writer(codecs.getwriter("utf-8")(file), lineterminator="\n")
        writer.writerows(rows)


def cells_of(
    path: Path, bounds: LineBounds, error: type[ValueError] = FileError
) -> Iterator[tuple[int, list[str]]]:
    """(line number, stripped cells) of each row of a CSV file; `error` names a fault.

    Empty lines and lines that begin with ``#`` are skipped.
    """
    line = 0
    try:
        reader = csv.reader(_lines(path, bounds, error), strict=True, skipinitialspace=True)
        for row in reader:
            line = reader.line_num
            cells = [cell.strip() for cell in row]
            if any(cells) and not cells[0].startswith("#"):
                yield line, cells
    except csv.Error as fault:
        raise error(f"{path}:{line + 1}: not CSV: {fault}") from fault
    except UnicodeDecodeError as fault:
        raise error(f"{path}:{line + 1}: not UTF-8 text") from fault


def _lines(path: Path, bounds: LineBounds, error: type[ValueError]) -> Iterator[str]:
    """Yield lines with their ends, which a quoted cell may hold."""
    for number, line in read_lines(path, bounds, error):
        yield line.decode("utf-8-sig" if number == 1 else "utf-8") + "\n"


def check_names(
    where: object,
    names: Sequence[str],
    columns: Sequence[str],
    optional: Sequence[str] | None,
    error: type[ValueError],
) -> None:
    """Refuse a header that lacks a column, or has one that is not optional; None allows any."""
    known = [*columns, *(names if optional is None else optional)]
    for name in names:
        if name not in known:
            near = suggestion(name, known)
            raise error(f"{where}: unknown column {name!r:.60}{near}, known: {', '.join(known)}")
        if names.count(name) > 1:
            raise error(f"{where}: column {name!r:.60} appears twice")
    for name in columns:
        if name not in names:
            raise error(f"{where}: column {name!r} is missing; needed are {', '.join(columns)}")
