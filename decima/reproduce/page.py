"""One page of all measured figures: published values beside those measured here."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from decima.cli.options import command_line
from decima.report.page import write_page
from decima.report.section import Section
from decima.reproduce.paper import PAPER
from decima.rl.drawing import Measured
from decima.rl.errors import StudyError
from decima.rl.study.figures import SETTINGS
from traces.files.names import counted
from traces.files.reading import read_bytes, read_json

PAGE = "index.html"


def write_overview(out: Path, settings: Mapping[str, Any]) -> Path:
    """Write the page of the figures in `out` that were measured with `settings`; return its path.

    Raises StudyError if a file there is damaged.
    """
    sections = []
    for name in PAPER:
        if not all((out / f"{name}.{kind}").exists() for kind in ("json", "png")):
            continue
        measured = read_json(out / f"{name}.json", StudyError)
        if isinstance(measured, dict) and measured.get(SETTINGS) == settings:
            sections.append(_section(out, name, measured))
    path = out / PAGE
    write_page(path, sections, title="The figures of the Decima paper", command=command_line())
    return path


def _section(out: Path, name: str, measured: Measured) -> Section:
    paper = PAPER[name]
    picture = base64.b64encode(read_bytes(out / f"{name}.png", StudyError)).decode()
    rows = [
        (what, published, measured["here"][what]) for what, published in paper.published.items()
    ]
    content = {
        "workload": paper.workload,
        "rows": rows,
        "picture": f"data:image/png;base64,{picture}",
        "differs": f"Why values differ: {paper.differs}",
        "made": made_with(measured),
    }
    heading = f"{name}: {paper.title} ({paper.section})"
    return Section(name, heading, "reproduce.html", content)


def made_with(measured: Measured) -> str:
    """Describe the size of a measurement: ``4 sequences of 200 jobs, seed 0, quick, 0.1 min``."""
    settings = measured[SETTINGS]
    parts = []
    if "sequences" in measured:
        parts.append(f"{counted(measured['sequences'], 'sequence')} of {measured['jobs']:,} jobs")
    parts += [f"seed {settings['seed']}", settings["scale"]]
    parts.append(f"{measured['cpu_s'] / 60:.1f} CPU minutes")
    return ", ".join(parts)
