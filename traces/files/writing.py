"""Files that appear whole or not at all, and folders for them."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from traces.files.errors import FileError, reason

PARTIAL_SUFFIX = ".partial"
"""ends the name of a file that is being written; that name is hidden and cannot be guessed"""


@contextlib.contextmanager
def written_whole(path: Path, error: type[ValueError] = FileError) -> Iterator[BinaryIO]:
    """Give a file to write to, which takes the place of `path` in one step at the end.

    Whoever looks sees the old file or the new one. The data is on the disk before the name changes,
    so a power cut leaves one of the two as well. If anything fails, `path` stays as it was.
    What is written to is made anew beside `path`, under a name that nobody can have prepared, and
    is given over open: no link is followed on the way. Its permissions are those of a file that a
    plain write makes, or those of the file that it replaces.

    Args:
        path: where the file is to appear; a link there is replaced, not followed.
        error: raised where writing fails.

    Raises:
        FileError: (or `error`) the file cannot be written.
    """
    partial = path.with_name(f".{secrets.token_hex(8)}{PARTIAL_SUFFIX}")
    try:
        with _made(partial, path) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
        _sync_folder(path.parent)
    except OSError as fault:
        kept = "; the previous file is unchanged" if path.is_file() else ""
        raise error(f"{path}: cannot write: {reason(fault)}{kept}") from fault
    finally:
        with contextlib.suppress(OSError):  # it has become `path`, or was never made
            partial.unlink()


def write_whole(path: Path, data: bytes, error: type[ValueError] = FileError) -> None:
    """Put `data` in the place of `path`, as `written_whole` does."""
    with written_whole(path, error) as file:
        file.write(data)


def write_json(
    path: Path, content: object, error: type[ValueError] = FileError, indent: int | None = 2
) -> None:
    """Put `content` as JSON in the place of `path`, as `written_whole` does."""
    write_whole(path, json.dumps(content, indent=indent).encode() + b"\n", error)


def make_folder(path: Path, error: type[ValueError] = FileError) -> None:
    """Make a folder, and those above it, where there is none.

    Raises:
        FileError: (or `error`) it cannot be made.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as fault:
        raise error(f"{path}: cannot make the folder: {reason(fault)}") from fault


def append(path: Path, record: bytes, error: type[ValueError] = FileError) -> None:
    """Add a record at the end of a file; it is handed to the system before this returns.

    Raises:
        FileError: (or `error`) it cannot be written, or `path` is a link; a part of the record may
            stand at its end.
    """
    try:
        with open_to_append(path) as file:
            file.write(record)
    except OSError as fault:
        raise error(f"{path}: cannot write: {reason(fault)}") from fault


def open_to_append(path: Path, *, mode: int = 0o666) -> BinaryIO:
    """A file to add many records to, made where there is none; for a record now and then `append`.

    Args:
        path: where it is.
        mode: of the file where it is made.

    Raises:
        OSError: it cannot be written, or `path` is a link.
    """
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    return open(os.open(path, flags, mode), "ab")


def _made(partial: Path, path: Path) -> BinaryIO:
    """A new file with the permissions that `path` has, or would get."""
    with contextlib.suppress(FileNotFoundError):
        mode = path.lstat().st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISLNK(mode)):
            # To replace a device or a pipe is never meant: as root, it would break the machine.
            raise OSError("neither a file nor a free name")
        return _opened(partial, stat.S_IMODE(mode) if stat.S_ISREG(mode) else None)
    return _opened(partial, None)


def _opened(partial: Path, mode: int | None) -> BinaryIO:
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    file = open(os.open(partial, flags, 0o666), "w+b")  # noqa: SIM115 -- the caller closes it
    if mode is not None:
        with contextlib.suppress(PermissionError):
            os.fchmod(file.fileno(), mode)
    return file


def _sync_folder(folder: Path) -> None:
    """Put the new name itself on the disk; some file systems cannot, and need not."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
