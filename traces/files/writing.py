"""Files that appear whole or not at all, and folders for them."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from traces.files.errors import FileError, reason

PARTIAL_SUFFIX = ".partial"  # suffix of a file that is being written; its name is hidden and random


@contextlib.contextmanager
def written_whole(path: Path, error: type[ValueError] = FileError) -> Iterator[BinaryIO]:
    """Give a file to write to, which takes the place of `path` in one step at the end.

    Readers see the old file or the new one. The data is on disk before the name changes, so a power
    cut leaves one of the two as well. If anything fails, `path` is unchanged. The new file is
    created beside `path` under a random name and passed on open, so no link is followed: one at
    `path` is replaced. Its permissions are those of a plainly written file, or of the file that it
    replaces.
    """
    partial = path.with_name(f".{secrets.token_hex(8)}{PARTIAL_SUFFIX}")
    try:
        with _made(partial, path) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
        with contextlib.suppress(OSError):  # some file systems cannot, and need not
            folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
    except OSError as fault:
        unchanged = "; the previous file is unchanged" if path.is_file() else ""
        raise error(f"{path}: cannot write: {reason(fault)}{unchanged}") from fault
    finally:
        with contextlib.suppress(OSError):  # it has become `path`, or was never made
            partial.unlink()


def check_output(path: Path, error: type[ValueError] = FileError) -> None:
    """Refuse a path at which no file can be written, before the work whose result it is for."""
    if "\0" in str(path):
        raise error(f"{str(path)!r:.200}: cannot write: no file has such a name")
    try:
        if not path.parent.is_dir():
            raise error(f"{path}: cannot write: there is no folder {path.parent}")
        _check_replaceable(path)
        # Permissions are not enough: a folder may be full, read-only or not accept files.
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as fault:
        raise error(f"{path}: cannot write: {reason(fault)}") from fault


def check_output_folder(path: Path, error: type[ValueError] = FileError) -> None:
    """Refuse a path at which no folder can be made, or that is none; nothing is made."""
    if "\0" in str(path):
        raise error(f"{str(path)!r:.200}: cannot write: no folder has such a name")
    if path.is_symlink() and not path.exists():
        raise error(f"{path}: cannot write: a link that leads nowhere")
    absolute = path.absolute()
    parent = next(folder for folder in (absolute, *absolute.parents) if folder.exists())
    if not parent.is_dir():
        raise error(f"{path}: cannot write: {parent} is no folder")
    try:
        with tempfile.TemporaryFile(dir=parent):
            pass
    except OSError as fault:
        raise error(f"{path}: cannot write: {reason(fault)}") from fault


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
    """Make a folder, and those above it, where there is none."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as fault:
        raise error(f"{path}: cannot make the folder: {reason(fault)}") from fault


def append(path: Path, record: bytes, error: type[ValueError] = FileError) -> None:
    """Add a record at the end of a file that is no link; an error may leave a part of it there."""
    try:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        _check_replaceable(path)
        with open(os.open(path, flags, 0o666), "ab") as file:
            file.write(record)
    except OSError as fault:
        raise error(f"{path}: cannot write: {reason(fault)}") from fault


def _made(partial: Path, path: Path) -> BinaryIO:
    """A new file with the permissions that `path` has, or would get."""
    _check_replaceable(path)
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    file = open(os.open(partial, flags, 0o666), "w+b")  # noqa: SIM115 -- the caller closes it
    with contextlib.suppress(FileNotFoundError, PermissionError):
        mode = path.lstat().st_mode
        if stat.S_ISREG(mode):
            os.fchmod(file.fileno(), stat.S_IMODE(mode))
    return file


def _check_replaceable(path: Path) -> None:
    """Refuse (OSError) what is there and no regular file, also behind a link such as /dev/stdout.

    As root, to replace a device breaks the machine, and so do other permissions of it.
    """
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISREG(path.stat().st_mode):
            raise OSError("neither a regular file nor a free name")
