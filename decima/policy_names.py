"""Names of learned policies: their suffixes, and the model file behind each."""

from __future__ import annotations

from pathlib import Path

SHIPPED_MODEL = "decima"  # the model in the package, for every cluster
LEARNED_SUFFIX = ".safetensors"  # other learned policies go by the path of their model file
SAMPLED_SUFFIX = ":sampled"
"""suffix of a learned policy's name: draw actions instead of taking the likeliest"""
SEARCH_SUFFIX = ":search"
"""suffix of a learned policy's name: the network proposes, and the simulator looks ahead
(`decima.agent.lookahead`)"""
_SHIPPED_FOLDER = Path(__file__).parent / "agent" / "data"


def is_learned(name: str) -> bool:
    """Return whether `name` is that of a learned policy; its file is not read."""
    plain = _without_suffix(name)
    return plain == SHIPPED_MODEL or plain.endswith(LEARNED_SUFFIX)


def looks_ahead(name: str) -> bool:
    """Return whether the learned policy called `name` plays copies of the simulation."""
    return is_learned(name) and name.endswith(SEARCH_SUFFIX)


def decides_alone(name: str) -> bool:
    """Return whether `name` is a learned policy that needs only observations.

    Such a policy can play several runs in lockstep, be explained and decide on a live cluster.
    """
    return is_learned(name) and not looks_ahead(name)


def _without_suffix(name: str) -> str:
    return name.removesuffix(SAMPLED_SUFFIX).removesuffix(SEARCH_SUFFIX)


def model_path(name: str) -> Path:
    """Return the file of the learned policy called `name`."""
    plain = _without_suffix(name)
    if plain == SHIPPED_MODEL:
        return _SHIPPED_FOLDER / f"{plain}{LEARNED_SUFFIX}"
    return Path(plain)
