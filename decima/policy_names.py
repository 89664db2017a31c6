"""Names of learned policies, and the model file behind each."""

from __future__ import annotations

from pathlib import Path

SHIPPED_MODEL = "decima"  # the model in the package, for every cluster
LEARNED_SUFFIX = ".safetensors"  # other learned policies go by the path of their model file
SAMPLED_SUFFIX = ":sampled"
"""suffix of a learned policy's name: draw actions instead of taking the likeliest"""
IN_JVM = ("fifo", "spark_fair", "strict_fair", "tuned_srw", "es_rule", SHIPPED_MODEL)
"""policies that decide inside Spark's JVM by name, as model files do (`Policies.java`)"""
_SHIPPED_FOLDER = Path(__file__).parent / "agent" / "data"


def is_learned(name: str) -> bool:
    """Return whether `name` is that of a learned policy; its file is not read."""
    plain = name.removesuffix(SAMPLED_SUFFIX)
    return plain == SHIPPED_MODEL or plain.endswith(LEARNED_SUFFIX)


def decides_in_jvm(name: str) -> bool:
    """Return whether the policy called `name` needs no Python on a live Spark."""
    return name in IN_JVM or name.endswith(LEARNED_SUFFIX)


def model_path(name: str) -> Path:
    """Return the file of the learned policy called `name`."""
    plain = name.removesuffix(SAMPLED_SUFFIX)
    if plain == SHIPPED_MODEL:
        return _SHIPPED_FOLDER / f"{plain}{LEARNED_SUFFIX}"
    return Path(plain)
