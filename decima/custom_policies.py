"""Policies in a user's own code, named `my_policy.py:Class` or `module:Class`.

Naming one runs that code, so only `decima evaluate --policies` and `EvaluationConfig.policies` take
such names, never a file.
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

from decima.errors import PolicyError
from decima.policy_names import is_learned
from spark_sim import Action, Observation


def is_custom(name: str) -> bool:
    """Return whether `name` is that of a class in a user's own code."""
    return ":" in name and not is_learned(name)


class CustomPolicy:
    """Policy of a class in a user's own code, whose errors become one line."""

    def __init__(self, name: str) -> None:
        """Load and make the policy; PolicyError if that fails or it cannot decide."""
        self.name = name
        make = _class(name)
        try:
            made = make()
        except Exception as error:
            raise PolicyError(f"policy {name!r}: cannot be made: {_words(error)}") from error
        if not callable(getattr(made, "decide", None)):
            raise PolicyError(f"policy {name!r} has no method decide(observation)")
        self._decide: Callable[[Observation], Any] = made.decide

    def decide(self, observation: Observation) -> Action:
        """Return the user's answer (`decima.policy.Policy`); PolicyError if it is no action."""
        try:
            action = self._decide(observation)
        except Exception as error:
            raise PolicyError(f"policy {self.name!r}: decide failed: {_words(error)}") from error
        if not isinstance(action, Action):
            raise PolicyError(f"policy {self.name!r}: decide gave {action!r:.60}, not an Action")
        return action


def _class(name: str) -> Callable[[], Any]:
    source, _, label = name.rpartition(":")
    try:
        module = _module(source)
    except (Exception, SystemExit) as error:
        raise PolicyError(f"policy {name!r}: cannot load {source}: {_words(error)}") from error
    made = getattr(module, label, None)
    if not callable(made):
        raise PolicyError(f"policy {name!r}: {source} has no class {label!r}")
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


def _words(error: BaseException) -> str:
    """Describe an error, with its line of the user's code."""
    words = f"{type(error).__name__}: {error}"
    frames = traceback.extract_tb(error.__traceback__)
    own = [one for one in frames if one.filename != __file__ and "importlib" not in one.filename]
    return f"{words} ({Path(own[-1].filename).name}, line {own[-1].lineno})" if own else words
