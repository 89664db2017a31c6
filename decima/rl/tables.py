"""Tables that are wider than the terminal, printed one below the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from rich.console import Console, RenderableType
from rich.table import Table

from traces.files.names import printable

PIPE_WIDTH = 160
"""columns of a table that goes to a file or a pipe, where there is no terminal to ask"""

_ENDLESS = 1_000_000
"""columns of a terminal on which every table finds room"""
_MOST_OF_A_NAME = 0.5
"""of the width; a longer first column is folded, so that figures find room beside it"""


def print_table(table: Table, console: Console, show: Callable[..., None]) -> None:
    """Print a table by `show`: in a pipe as wide as it is, on a terminal in parts if too wide."""
    if not console.is_terminal:
        before = console.width
        console.width = max(before, width(table, console))
        show(table)
        console.width = before
        return
    for number, part in enumerate(parts(table, console)):
        if number > 0:
            show()
        show(part)


def parts(table: Table, console: Console) -> Iterator[Table]:
    """The table if it fits, else several with its columns in turn; each begins with the first.

    A cell that alone is too wide is folded: nothing is ever cut.
    """
    if width(table, console) <= console.width:
        yield table
        return
    first, rest = 0, list(range(1, len(table.columns)))
    shown: list[int] = []
    for column in rest:
        if shown and width(_of(table, [first, *shown, column], console), console) > console.width:
            yield _of(table, [first, *shown], console, is_first=shown[0] == 1)
            shown = []
        shown.append(column)
    yield _of(table, [first, *shown], console, is_first=not shown or shown[0] == 1)


def width(table: RenderableType, console: Console) -> int:
    """Columns that the table takes where there is room for all of it."""
    endless = console.options.update(max_width=_ENDLESS)
    return console.measure(table, options=endless).maximum


def aligned(words: Sequence[str], numbers: Sequence[str]) -> Table:
    """Return an empty table: columns of words, to the left, then of numbers, to the right."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    for heading in words:
        table.add_column(heading, no_wrap=True)
    for heading in numbers:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def table_of(
    headings: Sequence[str],
    rows: Iterable[Iterable[str]],
    *,
    words: int = 1,
    name_width: int | None = None,
) -> Table:
    """Return a table of rows, whose first columns are `words`, the others numbers."""
    table = aligned(headings[:words], headings[words:])
    table.columns[0].max_width = name_width
    for row in rows:
        table.add_row(*row)
    return table


def print_rows(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table of text on stdout, names to the left and figures to the right."""
    console = Console(highlight=False, markup=False)
    if not console.is_terminal:
        console.width = PIPE_WIDTH
    table = table_of(headings, (map(printable, row) for row in rows))
    print_table(table, console, console.print)


def _of(table: Table, numbers: list[int], console: Console, *, is_first: bool = False) -> Table:
    """Copy some columns of a table, whose cells may be folded."""
    columns = [table.columns[number].copy() for number in numbers]
    for column in columns:
        column.no_wrap, column.overflow = False, "fold"
    columns[0].max_width = int(_MOST_OF_A_NAME * console.width)
    part = Table(
        *columns,
        title=table.title if is_first else None,
        title_justify=table.title_justify,
        box=table.box,
        header_style=table.header_style,
        show_header=table.show_header,
        padding=table.padding,
        pad_edge=table.pad_edge,
    )
    cells = [list(table.columns[number].cells) for number in numbers]
    for row, shown in zip(table.rows, zip(*cells, strict=True), strict=True):
        part.add_row(*shown, style=row.style, end_section=row.end_section)
    return part
