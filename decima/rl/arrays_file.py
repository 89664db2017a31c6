"""Arrays of numbers in a safetensors file, read without torch.

Facts beside the arrays (plain JSON) travel in the header of the same file, so that the two cannot
come apart.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import safetensors.numpy
from numpy.typing import NDArray
from safetensors import SafetensorError

from decima.rl.errors import CheckpointError, RunError
from traces.files.reading import parse_json, read_bytes

FACTS = "json"
"""key of the facts in the header"""
_METADATA = "__metadata__"  # named by the format; holds text by name
_LENGTH_BYTES = 8


def load_arrays(
    path: Path, max_bytes: int | None = None
) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Arrays and facts of a file that `decima.rl.checkpoint.save_tensors` wrote.

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
        arrays = safetensors.numpy.load(data)
    except KeyError as error:  # a type that numpy lacks
        raise CheckpointError(f"{path}: numbers of type {error} are not supported") from error
    except (SafetensorError, TypeError) as error:
        raise CheckpointError(f"{path}: not a safetensors file, or damaged: {error}") from error
    length = int.from_bytes(data[:_LENGTH_BYTES], "little")
    header = parse_json(data[_LENGTH_BYTES : _LENGTH_BYTES + length], str(path), CheckpointError)
    metadata = header.get(_METADATA) or {}  # the format allows null, too
    return arrays, _facts(path, metadata.get(FACTS, "{}"))


def _facts(path: Path, text: str) -> dict[str, Any]:
    facts = parse_json(text, f"{path}: the facts in its header", CheckpointError)
    if not isinstance(facts, dict):
        raise CheckpointError(f"{path}: the facts in its header are {text:.40}: not an object")
    return facts
