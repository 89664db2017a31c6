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
    for name, paper in PAPER.items():
        if not all((out / f"{name}.{kind}").exists() for kind in ("json", "png")):
            continue
        measured = read_json(out / f"{name}.json", StudyError)
        if not isinstance(measured, dict) or measured.get(SETTINGS) != settings:
            continue
        made = [f"seed {settings['seed']}", settings["scale"]]
        made.append(f"{measured['cpu_s'] / 60:.1f} CPU minutes")
        if "sequences" in measured:
            sequences = counted(measured["sequences"], "sequence")
            made.insert(0, f"{sequences} of {measured['jobs']:,} jobs")
        picture = base64.b64encode(read_bytes(out / f"{name}.png", StudyError)).decode()
        content = {
            "workload": paper.workload,
            "rows": [
                (what, there, measured["here"][what]) for what, there in paper.published.items()
            ],
            "picture": f"data:image/png;base64,{picture}",
            "differs": f"Why values differ: {paper.differs}",
            "made": ", ".join(made),
        }
        heading = f"{name}: {paper.title} ({paper.section})"
        sections.append(Section(name, heading, "reproduce.html", content))
    path = out / PAGE
    write_page(path, sections, title="The figures of the Decima paper", command=command_line())
    return path
