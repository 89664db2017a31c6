"""Numbers that a caller of `attach` may set: what makes no sense is one line, naming the rule."""

from __future__ import annotations

from numbers import Integral, Real

from decima.spark.errors import AttachError

_MOST = 2**31 - 1


def check_above_zero(name: str, value: object) -> None:
    """Raises:
    AttachError: it is no number above 0.
    """
    if not _is_number(value) or not value > 0:  # type: ignore[operator]  # also of NaN
        raise AttachError(f"{name} must be a number above 0, got {value!r}")


def check_within(name: str, value: object, least: float, most: float) -> None:
    """Raises:
    AttachError: it is no number from `least` to `most`.
    """
    if not _is_number(value) or not least <= value <= most:  # type: ignore[operator]  # also of NaN
        raise AttachError(f"{name} must be a number from {least:g} to {most:,g}, got {value!r}")


def check_count(name: str, value: object, least: int) -> None:
    """Raises:
    AttachError: it is no whole number of `least` or more that the JVM can hold.
    """
    is_whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not is_whole or not value >= least:  # type: ignore[operator]
        raise AttachError(f"{name} must be a whole number of {least} or more, got {value!r}")
    if value > _MOST:  # type: ignore[operator]
        raise AttachError(f"{name} must be at most {_MOST:,}, got {value!r}")


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)
