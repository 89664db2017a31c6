"""`KernelCache`: machine code on disk, checked before it is loaded.

Numba's own cache unpickles its files, which runs any code in them, and does not detect damage. Here
each compiled function is one file, which begins with a digest of the rest. It is loaded only if

* the file and its folder belong to the user and no other user may write to them
(`traces.files.private`), so that no other user can have planted it, and
* the digest matches: truncated and changed files are a miss, and the function is compiled again.

The digest is no signature: a process of the user or of root can write a matching file, but needs no
cache to run code.

Processes that need the same function at the same time, such as the workers of a command, compile it
once: the others wait for its file (`Turns`).
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import logging
import os
import pickle
import sys
import time
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import llvmlite
import numba
from numba.core import caching, compiler, serialize

from spark_sim.compiled.shipped import baseline
from traces.files.private import NotPrivateError, private_folder, read_private, write_private

LOG = logging.getLogger("decima.compiled")
SUFFIX = ".nbc"

# numba's stubs know none of these.
_FunctionCache: Any = caching.FunctionCache
_Compiled: Any = compiler.CompileResult
_dumps: Any = serialize.dumps

_FORMAT = b"decima kernel 1\n"
_DIGEST = hashlib.sha256().digest_size
IMPORTED: Counter[str] = Counter()
"""functions by package; those that were never called are not compiled"""
READY: Counter[str] = Counter()
"""number of those that have been compiled or loaded, for Python or for other kernels"""
MADE_BY = (numba.__version__, llvmlite.__version__, sys.implementation.cache_tag)
"""versions of the compiler"""


class Place(NamedTuple):
    """Place of one function's machine code, and the source that it was compiled from."""

    folder: Path
    name: str
    """prefix of the names of its files"""
    stamp: str
    """digest of its source, where the folder's name does not cover it"""


class KernelCache(_FunctionCache):  # type: ignore[misc]
    """Numba's cache of one function, with files of its own.

    Args:
        function: the one that is compiled.
        place: None keeps nothing.
        package: name of the package that it is counted for.
    """

    def __init__(self, function: Any, place: Place | None, package: str) -> None:
        # Numba's own would choose a folder by itself.
        self._py_func = function
        self._place = place
        self.package = package
        self._is_ready = False
        self._inner: KernelCache | None = None
        IMPORTED[package] += 1
        self.enable()

    def outer(self) -> KernelCache:
        """Return a cache of the same function with the code for calls from Python."""
        place = self._place
        beside = None if place is None else place._replace(name=f"{place.name}-outer")
        cache = KernelCache(self._py_func, beside, self.package)
        IMPORTED[self.package] -= 1
        cache._inner = self
        return cache

    @property
    def cache_path(self) -> str | None:
        """The folder."""
        return None if self._place is None else str(self._place.folder)

    def flush(self) -> None:
        """Remove the cached code of this function."""
        if self._place is not None:
            for path in self._place.folder.glob(f"{self._place.name}.*{SUFFIX}"):
                path.unlink(missing_ok=True)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The machine code for these types, or None, and then it is this process's to compile."""
        target_context.refresh()
        key = self._index_key(sig, target_context.codegen())
        signature, (triple, *_), code = key
        keys = [key]
        common = baseline()
        if common is not None:
            keys.append((signature, (triple, common.processor, ""), code))
        reduced = self._stored(keys)
        path = self._path(key)
        if reduced is None and path is not None and TURNS.wait(path):
            reduced = self._stored(keys)
            if reduced is not None:
                TURNS.end(path)
        if reduced is None:
            return None
        self._count()
        return _Compiled._rebuild(target_context, *reduced)

    def _stored(self, keys: list[Any]) -> Any:
        """Return what is stored of the first of the keys that has a file, or None."""
        for wanted in keys:
            path = self._path(wanted)
            content = None if path is None else _unsealed(read_private(path))
            if content is None:
                continue
            # Only bytes that this program has written: see above.
            stored_key, reduced = pickle.loads(content)  # noqa: S301
            if stored_key == wanted:
                return reduced
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Store machine code; if that fails, the next run compiles again."""
        self._count()
        key = self._index_key(sig, data.codegen)
        path = self._path(key)
        if path is None:
            return
        try:
            if data.library.has_dynamic_globals or any(not part.can_cache for part in data.lifted):
                return
            content = _dumps((key, data._reduce()))
            write_private(path, _FORMAT + hashlib.sha256(content).digest() + content)
        except OSError as fault:
            warn_once(f"{path.parent}: cannot write: {fault.strerror}")
        finally:
            TURNS.end(path)

    def _count(self) -> None:
        if self._inner is not None:
            self._inner._count()
        elif not self._is_ready:
            self._is_ready = True
            READY[self.package] += 1

    def _path(self, key: Any) -> Path | None:
        """Return the file of this key; None without a trusted folder."""
        if not self._enabled or self._place is None:
            return None
        folder = trusted_folder(self._place.folder)
        if folder is None:
            return None
        text = repr((key, self._place.stamp, MADE_BY))
        digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        return folder / f"{self._place.name}.{digest}{SUFFIX}"


class Turns:
    """Turns of the processes of this user at compiling a function.

    A turn is a lock on one byte of a file beside the code, which ends with the process at the
    latest. Functions call each other in no circle, so no two processes wait for each other.
    """

    _MOST_S = 300.0  # then the other process is taken for stuck
    _EVERY_S = 0.05

    def __init__(self) -> None:
        self._files: dict[Path, int] = {}  # open for good: closing one would end all its locks

    def wait(self, path: Path) -> bool:
        """Take the turn for the file of a function; return whether another process had it."""
        has_waited = False
        last_s = time.monotonic() + self._MOST_S
        try:
            file = self._file(path.parent)
            while True:
                try:
                    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _byte(path))
                    break
                except (BlockingIOError, PermissionError):
                    if time.monotonic() > last_s:
                        break
                    has_waited = True
                    time.sleep(self._EVERY_S)
        except OSError:  # a file system without locks: compile at once
            pass
        return has_waited

    def end(self, path: Path) -> None:
        """Let another process have the turn."""
        with contextlib.suppress(OSError):
            fcntl.lockf(self._file(path.parent), fcntl.LOCK_UN, 1, _byte(path))

    def _file(self, folder: Path) -> int:
        if folder not in self._files:
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            self._files[folder] = os.open(folder / "turns", flags, 0o600)
        return self._files[folder]


TURNS = Turns()


def _byte(path: Path) -> int:
    """Return the byte of `turns` that stands for a file."""
    return int.from_bytes(hashlib.sha256(path.name.encode()).digest()[:4], "big")


@cache
def trusted_folder(path: Path) -> Path | None:
    """Return the folder, created if missing; None, with a warning, if others may have written to
    it.

    Returns:
        its path without links.
    """
    try:
        return private_folder(path)
    except NotPrivateError as fault:
        warn_once(str(fault))
        return None


@cache
def warn_once(fault: str) -> None:
    """Warn why compiled code is not cached, once, however many functions are compiled."""
    LOG.warning("%s; compiled code is not cached there, so each run compiles again", fault)


def _unsealed(sealed: bytes | None) -> bytes | None:
    """Return the sealed content, or None: nothing there, another format, or damaged."""
    begin = len(_FORMAT) + _DIGEST
    if sealed is None or not sealed.startswith(_FORMAT):
        return None
    content = sealed[begin:]
    return content if hashlib.sha256(content).digest() == sealed[len(_FORMAT) : begin] else None
