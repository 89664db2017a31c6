"""`decima replay` and `decima whatif` as a platform engineer runs them."""

from __future__ import annotations

import html
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from decima.cli.errors import OneLineErrors
from decima.cli.replay import replay
from decima.cli.whatif import whatif
from tests.spark_events import end, executor, stage, start, started, submitted, task, write

REAL = Path(__file__).parent / "data" / "spark_logs" / "spark-4.3-zstd"
COLUMNS = 100


def run(*arguments: str | Path) -> Result:
    """Run one of the commands as part of a program, as `decima` does."""
    group = OneLineErrors("decima", commands={"replay": replay, "whatif": whatif})
    return CliRunner().invoke(group, [str(argument) for argument in arguments])


def test_replay_prints_errors_by_group_and_job() -> None:
    """Fidelity of jobs that ran alone, the jobs with the largest errors, and a sentence."""
    result = run("replay", REAL)
    assert result.exit_code == 0, result.output
    assert "spark-4.3-zstd: 4 jobs, 2 slots, Spark 4.3.0, under fifo" in result.output
    assert "alone" in result.output
    assert "revenue by region" in result.output
    assert "Simulated durations are typically" in result.output


def test_replay_writes_every_job_as_json(tmp_path: Path) -> None:
    """Recorded and simulated durations, so that anyone can compute other errors."""
    output = tmp_path / "replay.json"
    result = run("replay", REAL, "--json", output, "--draws", "2", "--slots", "4")
    assert result.exit_code == 0, result.output
    content = json.loads(output.read_text())
    assert (content["format"], content["version"]) == ("decima-replay", 1)
    assert content["applications"] == [{"name": "spark-4.3-zstd", "policy": "fifo", "slots": 4}]
    assert [len(content["jobs"]), content["fidelity"]["all"]["jobs"]] == [4, 4]
    assert content["fidelity"]["overlapping"] is None
    assert min(job["simulated_s"] for job in content["jobs"]) > 0


@pytest.mark.parametrize("protocol", ["session", "executors"])
def test_whatif_tells_all_in_a_hundred_columns(protocol: str, tmp_path: Path) -> None:
    """Verdict, table, caveats; JSON and page have the same figures."""
    output = tmp_path / "whatif.json"
    few = ("--draws", "2", "--sequences", "2")
    page = tmp_path / "whatif.html"
    options = ("--protocol", protocol, *few, "--json", output, "--report", page)
    result = run("whatif", REAL, *options)
    assert result.exit_code == 0, result.output
    for words in (
        "Next to nothing to gain",
        "4 jobs are few",
        "resampled",
        "no other jobs",
        "4 slots",
    ):
        assert words in result.output
    assert max(map(len, map(str.rstrip, result.output.splitlines()))) <= COLUMNS
    content = json.loads(output.read_text())
    assert list(content)[:2] == ["format", "version"]
    assert (content["format"], content["version"]) == ("decima-whatif", 1)
    assert list(content["sizes"]) == ["1", "2", "4"]
    policies = content["sizes"]["2"]["policies"]
    assert list(policies) == content["settings"]["policies"]
    assert policies["fifo"]["recorded"]["avg_jct_s"]["difference_percent"]["mean"] == 0.0
    assert content["sizes"]["1"]["policies"]["fifo"]["resampled"] is None
    text = html.unescape(page.read_text())
    average_s = policies["fifo"]["recorded"]["avg_jct_s"]["mean"]
    assert f"<b>{average_s:.1f} s" in text or f"<b>{average_s:.2f} s" in text
    for words in ("4 jobs are few", "Policies on 2 slots", "no other jobs"):
        assert words in text


def test_whatif_takes_its_reference_and_executors_from_the_user() -> None:
    """The first policy named is what the others are compared with."""
    few = ("--draws", "1", "--sequences", "1")
    result = run("whatif", REAL, "--executors", "6", "--policies", "strict_fair,fifo", *few)
    assert result.exit_code == 0, result.output
    assert "vs strict_fair" in result.output
    assert "12 slots" in result.output


def test_names_in_a_log_are_no_markup(tmp_path: Path) -> None:
    """A job called like a style is shown by its name."""
    path = write(
        tmp_path / "log",
        [
            *started("[bold]shop[/nothing]"),
            executor(),
            start(0, 0, [stage(0, 1)], spark_job_description="[red]x[/blue]"),
            submitted(0, 1),
            task(0, 0, 0, 100),
            end(0, 100),
        ],
    )
    for command in ("replay", "whatif"):
        result = run(command, path, "--draws", "1")
        assert result.exit_code == 0, result.output
    assert "[bold]shop[/nothing]/[red]x[/blue]" in run("replay", path, "--draws", "1").output


@pytest.mark.parametrize("command", ["replay", "whatif"])
@pytest.mark.parametrize("content", [b"", b"\x00\xff" * 100, b'{"Event":1}\n', b"[" * 10_000])
def test_what_is_no_log_ends_in_one_line(command: str, content: bytes, tmp_path: Path) -> None:
    """Exit code 2, no traceback, and nothing is written."""
    path, output = tmp_path / "log", tmp_path / "out.json"
    path.write_bytes(content)
    result = run(command, path, "--json", output)
    assert result.exit_code == 2
    assert result.output.startswith("error: ")
    assert result.output.count("\n") == 1
    assert not output.exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ("replay",),
        ("replay", "nowhere"),
        ("replay", REAL, "--policy", "best"),
        ("replay", REAL, "--draws", "0"),
        ("replay", REAL, "--slots", "0"),
        ("whatif", "nowhere"),
        ("whatif", REAL, "--executors", "0"),
        ("whatif", REAL, "--executors", "many"),
        ("whatif", REAL, "--policies", "fifo,best"),
        ("whatif", REAL, "--policies", ","),
        ("whatif", REAL, "--protocol", "decima-sim"),
        ("whatif", REAL, "--sequences", "0"),
        ("whatif", REAL, "--seed", "-1"),
    ],
)
def test_wrong_arguments_end_in_one_line(arguments: tuple[str | Path, ...]) -> None:
    """Exit code 2 and a line that begins with `error:`."""
    result = run(*arguments)
    assert result.exit_code == 2
    assert result.output.startswith("error: ")
    assert result.output.count("\n") == 1
