"""`KernelCache`: machine code on the disk, checked before it is loaded.

Numba's own cache unpickles what it finds, which runs whatever code is in it, and takes a damaged
file as it is. Here each compiled function is one file, which begins with a digest of all that
follows. It is loaded only if

* its folder and it belong to the user and nobody else may write to them (`traces.files.private`),
  so that no other user can have planted it, and
* the digest fits, so that it is what was written: truncated and changed files are a miss, and the
  function is compiled anew.

The digest is no signature. Whoever can write as the user, or as root, can write a file that fits,
but needs no cache to run code.
"""

from __future__ import annotations

import hashlib
import logging
import pickle
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import llvmlite
import numba
from numba.core import caching, compiler, serialize

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
"""functions by package; those that no other has called yet are not compiled"""
READY: Counter[str] = Counter()
"""those of them that have been compiled or loaded"""
MADE_BY = (numba.__version__, llvmlite.__version__, sys.implementation.cache_tag)
"""versions of the compiler"""


class Place(NamedTuple):
    """Place of one function's machine code, and the source that it was compiled from."""

    folder: Path
    name: str
    """begins the names of its files"""
    stamp: str
    """stands for its source, where the folder's name does not"""


class KernelCache(_FunctionCache):  # type: ignore[misc]
    """Numba's cache of one function, with files of its own.

    Args:
        function: the one that is compiled.
        place: None keeps nothing.
        package: name of the package that it is counted for.
    """

    def __init__(self, function: Any, place: Place | None, package: str) -> None:
        # Not numba's: that would look for a place by itself.
        self._py_func = function
        self._place = place
        self.package = package
        self._is_ready = False
        IMPORTED[package] += 1
        self.enable()

    @property
    def cache_path(self) -> str | None:
        """The folder."""
        return None if self._place is None else str(self._place.folder)

    def flush(self) -> None:
        """Forget what is kept of this function."""
        if self._place is not None:
            for path in self._place.folder.glob(f"{self._place.name}.*{SUFFIX}"):
                path.unlink(missing_ok=True)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The machine code for these types, or None."""
        target_context.refresh()
        key = self._index_key(sig, target_context.codegen())
        for path in self._paths(key):
            content = _unsealed(read_private(path))
            if content is None:
                return None
            # No more than this program has written itself: see above.
            kept, found = pickle.loads(content)  # noqa: S301
            if kept == key:
                self._count()
                return _Compiled._rebuild(target_context, *found)
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep machine code; what cannot be written costs the next run a compilation."""
        self._count()
        if data.library.has_dynamic_globals or any(not one.can_cache for one in data.lifted):
            return
        key = self._index_key(sig, data.codegen)
        for path in self._paths(key):
            try:
                write_private(path, _sealed(_dumps((key, data._reduce()))))
            except OSError as fault:
                warn_once(f"{path.parent}: cannot write: {fault.strerror}")

    def _count(self) -> None:
        if not self._is_ready:
            self._is_ready = True
            READY[self.package] += 1

    def _paths(self, key: Any) -> Iterator[Path]:
        """The file of this key, if there is a folder that can be trusted."""
        if not self._enabled or self._place is None:
            return
        folder = trusted_folder(self._place.folder)
        if folder is not None:
            text = repr((key, self._place.stamp, MADE_BY))
            digest = hashlib.sha256(text.encode()).hexdigest()[:16]
            yield folder / f"{self._place.name}.{digest}{SUFFIX}"


@cache
def trusted_folder(path: Path) -> Path | None:
    """The folder, made if it is not there; None, with a warning, if others may have written to it.

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
    LOG.warning("%s; compiled code is not kept there, so each run compiles anew", fault)


def _sealed(content: bytes) -> bytes:
    return _FORMAT + hashlib.sha256(content).digest() + content


def _unsealed(found: bytes | None) -> bytes | None:
    """Return the sealed content, or None: nothing there, another format, or damaged."""
    begin = len(_FORMAT) + _DIGEST
    if found is None or not found.startswith(_FORMAT):
        return None
    content = found[begin:]
    return content if hashlib.sha256(content).digest() == found[len(_FORMAT) : begin] else None
