"""The argument LOGS: paths, or addresses whose logs are copied to this machine first."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import click

from decima.cli.console import progress_bar, say
from decima.rl.option_types import InputPath
from traces.spark_log.elsewhere import (
    Selection,
    copy_logs,
    is_elsewhere,
    is_history_server,
    parse_since,
    without_credentials,
)


@dataclass(frozen=True)
class Logs:
    """The logs that a command was given."""

    places: tuple[Path | str, ...]
    """paths, and addresses as text"""
    selection: Selection

    @property
    def title(self) -> str:
        """Name of the first, for a page."""
        first = self.places[0]
        return first.name if isinstance(first, Path) else without_credentials(first)

    def fetch(self) -> tuple[Path, ...]:
        """Return their paths, those of addresses in folders that last as long as the command.

        Copies may be large, so this comes after all checks of options.
        """
        context = click.get_current_context()
        paths = []
        for place in self.places:
            if isinstance(place, Path):
                paths.append(place)
                continue
            folder = Path(context.with_resource(tempfile.TemporaryDirectory(prefix="decima-logs-")))
            with progress_bar(f"copying from {without_credentials(place)}", 1) as (bar, task):
                gone = copy_logs(
                    place,
                    folder,
                    self.selection,
                    lambda _, number, total: bar.update(task, completed=number - 1, total=total),
                )
            if gone:
                say(f"note: {len(gone)} listed applications had gone, such as {gone[0]}")
            paths.append(folder)
        return tuple(paths)


class _Place(InputPath):
    """A path that exists, or an address, which stays text."""

    name = "path or address"

    def __init__(self) -> None:
        super().__init__(folders=True)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, str) and is_elsewhere(value):
            return value
        return super().convert(value, param, ctx)


PLACE = _Place()


def _since(_context: click.Context, _option: click.Parameter, text: str | None) -> timedelta | None:
    try:
        return None if text is None else parse_since(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


def selection_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that select among the logs of a History Server."""
    applications = click.option(
        "--application",
        "applications",
        multiple=True,
        metavar="ID",
        help="Of a History Server; may be repeated (default: all that have ended).",
    )
    since = click.option(
        "--since",
        callback=_since,
        metavar="TIME",
        help="Of a History Server: those that ended in this time before now: 12h, 7d, 2w.",
    )
    return applications(since(command))


def logs_of(
    places: tuple[Path | str, ...], applications: tuple[str, ...], since: timedelta | None
) -> Logs:
    """Return the logs of paths and addresses; UsageError if the selection does not fit them."""
    is_selected = applications or since is not None
    addresses = [place for place in places if isinstance(place, str)]
    if is_selected and not any(map(is_history_server, addresses)):
        raise click.UsageError("--application and --since are for a History Server: http://...")
    if applications and since is not None:
        raise click.UsageError("give --application or --since, not both")
    return Logs(places, Selection(applications, since))


def log_arguments(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command LOGS, as `logs`, and the options that select among a History Server's."""

    @click.argument("logs", nargs=-1, required=True, type=PLACE)
    @selection_options
    @functools.wraps(command)
    def with_logs(
        *,
        logs: tuple[Path | str, ...],
        applications: tuple[str, ...],
        since: timedelta | None,
        **options: Any,
    ) -> None:
        command(logs=logs_of(logs, applications, since), **options)

    return with_logs
