"""The notebook of `examples/`: executed anew, it shows what it shows in the repository."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest


@pytest.mark.slow
def test_the_notebook_shows_what_it_computes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Its own list of fonts: an outdated one of this machine prints warnings into cells.
    monkeypatch.setenv("MPLCONFIGDIR", str(tmp_path))
    import nbformat

    from benchmarks.notebook import NOTEBOOK, executed

    def texts(notebook: Any) -> list[str]:
        """What each cell printed, and its result as a table or as text; no pictures."""
        outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
        results = [output.get("data", {"text/plain": output.get("text")}) for output in outputs]
        return [
            data.get("text/html", data["text/plain"]) for data in results if "image/png" not in data
        ]

    stored, now = nbformat.read(NOTEBOOK, as_version=4), executed()
    assert texts(now) == texts(stored)
    assert len(texts(stored)) == 4
    assert sum("image/png" in str(cell.get("outputs")) for cell in now.cells) == 1
