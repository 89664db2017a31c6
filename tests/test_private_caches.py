"""Caches that are read as code: whose files are loaded, and what is done with damaged ones."""

from __future__ import annotations

import hashlib
import os
import pickle
import runpy
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from decima.spark import jar
from decima.spark.settings import AttachError
from spark_sim.compile import SIMULATOR
from spark_sim.compiled import cache
from tests.commands import python
from traces.files.private import NotPrivateError, private_folder, read_private, write_private

ROOT = Path(__file__).parents[1]
NOBODY = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to other users")

TINY = """
from spark_sim.compile import kernel

@kernel
def doubled(value):
    return 2 * value

found = doubled(21)
hits = sum(doubled.outer.stats.cache_hits.values())
print(found, hits)
"""


def found_and_hits(tmp_path: Path, cache_folder: Path) -> tuple[int, int]:
    """Result of the kernel and its number of cache hits, as in a program that has just started."""
    cache.trusted_folder.cache_clear()
    cache.warn_once.cache_clear()
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("NUMBA_CACHE_DIR", str(cache_folder))
        fresh = replace(SIMULATOR, name="tiny")  # with the folder of the environment as it is now
        patched.setattr("spark_sim.compile.kernel", fresh.kernel)
        script = tmp_path / "tiny.py"
        script.write_text(TINY)
        names = runpy.run_path(str(script))
    return names["found"], names["hits"]


def kept(folder: Path) -> Path:
    """The one file of machine code below a folder."""
    (path,) = folder.rglob(f"*{cache.SUFFIX}")
    return path


