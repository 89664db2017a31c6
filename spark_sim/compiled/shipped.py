"""Machine code that comes with a wheel, so that an installed wheel answers without compiling.

It is for a baseline that most processors of an architecture have, and is used only where sources
and versions of Python, numba and llvmlite are those that it was compiled from: the names of
archives and of the files in them say so. `decima.prepare.ship_kernels` makes the archives. Write
access to the archives is write access to the package. Once unpacked into the user's cache, the
files are checked as those that were compiled there.
"""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import sys
import tarfile
import tempfile
from functools import cache
from lzma import LZMAError
from pathlib import Path
from typing import NamedTuple

from llvmlite import binding

from traces.files.private import NotPrivateError, private_folder, write_private

ARCHIVES = Path(__file__).parent / "data"


class Baseline(NamedTuple):
    """A processor that code is compiled for."""

    processor: str
    """LLVM's name"""
    features: frozenset[str]
    """features of the processor beyond the architecture's oldest, by LLVM's names"""


BASELINES = {
    "x86_64": Baseline(  # of 2013 (Haswell) and later
        "x86-64-v3",
        frozenset(
            {"avx", "avx2", "bmi", "bmi2", "cx16", "f16c", "fma", "lzcnt", "movbe", "popcnt"}
            | {"sahf", "sse3", "sse4.1", "sse4.2", "ssse3", "xsave"}
        ),
    ),
    "aarch64": Baseline("generic", frozenset()),
}
"""by `platform.machine()`"""


@cache
def baseline() -> Baseline | None:
    """The baseline of this machine's architecture; None if its processor is older, or unknown."""
    known = BASELINES.get(platform.machine())
    if known is None:
        return None
    has = {name for name, is_there in binding.get_host_cpu_features().items() if is_there}
    return known if known.features <= has else None


def archive_of(folder: Path, made_for: Baseline) -> Path:
    """Path of the archive of a cache folder, whose name covers the sources and numba."""
    name = folder.name.removeprefix("decima-")  # with NUMBA_CACHE_DIR
    platform_tag = f"{made_for.processor}-{sys.platform}-{sys.implementation.cache_tag}"
    return ARCHIVES / f"{name}-{platform_tag}.tar.xz"


def pack(folder: Path, archive: Path) -> None:
    """Write the files of a cache folder to an archive."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(archive, "w:xz") as tar:
        for path in sorted(folder.rglob("*.nbc")):
            tar.add(path, path.relative_to(folder))


def unpack_once(folder: Path) -> None:
    """Make a cache folder from its archive, if there is one and the folder is missing."""
    # Most processes need no look at the processor.
    if not ARCHIVES.is_dir() or folder.exists() or (made_for := baseline()) is None:
        return
    archive = archive_of(folder, made_for)
    if not archive.is_file():
        return
    # A cache that cannot be written, or a damaged archive: kernels are compiled, as without one.
    with contextlib.suppress(OSError, EOFError, NotPrivateError, LZMAError, tarfile.TarError):
        parent = private_folder(folder.parent)
        whole = Path(tempfile.mkdtemp(prefix=f"{folder.name}.", dir=parent))
        try:
            with tarfile.open(archive, "r:xz") as tar:
                for member in tar:
                    path, content = whole / member.name, tar.extractfile(member)
                    if content is not None and path.is_relative_to(whole):
                        private_folder(path.parent)
                        write_private(path, content.read())
            os.replace(whole, folder)
        finally:  # of a failure, or another process was first
            shutil.rmtree(whole, ignore_errors=True)
