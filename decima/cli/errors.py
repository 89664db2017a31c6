"""Error handling of the commands: a user's mistake is one line on stderr and exit code 2."""

from __future__ import annotations

from typing import IO, Any

import click

from decima.rl.command import CommandGroup, InterruptedCommand, mistake_text
from decima.rl.parallel.errors import TaskRefusedError, WorkerLostError, raised_in
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

    def refusal(self, error: Exception) -> click.ClickException | None:
        if isinstance(error, OneLineError | InterruptedCommand):
            return None
        text = mistake_text(error)
        if text is not None:
            return OneLineError(text)
        if isinstance(error, click.ClickException) and not isinstance(error, click.UsageError):
            return OneLineError(one_line(error.format_message()))
        is_ours = isinstance(error, WorkerLostError)
        if isinstance(error, TaskRefusedError):
            is_ours = _is_ours(error.origin)
        elif isinstance(error, ValueError):
            is_ours = _is_ours(type(error).__module__) or _is_ours(raised_in(error))
        return OneLineError(one_line(str(error))) if is_ours else None


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] in OUR_PACKAGES