class Planted:
    """Leaves a trace where it is unpickled."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.trace),)


def test_machine_code_is_for_the_user_alone(tmp_path: Path) -> None:
    """Folders 0700, files 0600, whatever the umask; and it is found again."""
    folder, script = tmp_path / "new" / "cache", tmp_path / "tiny.py"
    script.write_text(TINY)
    environment = {"NUMBA_CACHE_DIR": str(folder), "PYTHONPATH": str(ROOT)}
    before = os.umask(0)
    try:
        assert python(script, environment=environment) == "42 0\n"
    finally:
        os.umask(before)
    modes = {stat.S_IMODE(path.stat().st_mode) for path in folder.rglob("*") if path.is_file()}
    assert modes == {0o600}
    places = [folder, *(path for path in folder.rglob("*") if path.is_dir())]
    assert {stat.S_IMODE(path.stat().st_mode) for path in places} == {0o700}
    assert python(script, environment=environment) == "42 1\n"


@pytest.mark.parametrize("damage", ["empty", "cut", "flipped", "flipped at the end", "longer"])
def test_damaged_machine_code_is_compiled_anew(
    tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Truncated or changed by a bit: a miss, and the file is whole again afterwards."""
    folder = tmp_path / "cache"
    found_and_hits(tmp_path, folder)
    content = bytearray(kept(folder).read_bytes())
    if damage.startswith("flipped"):
        content[-1 if damage.endswith("end") else len(content) // 2] ^= 1
    end = {"empty": 0, "cut": len(content) // 2}.get(damage, len(content))
    kept(folder).write_bytes(bytes(content[:end]) + b"x" * (damage == "longer"))
    assert found_and_hits(tmp_path, folder) == (42, 0)
    assert caplog.messages == []
    assert found_and_hits(tmp_path, folder) == (42, 1)


def stand_in(folder: Path, content: bytes) -> None:
    """Put this in the place of the machine code, with a digest that fits."""
    path = kept(folder)
    path.write_bytes(cache._FORMAT + hashlib.sha256(content).digest() + content)


def test_a_file_that_another_function_left_is_a_miss(tmp_path: Path) -> None:
    """The digest fits, but the key is another function's."""
    folder = tmp_path / "cache"
    found_and_hits(tmp_path, folder)
    stand_in(folder, pickle.dumps(("another", ())))
    assert found_and_hits(tmp_path, folder) == (42, 0)


def plant(folder: Path, trace: Path) -> None:
    """Put a file that runs code, with a digest that fits, in the place of the machine code."""
    stand_in(folder, pickle.dumps(Planted(trace)))


def open_to_others(place: Path) -> str:
    place.chmod(0o777)
    return f"{place}: others may write to it"


def give_away(place: Path) -> str:
    os.chown(place, NOBODY, NOBODY)
    return "belongs to another user"


@pytest.mark.parametrize("what", ["cache", "inside", "file"])
@pytest.mark.parametrize("change", [open_to_others, pytest.param(give_away, marks=as_root)])
def test_what_others_may_have_written_is_not_loaded(
    tmp_path: Path, what: str, change: Callable[[Path], str], caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "cache"
    found_and_hits(tmp_path, folder)
    plant(folder, tmp_path / "trace")
    place = {"cache": folder, "inside": kept(folder).parent, "file": kept(folder)}[what]
    words = change(place)
    assert found_and_hits(tmp_path, folder) == (42, 0)
    assert not (tmp_path / "trace").exists()
    if what != "file":  # which is replaced
        (line,) = caplog.messages
        assert words in line


def test_the_check_of_planted_files_would_see_them_loaded(tmp_path: Path) -> None:
    """A file of the user's own is loaded: what keeps others out is who owns it."""
    folder = tmp_path / "cache"
    found_and_hits(tmp_path, folder)
    plant(folder, tmp_path / "trace")
    with pytest.raises(TypeError, match="NoneType"):  # what `mkdir` returns is no machine code
        found_and_hits(tmp_path, folder)
    assert (tmp_path / "trace").is_dir()


# --- folders and files ---------------------------------------------------------------------------


def test_a_sticky_folder_may_lie_above_but_not_be_the_one(tmp_path: Path) -> None:
    """As /tmp does."""
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    assert private_folder(shared / "mine") == shared / "mine"
    with pytest.raises(NotPrivateError, match="shared: others may write to it"):
        private_folder(shared)


def test_a_folder_that_others_could_replace_is_none(tmp_path: Path) -> None:
    """Whoever may write above it can put another in its place."""
    above = tmp_path / "above"
    private_folder(above / "mine")
    above.chmod(0o777)
    with pytest.raises(NotPrivateError, match="above: others may write to it"):
        private_folder(above / "mine")


def test_links_are_followed_and_their_end_is_checked(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(0o700)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert private_folder(tmp_path / "link" / "in") == tmp_path / "real" / "in"
    (tmp_path / "real").chmod(0o777)
    with pytest.raises(NotPrivateError, match="real: others may write to it"):
        private_folder(tmp_path / "link" / "in")


def test_a_linked_file_a_pipe_and_a_folder_are_not_read(tmp_path: Path) -> None:
    write_private(tmp_path / "file", b"x")
    assert read_private(tmp_path / "file") == b"x"
    (tmp_path / "link").symlink_to(tmp_path / "file")
    os.mkfifo(tmp_path / "pipe", 0o600)
    for name in ("link", "pipe", ".", "missing"):
        assert read_private(tmp_path / name) is None


# --- the jar of the plugin -----------------------------------------------------------------------


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Paths of the jars that are made; `plugin_jar` finds none in the package."""
    folders: list[Path] = []

    def build(path: Path, _environment: object) -> None:
        path.write_bytes(b"a jar")
        folders.append(path)

    monkeypatch.setattr(jar, "_SHIPPED", tmp_path / "none")
    monkeypatch.setattr(jar, "build_jar", build)
    return folders


def test_a_planted_or_damaged_jar_is_made_anew(tmp_path: Path, made: list[Path]) -> None:
    environment = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    path = tmp_path / "cache" / "decima" / jar.jar_name()
    path.parent.mkdir(parents=True, mode=0o700)
    path.write_bytes(b"planted")
    assert jar.plugin_jar(environment) == path
    path.write_bytes(b"changed")
    jar.plugin_jar(environment)
    path.chmod(0o666)
    jar.plugin_jar(environment)
    assert len(made) == 3
    assert path.read_bytes() == b"a jar"


def test_a_jar_is_refused_where_others_may_write(tmp_path: Path, made: list[Path]) -> None:
    environment = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    jar.plugin_jar(environment).parent.chmod(0o777)
    with pytest.raises(AttachError, match="others may write to it: no jar is stored"):
        jar.plugin_jar(environment)
    assert len(made) == 1
