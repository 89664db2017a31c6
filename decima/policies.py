"""Construction of any policy from its name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from decima.policy import Policy
from decima.policy_names import is_learned
from decima.registry import Heuristic, Parameters
from traces.arrays import TraceArrays

if TYPE_CHECKING:
    from decima.learned import Networks


def policy_named(
    name: str,
    trace: TraceArrays,
    *,
    parameters: Parameters | None = None,
    key: int = 0,
    networks: Networks | None = None,
) -> Policy:
    """The heuristic or learned policy called `name`, for one run on `trace`.

    `parameters` replace a heuristic's defaults, `key` holds 64 random bits for a policy that draws,
    and `networks` are those that this process need not or cannot read from files. Raises
    PolicyError or ModelError if there is no such policy.
    """
    if is_learned(name):
        # The agent takes a second to load, and heuristics do not need it.
        from decima.learned import learned_policy

        return learned_policy(name, trace, key, networks)
    return Heuristic(name, parameters, key, trace)


def networks_of(names: Iterable[str]) -> Networks:
    """The networks of those among the policies that are learned, for processes elsewhere."""
    learned = [name for name in names if is_learned(name)]
    if not learned:
        return {}
    from decima.learned import load

    return {name: load(name) for name in learned}


def check_name(name: str) -> None:
    """Raise PolicyError on a name unknown to `policy_named`; model files are not read."""
    if not is_learned(name):
        Heuristic(name)
