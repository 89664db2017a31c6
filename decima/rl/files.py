"""Files that appear whole or not at all, and files that grow by whole records."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from decima.rl.errors import RunError

PARTIAL_SUFFIX = ".partial"


def write_whole(path: Path, data: bytes) -> None:
    """Put `data` in the place of `path` in one step: whoever looks sees the old file or the new.

    The data is on the disk before the name changes, so a power cut leaves one of the two as well.

    Raises:
        RunError: the file cannot be written; what was there is unchanged.
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}{PARTIAL_SUFFIX}")
    try:
        with partial.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except OSError as error:
        kept = "; the previous file is unchanged" if path.exists() else ""
        raise RunError(f"{path}: cannot write: {error.strerror or error}{kept}") from error
    finally:
        with contextlib.suppress(OSError):  # it has become `path`, or was never made
            partial.unlink()


def append(path: Path, record: bytes) -> None:
    """Add a record at the end of a file; it is handed to the system before this returns.

    Raises:
        RunError: the file cannot be written; a part of the record may stand at its end.
    """
    try:
        with path.open("ab") as file:
            file.write(record)
    except OSError as error:
        raise RunError(f"{path}: cannot write: {error.strerror or error}") from error


def read(path: Path) -> bytes:
    """The content of a file.

    Raises:
        RunError: it cannot be read.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise RunError(f"{path}: cannot read: {error.strerror or error}") from error
