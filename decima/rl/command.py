"""Groups of commands with one-line errors, and options of the commands that train."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable, Iterator
from typing import IO, Any

import click
from click.core import ParameterSource

from decima.rl.entry import INTERRUPTED
from decima.rl.errors import RunError, StudyError
from decima.rl.option_types import SETTING
from traces.files.errors import place_and_reason
from traces.files.names import one_line


class InterruptedCommand(click.ClickException):
    """One line and exit code 130 in place of a traceback."""

    exit_code = INTERRUPTED

    def __init__(self) -> None:
        super().__init__("interrupted")

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(self.message, file=file, err=file is None)


class CommandGroup(click.Group):
    """A group that knows `-h`, as all below it do, and ends in one line after a mistake or Ctrl-C.

    Its exit code is 2 after a mistake and 130 after Ctrl-C.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        settings = {"help_option_names": ["-h", "--help"], **(kwargs.pop("context_settings", {}))}
        super().__init__(*args, context_settings=settings, **kwargs)

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        with self._one_line():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        with self._one_line():
            return super().invoke(ctx)

    def refusal(self, error: Exception) -> click.ClickException | None:
        """Return what ends the command in place of `error`; None if that is no mistake."""
        raise NotImplementedError

    @contextlib.contextmanager
    def _one_line(self) -> Iterator[None]:
        try:
            yield
        except KeyboardInterrupt as interrupt:
            raise InterruptedCommand from interrupt
        except Exception as error:
            refusal = self.refusal(error)
            if refusal is None:
                raise
            raise refusal from error


class Refused(click.ClickException):
    """One line and exit code 2 in place of a traceback."""

    exit_code = 2

    def show(self, file: IO[Any] | None = None) -> None:
        """Print `error: MESSAGE`, as `decima.rl.entry` does before it knows the command."""
        click.echo(f"error: {self.format_message()}", file=file, err=file is None)


class _OneThread(click.Command):
    """A command in which torch computes with one thread."""

    def invoke(self, ctx: click.Context) -> Any:
        # torch takes a second to load, which `--help` need not wait for.
        from decima.rl.optimiser import one_thread

        with one_thread():
            return super().invoke(ctx)


class OneLineErrors(CommandGroup):
    """A group in which an error of a study or a run ends in one line on stderr and exit code 2.

    So do wrong usage, and what the system refuses, wherever no more is known of it. Its commands
    compute with one thread.
    """

    command_class = _OneThread

    def refusal(self, error: Exception) -> click.ClickException | None:
        """Return the line of a mistake."""
        if isinstance(error, StudyError | RunError):
            return Refused(one_line(str(error)))
        text = mistake_text(error)
        return None if text is None else Refused(text)


def mistake_text(error: Exception) -> str | None:
    """One line for wrong usage and for what the system refuses; None for any other error."""
    if isinstance(error, click.UsageError):
        if isinstance(error, getattr(click.exceptions, "NoArgsIsHelpError", ())):
            return None  # click 8.2 and newer show the help text this way
        hint = f" (see {error.ctx.command_path} --help)" if error.ctx is not None else ""
        return one_line(error.format_message()) + hint
    if isinstance(error, MemoryError):
        return one_line(f"memory ran out: {error}".removesuffix(": "))
    # If the reader of the output has left, click exits quietly.
    if not isinstance(error, OSError) or error.errno == errno.EPIPE:
        return None
    return one_line(place_and_reason(error))


def _refuse_device(
    _context: click.Context, option: click.Parameter, value: str | tuple[str, ...] | None
) -> str | tuple[str, ...] | None:
    """Refuse `--device`, and `--set device=...`: nothing here computes on a GPU."""
    changes = value if isinstance(value, tuple) else ()
    names = [change.partition("=")[0].strip() for change in changes]
    if "device" in names or (option.name == "device" and value is not None):
        raise Refused("device: training and evaluation run on CPUs, so there is none to choose")
    return value


def set_option(command: Callable[..., None]) -> Callable[..., None]:
    """Add `--set`, as the argument `changes`."""
    device = click.option("--device", hidden=True, expose_value=False, callback=_refuse_device)
    changes = click.option(
        "--set",
        "changes",
        multiple=True,
        type=SETTING,
        metavar="KEY=VALUE",
        callback=_refuse_device,
        help="Change one setting.",
    )
    return changes(device(command))


def refuse_beside_resume(*allowed: str) -> None:
    """Refuse options beside `--resume`, other than those `allowed`: a run keeps its settings."""
    context = click.get_current_context()
    for option in context.command.params:
        name = option.name
        if name is None or name in ("resume", *allowed):
            continue
        if context.get_parameter_source(name) is not ParameterSource.DEFAULT:
            raise Refused(f"--resume keeps the run's settings: no {option.opts[0]} beside it")
