"""Tensors on disk: safetensors, a format that holds numbers and no code.

Facts beside the tensors (plain JSON) travel in the header of the same file, so that the two cannot
come apart.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor

from decima.rl.arrays_file import FACTS, load_arrays
from decima.rl.errors import CheckpointError, RunError
from traces.files.writing import write_whole


def save_tensors(path: Path, tensors: Mapping[str, Tensor], facts: Mapping[str, object]) -> None:
    """Write tensors and facts, whole or not at all.

    Args:
        path: the file, by custom ending in `.safetensors`; its folder must exist.
        tensors: what to save, on any device; names are free.
        facts: plain JSON; its numbers must be finite.

    Raises:
        RunError: the file cannot be written (for example, a full disk); an old file is unchanged.
    """
    text = json.dumps(facts, allow_nan=False)
    write_whole(path, safetensors.torch.save(snapshot(tensors), {FACTS: text}), RunError)


def load_tensors(
    path: Path, max_bytes: int | None = None
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors, on the CPU, and facts of a file that `save_tensors` wrote; as `load_arrays`."""
    arrays, facts = load_arrays(path, max_bytes)
    return {name: torch.from_numpy(one) for name, one in arrays.items()}, facts


def object_among(facts: Mapping[str, Any], name: str, path: Path) -> dict[str, Any]:
    """The JSON object called `name` among the facts of the file `path`.

    Raises:
        CheckpointError: it is missing, or no object.
    """
    found = facts.get(name)
    if not isinstance(found, dict):
        raise CheckpointError(f"{path}: its header's {name} is {found!r:.40}, not an object")
    return found


def snapshot(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Copies on the CPU that share nothing with the originals or with each other."""
    return {
        name: tensor.detach().to("cpu", copy=True, memory_format=torch.contiguous_format)
        for name, tensor in tensors.items()
    }
