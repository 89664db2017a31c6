"""`decima cluster pack`: what goes into the archive, and that it runs where it is unpacked."""

from __future__ import annotations

import importlib.metadata
import json
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from importlib.metadata import Distribution
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

import decima.rl.parallel.pack
from decima.rl.parallel.errors import ClusterError
from decima.rl.parallel.pack import _runtime, pack
from tests.commands import decima as decima_command
from tests.commands import refused

ROOT = Path(__file__).parents[1]


def runtime() -> set[str]:
    """Canonical names of what goes along."""
    return {canonicalize_name(one.metadata["Name"]) for one in _runtime("decima-scheduler")}


def without(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a distribution seem not to be installed."""
    installed = importlib.metadata.distribution

    def distribution(asked: str) -> Distribution:
        if asked == name:
            raise importlib.metadata.PackageNotFoundError(asked)
        return installed(asked)

    monkeypatch.setattr(importlib.metadata, "distribution", distribution)


def test_what_runs_need_goes_along_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requirements of requirements, too, and of extras that tasks need and that are installed; no
    Spark, no tests, no documentation.
    """
    names = runtime()
    needed = {"numpy", "numba", "llvmlite", "torch", "torch-geometric", "pyarrow", "pydantic-core"}
    assert needed <= names
    unused = {"pyspark", "py4j", "pytest", "selenium", "mkdocs", "hypothesis", "decima-scheduler"}
    assert names & unused == set()
    without("torch", monkeypatch)
    names = runtime()
    assert {"numpy", "gymnasium", "matplotlib"} <= names
    assert names & {"torch", "torch-geometric", "tensorboardx"} == set()


@pytest.fixture
def light(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few requirements, so that packing takes a moment."""

    def few(_name: str) -> Iterator[Distribution]:
        yield from map(importlib.metadata.distribution, ("click", "filelock", "lazy-loader"))

    monkeypatch.setattr(decima.rl.parallel.pack, "_runtime", few)


PROGRAM = """
import importlib.metadata, json, sys
import click, traces.files.names, decima.rl.parallel.session
print(json.dumps([
    sys.prefix, traces.files.names.__file__, click.__file__,
    importlib.metadata.version("decima-scheduler"),
]))
"""


@pytest.mark.usefixtures("light")
def test_an_archive_runs_where_it_is_unpacked(tmp_path: Path) -> None:
    """Twice in different places, by the path that executors use; our code is that of this test."""
    archive = tmp_path / "decima.tar.gz"
    packed = pack(archive)
    assert packed.num_bytes == archive.stat().st_size
    # Not the Python of the environment, which no other host has.
    assert packed.python.is_relative_to(sys.base_prefix) or sys.prefix == sys.base_prefix
    for place in ("one", "two"):
        folder = tmp_path / place
        with tarfile.open(archive) as content:
            content.extractall(folder / "environment", filter="fully_trusted")  # noqa: S202 - ours
        done = subprocess.run(  # noqa: S603 - what was just packed
            ["./environment/bin/python", "-c", PROGRAM],
            cwd=folder,
            env={},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        prefix, ours, theirs, version = json.loads(done.stdout)
        assert Path(prefix) == folder / "environment"
        assert Path(ours).is_relative_to(prefix)
        assert Path(theirs).is_relative_to(prefix)
        assert version == importlib.metadata.version("decima-scheduler")
        copied = Path(ours).parents[2]
        same = [
            path.relative_to(ROOT) for path in (ROOT / "decima").rglob("*") if path.suffix == ".py"
        ]
        assert all((copied / path).read_bytes() == (ROOT / path).read_bytes() for path in same)
        assert (copied / "decima/agent/data/decima.safetensors").is_file()


@pytest.mark.usefixtures("light")
def test_the_archive_names_nobody_and_no_folder_of_this_machine(tmp_path: Path) -> None:
    """But for the Python that hosts must have, which can be another."""
    archive = tmp_path / "decima.tgz"
    packed = pack(archive, Path("/opt/python/bin/python3.11"))
    assert packed.python == Path("/opt/python/bin/python3.11")
    with tarfile.open(archive) as content:
        members = {member.name: member for member in content}
        settings = content.extractfile("pyvenv.cfg")
        assert settings is not None
        assert b"home = /opt/python/bin\n" in settings.read()
    assert members["bin/python"].linkname == "/opt/python/bin/python3.11"
    assert {member.uname for member in members.values()} == {""}
    assert not any("direct_url" in name or name.startswith("/") for name in members)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("-o", "decima.whl"), "decima.whl: an archive ends in .tar.gz or .tgz"),
        (("-o", "decima.tar.gz", "--python", "python3"), "hosts need its path from the root"),
        ((), "Missing option '-o'"),
    ],
)
def test_wrong_output_is_refused_before_anything_is_packed(
    arguments: tuple[str, ...], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    refused(decima_command("cluster", "pack", *arguments), words)
    assert list(tmp_path.iterdir()) == []


def test_a_requirement_that_is_not_installed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without("numba", monkeypatch)
    with pytest.raises(ClusterError, match="numba is not installed, but decima-scheduler requires"):
        pack(tmp_path / "decima.tar.gz")
    assert list(tmp_path.iterdir()) == []
