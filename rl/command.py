"""What commands that train have in common: errors in one line, settings, how a training ended."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from files.names import one_line
from files.reading import parse_toml
from rl.errors import RunError

FOLDER = click.Path(file_okay=False, path_type=Path)
FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
OLD_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)
MINUTES = click.FloatRange(min=0, min_open=True)


class Refused(click.ClickException):
    """One line and exit code 2 in place of a traceback."""

    exit_code = 2


def one_line_errors(error: type[ValueError]) -> type[click.Group]:
    """A group in which an `error`, or one of a run, ends in one line on stderr and exit code 2."""

    class OneLineErrors(click.Group):
        def invoke(self, ctx: click.Context) -> Any:
            try:
                return super().invoke(ctx)
            except (error, RunError) as fault:
                raise Refused(one_line(str(fault))) from fault

    return OneLineErrors


def change_setting(
    table: dict[str, Any], change: str, sections: Sequence[str], error: type[ValueError]
) -> None:
    """Take one `--set KEY=VALUE`, or SECTION.KEY=VALUE, into a table of settings.

    Raises:
        ValueError: (`error`) it has no such form.
    """
    label, equals, text = change.partition("=")
    *path, key = label.strip().split(".")
    if not equals or not key or (path and (len(path) > 1 or path[0] not in sections)):
        forms = ["KEY=VALUE", *(f"{section}.KEY=VALUE" for section in sections)]
        raise error(f"--set {change!r:.60}: expected {' or '.join(forms)}")
    try:
        value = parse_toml(f"value = {text}", "--set")["value"]
    except ValueError:
        value = text.strip()
    (table.setdefault(path[0], {}) if path else table)[key] = value


def run_and_tell(opened: Any, minutes: float | None, run_training: Any, model: str) -> Any:
    """Train in a run folder, tell how it ended, and give back why.

    Args:
        opened: the run folder, open; it is closed at the end.
        minutes: stop after so long; None never does.
        run_training: `session.run_training` of the package.
        model: name of the file that it leaves.
    """
    # rich takes a while to load, which other commands need not wait for.
    from rl.progress import RichProgress, duration_text

    with opened as folder:
        limit_s = None if minutes is None else minutes * 60
        result = run_training(folder, time_limit_s=limit_s, observers=(RichProgress(),))
        state = result.state
        best = "none yet" if state.best_score is None else f"{state.best_score:.4g}"
        click.echo(
            f"{result.reason.value} after {state.next_iteration} iterations, "
            f"{duration_text(state.elapsed_s)} of training; best validation {best}; "
            f"model: {folder.path / model}"
        )
        return result.reason
