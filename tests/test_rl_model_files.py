"""Model files of `deeprm` and `harmony`: a header may not ask for memory that its weights lack.

`tests/test_model_files.py` has the same for `decima`; `decima.rl.model_files` checks all three.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
import torch
from click.testing import CliRunner

import deeprm.schedulers
import harmony.models
from decima.cli.main import main as decima_command
from decima.rl.checkpoint import load_arrays, save_tensors
from deeprm.cli import main as deeprm_command
from harmony.cli import main as harmony_command
from tests.commands import ran

Settings = dict[str, Any]

WIDE_IMAGE = {"horizon": 1_300, "capacity": 10, "slots": 20, "dominant_demand": [5, 5]}
"""few rectangles and many pixels: 5.7 million weights"""
HARMONY: dict[str, Settings] = {
    "beyond 64 bits": {"size": {"width": 2**70}},
    "many parameters": {"size": {"width": 1024, "layers": 16}},
    "many samples": {"samples": 10**15},
}
DEEPRM: dict[str, Settings] = {
    "beyond 64 bits": {"policy": "compact", "cluster": {"horizon": 2**70}},
    "many parameters": {"policy": "compact", "cluster": {"horizon": 10_000, "resources": 16}},
    "many pixels": {"cluster": WIDE_IMAGE},
}
KINDS = ["policy", "reward model"]


def claim(path: Path, config: Settings, **form: Any) -> None:
    """Write a file of one weight whose header claims a configuration."""
    save_tensors(path, {"a": torch.zeros(1).half()}, {**form, "config": config, "card": {}})


def refusal(command: click.Group, *arguments: str) -> str:
    """Return the one line with which a command refuses."""
    result = CliRunner().invoke(command, arguments)
    assert result.exit_code == 2, result.output
    assert result.stderr.count("\n") == 1
    assert len(result.stderr) < 500
    return result.stderr


@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        (decima_command, ("evaluate", "--policies", "fifo,{file}")),
        (decima_command, ("explain", "--model", "{file}")),
        (decima_command, ("train", "--out", "{run}", "--set", "initial_model={file}")),
        (deeprm_command, ("evaluate", "{file}")),
        (deeprm_command, ("train", "--out", "{run}", "--initial", "{file}")),
        (harmony_command, ("evaluate", "{file}")),
        (harmony_command, ("train", "--out", "{run}", "--initial", "{file}")),
        (
            harmony_command,
            ("train", "--out", "{run}", "--reward", "{file}", "--set", "world=model"),
        ),
    ],
)
def test_a_model_without_facts_in_its_header_is_refused(
    command: click.Group, arguments: tuple[str, ...], tmp_path: Path
) -> None:
    header = b'{"__metadata__": null, "a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}'
    file, run = tmp_path / "null.safetensors", tmp_path / "run"
    file.write_bytes(len(header).to_bytes(8, "little") + header + bytes(4))
    message = refusal(command, *(argument.format(file=file, run=run) for argument in arguments))
    assert str(file) in message
    assert " model of " in message
    assert load_arrays(file)[1] == {}
    assert not run.exists()


def test_a_wrong_model_is_refused_before_anything_compiles(tmp_path: Path) -> None:
    """Which takes minutes on a machine whose cache is empty."""
    file, cache = tmp_path / "wrong.safetensors", tmp_path / "cache"
    file.write_bytes(b"x" * 100)
    cache.mkdir()
    words = ("decima", "evaluate", "--workers", "2", "--policies", f"fifo,{file}")
    done = ran("-m", *words, environment={"NUMBA_CACHE_DIR": str(cache)})
    assert done.returncode == 2, done.stderr
    assert done.stderr.count("\n") == 1
    assert str(file) in done.stderr
    assert [path for path in cache.rglob("*") if path.is_file()] == []


@pytest.fixture(autouse=True)
def only_outlines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail where a network takes memory: those of shapes alone take none."""

    def guarded(make: Callable[..., Any]) -> Callable[..., Any]:
        def made(*arguments: Any, **settings: Any) -> Any:
            assert torch.empty(0).is_meta, "a network was built"
            return make(*arguments, **settings)

        return made

    for package, name in (
        (harmony.models, "ActorCritic"),
        (harmony.models, "RewardModel"),
        (deeprm.schedulers, "ImagePolicy"),
        (deeprm.schedulers, "CompactPolicy"),
    ):
        monkeypatch.setattr(package, name, guarded(getattr(package, name)))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("config", HARMONY.values(), ids=HARMONY)
def test_a_harmony_model_of_impossible_size_is_refused(
    config: Settings, kind: str, tmp_path: Path
) -> None:
    """In one line, before memory is taken for it."""
    path = tmp_path / "giant.safetensors"
    claim(path, config, format="harmony-1", kind=kind)
    option = "--initial" if kind == "policy" else "--reward"
    world = [] if kind == "policy" else ["--set", "world=model"]
    out = tmp_path / "run"
    message = refusal(harmony_command, "train", "--out", str(out), option, str(path), *world)
    assert f"{path}: its header names an impossible network" in message
    assert not out.exists()


@pytest.mark.parametrize("config", DEEPRM.values(), ids=DEEPRM)
def test_a_deeprm_model_of_impossible_size_is_refused(config: Settings, tmp_path: Path) -> None:
    """In one line, before memory is taken for it."""
    path = tmp_path / "giant.safetensors"
    claim(path, config, format=1)
    message = refusal(deeprm_command, "show", "-o", str(tmp_path / "x.png"), "--model", str(path))
    assert f"{path}: its header names an impossible network" in message


@pytest.mark.parametrize(
    ("command", "changes"),
    [
        (harmony_command, ("size.width=1024", "size.layers=16")),
        (deeprm_command, ("policy=compact", "cluster.horizon=10000", "cluster.resources=16")),
        (deeprm_command, tuple(f"cluster.{name}={value}" for name, value in WIDE_IMAGE.items())),
    ],
)
def test_what_could_not_be_read_again_is_not_trained(
    command: click.Group, changes: tuple[str, ...], tmp_path: Path
) -> None:
    """A training may ask for no more than a file may."""
    options = [part for change in changes for part in ("--set", change)]
    message = refusal(command, "train", "--out", str(tmp_path / "run"), *options)
    assert "parameters: at most" in message
    assert not (tmp_path / "run").exists()
