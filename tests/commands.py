"""Calling commands on a small workload, their complaints, and the cells of their tables."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result
from rich.table import Table

from decima import EvaluationConfig
from decima.cli.main import main
from deeprm.cli import main as deeprm
from harmony.cli import main as harmony

Command = Callable[..., Result]
"""called with further arguments, and `command` for another one than evaluate"""

PROGRAMS: Mapping[str, click.Group] = {"decima": main, "deeprm": deeprm, "harmony": harmony}

NOTHING_MORE: Mapping[str, str] = {}

SMALL = ("--jobs", "6", "--sequences", "3", "--executors", "4", "--interarrival", "3")


def small_config(trace_file: Path, **changes: Any) -> EvaluationConfig:
    """The settings of `SMALL` in Python."""
    small = EvaluationConfig(
        trace=str(trace_file), jobs=6, sequences=3, executors=4, interarrival_s=3
    )
    return replace(small, **changes)


def decima(*words: object) -> Result:
    """`decima` with these words, in this process."""
    return CliRunner().invoke(main, [str(word) for word in words])


def python(
    *words: object, folder: Path | None = None, environment: Mapping[str, str] = NOTHING_MORE
) -> str:
    """What Python prints, called with these words in a process that must end well."""
    done = ran(*words, folder=folder, environment=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def ran(
    *words: object, folder: Path | None = None, environment: Mapping[str, str] = NOTHING_MORE
) -> subprocess.CompletedProcess[str]:
    """What becomes of Python, called with these words in a process of its own."""
    return subprocess.run(  # noqa: S603 - our own code
        [sys.executable, *map(str, words)],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def succeeded(result: Result) -> Result:
    """The result of a command that ended well."""
    assert result.exit_code == 0, result.output
    return result


@contextmanager
def raises_one_line(
    kind: type[Exception] | tuple[type[Exception], ...], match: str | None = None
) -> Iterator[pytest.ExceptionInfo[Exception]]:
    """`pytest.raises` of an error whose message is one line."""
    with pytest.raises(kind, match=match) as caught:
        yield caught
    assert "\n" not in str(caught.value)


def one_line(result: Result, *parts: str) -> None:
    """One line on stderr that holds `parts`, exit code 2, nothing else said."""
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1, result.stderr
    assert [part for part in parts if part not in result.stderr] == [], result.stderr


def refused(result: Result, *parts: str) -> None:
    """The same of `decima`, whose errors begin alike."""
    one_line(result, *parts)
    assert result.stderr.startswith("error: "), result.stderr


def parsed(line: str) -> dict[str, Any]:
    """The values of a command line of `decima`, which has all that is required and no more."""
    program, *arguments = shlex.split(line)
    command: click.Command = PROGRAMS[program]
    while isinstance(command, click.Group):
        command = below(command)[arguments.pop(0)]
    # A context with no parent would leave the command without `-h`: click keeps the first one's.
    context = click.Context(command, parent=click.Context(main, **main.context_settings))
    values, left, _ = command.make_parser(context).parse_args(arguments)
    assert left == []
    assert all(values[param.name] for param in command.params if param.required and param.name)
    return values


def below(command: click.Command) -> dict[str, click.Command]:
    """The subcommands of a group, loaded; empty for a command."""
    if not isinstance(command, click.Group):
        return {}
    context = click.Context(command)
    subcommands = {
        name: command.get_command(context, name) for name in command.list_commands(context)
    }
    return {name: subcommand for name, subcommand in subcommands.items() if subcommand is not None}


def command_at(program: str, words: Iterable[str]) -> click.Command:
    command: click.Command = PROGRAMS[program]
    for word in words:
        command = below(command)[word]
    return command


def every_command(command: click.Command, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The words after the program of a command and of all below it."""
    yield words
    for name, subcommand in below(command).items():
        yield from every_command(subcommand, (*words, name))


def cells_of(table: Table) -> list[list[str]]:
    """The cells of a table, row by row, headings first."""
    rows = [[str(column.header) for column in table.columns]]
    cells = [list(column.cells) for column in table.columns]
    return rows + [[str(cell) for cell in row] for row in zip(*cells, strict=True)]
