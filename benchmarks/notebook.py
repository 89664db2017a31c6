"""The notebook of `examples/`, executed anew.

    python -m benchmarks.notebook     (make figures)

It shows figures of the network that ships, so a new network outdates it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parents[1] / "examples" / "compare_policies.ipynb"


def executed() -> Any:
    """Return the notebook with the output of its cells as they are computed now."""
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    folder = {"metadata": {"path": str(NOTEBOOK.parent)}}
    # Neither times nor the interpreter's version are stored: they would differ each time.
    NotebookClient(notebook, timeout=600, record_timing=False, resources=folder).execute()
    notebook.metadata.pop("language_info")
    return notebook


if __name__ == "__main__":
    nbformat.write(executed(), NOTEBOOK)
