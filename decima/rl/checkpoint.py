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
from safetensors import SafetensorError
from torch import Tensor

from decima.rl.errors import CheckpointError, RunError
from traces.files.reading import parse_json, read_bytes
from traces.files.writing import write_whole

_METADATA = "__metadata__"  # named by the format; holds text by name
_FACTS = "json"
_LENGTH_BYTES = 8


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
    write_whole(path, safetensors.torch.save(snapshot(tensors), {_FACTS: text}), RunError)


def load_tensors(
    path: Path, max_bytes: int | None = None
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors, on the CPU, and facts of a file that `save_tensors` wrote.

    Nothing in the file is executed, and no more memory is taken than the file has bytes: a shape
    that its bytes do not fill is damage. A safetensors file of another program has no facts: {}.

    Args:
        path: the file.
        max_bytes: a larger file is refused; None reads any.

    Raises:
        RunError: the file cannot be read, or is too large.
        CheckpointError: it is cut short, or no safetensors file.
    """
    data = read_bytes(path, RunError, max_bytes)
    try:
        tensors = safetensors.torch.load(data)
    except (SafetensorError, KeyError) as error:  # KeyError: a type of number torch has not
        raise CheckpointError(f"{path}: not a safetensors file, or damaged: {error}") from error
    length = int.from_bytes(data[:_LENGTH_BYTES], "little")
    header = parse_json(data[_LENGTH_BYTES : _LENGTH_BYTES + length], str(path), CheckpointError)
    return tensors, _facts(path, header.get(_METADATA, {}).get(_FACTS, "{}"))


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


def _facts(path: Path, text: str) -> dict[str, Any]:
    facts = parse_json(text, f"{path}: the facts in its header", CheckpointError)
    if not isinstance(facts, dict):
        raise CheckpointError(f"{path}: the facts in its header are {text:.40}: not an object")
    return facts
