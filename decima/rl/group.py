"""Group of commands: `-h`, and how Ctrl-C ends."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import IO, Any

import click

from decima.rl.entry import INTERRUPTED


class InterruptedCommand(click.ClickException):
    """One line and exit code 130 in place of a traceback."""

    exit_code = INTERRUPTED

    def __init__(self) -> None:
        super().__init__("interrupted")

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(self.message, file=file, err=file is None)


class CommandGroup(click.Group):
    """A group that knows `-h`, as all below it do, and that exits with 130 after Ctrl-C."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        settings = {"help_option_names": ["-h", "--help"], **(kwargs.pop("context_settings", {}))}
        super().__init__(*args, context_settings=settings, **kwargs)

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        with _interruptible():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        with _interruptible():
            return super().invoke(ctx)


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt as interrupt:
        raise InterruptedCommand from interrupt
