"""Error handling of the commands: a user's mistake is one line on stderr and exit code 2."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import TracebackType
from typing import IO, Any

import click

from decima.rl.command import mistake_text
from decima.rl.group import CommandGroup, InterruptedCommand
from decima.rl.parallel.errors import TaskRefusedError, WorkerLostError
from traces.files.names import one_line

OUR_PACKAGES = ("traces", "spark_sim", "gnn", "decima")


class OneLineError(click.ClickException):
    """Error that click prints as one line, `error: MESSAGE`, without traceback or usage."""

    exit_code = 2

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(f"error: {self.format_message()}", file=file, err=file is None)


class OneLineErrors(CommandGroup):
    """A group in which a user's mistake ends in one line and exit code 2.

    Mistakes are wrong usage, refused files and each `ValueError` of this package's classes or code.
    So end commands whose worker process was killed. Another library's error is a bug and keeps its
    traceback.
    """

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        with _one_line():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        with _one_line():
            return super().invoke(ctx)


@contextlib.contextmanager
def _one_line() -> Iterator[None]:
    try:
        yield
    except (OneLineError, InterruptedCommand):
        raise
    except (click.UsageError, MemoryError, OSError) as error:
        text = mistake_text(error)
        if text is None:
            raise
        raise OneLineError(text) from error
    except click.ClickException as error:
        raise OneLineError(one_line(error.format_message())) from error
    except WorkerLostError as error:
        raise OneLineError(one_line(str(error))) from error
    except ValueError as error:
        if not _breaks_a_rule(error):
            raise
        raise OneLineError(one_line(str(error))) from error


def _breaks_a_rule(error: ValueError) -> bool:
    """Return whether this package raised the error, also in a task of another process."""
    if isinstance(error, TaskRefusedError):
        return _is_ours(error.origin)
    return _is_ours(type(error).__module__) or _is_ours(_raised_in(error.__traceback__))


def _raised_in(trace: TracebackType | None) -> str:
    """Name of the module whose code raised: that of the innermost frame."""
    module = ""
    while trace is not None:
        module = str(trace.tb_frame.f_globals.get("__name__", ""))
        trace = trace.tb_next
    return module


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] in OUR_PACKAGES
