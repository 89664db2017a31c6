"""Checks of numbers in files and settings."""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Mapping
from functools import cache
from numbers import Integral, Real
from types import UnionType
from typing import Any, TypeGuard, Union, get_args, get_origin, get_type_hints

MAX_COUNT = 2**63 - 1  # the largest whole number of 64 bits
MAX_TIME_MS = 2**53  # milliseconds from 0 that a float64 resolves to a millisecond: 285,000 years


def is_number(value: object) -> TypeGuard[float]:
    """Return whether the value is a finite number that a float can hold; booleans are refused."""
    # Compared, not converted: to convert a whole number of 400 digits is an error.
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and abs(value) <= sys.float_info.max
    )


def is_count(value: object, most: int = MAX_COUNT) -> TypeGuard[int]:
    """Return whether the value is an integer from 0 to `most`; 3.0 and booleans are refused."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most


def check_numbers(settings: Any, error: type[ValueError]) -> None:
    """Refuse a dataclass whose `int` is no whole number, or whose `float` is not finite.

    None is refused, too, where the field does not allow it. A file's types are checked where it is
    read; this is for settings that a program makes.
    """
    for name, (kind, may_be_none) in _numbers(type(settings)).items():  # type: ignore[arg-type]
        value = getattr(settings, name)
        if value is None and may_be_none:
            continue
        is_whole = isinstance(value, Integral) and not isinstance(value, bool)
        if kind is int and not is_whole:
            raise error(f"{name} is {value!r:.40}: a whole number is needed")
        if kind is float and not _is_finite(value):
            raise error(f"{name} is {value!r:.40}: a finite number is needed")


@cache
def _numbers(settings: type) -> Mapping[str, tuple[type, bool]]:
    """Fields that are an `int` or a `float`, by name, and whether they may be None."""
    hints = get_type_hints(settings)
    numbers: dict[str, tuple[type, bool]] = {}
    for field in dataclasses.fields(settings):
        hint = hints[field.name]
        kinds = set(get_args(hint)) if get_origin(hint) in (Union, UnionType) else {hint}
        for kind in (int, float):
            if kinds - {type(None)} == {kind}:
                numbers[field.name] = kind, type(None) in kinds
    return numbers


def _is_finite(value: object) -> bool:
    if not isinstance(value, Real) or isinstance(value, bool):
        return False
    return math.isfinite(value) if not isinstance(value, Integral) else is_number(int(value))
