"""Times and differences as text, with their 95 % intervals."""

from __future__ import annotations

from collections.abc import Callable

from decima.rl.statistics import Estimate


def seconds(value_s: float) -> str:
    """Three digits, with the unit."""
    digits = 2 if value_s < 9.995 else 1 if value_s < 99.95 else 0
    return f"{value_s:,.{digits}f} s"


def figure(estimate: Estimate) -> str:
    """A time with its interval."""
    return _with_interval(estimate, lambda value_s: seconds(value_s).removesuffix(" s"), " s")


def percent(estimate: Estimate) -> str:
    """A difference with its interval."""
    return _with_interval(estimate, _whole, " %")


def share(estimate: Estimate) -> str:
    """A part in percent with its interval; what rounds to nothing has no sign."""
    return _with_interval(estimate, lambda value: str(round(value)), " %")


def _with_interval(estimate: Estimate, digits: Callable[[float], str], unit: str) -> str:
    words = digits(estimate.mean) + unit
    if estimate.ci95 is None:
        return words
    low, high = map(digits, estimate.ci95)
    return f"{words} [{low}, {high}]"


def _whole(value: float) -> str:
    """A signed whole number; what rounds to nothing has no sign."""
    return f"{value:+.0f}" if abs(value) >= 0.5 else "0"


def signed(change: float) -> str:
    """A relative change in whole percent."""
    return f"{_whole(100 * change)} %"
