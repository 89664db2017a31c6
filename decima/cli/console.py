"""Progress on stderr, tables of results on stdout."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from decima.rl.tables import PIPE_WIDTH, print_table
from traces.files.names import one_line, printable

_COLUMNS = 100


class CleanConsole(Console):
    """Console that prints unprintable characters as escapes, as names from files may hold them.

    Tables that are too wide for a terminal come in parts, one below the other (`decima.rl.tables`).
    """

    def print(self, *objects: Any, **options: Any) -> None:
        """Print like `Console.print`, but never cut a table."""
        if len(objects) == 1 and isinstance(objects[0], Table):
            print_table(objects[0], self, super().print)
        else:
            super().print(*objects, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        """The text of a line, a cell or a title."""
        return super().render_str(printable(text), **options)


def say(text: str) -> None:
    """Print one line that may hold names and paths from outside."""
    click.echo(one_line(text))


def stdout(*, markup: bool = True) -> Console:
    """Return the console for results; `markup` turns style tags in brackets on."""
    console = CleanConsole(highlight=False, markup=markup)
    if not console.is_terminal:
        console.width = PIPE_WIDTH
    return console


@contextmanager
def progress_bar(label: str, total: int | None = None) -> Iterator[tuple[Progress, TaskID]]:
    """A bar on stderr while the block runs; silent where stderr is no terminal."""
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    shown = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
    with shown as bar:
        yield bar, bar.add_task(label, total=total)


def wrapped(console: Console, *sentences: str, bullet: str = "") -> None:
    """Print sentences one below the other, in lines of at most 100 columns."""
    width, indent = min(_COLUMNS, console.width), " " * len(bullet)
    for words in sentences:
        text = textwrap.fill(words, width, initial_indent=bullet, subsequent_indent=indent)
        console.print(text, markup=False, no_wrap=True, overflow="ignore", crop=False)
