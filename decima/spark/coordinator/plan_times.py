"""Times of a coordinator's plans."""

from __future__ import annotations

import time
from collections import deque

import numpy as np

_TIMES = 1_000
_RATE_S = 10.0


class PlanTimes:
    """Times of the newest plans."""

    def __init__(self) -> None:
        self.count = 0
        self.began_s = time.monotonic()
        self._took_s: deque[float] = deque(maxlen=_TIMES)
        self._at_s: deque[float] = deque(maxlen=_TIMES)

    def note(self, took_s: float) -> None:
        """A plan was made."""
        self.count += 1
        self._took_s.append(took_s)
        self._at_s.append(time.monotonic())

    def quantile_s(self, part: float) -> float:
        """Return a quantile of the time of a plan, 0 before the first."""
        return float(np.quantile(list(self._took_s), part)) if self._took_s else 0.0

    def per_s(self) -> float:
        """Return the number of plans per second, over the last seconds."""
        begin_s = time.monotonic() - _RATE_S
        return sum(at_s > begin_s for at_s in list(self._at_s)) / _RATE_S
