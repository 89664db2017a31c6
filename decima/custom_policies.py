"""Policies in a user's own code, named `my_policy.py:Class` or `module:Class`, or as a package that
is installed names them in the entry-point group `decima.policies`.

Naming one runs that code, so only `decima evaluate --policies` and `EvaluationConfig.policies` take
such names, never a file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from importlib.metadata import entry_points
from typing import Any

from decima.errors import PolicyError
from decima.own_code import OwnCodeError, error_text, load_callable
from decima.policy_names import is_learned
from decima.registry import HEURISTICS
from spark_sim import Action, Observation

ENTRY_POINTS = "decima.policies"
"""group in which a package that is installed names policies, as `module:Class`"""


def is_custom(name: str) -> bool:
    """Return whether `name` is that of a class in a user's own code."""
    if is_learned(name) or name in HEURISTICS:
        return False
    return ":" in name or name in packaged()


@cache
def packaged() -> Mapping[str, str]:
    """Policies of installed packages, `module:Class` by name."""
    return {point.name: point.value for point in entry_points(group=ENTRY_POINTS)}


class CustomPolicy:
    """Policy of a class in a user's own code, whose errors become one line."""

    def __init__(self, name: str) -> None:
        """Load and make the policy; PolicyError if that fails or it cannot decide."""
        self.name = name
        try:
            make = load_callable(packaged().get(name, name))
        except OwnCodeError as error:
            raise PolicyError(f"policy {name!r}: {error}") from error
        try:
            made = make()
        except Exception as error:
            raise PolicyError(f"policy {name!r}: cannot be made: {error_text(error)}") from error
        if not callable(getattr(made, "decide", None)):
            raise PolicyError(f"policy {name!r} has no method decide(observation)")
        self._decide: Callable[[Observation], Any] = made.decide

    def decide(self, observation: Observation) -> Action:
        """Return the user's answer (`decima.policy.Policy`); PolicyError if it is no action."""
        try:
            action = self._decide(observation)
        except Exception as error:
            raise PolicyError(
                f"policy {self.name!r}: decide failed: {error_text(error)}"
            ) from error
        if not isinstance(action, Action):
            raise PolicyError(f"policy {self.name!r}: decide gave {action!r:.60}, not an Action")
        return action
