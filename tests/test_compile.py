"""Compilation: what is compiled anew, where machine code is kept, what a kernel may not do."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

from decima.agent.kernels import AGENT
from decima.kernels import POLICIES
from spark_sim.compile import SIMULATOR, kernel
from spark_sim.compiled import shipped
from spark_sim.compiled.kernels import Kernels
from tests.commands import python

ROOT = Path(__file__).parents[1]

TINY = """
import sys
import numpy as np
from spark_sim.compile import kernel
from spark_sim.compiled.progress import announce

sys.stderr = sys.stdout
announce()
announce()

@kernel
def total(values):
    found = 0.0
    for value in values:
        found += value
    return found

print(total(np.arange(4.0)), sum(total.outer.stats.cache_hits.values()))
"""


@pytest.fixture
def copied(tmp_path: Path) -> Kernels:
    """The kernels of policies, and those of the simulator below them, in a copy of their files."""
    for pattern in (*SIMULATOR.sources, *POLICIES.sources):
        for path in ROOT.glob(pattern):
            copy = tmp_path / path.relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, copy)
    return replace(POLICIES, root=tmp_path, below=replace(SIMULATOR, root=tmp_path))


@pytest.mark.parametrize(
    "name",
    [
        "traces/arrays.py",
        "spark_sim/kernels/lists.py",
        "decima/heuristics/fifo.py",
    ],
)
def test_any_changed_kernel_source_changes_the_fingerprint(copied: Kernels, name: str) -> None:
    """Machine code that reads the changed file is never used again."""
    before = copied.fingerprint()
    assert copied.fingerprint() == before
    path = copied.root / name
    path.write_text(path.read_text() + "\n")
    assert copied.fingerprint() != before


def test_every_file_with_a_kernel_is_in_the_fingerprint() -> None:
    """A kernel written elsewhere would go on running old machine code."""
    patterns = tuple(
        pattern for kernels in (SIMULATOR, POLICIES, AGENT) for pattern in kernels.sources
    )
    covered = {path for pattern in patterns for path in ROOT.glob(pattern)}
    users = {
        path
        for package in ("traces", "spark_sim", "decima", "gnn")
        for path in (ROOT / package).rglob("*.py")
        if "import kernel" in path.read_text() or "inlined_kernel" in path.read_text()
    }
    assert len(users) > 10
    assert users - covered == set()


def test_a_pattern_without_a_file_is_an_error(tmp_path: Path) -> None:
    """As after a move: old machine code would go on running."""
    kernels = Kernels("moved", ("nowhere/*.py",), root=tmp_path)
    with pytest.raises(LookupError, match=r"kernels 'moved': no source is .*nowhere"):
        kernels.fingerprint()
    for ours in (SIMULATOR, POLICIES, AGENT):
        assert ours.root == ROOT
        assert ours.fingerprint()


def test_the_cache_folder_goes_where_the_environment_says(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """NUMBA_CACHE_DIR before XDG_CACHE_HOME before the home folder."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "numba"))
    assert SIMULATOR.cache_folder().parent == tmp_path / "numba"
    monkeypatch.delenv("NUMBA_CACHE_DIR")
    assert SIMULATOR.cache_folder().parent == tmp_path / "xdg" / "decima-scheduler"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert SIMULATOR.cache_folder().parent == tmp_path / "home" / ".cache" / "decima-scheduler"
    assert SIMULATOR.fingerprint() in SIMULATOR.cache_folder().name


def tiny_package(folder: Path) -> Path:
    """A copy of the package that compiles, with the kernel `TINY` in it."""
    ours = ("cache.py", "progress.py", "shipped.py")
    files = ("traces/files/errors.py", "traces/files/private.py")
    read = (path for pattern in SIMULATOR.sources for path in ROOT.glob(pattern))
    sources = {ROOT / "spark_sim" / "compiled" / name for name in ours}
    for source in sources | {ROOT / name for name in files} | set(read):
        copy = folder / source.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.with_name("__init__.py").write_text("")
        shutil.copy(source, copy)
    (folder / "spark_sim" / "tiny.py").write_text(TINY)
    return folder


COMPILED, LOADED = (
    ["compiling for this machine (simulator): minutes at first, then cached", "6.0 0"],
    ["6.0 1"],
)


def tiny(folder: Path, cache: Path, **environment: str) -> list[str]:
    """What a program prints that calls the kernel of that package: that it is compiled, once; its
    result, and the number of hits in the cache.
    """
    place = {"NUMBA_CACHE_DIR": str(cache), "PYTHONPATH": ""}
    output = python("-m", "spark_sim.tiny", folder=folder, environment=place | environment)
    return output.splitlines()


