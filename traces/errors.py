"""Errors of damaged or invalid traces."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class TraceError(ValueError):
    """Error of a trace, or of its file, that breaks a rule.

    Every reader and writer raises it. The message is one line: where the fault is, the value found,
    the rule broken.
    """


class DamageError(Exception):
    """Error of unreadable data in a log; the reader counts it and continues with the rest."""


@contextmanager
def located(where: object) -> Iterator[None]:
    """Begin the message of a TraceError of the block with the place that it is about."""
    try:
        yield
    except TraceError as error:
        raise TraceError(f"{where}: {error}") from error
