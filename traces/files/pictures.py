"""Figures as files: equal figures are equal bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from traces.files.errors import FileError
from traces.files.writing import written_whole

# Names of parts that do not differ from run to run, and text that can be searched and edited.
_REPEATABLE: Any = {"svg.hashsalt": "decima", "svg.fonttype": "none"}


def save_figure(
    figure: Figure,
    path: Path,
    kind: str,
    error: type[ValueError] = FileError,
    dpi: int = 130,
    metadata: dict[str, str] | None = None,
) -> None:
    """Write a figure as a file of a kind, "svg" or "png", whole or not at all.

    Raises:
        error: it cannot be written.
    """
    described: dict[str, Any] = dict(metadata or {})
    if kind == "svg":
        described["Date"] = None
    with written_whole(path, error) as file, mpl.rc_context(_REPEATABLE):
        figure.savefig(file, format=kind, dpi=dpi, metadata=described)
