"""What the commands of `deeprm` and `harmony` have in common."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

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
    """Nothing is passed over in silence."""
    result = refused(command, "train", "--out", str(tmp_path / "run"), "--resume", *option)
    assert f"--resume keeps the run's settings: no {option[0]} beside it" in result.output


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("path", ["missing/state.png", "state.foo"])
def test_a_picture_that_cannot_be_written_is_one_line(
    command: click.Group, path: str, tmp_path: Path
) -> None:
    """Before anything is drawn."""
    result = refused(command, "show", "-o", str(tmp_path / path))
    assert path in result.output.replace("\n", "")
    assert not (tmp_path / path).exists()


@pytest.mark.parametrize(("command", "option"), [(deeprm, "--sets"), (harmony, "--sequences")])
def test_one_sample_has_no_interval_and_is_refused(command: click.Group, option: str) -> None:
    """It would be one of no width."""
    assert "x>=2" in refused(command, "evaluate", option, "1").output
