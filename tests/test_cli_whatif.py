"""`decima replay` and `decima whatif` as a platform engineer runs them."""

from __future__ import annotations

import html
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from decima.cli.main import main
from tests.commands import refused
from tests.spark_events import (
    EPOCH,
    Event,
    end,
    event,
    executor,
    stage,
    start,
    started,
    submitted,
    task,
    write,
)

REAL = Path(__file__).parent / "data" / "spark_logs" / "spark-4.3-zstd"
COLUMNS, SCREEN = 100, 24


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def test_replay_prints_errors_by_group_and_job() -> None:
    """Fidelity of jobs that ran alone, the jobs with the largest errors, and a sentence."""
    result = run("replay", REAL)
    assert result.exit_code == 0, result.output
    assert "spark-4.3-zstd: 4 jobs, 2 slots, Spark 4.3.0, under fifo" in result.output
    assert "alone" in result.output
    assert "revenue by region" in result.output
    assert "The replay is " in result.output
    assert "Where the time went" in result.output
    assert "without stragglers" in result.output


def test_replay_writes_every_job_as_json(tmp_path: Path) -> None:
    output = tmp_path / "replay.json"
    result = run("replay", REAL, "--json", output, "--draws", "2", "--slots", "4")
    assert result.exit_code == 0, result.output
    content = json.loads(output.read_text())
    assert (content["format"], content["version"]) == ("decima-replay", 1)
    assert content["applications"] == [{"name": "spark-4.3-zstd", "policy": "fifo", "slots": 4}]
    assert [len(content["jobs"]), content["fidelity"]["all"]["jobs"]] == [4, 4]
    assert content["fidelity"]["overlapping"] is None
    assert content["losses"]["avg_jct_s"]["mean"] > 0
    for job in content["jobs"]:
        assert sum(job["parts_s"].values()) == pytest.approx(job["recorded_s"])
    assert min(job["simulated_s"] for job in content["jobs"]) > 0


@pytest.mark.parametrize("protocol", ["session", "executors"])
def test_whatif_tells_all_in_a_hundred_columns(protocol: str, tmp_path: Path) -> None:
    """Verdict, table, caveats; JSON and page have the same figures."""
    output = tmp_path / "whatif.json"
    few = ("--draws", "2", "--sequences", "2")
    page = tmp_path / "whatif.html"
    options = ("--protocol", protocol, *few, "--explain", "--json", output, "--report", page)
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
    assert content["advised"] == []
    assert content["losses"]["without_failures_percent"] is None, "none failed"
    assert [sum(parts.values()) > 0 for parts in content["parts_s"]] == [True] * 4
    assert "Where the time went" in result.output
    assert "without stragglers" in result.output
    text = html.unescape(page.read_text())
    assert "Where the time went" in text
    assert "without stragglers" in text
    average_s = policies["fifo"]["recorded"]["avg_jct_s"]["mean"]
    assert f"<b>{average_s:.1f} s" in text or f"<b>{average_s:.2f} s" in text
    for words in ("4 jobs are few", "Policies on 2 slots", "no other jobs"):
        assert words in text


@pytest.mark.parametrize("command", ["replay", "whatif"])
def test_the_answer_for_the_sample_log_fits_one_screen(command: str, tmp_path: Path) -> None:
    """The verdict comes first, then why it can be trusted; the rest is named, or a table."""
    assert run("traces", "sample-logs", tmp_path).exit_code == 0
    result = run(command, tmp_path, "--draws", "2")
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert len(lines) <= SCREEN
    assert max(map(len, map(str.rstrip, lines[:3]))) <= COLUMNS
    if command == "whatif":
        assert lines[0].startswith("Next to nothing to gain: waiting for other jobs is at most 0 %")
        assert lines[2].startswith("Where the time went: driver ")
        assert lines[-1].startswith("--explain: 2 reasons to doubt these figures")
    trusted = lines[1 if command == "whatif" else 0]
    assert trusted.startswith("The replay is ")
    assert trusted.endswith("its figures can be relied on.")


def test_whatif_takes_its_reference_and_executors_from_the_user() -> None:
    """The first policy named is what the others are compared with."""
    few = ("--draws", "1", "--sequences", "1")
    result = run("whatif", REAL, "--executors", "6", "--policies", "strict_fair,fifo", *few)
    assert result.exit_code == 0, result.output
    assert "vs strict_fair" in result.output
    assert "12 slots" in result.output


def test_names_in_a_log_are_no_markup(tmp_path: Path) -> None:
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
    path, output = tmp_path / "log", tmp_path / "out.json"
    path.write_bytes(content)
    refused(run(command, path, "--json", output))
    assert not output.exists()


