"""What the commands of `deeprm` and `harmony` have in common."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from decima.rl.command import OneLineErrors, Refused
from decima.rl.drawing import panels
from decima.rl.errors import NoModelsError
from decima.rl.study.figures import Measurement, to_measure, write_figures
from deeprm.cli import main as deeprm
from harmony.cli import main as harmony

COMMANDS = [deeprm, harmony]


def refused(command: click.Group, *arguments: str) -> Result:
    result = CliRunner().invoke(command, arguments)
    assert result.exit_code == 2
    return result


@pytest.mark.parametrize(
    ("command", "option"),
    [
        (deeprm, ("--load", "0.9")),
        (deeprm, ("--set", "nonsense=9")),
        (deeprm, ("--seed", "1")),
        (harmony, ("--servers", "30")),
        (harmony, ("--set", "nonsense=9")),
        (harmony, ("--what", "recipe")),
    ],
)
def test_a_resumed_run_keeps_its_settings(
    command: click.Group, option: tuple[str, str], tmp_path: Path
) -> None:
    result = refused(command, "train", "--out", str(tmp_path / "run"), "--resume", *option)
    assert f"--resume keeps the run's settings: no {option[0]} beside it" in result.output


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("path", ["missing/state.png", "state.foo"])
def test_a_picture_that_cannot_be_written_is_one_line(
    command: click.Group, path: str, tmp_path: Path
) -> None:
    result = refused(command, "show", "-o", str(tmp_path / path))
    assert path in result.output.replace("\n", "")
    assert not (tmp_path / path).exists()


@pytest.mark.parametrize("command", COMMANDS)
def test_a_training_on_a_table_that_is_none_leaves_nothing(
    command: click.Group, tmp_path: Path
) -> None:
    """The table is read after the run folder was made."""
    table = tmp_path / "jobs.csv"
    table.write_text("odd\n")
    message = refused(
        command, "train", "--out", str(tmp_path / "a" / "b"), "--jobs", str(table)
    ).stderr
    assert "jobs.csv: unknown column 'odd'" in message
    assert os.listdir(tmp_path) == ["jobs.csv"]


@pytest.mark.parametrize(
    ("command", "figure"),
    [
        *((deeprm, name) for name in ("figure6", "figure7")),
        *((harmony, name) for name in ("figure12", "figure13", "figure15", "table2")),
    ],
)
def test_a_figure_without_its_models_is_one_line(
    command: click.Group, figure: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not an empty picture; the line says what to train."""
    monkeypatch.setattr("deeprm.figures.TUNING_SETS", 2)
    (tmp_path / "models").mkdir()
    options = ("--models", str(tmp_path / "models"), "--out", str(tmp_path / "figures"))
    size = ("--sets" if command is deeprm else "--sequences", "2")
    progress, told = refused(command, "reproduce", "--only", figure, *options, *size).stderr.split(
        "\n", 1
    )
    assert progress.startswith(f"{figure}, about ")
    assert told.startswith(f"error: {figure}: no models: `study` trains ")
    assert told.count("\n") == 1
    assert os.listdir(tmp_path / "figures") == []


def test_figures_without_models_do_not_keep_the_others_from_being_drawn(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def measure(name: str) -> dict[str, Any]:
        if name == "two":
            raise NoModelsError("recipe-6-0")
        return {"name": name}

    seconds = {"one": 5.0, "two": 100.0}
    measurement = Measurement(seconds, {}, measure, {"one": lambda _: panels(1)[0]})
    write_figures(("one", "two"), measurement, tmp_path)
    assert sorted(os.listdir(tmp_path)) == ["one.json", "one.png", "one.svg"]
    assert capsys.readouterr().err.splitlines() == [
        "one, about 5 s of one core (1 of 2, 2 min left)",
        "two, about 2 min of one core (2 of 2, 2 min left)",
        "two: no models: `study` trains recipe-6-0, and --models reads them",
    ]


def test_a_figure_is_kept_while_its_settings_are_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is measured again without its picture; with other settings it is refused."""
    drawn = {name: lambda _: panels(1)[0] for name in ("one", "two")}
    first = Measurement({"one": 1.0, "two": 1.0}, {"sets": 4}, lambda name: {"name": name}, drawn)
    write_figures(("one", "two"), first, tmp_path)
    capsys.readouterr()
    assert to_measure(("one", "two"), first, tmp_path) == []
    assert capsys.readouterr().err.count("is there (--force measures it again)\n") == 2
    (tmp_path / "two.png").unlink()
    assert to_measure(("one", "two"), first, tmp_path) == ["two"]
    with pytest.raises(Refused, match=r"one\.json: was measured with other settings: .* --force"):
        to_measure(("one",), replace(first, settings={"sets": 5}), tmp_path)


def test_whatever_the_system_refuses_is_one_line() -> None:
    """Also where nothing but the command itself is there to tell it."""

    @click.command()
    def peep() -> None:
        raise PermissionError(errno.EACCES, "Permission denied", "/secret/x")

    group = OneLineErrors("test", commands=[peep])
    assert refused(group, "peep").stderr == "error: /secret/x: Permission denied\n"
