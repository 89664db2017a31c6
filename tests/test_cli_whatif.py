"""`decima replay` and `decima whatif` as a platform engineer runs them."""

from __future__ import annotations

import html
import json
from pathlib import Path

import pytest

from tests.commands import decima, refused, succeeded
from tests.spark_events import closing, executor, simple_job, started, write

REAL = Path(__file__).parent / "data" / "spark_logs" / "spark-4.3-zstd"
COLUMNS, SCREEN = 100, 24


def test_replay_tells_errors_and_losses_and_writes_every_job_as_json(tmp_path: Path) -> None:
    """Fidelity of jobs that ran alone, the jobs with the largest errors, and a sentence."""
    output = tmp_path / "replay.json"
    result = succeeded(decima("replay", REAL, "--json", output, "--draws", "2", "--slots", "4"))
    assert "spark-4.3-zstd: 4 jobs, 4 slots, Spark 4.3.0, under fifo" in result.output
    for words in ("alone", "revenue by region", "The replay is ", "Where the time went"):
        assert words in result.output
    assert "without stragglers" in result.output
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
    result = succeeded(decima("whatif", REAL, *options))
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
    text = html.unescape(page.read_text())
    for shown in (result.output, text):
        assert "Where the time went" in shown
        assert "without stragglers" in shown
    average_s = policies["fifo"]["recorded"]["avg_jct_s"]["mean"]
    assert f"<b>{average_s:.1f} s" in text or f"<b>{average_s:.2f} s" in text
    for words in ("4 jobs are few", "Policies on 2 slots", "no other jobs"):
        assert words in text


@pytest.mark.parametrize("command", ["replay", "whatif"])
def test_the_answer_for_the_sample_log_fits_one_screen(command: str, tmp_path: Path) -> None:
    """The verdict comes first, then why it can be trusted; the rest is named, or a table."""
    succeeded(decima("traces", "sample-logs", tmp_path))
    result = succeeded(decima(command, tmp_path, "--draws", "2"))
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
    few = ("--draws", 1, "--sequences", 1, "--policies", "strict_fair,fifo")
    result = succeeded(decima("whatif", REAL, "--executors", 6, *few))
    assert "vs strict_fair" in result.output
    assert "12 slots" in result.output


def test_names_in_a_log_are_no_markup(tmp_path: Path) -> None:
    job = simple_job(0, 0, [(0, 100)], spark_job_description="[red]x[/blue]")
    path = write(tmp_path / "log", [*started("[bold]shop[/nothing]"), executor(), *job])
    succeeded(decima("whatif", path, "--draws", 1))
    result = succeeded(decima("replay", path, "--draws", 1))
    assert "[bold]shop[/nothing]/[red]x[/blue]" in result.output


@pytest.mark.parametrize("command", ["replay", "whatif"])
@pytest.mark.parametrize("content", [b"", b"\x00\xff" * 100, b'{"Event":1}\n', b"[" * 10_000])
def test_what_is_no_log_ends_in_one_line(command: str, content: bytes, tmp_path: Path) -> None:
    path, output = tmp_path / "log", tmp_path / "out.json"
    path.write_bytes(content)
    refused(decima(command, path, "--json", output))
    assert not output.exists()


def log(path: Path, key: str, at_ms: int, attempt: str | None = None) -> Path:
    """An application of three jobs of four tasks on two slots, one each 4 s from `at_ms` on.

    Its name is like a style and a tag.
    """
    events = started(f"[bold]shop {key}[/nothing]<b>", key, at_ms, attempt)
    events.append(executor(at=at_ms + 3_000))
    for number in range(3):
        at = at_ms + 4_000 * (number + 1)
        waves = [(at, at + 1_000)] * 2 + [(at + 1_000, at + 2_000)] * 2
        events += simple_job(number, at, waves)
    return write(path, [*events, closing(at_ms + 16_000)])


def test_whatif_of_applications_tells_all_in_a_hundred_columns(tmp_path: Path) -> None:
    """Sentences and a table of ways; JSON and page have the same figures, and no name is markup."""
    logs = [log(tmp_path / key, key, at_ms) for key, at_ms in (("one", 0), ("two", 2_000))]
    output, page = tmp_path / "found.json", tmp_path / "page.html"
    few = ("--draws", "2", "--policies", "recorded,static,fifo,dynamic,strict_fair")
    files = ("--json", output, "--report", page)
    result = succeeded(decima("whatif", *logs, "--applications", *few, "--explain", *files))
    for words in (
        "No other policy is better than recorded",
        "2 applications, up to 2",
        "2 executors of 2 slots each",
        "whole cluster each",
        "as these logs show",
        "[bold]shop one[/nothing]<b>",
    ):
        assert words in " ".join(result.output.split())
    assert max(map(len, map(str.rstrip, result.output.splitlines()))) <= COLUMNS
    content = json.loads(output.read_text())
    assert (content["format"], content["version"]) == ("decima-whatif-applications", 1)
    assert (content["executors"], content["slots_each"], content["moving_delay_s"]) == (2, 2, 3.0)
    assert list(content["ways"]) == ["recorded", "static", "fifo", "dynamic", "strict_fair"]
    assert content["ways"]["recorded"]["avg_jct_s"]["mean"] == pytest.approx(2.0, abs=0.01)
    assert content["ways"]["recorded"]["executors_started"] == [2, 2]  # of two slots each
    text = html.unescape(page.read_text())
    assert "Ways to divide the executors" in text
    assert "[bold]shop two[/nothing]<b>" in text
    assert "[/nothing]<b>" not in page.read_text()


