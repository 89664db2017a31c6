"""Damage to JSON, for tests that no reader ends in a traceback."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

JUNK: tuple[Any, ...] = (
    None, True, "", "x", [], {}, [None], [[]], [1, 2], {"id": 3},
    -1, 0.5, 1e300, float("nan"), 2**64, -(2**70), 10**400, "\ud800", "\x1b[31m\n",
)  # fmt: skip


def damaged(value: Any, pick: Callable[[int], int]) -> Any:
    """A copy of `value` with one part of it, found by walking down, replaced or gone.

    Args:
        value: a list or an object.
        pick: draws a number from 0 up to its argument, which is left out.
    """
    place = copy = json.loads(json.dumps(value))
    while True:
        keys = sorted(place) if isinstance(place, dict) else range(len(place))
        key = keys[pick(len(keys))]
        below = place[key]
        if not isinstance(below, dict | list) or not below or pick(7) == 0:
            break
        place = below
    if pick(5) == 0:
        del place[key]
    else:
        place[key] = JUNK[pick(len(JUNK))]
    return copy


@contextmanager
def read_or_refused(*kinds: type[Exception]) -> Iterator[None]:
    """Some damage goes unnoticed; for the rest there is one line that any terminal shows."""
    try:
        yield
    except kinds as error:
        text = str(error)
        assert "\n" not in text
        assert "codec can't" not in text
