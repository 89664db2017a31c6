"""`decima explain`: what it prints and writes."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from decima.cli.main import main
from decima.report.explain.reasons import LEAST_WEIGHT
from tests.commands import refused
from tests.shapes import chain, fork_join
from tests.test_explain import BUSY, decided, saved, zeroed
from traces import Trace, write_trace


@pytest.fixture
def tiny() -> tuple[str, ...]:
    """Arguments of a small workload."""
    return ("--jobs", "12", "--interarrival", "1", "--executors", "4")


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["explain", *(str(argument) for argument in arguments)])


def test_the_command_prints_and_writes_the_same(
    trace_file: Path, tiny: tuple[str, ...], tmp_path: Path
) -> None:
    """Stages, limits and reasons on the screen, probabilities first; all of it in the file."""
    output = tmp_path / "decision.json"
    model = saved(decided(), tmp_path)
    chosen = ("--decision", BUSY, "--json", output)
    result = invoke("--trace", trace_file, *tiny, "--model", model, *chosen)
    assert result.exit_code == 0, result.output
    content = json.loads(output.read_text())
    assert (content["decision"], content["sequence"], content["model"]) == (BUSY, 0, model)
    heading = rf"decision {BUSY}(, planned at \d+)? at {content['time_s']:.1f} s"
    assert re.search(heading, result.stdout) is not None
    assert "limits of this stage" in result.stdout
    assert f"{100 * content['stages'][0]['probability']:.1f} %" in result.stdout
    assert content["taken"]["name"] in result.stdout
    unwrapped = " ".join(result.stdout.split())
    assert all(sentence in unwrapped for sentence in content["words"])
    assert unwrapped.index("leave the rest idle:") < unwrapped.index("Weights need not add up")
    assert content["reasons"]
    for reason in content["reasons"]:
        assert abs(reason["weight"]) >= LEAST_WEIGHT
        parts = reason["stage"] + reason["limit"] + reason["executor_class"]
        assert reason["weight"] == pytest.approx(parts)
        assert f"{reason['weight']:+.2f}" in result.stdout
    assert content["columns"] == []
    every = invoke("--trace", trace_file, *tiny, "--model", model, *chosen, "--columns")
    single = json.loads(output.read_text())["columns"]
    assert single
    assert all(one["name"] in every.stdout for one in single)


def test_the_command_gives_no_reason_for_weights_of_zero(
    trace_file: Path, tiny: tuple[str, ...], tmp_path: Path
) -> None:
    output = tmp_path / "decision.json"
    model = saved(zeroed(), tmp_path)
    result = invoke("--trace", trace_file, *tiny, "--model", model, "--columns", "--json", output)
    assert result.exit_code == 0, result.output
    content = json.loads(output.read_text())
    assert (content["reasons"], content["columns"]) == ([], [])
    assert f"{len(content['stages'])} stages to choose from" in result.stdout
    assert len(content["stages"]) > 3  # the busiest decision is the default
    assert "No reason changes the log-probability" in result.stdout
    assert "0.00" not in result.stdout.replace("0.00 s", "")


def test_names_in_a_trace_are_no_markup(tiny: tuple[str, ...], tmp_path: Path) -> None:
    """A job called like a style is shown by its name."""
    path = tmp_path / "odd.parquet"
    odd = replace(fork_join("fork", (2, 5)), name="[bold]shop[/nothing]")
    write_trace(Trace("odd", (odd, chain("chain", (4, 1, 3)))), path)
    result = invoke("--trace", path, *tiny, "--model", saved(decided(), tmp_path), "--time", 1)
    assert result.exit_code == 0, result.output
    assert "[bold]shop[/nothing]" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--decision", "1000000"), "there is no decision 1000000: the run is over after"),
        (("--time", "1e6"), "no decision at 1e+06 s or later"),
        (("--decision", "3", "--time", "4"), "give one of them"),
        (("--decision", "0"), "--decision"),
        (("--sequence", "-1"), "--sequence"),
        (("--sequences", "3"), "No such option"),
        (("--model", "fifo"), "not decima, nor a file ending"),
        (("--model", "absent.safetensors"), "absent.safetensors"),
        (("--json", "nowhere/file.json"), "there is no folder nowhere"),
    ],
    ids=str,
)
def test_mistakes_are_one_line(
    arguments: tuple[str, ...],
    words: str,
    trace_file: Path,
    tiny: tuple[str, ...],
    tmp_path: Path,
) -> None:
    """Each names what is wrong and leaves no file."""
    model = saved(decided(), tmp_path)
    refused(invoke("--trace", trace_file, *tiny, "--model", model, *arguments), words)
