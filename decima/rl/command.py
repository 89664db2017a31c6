"""Parts of the commands that train: one-line errors, one thread, settings of `--resume`."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable, Iterator
from typing import Any

import click
from click.core import ParameterSource

from decima.rl.errors import RunError, StudyError
from decima.rl.group import CommandGroup
from decima.rl.option_types import SETTING
from traces.files.errors import place_and_reason
from traces.files.names import one_line


class Refused(click.ClickException):
    """One line and exit code 2 in place of a traceback."""

    exit_code = 2


class _OneThread(click.Command):
    """A command in which torch computes with one thread."""

    def invoke(self, ctx: click.Context) -> Any:
        # torch takes a second to load, which `--help` need not wait for.
        from decima.rl.threads import one_thread

        with one_thread():
            return super().invoke(ctx)


class OneLineErrors(CommandGroup):
    """A group in which an error of a study or a run ends in one line on stderr and exit code 2.

    So do wrong usage, and what the system refuses, wherever no more is known of it. Its commands
    compute with one thread.
    """

    command_class = _OneThread

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
    except (StudyError, RunError) as fault:
        raise Refused(one_line(str(fault))) from fault
    except (click.UsageError, MemoryError, OSError) as fault:
        text = mistake_text(fault)
        if text is None:
            raise
        raise Refused(text) from fault


def mistake_text(error: click.UsageError | MemoryError | OSError) -> str | None:
    """One line for wrong usage and for what the system refuses; None for what is no mistake."""
    if isinstance(error, click.UsageError):
        if isinstance(error, getattr(click.exceptions, "NoArgsIsHelpError", ())):
            return None  # click 8.2 and newer show the help text this way
        hint = f" (see {error.ctx.command_path} --help)" if error.ctx is not None else ""
        return one_line(error.format_message()) + hint
    if isinstance(error, MemoryError):
        return one_line(f"memory ran out: {error}".removesuffix(": "))
    if error.errno == errno.EPIPE:  # the reader of the output has left: click exits quietly
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
    """Refuse options that `--resume` would leave unused: a run keeps the settings that it has.

    Args:
        allowed: parameters of the current command that may be given beside it.

    Raises:
        Refused: another was given.
    """
    context = click.get_current_context()
    for option in context.command.params:
        name = option.name
        if name is None or name in ("resume", *allowed):
            continue
        if context.get_parameter_source(name) is not ParameterSource.DEFAULT:
            raise Refused(f"--resume keeps the run's settings: no {option.opts[0]} beside it")
