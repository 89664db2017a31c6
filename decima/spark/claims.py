"""One scheduler for each SparkContext, one that only watches included.

The log of one that watches says what Spark did by itself, which would be false beside another.
"""

from __future__ import annotations

import threading
from typing import Any
from weakref import WeakSet

from decima.spark.errors import AttachError

_LOCK = threading.Lock()
_CLAIMED: WeakSet[Any] = WeakSet()


def claim(context: Any) -> None:
    """Take a SparkContext for a scheduler.

    Raises:
        AttachError: another has it.
    """
    with _LOCK:
        if context in _CLAIMED:
            raise AttachError("a scheduler is attached to this SparkContext already")
        _CLAIMED.add(context)


def release(context: Any) -> None:
    """Leave it to the next."""
    with _LOCK:
        _CLAIMED.discard(context)
