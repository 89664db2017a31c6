"""Bounds of live Spark's settings, their checks, and the error that they raise.

`decima.spark.jar.shared` hands the bounds to Java.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

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


class AttachError(ValueError):
    """Error of a session or Spark version that cannot be scheduled; one line with the remedy."""


def missing(package: str) -> AttachError:
    """Return the error of a package of the extra that is not installed."""
    return AttachError(f"{package} is not installed: pip install 'decima-scheduler[spark]'")


@dataclass(frozen=True)
class Guard:
    """Bounds on a policy's time and failures; AttachError for one that makes no sense."""

    decision_s: float = 0.5
    """a round of decisions of a policy in Python may take so long"""
    starve_s: float = 60.0
    """a job with a task to start that has held no slot for so long is served first"""
    idle_s: float = 5.0
    """so long slots may stand idle, more than under strict fair, beside tasks that its plans keep
    from starting"""
    failures: int = 5
    """after so many in a row the scheduler detaches; with policy "auto", Spark's order returns
    until the next verdict
    """

    def __post_init__(self) -> None:
        for name in ("decision", "starve", "idle"):
            check_within(f"guard: {name}_s", getattr(self, f"{name}_s"), *TIMES_S[name])
        check_count("guard: failures", self.failures, 1)


# Values come from callers: any object may be one. NaN fails each comparison.


def check_above_zero(name: str, value: Any) -> None:
    """Raise AttachError if it is no number above 0."""
    if not _is(Real, value) or not value > 0:
        raise AttachError(f"{name} must be a number above 0, got {value!r}")


def check_within(name: str, value: Any, least: float, most: float) -> None:
    """Raise AttachError if it is no number from `least` to `most`."""
    if not _is(Real, value) or not least <= value <= most:
        raise AttachError(f"{name} must be a number from {least:g} to {most:,g}, got {value!r}")


def check_count(name: str, value: Any, least: int) -> None:
    """Raise AttachError if it is no whole number of `least` or more that the JVM can hold."""
    if not _is(Integral, value) or not value >= least:
        raise AttachError(f"{name} must be a whole number of {least} or more, got {value!r}")
    if value > _MOST_COUNT:
        raise AttachError(f"{name} must be at most {_MOST_COUNT:,}, got {value!r}")


def check_port(name: str, port: Any) -> None:
    """Raise AttachError if it is neither a port nor None."""
    if port is not None and not (_is(int, port) and 0 <= port <= 65_535):
        raise AttachError(f"{name} port {port!r}: ports are whole numbers from 0 to 65535")


def _is(kind: type, value: object) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)