def test_processes_that_need_the_same_kernel_compile_it_once(tmp_path: Path) -> None:
    """The others wait and load it, wherever their copy of the sources lies: a cluster unpacks an
    archive anew for each executor. A process that was killed while it compiled holds nobody up.
    """
    package, other = (tiny_package(tmp_path / place) for place in ("one", "two"))
    slowly = """
import runpy, time
from spark_sim.compiled.cache import KernelCache
save = KernelCache.save_overload
def save_late(*arguments):
    print("compiled", flush=True)
    time.sleep(1.5)
    save(*arguments)
KernelCache.save_overload = save_late
runpy.run_module("spark_sim.tiny", run_name="__main__")
"""

    def begun(package: Path) -> subprocess.Popen[str]:
        place = {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": str(package)}
        return subprocess.Popen(  # noqa: S603
            [sys.executable, "-c", slowly],
            env={**os.environ, **place},
            stdout=subprocess.PIPE,
            text=True,
            cwd=package,
        )

    def compiling() -> subprocess.Popen[str]:
        process = begun(package)
        assert process.stdout is not None
        while process.stdout.readline() != "compiled\n":
            assert process.poll() is None
        return process

    killed = compiling()
    killed.kill()
    killed.communicate()
    first = compiling()
    second = begun(other)
    assert second.communicate()[0].splitlines() == LOADED
    assert first.communicate()[0].splitlines()[-1] == COMPILED[-1]


@pytest.mark.skipif(shipped.baseline() is None, reason="this processor is below the baseline")
def test_code_that_came_with_the_package_is_not_compiled_again(tmp_path: Path) -> None:
    """Unless it is damaged, or a source has changed since."""
    made_for = shipped.baseline()
    assert made_for is not None
    processor = {"NUMBA_CPU_NAME": made_for.processor, "NUMBA_CPU_FEATURES": ""}
    package = tiny_package(tmp_path / "package")
    assert tiny(package, tmp_path / "build", **processor) == COMPILED
    (folder,) = (tmp_path / "build").iterdir()
    name = shipped.archive_of(folder, made_for).name
    archive = package / "spark_sim" / "compiled" / "data" / name
    shipped.pack(folder, archive)
    assert tiny(package, tmp_path / "user") == LOADED
    modes = {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "user").rglob("*.nbc")}
    assert modes == {0o600}
    content = bytearray(archive.read_bytes())
    content[len(content) // 2] ^= 255
    archive.write_bytes(content)
    assert tiny(package, tmp_path / "damaged") == COMPILED
    assert [path.name for path in (tmp_path / "damaged").iterdir()] == [folder.name]
    content[len(content) // 2] ^= 255
    archive.write_bytes(content)
    (package / "traces" / "arrays.py").write_text("# changed")
    assert tiny(package, tmp_path / "changed") == COMPILED


@pytest.mark.parametrize("lacking", [None, *sorted(shipped.BASELINES["x86_64"].features)])
def test_older_processors_get_no_code_that_they_cannot_run(
    monkeypatch: pytest.MonkeyPatch, lacking: str | None
) -> None:
    features = {name: name != lacking for name in shipped.BASELINES["x86_64"].features}
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setattr("llvmlite.binding.get_host_cpu_features", lambda: features)
    assert (shipped.baseline.__wrapped__() is None) == (lacking is not None)


def test_a_kernel_answers_kernels_and_python_alike(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """For calls from Python it is compiled again, also where another process has rebuilt it."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    own = replace(SIMULATOR, name="tiny")

    @own.kernel
    def half(value: float) -> float:
        return value / 2.0

    @own.kernel
    def quarter(value: float) -> float:
        return half(half(value))

    inner: Any = half
    last: Any = quarter
    assert quarter(8.0) == 2.0
    assert inner.signatures
    assert half(8.0) == 4.0
    assert inner.outer.signatures == last.outer.signatures
    assert not last.signatures
    rebuilt = type(inner)(inner.py_func, {}, inner.targetoptions)
    assert rebuilt(8.0) == 4.0


def test_a_kernel_that_allocates_is_refused() -> None:
    """Without reference counting its arrays would never be freed."""

    @kernel
    def allocates(count: int) -> float:
        return float(np.zeros(count).sum())

    with pytest.raises(numba.core.errors.NumbaError):
        allocates(3)
