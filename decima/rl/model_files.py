"""Files of weights: what a header may ask for is checked before memory is taken for it.

A header names the sizes of a network, and a few bytes can name any. So sizes are bounded first,
then the shapes of its weights are compared with those in the file; it is built only when both
agree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from traces.files.settings import build

MAX_LAYERS = 16
"""hidden layers of one part"""
MAX_UNITS = 1024
"""of a layer or an embedding"""
MAX_PARAMETERS = 4_000_000
"""of a whole network"""

S = TypeVar("S")


def header_settings(
    path: Path, kind: type[S], stored: Mapping[str, Any], error: type[ValueError]
) -> S:
    """Return the settings of dataclass `kind` in a file's header; `error` if they break a rule."""
    try:
        return build(kind, stored, error)
    except error as fault:
        raise error(f"{path}: its header names an impossible network: {fault}") from fault


def check_layers(layers: Mapping[str, Sequence[int]], error: type[ValueError]) -> None:
    """Raise `error` if a part of a network, by name, has too many layers or too wide ones."""
    for label, sizes in layers.items():
        if len(sizes) > MAX_LAYERS or max(sizes, default=0) > MAX_UNITS:
            raise error(
                f"a network with {label} {sizes!r:.40}: at most {MAX_LAYERS} layers of "
                f"{MAX_UNITS:,} units are possible"
            )


def check_count(count: int, error: type[ValueError], most: int = MAX_PARAMETERS) -> None:
    """Raise `error` for a network of more than `most` parameters."""
    if count > most:
        raise error(f"a network of {count:,} parameters: at most {most:,} are possible")


def check_weights(
    path: Path,
    expected: Mapping[str, tuple[tuple[int, ...], np.dtype[Any]]],
    arrays: Mapping[str, NDArray[Any]],
    error: type[ValueError],
) -> None:
    """Raise `error` unless arrays have the `expected` shapes and types, and are finite."""
    shapes = {name: (array.shape, array.dtype) for name, array in arrays.items()}
    if shapes != expected:
        name = next(iter(sorted(set(shapes) ^ set(expected))), None) or next(
            name for name in expected if expected[name] != shapes[name]
        )
        raise error(f"{path}: weights {name!r:.60} do not fit the network that its header names")
    for name, array in arrays.items():
        if not np.isfinite(array).all():
            raise error(f"{path}: weights {name!r} are not all finite")
