"""Shared parts of training commands: errors in one line, settings, the closing line."""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import click
from click.core import ParameterSource

from decima.rl.errors import NoModelsError, RunError
from decima.rl.group import CommandGroup
from traces.files.entry import INTERRUPTED
from traces.files.errors import place_and_reason
from traces.files.names import one_line, suggestion
from traces.files.writing import make_folder, write_json

if TYPE_CHECKING:
    from decima.rl.progress import Reference
    from decima.rl.run_folder import RunFolder

FOLDER = click.Path(file_okay=False, path_type=Path)
FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
OLD_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)
MINUTES = click.FloatRange(min=0, min_open=True)


class Named(Protocol):
    """A training of a study."""

    @property
    def name(self) -> str:
        """Name of the run folder and the model."""
        ...


N = TypeVar("N", bound=Named)


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


def one_line_errors(error: type[ValueError]) -> type[click.Group]:
    """A group in which an `error`, or one of a run, ends in one line on stderr and exit code 2.

    So does what the system refuses, wherever no more is known of it. Its commands compute with one
    thread.
    """

    class OneLineErrors(CommandGroup):
        command_class = _OneThread

        def invoke(self, ctx: click.Context) -> Any:
            try:
                return super().invoke(ctx)
            except (error, RunError) as fault:
                raise Refused(one_line(str(fault))) from fault
            except OSError as fault:
                if (
                    fault.errno == errno.EPIPE
                ):  # the reader of the output has closed the pipe; click exits
                    raise
                raise Refused(one_line(place_and_reason(fault))) from fault

    return OneLineErrors


def check_picture(path: Path) -> None:
    """Refuse a picture that cannot be written, or whose suffix is of another kind.

    Raises:
        Refused: so it is.
    """
    if path.suffix != ".png":
        raise Refused(f"{path}: pictures are PNG, so the name must end in .png")
    if not path.parent.is_dir():
        raise Refused(f"{path}: cannot write: there is no folder {path.parent}")


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


def run_and_tell(
    opened: Any,
    minutes: float | None,
    run_training: Any,
    model: str,
    references: Callable[[RunFolder], Sequence[Reference]],
) -> Any:
    """Train in a run folder, print how it ended, and return the reason.

    Args:
        opened: the run folder, open; it is closed at the end.
        minutes: stop after so long; None never does.
        run_training: `session.run_training` of the package.
        model: name of the file that it leaves.
        references: what the best validation of a run is compared with; the first also on the way.
    """
    # rich takes a while to load, which other commands need not wait for.
    from decima.rl.loop import StopReason
    from decima.rl.progress import RichProgress, compared

    with opened as folder:
        click.echo(f"training in {folder.path}", err=True)
        others = references(folder)
        progress = RichProgress(reference=others[0] if others else None)
        limit_s = None if minutes is None else minutes * 60
        result = run_training(folder, time_limit_s=limit_s, observers=(progress,))
        click.echo(_ending(result, folder.path / model, compared(result.state.best_score, others)))
    if result.reason is StopReason.SIGNAL:
        click.get_current_context().exit(INTERRUPTED)
    return result.reason


def _ending(result: Any, model: Path, best: str) -> str:
    """Sentence on how a training ended and which files it leaves."""
    from decima.rl.progress import duration_text

    state = result.state
    if state.next_iteration == 0:
        return (
            f"{result.reason.value} before the first iteration had ended, so there is no model; "
            "--resume begins it again"
        )
    return (
        f"{result.reason.value} after {state.next_iteration} iterations, "
        f"{duration_text(state.elapsed_s)} of training; best validation {best}; model: {model}"
    )


def train_named(
    trainings: Sequence[N], only: Sequence[str], train: Callable[[N], Any], error: type[ValueError]
) -> None:
    """Train some of a study, or all of it, until one is asked to stop.

    Args:
        trainings: all, in order.
        only: names; none: all.
        train: trains one, and gives the reason why it stopped.
        error: raised where a name is unknown.

    Raises:
        ValueError: (`error`) so it is.
    """
    from decima.rl.loop import StopReason

    known = {one.name: one for one in trainings}
    unknown = [name for name in only if name not in known]
    if unknown:
        near = suggestion(unknown[0], known)
        raise error(f"unknown training {unknown[0]!r:.60}{near}; there are {', '.join(known)}")
    for name in only or known:
        click.echo(name, err=True)
        if train(known[name]) is StopReason.SIGNAL:
            return


def write_figures(
    names: Sequence[str],
    measure: Callable[[str], dict[str, Any]],
    draw: Callable[[str, dict[str, Any], Path], list[Path]],
    out: Path,
    error: type[ValueError],
) -> None:
    """Measure figures, and write each as JSON, SVG and PNG into a folder, which is made.

    One whose models are missing is reported on stderr and left out.

    Raises:
        Refused: the models of all are missing.
        ValueError: (`error`, or of a run) a file cannot be written.
    """
    make_folder(out, error)
    missing = []
    for name in names:
        try:
            found = measure(name)
        except NoModelsError as fault:
            missing.append(f"{name}: no models: `study` trains {fault}, and --models reads them")
            continue
        path = out / f"{name}.json"
        write_json(path, found, error)
        click.echo(", ".join(str(one) for one in (path, *draw(name, found, out))))
    if len(missing) == len(names):
        raise Refused("; ".join(missing))
    for line in missing:
        click.echo(line, err=True)
