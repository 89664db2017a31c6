"""The weights that ship with the package, as JSON files of the form that `decima tune` writes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.resources import files


def shipped_weights(policy: str, names: Sequence[str]) -> dict[str, float]:
    """The parameters of `policy` from the package's data, in the order of `names`.

    The file may hold no others: they would have been fitted to other code.
    """
    content = json.loads((files("decima.heuristics") / "data" / f"{policy}.json").read_text())
    weights: dict[str, float] = content["parameters"]
    if sorted(weights) != sorted(names):
        raise RuntimeError(f"the weights of {policy} in this installation belong to other code")
    return {name: float(weights[name]) for name in names}
