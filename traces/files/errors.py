"""The error of this package, and the system's messages."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class FileError(ValueError):
    """Error of a file that cannot be read or written, or has other content; one line."""


def reason(error: OSError) -> str:
    """Return the system's message without number and path."""
    return error.strerror or str(error)


def place_and_reason(error: OSError) -> str:
    """Return the system's message, after the path if it has one."""
    where = "" if error.filename is None else f"{error.filename}: "
    return f"{where}{reason(error)}"


@contextmanager
def reading(path: object, error: type[ValueError] = FileError) -> Iterator[None]:
    """Raise `error`, which names the path, where the system cannot read it."""
    try:
        yield
    except OSError as fault:
        raise error(f"{path}: cannot read: {reason(fault)}") from fault
