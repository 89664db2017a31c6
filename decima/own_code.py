"""Loading of a user's own code, named `my_file.py:name` or `module:name`.

Naming it runs that code, so such names are taken from a command or a program, never from a file.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import traceback
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from decima.errors import ConfigError


class OwnCodeError(ConfigError):
    """The code cannot be loaded, or lacks the name."""


def load_callable(name: str) -> Callable[..., Any]:
    """Return the class or function of that name; OwnCodeError if there is none."""
    source, _, label = name.rpartition(":")
    try:
        module = _module(source)
    except (Exception, SystemExit) as error:
        raise OwnCodeError(f"cannot load {source}: {error_text(error)}") from error
    made = getattr(module, label, None)
    if not callable(made):
        raise OwnCodeError(f"{source} has no class or function {label!r}")
    return made  # type: ignore[no-any-return]


@cache
def _module(source: str) -> ModuleType:
    """The module in a file, or of that name, run once in a process."""
    if not source.endswith(".py"):
        _add_to_path(Path.cwd())
        return importlib.import_module(source)
    path = Path(source).resolve(strict=True)
    _add_to_path(path.parent)
    spec = importlib.util.spec_from_file_location(f"{path.stem}_of_a_user", path)
    assert spec is not None and spec.loader is not None  # noqa: S101, PT018 - the name ends in .py
    module = importlib.util.module_from_spec(spec)
    sys.modules[module.__name__] = module  # as dataclasses need it
    spec.loader.exec_module(module)
    return module


def _add_to_path(folder: Path) -> None:
    """Let a user's code import what lies beside it; last, so that it hides no package."""
    if str(folder) not in sys.path:
        sys.path.append(str(folder))


def error_text(error: BaseException) -> str:
    """Describe an error, with its line of the user's code."""
    text = f"{type(error).__name__}: {error}"
    frames = traceback.extract_tb(error.__traceback__)
    project = str(Path(__file__).parent)
    user_frames = [
        frame
        for frame in frames
        if not frame.filename.startswith((project, "<")) and "importlib" not in frame.filename
    ]
    if not user_frames:
        return text
    return f"{text} ({Path(user_frames[-1].filename).name}, line {user_frames[-1].lineno})"