def log(path: Path, key: str, at_ms: int, *, jobs: int = 3, attempt: str | None = None) -> Path:
    """An application of jobs of four tasks on two slots, one job each 4 s, from `at_ms` on."""
    fields = {"App Name": f"shop {key}", "App ID": key, "Timestamp": EPOCH + at_ms}
    if attempt is not None:
        fields["App Attempt ID"] = attempt
    events: list[Event] = [
        event("LogStart", **{"Spark Version": "4.0.0"}),
        event("ApplicationStart", **fields),
        executor(at=at_ms + 3_000),
    ]
    for number in range(jobs):
        begin = at_ms + 4_000 + 4_000 * number
        events += [start(number, begin, [stage(number, 4)]), submitted(number, 4)]
        for k in range(4):
            launch = begin + 1_000 * (k // 2)
            events.append(task(number, k, launch, launch + 1_000, kind="ResultTask"))
        events.append(end(number, begin + 2_000))
    events.append(event("ApplicationEnd", Timestamp=EPOCH + at_ms + 4_000 + 4_000 * jobs))
    return write(path, events)


def test_whatif_of_applications_tells_all_in_a_hundred_columns(tmp_path: Path) -> None:
    """Sentences and a table of ways; JSON and page have the same figures."""
    logs = [log(tmp_path / key, key, at_ms) for key, at_ms in (("one", 0), ("two", 2_000))]
    output, page = tmp_path / "found.json", tmp_path / "page.html"
    few = ("--draws", "2", "--policies", "recorded,static,fifo,dynamic,strict_fair")
    files = ("--json", output, "--report", page)
    result = run("whatif", *logs, "--applications", *few, "--explain", *files)
    assert result.exit_code == 0, result.output
    for words in (
        "No other policy is better than recorded",
        "2 applications, up to 2",
        "2 executors of 2 slots each",
        "whole cluster each",
        "as these logs show",
    ):
        assert words in result.output.replace("\n", " ")
    assert max(map(len, map(str.rstrip, result.output.splitlines()))) <= COLUMNS
    content = json.loads(output.read_text())
    assert (content["format"], content["version"]) == ("decima-whatif-applications", 1)
    assert (content["executors"], content["slots_each"], content["moving_delay_s"]) == (2, 2, 3.0)
    assert list(content["ways"]) == ["recorded", "static", "fifo", "dynamic", "strict_fair"]
    assert content["ways"]["recorded"]["avg_jct_s"]["mean"] == pytest.approx(2.0, abs=0.01)
    assert content["ways"]["recorded"]["executors_started"] == [2, 2]  # of two slots each
    text = html.unescape(page.read_text())
    assert "Ways to divide the executors" in text
    assert "shop two" in text


def test_logs_that_are_not_of_applications_that_met_end_in_one_line(tmp_path: Path) -> None:
    """One application, a log twice, attempts of one, and applications one after the other."""
    one = log(tmp_path / "one", "one", 0)
    later = log(tmp_path / "later", "later", 900_000)
    copy = log(tmp_path / "copy", "one", 0)
    attempts = [log(tmp_path / f"try{n}", "tried", 5_000 * n, attempt=str(n)) for n in (1, 2)]
    for words, logs in (
        ("'shop one' is one application", [one]),
        ("is one application", [one, copy]),
        ("'shop tried' is one application", attempts),
        ("overlap in time", [one, later]),
    ):
        refused(run("whatif", *logs, "--applications"), words)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("replay",), "LOGS"),
        (("replay", "nowhere"), "nowhere"),
        (("replay", REAL, "--policy", "best"), "unknown policy 'best'"),
        (("replay", REAL, "--draws", "0"), "draws"),
        (("replay", REAL, "--slots", "0"), "--slots"),
        (("whatif", "nowhere"), "nowhere"),
        (("whatif", REAL, "--executors", "many"), "--executors"),
        (("whatif", REAL, "--policies", "fifo,best"), "unknown policy 'best'"),
        (("whatif", REAL, "--policies", ","), "no policy"),
        (("whatif", REAL, "--protocol", "decima-sim"), "--protocol"),
        (("whatif", REAL, "--sequences", "0"), "sequences"),
        (("whatif", REAL, "--moving-delay", "3"), "--moving-delay is for --applications"),
    ],
)
def test_wrong_arguments_end_in_one_line(arguments: tuple[str | Path, ...], words: str) -> None:
    refused(run(*arguments), words)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--protocol", "executors"), "--applications knows no --protocol"),
        (("--allocation", "log"), "--applications knows no --allocation"),
        (("--sequences", "3"), "--applications knows no --sequences"),
        (("--policies", "recorded,best"), "unknown policy 'best'"),
        (("--moving-delay", "-1"), "--moving-delay"),
    ],
)
def test_options_that_applications_lack_end_in_one_line(
    arguments: tuple[str, ...], words: str, tmp_path: Path
) -> None:
    logs = [log(tmp_path / key, key, 0) for key in ("one", "two")]
    refused(run("whatif", *logs, "--applications", *arguments), words)
