"""Files at the border: written whole, into no trap; read within bounds; names fit to be shown."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from decima.agent.model import save_model
from decima.agent.network import PolicyNetwork
from decima.agent.weights import NetworkConfig
from decima.rl.checkpoint import save_tensors
from decima.rl.errors import RunError
from decima.rl.run_folder import RunFolder
from tests.commands import raises_one_line
from traces import Arrivals, Job, Stage, Trace, TraceError, write_arrivals, write_trace
from traces.draw import draw_job
from traces.files import writing
from traces.files.errors import FileError
from traces.files.names import MAX_NAME, clean, is_clean, one_line, printable
from traces.files.private import open_private_log
from traces.files.reading import parse_json, parse_toml, read_bytes, read_json
from traces.files.writing import (
    PARTIAL_SUFFIX,
    append,
    check_output,
    write_json,
    write_whole,
    written_whole,
)

TRACE = Trace("t", (Job("j", (Stage.fixed("a", 2, 5.0),)),))
ARRIVALS = Arrivals(np.zeros(1), np.zeros(1, np.int32))


def model(path: Path) -> None:
    config = NetworkConfig()
    save_model(path, config, PolicyNetwork(config).state_dict(), {})


WRITERS: dict[str, Callable[[Path], None]] = {
    "t.parquet": lambda path: write_trace(TRACE, path),
    "t.csv": lambda path: write_arrivals(ARRIVALS, TRACE, path),
    "t.svg": lambda path: draw_job(TRACE.jobs[0], path),
    "t.png": lambda path: draw_job(TRACE.jobs[0], path),
    "t.json": lambda path: write_json(path, {"a": 1}),
    "t.txt": lambda path: write_whole(path, b"text"),
    "tensors.safetensors": lambda path: save_tensors(path, {"a": torch.zeros(1)}, {}),
    "model.safetensors": model,
}


@pytest.mark.parametrize("name", WRITERS)
def test_no_writer_follows_a_planted_link(name: str, tmp_path: Path) -> None:
    """At the name itself, and at every temporary name that can be foretold."""
    victim = tmp_path / "victim"
    victim.write_text("precious")
    folder = tmp_path / "out"
    folder.mkdir()
    guesses = [f".{os.getpid()}.partial.{name}", f".{name}.{os.getpid()}.partial", name]
    for guess in guesses:
        (folder / guess).symlink_to(victim)

    WRITERS[name](folder / name)

    assert victim.read_text() == "precious"
    assert not (folder / name).is_symlink()
    assert (folder / name).stat().st_size > 0
    left = {entry.name for entry in folder.iterdir()} - {*guesses, "model.json"}
    assert left == set()


def test_a_record_is_not_added_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "victim").touch()
    (tmp_path / "metrics.jsonl").symlink_to(tmp_path / "victim")
    with pytest.raises(FileError, match="cannot write"):
        append(tmp_path / "metrics.jsonl", b"{}\n")
    assert (tmp_path / "victim").read_bytes() == b""


def test_the_lock_of_a_run_is_not_taken_through_a_link(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "lock").symlink_to(tmp_path / "victim")
    with pytest.raises(RunError, match="cannot lock the folder"):
        RunFolder.create(folder, {})
    assert not (tmp_path / "victim").exists()


def test_a_name_in_progress_is_hidden_and_never_the_same(tmp_path: Path) -> None:
    """Nobody can prepare it; `RunFolder` knows it by its end."""
    seen = set[str]()
    for _ in range(5):
        with written_whole(tmp_path / ("x" * 250)) as file:
            (entry,) = tmp_path.iterdir()
            seen.add(entry.name)
            file.write(b"a")
        (tmp_path / ("x" * 250)).unlink()
    assert len(seen) == 5
    assert all(name.startswith(".") and name.endswith(PARTIAL_SUFFIX) for name in seen)


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_permissions_are_those_of_a_plain_write(mask: int, mode: int, tmp_path: Path) -> None:
    """By the umask where the file is new, and as they were where it is replaced."""
    before = os.umask(mask)
    try:
        write_whole(tmp_path / "new", b"")
        (tmp_path / "old").touch()
        (tmp_path / "old").chmod(0o640)
        write_whole(tmp_path / "old", b"text")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == mode
    assert stat.S_IMODE((tmp_path / "old").stat().st_mode) == 0o640


def test_the_data_is_on_the_disk_before_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file, then its place in the folder."""
    story: list[str] = []

    def fsync(descriptor: int) -> None:
        is_folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        story.append("folder on disk" if is_folder else "file on disk")

    def replace(old: Path, new: Path) -> None:
        story.append("named")
        os.rename(old, new)

    monkeypatch.setattr(
        writing, "os", SimpleNamespace(**vars(os) | {"fsync": fsync, "replace": replace})
    )
    write_whole(tmp_path / "a", b"text")
    assert story == ["file on disk", "named", "folder on disk"]


