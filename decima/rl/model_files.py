"""Files of weights: what a header may ask for is checked before memory is taken for it.

A header names the sizes of a network, and a few bytes can name any. So sizes are bounded first,
then the network is made with its shapes alone, on torch's "meta" device, and compared with the
weights in the file; it is built only when both agree.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from traces.files.settings import build

MAX_LAYERS = 16
"""hidden layers of one part"""
MAX_UNITS = 1024
"""of a layer or an embedding"""
MAX_PARAMETERS = 4_000_000
"""of a whole network"""

N = TypeVar("N", bound=nn.Module)
S = TypeVar("S")


def header_settings(
    path: Path, kind: type[S], stored: Mapping[str, Any], error: type[ValueError]
) -> S:
    """Return the settings of dataclass `kind` that a file's header holds.

    Raises:
        ValueError: (`error`) a key is unknown, or a value breaks a rule.
    """
    try:
        return build(kind, stored, error)
    except error as fault:
        raise error(f"{path}: its header names an impossible network: {fault}") from fault


def check_layers(layers: Mapping[str, Sequence[int]], error: type[ValueError]) -> None:
    """Refuse parts of a network, by name, with too many layers or too wide ones.

    Raises:
        ValueError: (`error`) one has.
    """
    for label, sizes in layers.items():
        if len(sizes) > MAX_LAYERS or max(sizes, default=0) > MAX_UNITS:
            raise error(
                f"a network with {label} {sizes!r:.40}: at most {MAX_LAYERS} layers of "
                f"{MAX_UNITS:,} units are possible"
            )


def outline(make: Callable[[], N], error: type[ValueError], most: int = MAX_PARAMETERS) -> N:
    """Return the network that `make` makes, with its shapes and without memory.

    Args:
        make: called once, where every tensor is one of shape alone.
        error: raised where the network is too large.
        most: parameters.

    Raises:
        ValueError: (`error`) it has more than `most` parameters.
    """
    try:
        with torch.device("meta"):
            network = make()
    except (RuntimeError, TypeError, OverflowError) as fault:  # a shape beyond 64 bits
        raise error("a network of more parameters than can be counted") from fault
    count = sum(one.numel() for one in network.parameters())
    if count > most:
        raise error(f"a network of {count:,} parameters: at most {most:,} are possible")
    return network


def check_weights(
    path: Path,
    shapes: nn.Module,
    weights: Mapping[str, Tensor],
    error: type[ValueError],
    *,
    halved: bool = False,
) -> None:
    """Refuse weights that are not, one by one, those of a network, or not finite.

    Args:
        path: of the file, for the message.
        shapes: the network, as `outline` gives it.
        weights: of the file.
        error: raised where they differ.
        halved: whether the file holds its fractions as 16-bit numbers.

    Raises:
        ValueError: (`error`) so it is.
    """
    expected = {
        name: (one.shape, torch.half if halved and one.is_floating_point() else one.dtype)
        for name, one in shapes.state_dict().items()
    }
    found = {name: (one.shape, one.dtype) for name, one in weights.items()}
    if found != expected:
        name = next(iter(sorted(set(found) ^ set(expected))), None) or next(
            name for name in expected if expected[name] != found[name]
        )
        raise error(f"{path}: weights {name!r:.60} do not fit the network that its header names")
    for name, one in weights.items():
        if not math.isfinite(float(one.double().abs().sum())):
            raise error(f"{path}: weights {name!r} are not all finite")
