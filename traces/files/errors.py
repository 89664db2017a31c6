"""The error of this package, and the system's messages."""

from __future__ import annotations


class FileError(ValueError):
    """Error of a file that cannot be read or written, or has other content; one line."""


def reason(error: OSError) -> str:
    """Return the system's message without number and path."""
    return error.strerror or str(error)


def place_and_reason(error: OSError) -> str:
    """Return the system's message, after the path if it has one."""
    where = "" if error.filename is None else f"{error.filename}: "
    return f"{where}{reason(error)}"