def test_what_fails_leaves_the_old_file_and_no_litter(tmp_path: Path) -> None:
    """A full disk, an interrupt, an error of one's own."""
    (tmp_path / "a").write_text("old")

    def fail(fault: BaseException) -> None:
        with written_whole(tmp_path / "a", TraceError) as file:
            file.write(b"new")
            raise fault

    with pytest.raises(TraceError, match=r"cannot write: No space.*; the previous file is unch"):
        fail(OSError(28, "No space left on device"))
    with pytest.raises(KeyboardInterrupt):
        fail(KeyboardInterrupt())
    assert [(entry.name, entry.read_text()) for entry in tmp_path.iterdir()] == [("a", "old")]


def test_a_pipe_or_device_is_not_replaced(tmp_path: Path) -> None:
    """As root, `-o /dev/null` would take the device away, and `/dev/stdout` is a link to one."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "pipe")
    for name in ("pipe", "link"):
        for write in (write_whole, append):
            with pytest.raises(FileError, match="neither a regular file nor a free name"):
                write(tmp_path / name, b"")
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    assert (tmp_path / "link").is_symlink()


def test_a_private_log_is_a_regular_file(tmp_path: Path) -> None:
    """What is refused keeps its permissions, and none is waited for."""
    os.mkfifo(tmp_path / "pipe", 0o640)
    (tmp_path / "file").write_bytes(b"old\n")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    with pytest.raises(OSError, match="not a regular file"):
        open_private_log(tmp_path / "pipe")
    with pytest.raises(OSError, match="symbolic links"):
        open_private_log(tmp_path / "link")
    assert stat.S_IMODE((tmp_path / "pipe").stat().st_mode) == 0o640
    for name in ("file", "new"):
        os.close(open_private_log(tmp_path / name))
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
    assert (tmp_path / "file").read_bytes() == b"old\n"


def test_a_pipe_or_device_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero"), Path("/dev/null")):
        with pytest.raises(FileError, match="a regular file is needed"):
            read_bytes(path, max_bytes=10)
    for name in (f"{tmp_path}/a\0b", "a\0"):
        with pytest.raises(FileError, match="no file has such a name"):
            read_bytes(Path(name))
        with pytest.raises(FileError, match="no file has such a name"):
            check_output(Path(name))


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "9" * 5_000,
        '{"a": ' + "9" * 5_000 + "}",
        "[" * 100_000,
        "NaN",
        '{"a": 1, "a": 2}',
        "\x00",
        b"\xff",
        b"\xed\xa0\x80",
    ],
)
def test_what_is_no_json_is_one_kind_of_error(text: str | bytes) -> None:
    with raises_one_line(FileError) as refused:
        parse_json(text, "here")
    assert str(refused.value).startswith("here:")


@given(text=st.text(st.characters(exclude_categories=())) | st.binary())
def test_no_text_gives_another_error(text: str | bytes) -> None:
    """JSON and TOML, lone surrogates and bytes of any kind included."""
    with contextlib.suppress(TraceError):
        parse_json(text, "here", TraceError)
    with contextlib.suppress(TraceError):
        parse_toml(text if isinstance(text, str) else text.decode("latin1"), "here", TraceError)


def test_a_file_of_any_length_is_read_up_to_its_bound(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"[]   ")
    assert read_bytes(tmp_path / "a", max_bytes=5) == b"[]   "
    with pytest.raises(FileError, match="5 bytes, at most 4 are read"):
        read_json(tmp_path / "a", max_bytes=4)


# --- names ---------------------------------------------------------------------------------------

anything = st.text(st.characters(exclude_categories=()), max_size=2 * MAX_NAME)
HOSTILE = {
    "colour": "\x1b[31mred",
    "title": "\x1b]0;pwned\x07",
    "C1": "\x9b31mred",
    "bidi": "\u202etxt.exe",
    "isolate": "\u2066a\u2069",
    "surrogate": "\ud800",
    "line": "a\nerror: b\r",
    "megabyte": "x" * 10**6,
    "hidden megabyte": "\x1b" * 10**6,
    "blank megabyte": " " * 10**6,
}


@given(text=anything, longest=st.integers(20, 300))
def test_a_clean_name_is_printable_short_and_stays_as_it_is(text: str, longest: int) -> None:
    name = clean(text, longest)
    assert is_clean(name, longest)
    assert name.encode().decode() == name
    assert clean(name, longest) == name
    if is_clean(text, longest):
        assert name == text


@given(text=anything)
def test_a_message_is_one_line_and_a_cell_keeps_its_lines(text: str) -> None:
    """Neither holds what a terminal obeys."""
    assert one_line(text).isprintable()
    assert printable(text).count("\n") == text.count("\n")
    assert printable(text).replace("\n", "").isprintable()


def test_long_names_that_differ_stay_different() -> None:
    """However late they do."""
    names = [f"{'x' * 500}{number}" for number in range(50)]
    assert len({clean(name) for name in names}) == 50
    assert clean("SELECT *\n  FROM t") == "SELECT * FROM t"
    assert clean("\x1b[1m") == r"\x1b[1m"


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
def test_the_model_refuses_what_no_importer_would_give_it(name: str) -> None:
    for build in (
        lambda: Stage.fixed(name, 1, 1.0),
        lambda: Job(name, TRACE.jobs[0].stages),
        lambda: Trace(name, TRACE.jobs),
    ):
        with pytest.raises(TraceError, match="a name is printable") as refused:
            build()
        assert len(str(refused.value)) < 300
