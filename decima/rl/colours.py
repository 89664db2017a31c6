"""Distinguishable colours for many things."""

from __future__ import annotations

import colorsys

_GOLDEN = 0.618034
"""turn of hue from number to number: neighbours differ and colours repeat late"""


def job_colour(number: int) -> tuple[float, float, float]:
    """Red, green and blue in 0..1 of a job; black text is readable on it."""
    # Hues return after 13 numbers, nearly: three levels of light part those.
    return colorsys.hls_to_rgb(number * _GOLDEN % 1.0, 0.58 + 0.1 * (number % 3), 0.7)
