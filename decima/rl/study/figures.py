"""Figures of a study: measured and drawn, unless they are there already."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from decima.rl.command import Refused
from decima.rl.drawing import write_figure
from decima.rl.errors import NoModelsError, StudyError
from decima.rl.progress import duration_text
from traces.files.reading import read_json
from traces.files.writing import make_folder, write_json

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SETTINGS = "measured_with"
"""key of a figure's file"""
_PICTURES = (".svg", ".png")


@dataclass(frozen=True)
class Measurement:
    """Task of `reproduce`: figures, and how to measure them."""

    seconds: Mapping[str, float]
    """about how long each figure takes on one core, by name"""
    settings: Mapping[str, Any]
    """what the results depend on, as JSON; a figure measured with it is not measured again"""
    measure: Callable[[str], dict[str, Any]]
    """gives what is written as JSON"""
    drawn: Mapping[str, Callable[[dict[str, Any]], Figure]]
    """draws that, by name"""


def to_measure(names: Sequence[str], measurement: Measurement, out: Path) -> list[str]:
    """Return the figures that the folder does not have yet; name those that it has on stderr.

    Raises Refused if it has one with other settings.
    """
    missing = []
    for name in names:
        path = out / f"{name}.json"
        if not path.exists():
            missing.append(name)
            continue
        content = read_json(path, StudyError)
        if not isinstance(content, dict) or content.get(SETTINGS) != measurement.settings:
            raise Refused(
                f"{path}: was measured with other settings: take another folder, or --force"
            )
        if all((out / f"{name}{ending}").exists() for ending in _PICTURES):
            click.echo(f"{name} is there (--force measures it again)", err=True)
        else:
            missing.append(name)
    return missing


def write_figures(names: Sequence[str], measurement: Measurement, out: Path) -> None:
    """Measure figures, and write each as JSON, SVG and PNG into a folder, which is made.

    Each is announced on stderr, with how long it and the rest will take. A figure whose models are
    missing is named there and left out.

    Raises:
        Refused: the models of all are missing.
        StudyError: the folder cannot be made, or the JSON not be written.
        RunError: a picture cannot be written.
    """
    make_folder(out, StudyError)
    missing = []
    for number, name in enumerate(names):
        needed = duration_text(measurement.seconds[name])
        left = duration_text(sum(measurement.seconds[name] for name in names[number:]))
        click.echo(
            f"{name}, about {needed} of one core ({number + 1} of {len(names)}, {left} left)",
            err=True,
        )
        begun_s = time.monotonic()
        try:
            content = {**measurement.measure(name), SETTINGS: dict(measurement.settings)}
        except NoModelsError as fault:
            missing.append(f"{name}: no models: `study` trains {fault}, and --models reads them")
            continue
        path = out / f"{name}.json"
        write_json(path, content, StudyError)
        pictures = write_figure(measurement.drawn[name](content), name, out)
        took = duration_text(time.monotonic() - begun_s)
        click.echo(f"{', '.join(str(file) for file in (path, *pictures))} ({took})")
    if names and len(missing) == len(names):
        raise Refused("; ".join(missing))
    for line in missing:
        click.echo(line, err=True)
