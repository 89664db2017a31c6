"""Private folders and files, which no other user can have written, for caches of code.

Cached code is run unchecked, so write access to a cache is access to the user's account. A folder
is trusted if it and all folders above it belong to the user (or to root), and no other user may
write there. A folder with the sticky bit, such as ``/tmp``, may lie above, as users cannot replace
each other's files in it. Links are resolved first, and their targets are checked.
"""

from __future__ import annotations

import contextlib
import grp
import os
import pwd
import stat
import tempfile
from pathlib import Path

from traces.files.errors import FileError, reason

_FOLDER_MODE = 0o700
_SHORTEST_SECRET = 16  # bytes
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


class NotPrivateError(FileError):
    """Error of a folder that cannot be trusted or created; one line."""


def private_folder(path: Path) -> Path:
    """Create a folder and its missing parents, for the user alone; return its path without links.

    NotPrivateError if it cannot be made, or others may write to it or replace a folder above it.
    """
    try:
        last = path.resolve()
        for folder in (*reversed(last.parents), last):
            with contextlib.suppress(FileExistsError):
                if not folder.exists():
                    folder.mkdir(_FOLDER_MODE)
            status = folder.lstat()
            if not stat.S_ISDIR(status.st_mode):
                raise NotADirectoryError(20, "not a folder", str(folder))
            is_sticky = bool(status.st_mode & stat.S_ISVTX) and folder != last
            fault = fault_of(status)
            if fault is not None and not (is_sticky and status.st_uid in _trusted()):
                raise NotPrivateError(f"{folder}: {fault}")
    except (OSError, RuntimeError) as problem:  # RuntimeError: links in a circle
        words = reason(problem) if isinstance(problem, OSError) else str(problem)
        raise NotPrivateError(f"{path}: cannot make the folder: {words}") from problem
    return last


def read_private(path: Path) -> bytes | None:
    """Return a file's content; None if it is missing, a link, or others may have written it."""
    try:
        # O_NONBLOCK: a pipe would wait for a writer.
        number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(number, "rb") as file:
            # Checked on the open file: the name may mean another file by now.
            if fault_of(os.fstat(number)) is not None or not stat.S_ISREG(os.fstat(number).st_mode):
                return None
            return file.read()
    except OSError:
        return None


def read_secret(path: Path, error: type[ValueError] = FileError) -> bytes:
    """Return the secret in a file that no other user may read; `error` if there is none."""
    content = read_private(path)
    if content is None or path.stat().st_mode & 0o077:
        raise error(f"{path}: a file of yours is needed that no other user may read (mode 0600)")
    secret = content.strip()
    if len(secret) < _SHORTEST_SECRET:
        raise error(f"{path}: a secret of {_SHORTEST_SECRET} bytes or more is needed")
    return secret


def write_private(path: Path, content: bytes) -> None:
    """Put a file for the user alone in the place of `path` in one step, or raise OSError."""
    number, name = tempfile.mkstemp(prefix=".", dir=path.parent)  # mode 0600
    try:
        with open(number, "wb") as file:
            file.write(content)
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


def open_private_log(path: Path) -> int:
    """Return the descriptor of a file for the user alone, to append to; raise OSError.

    A pipe, a device or a link is refused before anything of it changes.
    """
    # O_NONBLOCK: a pipe would wait for a reader.
    how = os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with contextlib.suppress(FileNotFoundError):
        _check_log(path.lstat())  # opening a device may do something already
    number = os.open(path, os.O_WRONLY | how, 0o600)
    try:
        _check_log(os.fstat(number))
        os.fchmod(number, 0o600)
    except BaseException:
        os.close(number)
        raise
    return number


def _check_log(status: os.stat_result) -> None:
    """Refuse (OSError) what is neither a file nor a link, which is not opened."""
    if not (stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode)):
        raise OSError("not a regular file")


def fault_of(status: os.stat_result) -> str | None:
    """Explain why these owners and permissions let others write; None if they do not."""
    if status.st_uid not in _trusted():
        name = str(status.st_uid)
        with contextlib.suppress(KeyError):
            name = pwd.getpwuid(status.st_uid).pw_name
        return f"belongs to another user ({name})"
    loose = status.st_mode & _WRITABLE_BY_OTHERS
    if loose == stat.S_IWGRP and _is_own_group(status.st_gid):
        return None
    return "others may write to it" if loose else None


def _trusted() -> set[int]:
    """Return the user's id, and those with all rights: root and (in a container) the owner of /."""
    return {os.geteuid(), 0, os.stat("/").st_uid}


def _is_own_group(group: int) -> bool:
    """Return whether the group is the user's private one, which may safely write."""
    try:
        user = pwd.getpwuid(os.geteuid()).pw_name
        entry = grp.getgrgid(group)
    except KeyError:
        return False
    return entry.gr_name == user and set(entry.gr_mem) <= {user}
