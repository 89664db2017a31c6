"""Checkpoints and run folders: nothing half written, nothing executed, nobody disturbed."""

from __future__ import annotations

import json
import os
import pickle
import socket
import subprocess
from pathlib import Path
from typing import NoReturn

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from decima.rl.checkpoint import load_tensors, save_tensors
from decima.rl.errors import CheckpointError, RunError
from decima.rl.run_folder import RunFolder, environment, git_state
from tests.commands import raises_one_line

TENSORS = {
    "weights": torch.linspace(-1.0, 1.0, 6).reshape(2, 3),
    "step": torch.tensor(7),
    "rates": torch.tensor([0.1, 0.2], dtype=torch.float64),
    "seen": torch.tensor([True, False]),
    "nothing": torch.zeros(0, 3),
}


def same(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> bool:
    return first.keys() == second.keys() and all(
        first[name].dtype == second[name].dtype and torch.equal(first[name], second[name])
        for name in first
    )


def test_tensors_and_facts_come_back_as_they_were(tmp_path: Path) -> None:
    """Every kind of number, no dimensions, no entries; facts with any text."""
    facts = {"iteration": 3, "best": None, "note": 'a "quoted" line\nand é', "deep": {"x": [1.5]}}
    save_tensors(tmp_path / "a.safetensors", TENSORS, facts)

    tensors, read_facts = load_tensors(tmp_path / "a.safetensors")

    assert same(tensors, TENSORS)
    assert read_facts == facts
    tensors["step"].add_(1)  # may be trained on
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.safetensors"]


def test_tensors_that_share_memory_are_saved_apart(tmp_path: Path) -> None:
    """Views, transposes and the same tensor under two names."""
    base = torch.arange(6.0).reshape(2, 3)
    shared = {"all": base, "again": base, "row": base[1], "turned": base.T}
    save_tensors(tmp_path / "a.safetensors", shared, {})

    tensors, _ = load_tensors(tmp_path / "a.safetensors")

    assert same(tensors, {name: tensor.clone() for name, tensor in shared.items()})


def test_equal_content_makes_equal_files(tmp_path: Path) -> None:
    for name in ("a", "b"):
        save_tensors(tmp_path / name, TENSORS, {"x": 1, "y": 2})
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


class Exploit:
    """What a pickle may do to whoever loads it."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, ("exploited",)


def test_other_files_are_refused_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Empty, text, a pickle, torch's own format; none of them is executed."""
    monkeypatch.chdir(tmp_path)
    torch.save({"x": torch.ones(2)}, tmp_path / "torch")
    no_facts = {"__metadata__": {"json": "[1]"}}
    contents = {
        "empty": b"",
        "text": b"hello, this is a text of some length, but no tensors",
        "pickle": pickle.dumps(Exploit()),
        "torch": (tmp_path / "torch").read_bytes(),
        "no object": b"\x22\0\0\0\0\0\0\0" + json.dumps(no_facts).encode().ljust(34),
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
        with raises_one_line(CheckpointError, match=name):
            load_tensors(tmp_path / name)
    assert not (tmp_path / "exploited").exists()


@given(st.integers(0), st.none() | st.binary(max_size=200))
def test_a_damaged_file_is_refused_or_loaded_but_never_crashes(
    tmp_path_factory: pytest.TempPathFactory, place: int, noise: bytes | None
) -> None:
    """Cut short anywhere, or with noise in it."""
    path = tmp_path_factory.mktemp("damaged") / "file"
    save_tensors(path, TENSORS, {"x": 1})
    whole = path.read_bytes()
    place %= len(whole)
    path.write_bytes(whole[:place] + (noise + whole[place + len(noise) :] if noise else b""))
    message = ""
    try:
        load_tensors(path)
    except CheckpointError as error:
        message = str(error)
    assert "\n" not in message
    assert message or noise, "a file that is cut short is refused"


@pytest.mark.parametrize("name", ["missing", "."])
def test_what_cannot_be_read_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(RunError, match="cannot read"):
        load_tensors(tmp_path / name)


def test_a_run_keeps_its_configuration_and_where_it_was_made(tmp_path: Path) -> None:
    """Plain JSON; nothing in it tells the machine or its user."""
    with RunFolder.create(tmp_path / "deep" / "run", {"seed": 3, "rates": [0.1]}) as folder:
        assert folder.config == {"seed": 3, "rates": [0.1]}
        (session,) = json.loads(folder.environment_file.read_text())

    assert session == environment()
    assert session["torch"] == torch.__version__
    text = folder.environment_file.read_text()
    assert str(Path.home()) not in text
    assert socket.gethostname() not in text


def test_a_resume_elsewhere_is_noted(tmp_path: Path) -> None:
    """Once for each change: another version may explain another result."""
    RunFolder.create(tmp_path / "run", {}).close()
    file = tmp_path / "run" / "environment.json"
    old = [{**environment(), "torch": "1.0"}]
    file.write_text(json.dumps(old))
    for _ in range(2):
        RunFolder.open(tmp_path / "run").close()

    assert json.loads(file.read_text()) == [*old, environment()]


def test_a_run_in_use_is_refused(tmp_path: Path) -> None:
    """By resume and by a new run; after it is closed it opens."""
    with RunFolder.create(tmp_path / "run", {}):
        with pytest.raises(RunError, match="another process is training"):
            RunFolder.open(tmp_path / "run")
        with pytest.raises(RunError, match="another process is training"):
            RunFolder.create(tmp_path / "run", {})
    RunFolder.open(tmp_path / "run").close()


def test_a_new_run_needs_an_empty_folder(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(RunError, match=r"thesis\.tex and is no run"):
        RunFolder.create(tmp_path, {})
    assert os.listdir(tmp_path) == ["thesis.tex"]
    with pytest.raises(RunError, match="cannot make the folder"):
        RunFolder.create(tmp_path / "thesis.tex", {})


def refuse(folder: RunFolder, words: str, file: str) -> NoReturn:
    """Fail after a file was made in the folder."""
    with folder:
        (folder.path / file).parent.mkdir(exist_ok=True)
        (folder.path / file).touch()
        raise RunError(words)


@pytest.mark.parametrize("made", [True, False])
def test_a_run_that_is_refused_leaves_nothing(made: bool, tmp_path: Path) -> None:
    """Neither files nor folders above it; one that was there stays, empty."""
    path = tmp_path / "deep" / "run"
    if not made:
        path.mkdir(parents=True)
    with pytest.raises(RunError, match="impossible"):
        refuse(RunFolder.create(path, {}), "impossible", "tensorboard/events")
    assert path.exists() != made
    assert os.listdir(tmp_path) == ([] if made else ["deep"])
    RunFolder.create(path, {}).close()


@pytest.mark.parametrize("name", ["metrics.jsonl", "checkpoint.safetensors", "failure"])
def test_a_run_that_fails_later_stays(name: str, tmp_path: Path) -> None:
    """And so does one that is refused when it is resumed."""
    path = tmp_path / "run"
    with pytest.raises(RunError, match="odd"):
        refuse(RunFolder.create(path, {}), "odd", f"{name}/file")
    assert (path / name).exists()
    (path / name / "file").unlink()
    (path / name).rmdir()
    with pytest.raises(RunError, match="odd"):
        refuse(RunFolder.open(path), "odd", "file")
    assert (path / "config.json").exists()


def test_a_run_killed_while_it_was_made_can_be_made_again(tmp_path: Path) -> None:
    """What such a process leaves: the lock, and a file under its temporary name."""
    (tmp_path / "lock").touch()
    (tmp_path / ".config.json.99.partial").write_text('{"se')

    RunFolder.create(tmp_path, {"seed": 1}).close()

    names = sorted(entry.name for entry in tmp_path.iterdir())
    assert names == ["config.json", "environment.json", "lock"]


@pytest.mark.parametrize("name", ["missing", "."])
def test_only_a_run_can_be_opened(tmp_path: Path, name: str) -> None:
    """No folder, or one without configuration; and nothing is made there."""
    with pytest.raises(RunError, match="not a run folder"):
        RunFolder.open(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def read_everything(path: Path) -> tuple[object, object]:
    with RunFolder.open(path) as folder:
        return folder.config, folder.metrics()


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("config.json", "{", "not JSON"),
        ("config.json", "[1]", "holds no JSON object"),
        ("environment.json", "{}", "holds no JSON list"),
        ("metrics.jsonl", "[]\n", "not a line of metrics"),
        ("metrics.jsonl", '{"iteration": -1}\n', "not a line of metrics"),
        (
            "metrics.jsonl",
            '{"iteration": 0, "elapsed_s": null}\n',
            "'elapsed_s' is None: no finite",
        ),
        ("metrics.jsonl", '{"iteration": 0, "x": "low"}\n', "'x' is 'low': no finite number"),
        ("metrics.jsonl", '{"iteration": 0, "x": 1e999}\n', "'x' is inf: no finite number"),
    ],
)
def test_damaged_files_of_a_run_are_named(
    tmp_path: Path, file: str, content: str, message: str
) -> None:
    RunFolder.create(tmp_path, {}).close()
    (tmp_path / file).write_text(content)
    with raises_one_line(RunError, match=message) as refused:
        read_everything(tmp_path)
    assert file in str(refused.value)


def test_lines_beyond_a_checkpoint_are_dropped(tmp_path: Path) -> None:
    """Those of iterations to be repeated, and one that was cut short by a kill."""
    with RunFolder.create(tmp_path, {}) as folder:
        assert folder.metrics() == []
        for iteration in range(4):
            folder.append_metrics(iteration, {"loss": iteration / 2})
        with folder.metrics_file.open("a") as file:
            file.write('{"iteration": 4, "lo')
        assert len(folder.metrics()) == 4

        folder.keep_metrics_before(2)
        folder.append_metrics(2, {"loss": 9.0})

        assert folder.metrics() == [
            {"iteration": 0, "loss": 0.0},
            {"iteration": 1, "loss": 0.5},
            {"iteration": 2, "loss": 9.0},
        ]


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=n", "-c", "user.email=e", "-c", "commit.gpgsign=false"]
    command = ["git", "-C", str(folder), *identity, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()  # noqa: S603


def test_commit_and_changes_of_a_checkout_are_told(tmp_path: Path) -> None:
    """Clean, then with a changed file, then with a new one; other files do not count."""
    source = tmp_path / "package" / "module.py"
    source.parent.mkdir()
    source.write_text("x = 1\n")
    git(tmp_path, "init", "-q")
    assert git_state(source) == (None, None)

    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "m")
    commit = git(tmp_path, "rev-parse", "HEAD")
    (tmp_path / "notes.txt").touch()
    assert git_state(source) == (commit, False)
    (tmp_path / "new.py").touch()
    assert git_state(source) == (commit, True)
    (tmp_path / "new.py").unlink()
    source.write_text("x = 2\n")
    assert git_state(source) == (commit, True)


def test_an_installed_package_belongs_to_no_checkout_around_it(tmp_path: Path) -> None:
    """A virtual environment often lies inside the user's own repository."""
    (tmp_path / "own.py").touch()
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "m")
    installed = tmp_path / "venv" / "module.py"
    installed.parent.mkdir()
    installed.touch()

    assert git_state(installed) == (None, None)
    assert git_state(tmp_path / "nowhere" / "module.py") == (None, None)
