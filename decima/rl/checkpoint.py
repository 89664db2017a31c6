"""Tensors and facts in a safetensors file; reading and writing one never executes anything.

Facts beside the tensors (plain JSON) travel in the header of the same file, so that the two cannot
come apart. Arrays are read without torch.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import safetensors.numpy
from numpy.typing import NDArray
from safetensors import SafetensorError

from decima.rl.errors import CheckpointError, RunError
from traces.files.reading import parse_json, read_bytes
from traces.files.writing import write_whole

if TYPE_CHECKING:
    from torch import Tensor

_FACTS = "json"
"""key of the facts in the header"""
_METADATA = "__metadata__"  # named by the format; holds text by name
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
    import safetensors.torch

    text = json.dumps(facts, allow_nan=False)
    write_whole(path, safetensors.torch.save(snapshot(tensors), {_FACTS: text}), RunError)


def load_tensors(
    path: Path, max_bytes: int | None = None
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors, on the CPU, and facts of a file that `save_tensors` wrote; as `load_arrays`."""
    import torch

    arrays, facts = load_arrays(path, max_bytes)
    return {name: torch.from_numpy(array) for name, array in arrays.items()}, facts


def load_arrays(
    path: Path, max_bytes: int | None = None
) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Arrays and facts of a file that `save_tensors` wrote.

    No more memory is taken than the file has bytes: a shape that its bytes do not fill is damage. A
    safetensors file of another program has no facts: {}.

    Args:
        path: the file.
        max_bytes: a larger file is refused; None reads any.

    Raises:
        RunError: the file cannot be read, or is too large.
        CheckpointError: it is cut short, or no safetensors file.
    """
    data = read_bytes(path, RunError, max_bytes)
    try:
        arrays = safetensors.numpy.load(data)
    except KeyError as error:  # a type that numpy lacks
        raise CheckpointError(f"{path}: numbers of type {error} are not supported") from error
    except (SafetensorError, TypeError) as error:
        raise CheckpointError(f"{path}: not a safetensors file, or damaged: {error}") from error
    length = int.from_bytes(data[:_LENGTH_BYTES], "little")
    header = parse_json(data[_LENGTH_BYTES : _LENGTH_BYTES + length], str(path), CheckpointError)
    text = (header.get(_METADATA) or {}).get(_FACTS, "{}")  # the format allows null, too
    facts = parse_json(text, f"{path}: the facts in its header", CheckpointError)
    if not isinstance(facts, dict):
        raise CheckpointError(f"{path}: the facts in its header are {text:.40}: not an object")
    return arrays, facts


def object_among(facts: Mapping[str, Any], name: str, path: Path) -> dict[str, Any]:
    """Return the JSON object `name` among the facts of a file; CheckpointError if it is none."""
    value = facts.get(name)
    if not isinstance(value, dict):
        raise CheckpointError(f"{path}: its header's {name} is {value!r:.40}, not an object")
    return value


def snapshot(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Copies on the CPU that share nothing with the originals or with each other."""
    import torch

    return {
        name: tensor.detach().to("cpu", copy=True, memory_format=torch.contiguous_format)
        for name, tensor in tensors.items()
    }
