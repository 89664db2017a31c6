"""One archive for executors: this package and what it needs to run, as it is installed here.

The files of the installed distributions are copied as pip has recorded them; nothing is downloaded
or built, so executors run the very code and libraries of the driver. Of the extras those go along
that tasks may need (torch for trainings) and that are installed; Spark itself, documentation and
tests stay out. The archive unpacks to a virtual
environment; its Python is a link to one that every host must have.
"""

from __future__ import annotations

import importlib.metadata
import platform
import sys
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from importlib.metadata import Distribution, PackageNotFoundError
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import decima_packages
from decima.rl.parallel.errors import ClusterError
from traces.files import writing
from traces.files.writing import written_whole

NAME = "decima-scheduler"
_EXTRAS = ("train", "gym", "plots")
"""extras of ours whose libraries tasks may import"""
SUFFIXES = (".tar.gz", ".tgz")
_PACKAGES = (*decima_packages.NEEDS["decima"], "decima")
_ROOT = Path(__file__).resolve().parents[3]
_LEVEL = 4
"""of compression: one more saves 1 % and takes a quarter longer"""
_UNUSED = (
    "../*",  # programs; executors start none
    "*/tests/*",
    "*/test/*",
    "*/include/*",
    "*.a",
    "torch/bin/*est*",
    "torch/bin/protoc*",
    "torch/share/*",
    "*/direct_url.json",
    "*/RECORD",
)
"""what no run reads, of any distribution: half of the files"""


@dataclass(frozen=True)
class Packed:
    """Contents of an archive."""

    path: Path
    num_bytes: int
    distributions: tuple[str, ...]
    """name and version of each"""
    python: Path
    """what `bin/python` of the archive is a link to"""


class _File(NamedTuple):
    source: Path
    target: str
    """below site-packages"""


def check_output(path: Path) -> None:
    """Raise ClusterError unless the suffix is one that Spark unpacks and there is a folder."""
    if not path.name.endswith(SUFFIXES):
        raise ClusterError(f"{path}: an archive ends in {' or '.join(SUFFIXES)}")
    writing.check_output(path, ClusterError)


def pack(
    path: Path, python: Path | None = None, progress: Callable[[int, int], None] | None = None
) -> Packed:
    """Write the archive, whole or not at all.

    `python` is one of this version that every host has; None takes the path of this one. `progress`
    is called with (files packed, files in all). Raises ClusterError if the file cannot be written,
    or if a requirement is not installed.
    """
    check_output(path)
    distributions = list(_runtime(NAME))
    files = [file for distribution in distributions for file in _files_of(distribution)]
    # The code that runs here, wherever it lies.
    module = Path(decima_packages.__file__)
    files.append(_File(module, module.name))
    for package in _PACKAGES:
        sources = sorted((_ROOT / package).rglob("*"))
        files += [
            _File(source, str(source.relative_to(_ROOT)))
            for source in sources
            if source.is_file() and "__pycache__" not in source.parts
        ]
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    base = Path(sys.base_prefix) / "bin" / version if python is None else python
    if python is None and not base.exists():
        base = Path(sys.executable).resolve()
    with written_whole(path, ClusterError) as stream:
        with tarfile.open(fileobj=stream, mode="w:gz", compresslevel=_LEVEL) as archive:
            # What makes a folder a virtual environment.
            settings = {
                "home": base.parent,
                "include-system-site-packages": "false",
                "version": platform.python_version(),
            }
            lines = (f"{key} = {value}\n" for key, value in settings.items())
            _add_text(archive, "pyvenv.cfg", "".join(lines))
            for name, target in (("python", str(base)), ("python3", "python")):
                link = tarfile.TarInfo(f"bin/{name}")
                link.type, link.linkname = tarfile.SYMTYPE, target
                archive.addfile(link)
            # Name and version of this package for pip; a checkout holds them under another name.
            site = f"lib/{version}/site-packages"
            program = importlib.metadata.distribution(NAME)
            text = program.read_text("METADATA") or program.read_text("PKG-INFO") or ""
            folder = f"{NAME.replace('-', '_')}-{program.version}.dist-info"
            _add_text(archive, f"{site}/{folder}/METADATA", text)
            for number, file in enumerate(files):
                # Times stay: compiled modules are valid for the time of their source.
                archive.add(file.source.resolve(), f"{site}/{file.target}", filter=_anonymous)
                if progress is not None:
                    progress(number + 1, len(files))
        size = stream.tell()
    names = (
        f"{distribution.metadata['Name']} {distribution.version}" for distribution in distributions
    )
    return Packed(path, size, tuple(sorted(names, key=str.lower)), base)


def _runtime(name: str) -> Iterator[Distribution]:
    """Yield each distribution that `name` requires at run time, without itself."""
    taken = {canonicalize_name(name)}
    ours = _distribution(name, "this program")
    needed = {requirement.name for requirement, _ in _required(ours, ())}
    extras = tuple(
        extra
        for extra in _EXTRAS
        if all(
            requirement.name in needed or _is_installed(requirement.name)
            for requirement, _ in _required(ours, (extra,))
        )
    )
    waiting = [*_required(ours, extras)]
    while waiting:
        requirement, asked_by = waiting.pop()
        key = canonicalize_name(requirement.name)
        if key in taken:
            continue
        taken.add(key)
        distribution = _distribution(requirement.name, asked_by)
        waiting += _required(distribution, tuple(requirement.extras))
        yield distribution


def _required(
    distribution: Distribution, extras: tuple[str, ...]
) -> Iterator[tuple[Requirement, str]]:
    for text in distribution.requires or ():
        requirement = Requirement(text)
        marker = requirement.marker
        chosen = ("", *extras)
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in chosen):
            yield requirement, str(distribution.metadata["Name"])


def _is_installed(name: str) -> bool:
    try:
        importlib.metadata.distribution(name)
    except PackageNotFoundError:
        return False
    return True


def _distribution(name: str, asked_by: str) -> Distribution:
    try:
        return importlib.metadata.distribution(name)
    except PackageNotFoundError:
        raise ClusterError(f"{name} is not installed, but {asked_by} requires it") from None


def _files_of(distribution: Distribution) -> Iterator[_File]:
    if distribution.files is None:
        raise ClusterError(
            f"{distribution.metadata['Name']} {distribution.version}: what belongs to it is not "
            "recorded; install it with pip"
        )
    for file in distribution.files:
        target = str(file)
        source = Path(str(distribution.locate_file(file)))
        if not any(fnmatch(target, pattern) for pattern in _UNUSED) and source.is_file():
            yield _File(source, target)


def _add_text(archive: tarfile.TarFile, name: str, text: str) -> None:
    content = text.encode()
    member = tarfile.TarInfo(name)
    member.size = len(content)
    archive.addfile(member, BytesIO(content))


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Remove user and group names from an archive entry."""
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member
