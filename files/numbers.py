"""Which values of a file are numbers to count and to calculate with."""

from __future__ import annotations

import sys
from typing import TypeGuard

MAX_COUNT = 2**63 - 1
"""the largest whole number of 64 bits"""
MAX_TIME_MS = 2**53
"""milliseconds from 0 that a float64 resolves to a millisecond: 285,000 years"""


def is_number(value: object) -> TypeGuard[float]:
    """Whether it is a finite number; one that no float can hold is none, nor is true or false."""
    # Compared, not converted: to convert a whole number of 400 digits is an error.
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and abs(value) <= sys.float_info.max
    )


def is_count(value: object, most: int = MAX_COUNT) -> TypeGuard[int]:
    """Whether it is a whole number from 0 to `most`; 3.0 is none, nor is true."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most
