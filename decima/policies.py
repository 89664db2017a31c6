"""Construction of any policy from its name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from decima.policy import Policy
from decima.policy_names import is_learned, looks_ahead
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
    """The heuristic or learned policy called `name`, for one run.

    Args:
        name: a key of `HEURISTICS`, or a learned policy (`is_learned`).
        trace: the jobs of the run.
        parameters: of a heuristic, in place of its defaults.
        key: 64 random bits, for a policy that draws.
        networks: of learned policies, where this process need not or cannot read their files.

    Raises:
        PolicyError: no such heuristic, or it has no such parameter.
        ModelError: the file is no model that this version can use.
    """
    if is_learned(name):
        # The agent takes a second to load, and heuristics do not need it.
        from decima.learned import learned_policy, search_policy

        if looks_ahead(name):
            return search_policy(name, trace, key, networks)
        return learned_policy(name, trace, key, networks)
    return Heuristic(name, parameters, key, trace)


def networks_of(names: Iterable[str]) -> Networks:
    """The networks of those among the policies that are learned, for processes elsewhere.

    Raises:
        ModelError: a file is no model that this version can use.
    """
    learned = [name for name in names if is_learned(name)]
    if not learned:
        return {}
    from decima.learned import load

    return {name: load(name) for name in learned}


def check_name(name: str) -> None:
    """Raise on a name unknown to `policy_named`; model files are not read.

    Raises:
        PolicyError: no such policy.
    """
    if not is_learned(name):
        Heuristic(name)
