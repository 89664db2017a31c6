"""One scheduler for each SparkContext, one that only watches included.

The log of a watching scheduler records Spark's own choices, which another scheduler would change.
"""

from __future__ import annotations

import threading
from typing import Any
from weakref import WeakKeyDictionary

from decima.spark.errors import AttachError

_LOCK = threading.Lock()
_CLAIMED: WeakKeyDictionary[Any, object] = WeakKeyDictionary()


class Claim:
    """Claim of one scheduler on a SparkContext."""

    def __init__(self, context: Any) -> None:
        self._context = context
        # Not itself, which would keep the context alive.
        self._token = object()

    def take(self) -> None:
        """Have it.

        Raises:
            AttachError: another has.
        """
        with _LOCK:
            if _CLAIMED.setdefault(self._context, self._token) is not self._token:
                raise AttachError("a scheduler is attached to this SparkContext already")

    def release(self) -> None:
        """Release the claim; without one this has no effect."""
        with _LOCK:
            if _CLAIMED.get(self._context) is self._token:
                del _CLAIMED[self._context]
