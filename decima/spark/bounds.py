"""Bounds of live Spark's settings, which Python and the jar both check, and the checks of numbers.

`decima.spark.jar.shared` hands the bounds to Java.
"""

from __future__ import annotations

from numbers import Integral, Real

from decima.spark.errors import AttachError

_WEEK_S = 7 * 86_400.0
TIMES_S = {
    "lapse": (0.1, 3_600.0),
    "hold": (0.0, 60.0),
    "decision": (0.001, 600.0),
    "starve": (0.1, _WEEK_S),
    "idle": (0.1, _WEEK_S),
    "autoEvery": (1.0, _WEEK_S),
    "coordinatorPatience": (1.0, _WEEK_S),
}
"""least and most of each time, by the plugin's setting; beyond lies a typo"""
READY_S = 0.0, _WEEK_S
WEIGHTS = 1e-6, 1e6
"""least and most weight of an application, user or queue"""
MOST_JOBS = 300
"""jobs of a session that policy "auto" simulates, the newest"""
LOG_FORMAT, LOG_VERSION = "decima-decisions", 3
"""of the decision log; since version 3, a job that goes on after its end has a row for each end"""
_MOST_COUNT = 2**31 - 1


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
    if value > _MOST_COUNT:  # type: ignore[operator]
        raise AttachError(f"{name} must be at most {_MOST_COUNT:,}, got {value!r}")


def check_port(name: str, port: object) -> None:
    """Raises:
    AttachError: it is neither a port nor None.
    """
    is_port = isinstance(port, int) and not isinstance(port, bool) and 0 <= port <= 65_535
    if port is not None and not is_port:
        raise AttachError(f"{name} port {port!r}: ports are whole numbers from 0 to 65535")


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)