def test_logs_that_are_not_of_applications_that_met_end_in_one_line(tmp_path: Path) -> None:
    """One application, a log twice, attempts of one, and applications one after the other."""
    one = log(tmp_path / "one", "one", 0)
    later = log(tmp_path / "later", "later", 900_000)
    copy = log(tmp_path / "copy", "one", 0)
    other = log(tmp_path / "other", "other", 2_000)
    attempts = [log(tmp_path / f"try{n}", "tried", 5_000 * n, str(n)) for n in (1, 2)]
    for words, logs in (
        ("shop one[/nothing]<b>' is one application", [one]),
        ("is one application", [one, copy]),
        ("shop tried[/nothing]<b>' is one application", attempts),
        ("overlap in time", [one, later]),
        ("unknown policy 'best'", [one, other, "--policies", "recorded,best"]),
    ):
        refused(decima("whatif", *logs, "--applications"), words)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("replay", "LOGS"),
        ("replay nowhere", "nowhere"),
        ("replay LOG --policy best", "unknown policy 'best'"),
        ("replay LOG --draws 0", "draws"),
        ("replay LOG --slots 0", "--slots"),
        ("whatif nowhere", "nowhere"),
        ("whatif LOG --executors many", "--executors"),
        ("whatif LOG --policies fifo,best", "unknown policy 'best'"),
        ("whatif LOG --policies ,", "no policy"),
        ("whatif LOG --protocol decima-sim", "--protocol"),
        ("whatif LOG --sequences 0", "sequences"),
        ("whatif LOG --moving-delay 3", "--moving-delay is for --applications"),
        ("whatif LOG --applications --protocol executors", "--applications knows no --protocol"),
        ("whatif LOG --applications --allocation log", "--applications knows no --allocation"),
        ("whatif LOG --applications --sequences 3", "--applications knows no --sequences"),
        ("whatif LOG --applications --price 1", "--applications knows no --price"),
        ("whatif LOG --applications --max-jobs 2", "--applications knows no --max-jobs"),
        ("whatif LOG --applications --submit 2", "--applications knows no --submit"),
        ("whatif LOG --applications --moving-delay -1", "--moving-delay"),
        ("whatif LOG --price cheap", "--price"),
        ("whatif LOG --price nan", "--price"),
        ("whatif LOG --price 0", "--price"),
        ("whatif LOG --price 1 --deadline 0", "--deadline"),
        ("whatif LOG --deadline 3", "--deadline needs --price"),
        ("whatif LOG --price 1 --max-jobs 2", "--price knows no --max-jobs"),
        ("whatif LOG --price 1 --max-slots pool.etl=1", "--price knows no --max-slots"),
        ("whatif LOG --max-jobs 0", "0 is not in the range"),
        ("whatif LOG --max-jobs 2147483648", "is not in the range"),
        ("whatif LOG --max-jobs two", "'two' is not a valid integer"),
        ("whatif LOG --max-jobs 2 --protocol executors", "need the protocol session"),
        ("whatif LOG --max-jobs 2 --allocation maxExecutors=2", "under dynamic allocation"),
        ("whatif LOG --submit 0", "'0' must be together or a whole number"),
        ("whatif LOG --submit x", "'x' must be together or a whole number"),
        ("whatif LOG --submit 2 --protocol executors", "--submit needs --protocol session"),
        ("whatif LOG --gpus 1 --executors 2", "--gpus knows no --executors"),
        ("whatif LOG --each --price 1", "--each knows no --price"),
        ("whatif LOG --each --task-cpus 2", "--each knows no --task-cpus"),
        ("whatif LOG --each --applications", "knows no --applications "),
        ("whatif LOG --each --moving-delay 1", "knows no --moving-delay "),
        ("whatif LOG --each --cluster local", "contradicts --cluster"),
    ],
)
def test_impossible_requests_are_one_line(line: str, words: str) -> None:
    refused(decima(*(str(REAL) if word == "LOG" else word for word in line.split())), words)
