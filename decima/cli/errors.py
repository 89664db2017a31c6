"""Error handling of the commands: a user's mistake is one line on stderr and exit code 2."""

from __future__ import annotations

import click

from decima.rl.command import CommandGroup, InterruptedCommand, Refused, mistake_text
from decima.rl.parallel.errors import TaskRefusedError, WorkerLostError, raised_in
from traces.files.names import one_line

OUR_PACKAGES = ("traces", "spark_sim", "gnn", "decima")


class OneLineErrors(CommandGroup):
    """A group in which a user's mistake ends in one line and exit code 2.

    Mistakes are wrong usage, refused files and each `ValueError` of this package's classes or code.
    So end commands whose worker process was killed. Another library's error is a bug and keeps its
    traceback.
    """

    def refusal(self, error: Exception) -> click.ClickException | None:
        if isinstance(error, Refused | InterruptedCommand):
            return None
        text = mistake_text(error)
        if text is not None:
            return Refused(text)
        if isinstance(error, click.ClickException) and not isinstance(error, click.UsageError):
            return Refused(one_line(error.format_message()))
        is_ours = isinstance(error, WorkerLostError)
        if isinstance(error, TaskRefusedError):
            is_ours = _is_ours(error.origin)
        elif isinstance(error, ValueError):
            is_ours = _is_ours(type(error).__module__) or _is_ours(raised_in(error))
        return Refused(one_line(str(error))) if is_ours else None


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] in OUR_PACKAGES
