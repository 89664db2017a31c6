"""The top-level packages of decima-scheduler, a check that nothing shadows one of them, extras.

Their names are short, so a ``traces.py`` in the working folder, or a ``traces`` package that is
installed by something else, may come first on Python's path. What would fail then is some import
deep inside, with a message that names neither. Each package asks here first; this module's own name
is one that no other package has.
"""

from __future__ import annotations

import sys
from importlib.machinery import PathFinder
from pathlib import Path

NEEDS: dict[str, tuple[str, ...]] = {
    "traces": (),
    "spark_sim": ("traces",),
    "gnn": (),
    "decima": ("traces", "spark_sim", "gnn"),
    "deeprm": ("traces", "spark_sim", "gnn", "decima"),
    "harmony": ("traces", "spark_sim", "gnn", "decima"),
}
"""requirements of each package"""

EXTRAS = {
    "torch": "train",
    "torch_geometric": "train",
    "tensorboardX": "train",
    "gymnasium": "gym",
    "matplotlib": "plots",
    "networkx": "graphs",
    "pyspark": "spark",
}
"""extra of pyproject.toml by the module that it installs"""

_HOME = Path(__file__).resolve().parent


def check(package: str) -> None:
    """Refuse to import `package` where another module shadows one that it needs.

    Raises:
        ImportError: another module comes first; one line with both places.
    """
    for name in NEEDS[package]:
        found = _place(name)
        if found is not None and found.parent != _HOME / name:
            raise ImportError(
                f"{package} needs the package {name!r} of decima-scheduler ({_HOME / name}), but "
                f"{found} comes first: rename that, or start Python where it is not on the path",
                name=name,
            )


def missing_extra(error: ImportError) -> str | None:
    """Return one line that says how to install the module that was not found; None if it belongs
    to no extra.
    """
    module = (error.name or "").partition(".")[0]
    if module not in EXTRAS:
        return None
    return f"{module} is not installed: pip install 'decima-scheduler[{EXTRAS[module]}]'"


def _place(name: str) -> Path | None:
    """The file, or the folder without `__init__.py`, that an import of `name` takes.

    None where none is found: another finder than that of paths, as of editable installs, has it.
    """
    loaded = sys.modules.get(name)
    spec = PathFinder.find_spec(name) if loaded is None else getattr(loaded, "__spec__", None)
    if spec is None:
        return None
    folders = spec.submodule_search_locations
    place = next(iter(folders or ()), None) if spec.origin is None else spec.origin
    return None if place is None else Path(place).resolve()
