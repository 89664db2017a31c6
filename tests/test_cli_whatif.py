"""`decima replay` and `decima whatif` as a platform engineer runs them, caps and bounds too."""

from __future__ import annotations

import html
import json
from dataclasses import replace
from pathlib import Path

import pytest

from decima.whatif import what_if
from decima.whatif.spark_settings import COMMAND, DEFAULTS, bounds_files
from tests.commands import decima, refused, succeeded
from tests.recordings import FAST, read_events
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


# --- caps of pools and bounds on jobs -------------------------------------------------------------


FEW = ("--policies", "fifo", "--draws", "2", "--sequences", "2")


@pytest.fixture(scope="module")
def pooled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two slots: three tasks of pool "etl" from 0 to 2 s, one of pool "bi", submitted at 0.1 s,
    from 1 to 2 s; a job without a pool, of a task of 1 s, at 10 s.
    """
    events = [
        *started("app"),
        executor(),
        *simple_job(0, 0, [(0, 1000), (0, 1000), (1000, 2000)], spark_scheduler_pool="etl"),
        *simple_job(1, 100, [(1000, 2000)], spark_scheduler_pool="bi"),
        *simple_job(2, 10_000, [(10_000, 11_000)]),
    ]
    return write(tmp_path_factory.mktemp("log") / "log", events)


def bounded(log: Path, output: Path, *bounds: object) -> tuple[str, dict[str, object]]:
    """What is printed, and the bounds and times of the JSON."""
    result = succeeded(decima("whatif", log, *FEW, *bounds, "--json", output))
    content = json.loads(output.read_text())
    assert "max_jobs" not in content["settings"]
    return result.output, content["bounded"]


def test_a_cap_of_a_pool_costs_its_jobs_and_saves_others(pooled: Path, tmp_path: Path) -> None:
    """etl has one slot for three seconds, so that bi starts at once."""
    output, content = bounded(pooled, tmp_path / "out.json", "--max-slots", "pool.etl=1")
    assert (content["max_slots"], content["max_jobs"]) == ({"etl": 1}, None)
    assert content["jct_s"] == pytest.approx([3.0, 1.0, 1.0])
    flat = " ".join(output.split())
    assert "fifo with maxSlots.pool.etl 1: average JCT +2 %" in flat
    assert "pool etl (1 job) 2.00 s -> 3.00 s, +50 %" in flat
    assert "others (2 jobs) 1.45 s -> 1.00 s, -31 %" in flat
    assert "1 end clearly earlier, 1 clearly later" in flat


def test_a_bound_on_jobs_holds_the_next_one_back(pooled: Path, tmp_path: Path) -> None:
    """bi starts at the end of etl's job, though a slot is idle for a second before."""
    page = tmp_path / "out.html"
    output, content = bounded(pooled, tmp_path / "out.json", "--max-jobs", 1, "--report", page)
    assert (content["max_slots"], content["max_jobs"]) == (None, 1)
    assert content["jct_s"] == pytest.approx([2.0, 2.9, 1.0])
    assert "fifo, maxJobs 1" in output
    assert "fifo with maxJobs 1: average JCT +20 %" in html.unescape(page.read_text())
    _, both = bounded(pooled, tmp_path / "both.json", "--max-jobs", 2, "--max-slots", "pool.etl=2")
    assert both["jct_s"] == pytest.approx([2.0, 1.9, 1.0])


def test_the_job_that_waits_and_is_due_by_the_policy_comes_next(tmp_path: Path) -> None:
    """Two slots: from 1 s on a job of four tasks waits, and one of one task that came later."""
    waves = [(1000, 2000), (1000, 2000), (2000, 3000), (2000, 3000)]
    events = [
        *started("app"),
        executor(),
        *simple_job(0, 0, [(0, 1000), (0, 1000)]),
        *simple_job(1, 100, waves),
        *simple_job(2, 200, [(3000, 4000)]),
    ]
    path = write(tmp_path / "log", events)
    by_submission, shortest = [1.0, 2.9, 3.8], [1.0, 3.9, 1.8]
    for policy, expected_s in (
        ("fifo", by_submission),
        ("strict_fair", by_submission),
        ("tuned_srw", shortest),
        ("decima", shortest),
    ):
        _, content = bounded(path, tmp_path / "out.json", "--max-jobs", "1", "--policies", policy)
        assert content["jct_s"] == pytest.approx(expected_s)


def test_a_learned_policy_and_a_heuristic_have_bounds_too(pooled: Path, tmp_path: Path) -> None:
    for policy in ("decima", "tuned_srw"):
        bounds = ("--max-slots", "pool.etl=1", "--max-jobs", "1", "--policies", policy)
        _, content = bounded(pooled, tmp_path / "out.json", *bounds)
        assert content["jct_s"] == pytest.approx([3.0, 3.9, 1.0])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--max-slots", "pool.etll=1"), "no recorded job is in this pool (did you mean etl?)"),
        (("--max-slots", "pool.default=1"), "there are bi, etl"),
        (("--max-slots", "etl=1"), "--max-slots 'etl=1': pool.NAME=N is needed"),
        (("--max-slots", ""), "pool.NAME=N is needed"),
        (("--max-slots", "pool.etl"), "pool.NAME=N is needed"),
        (("--max-slots", "pool.etl=0"), "slots are a whole number from 1 to"),
        (("--max-slots", "pool.etl=two"), "slots are a whole number from 1 to"),
        (("--max-slots", "pool.etl=1e3"), "slots are a whole number from 1 to"),
        (
            ("--max-slots", "pool.etl=1", "--max-slots", "pool.etl=2"),
            "pool 'etl' is named twice",
        ),
        (("--max-slots", f"pool.etl={2**31}"), "slots are a whole number from 1 to 2,147,483,647"),
    ],
)
def test_bounds_that_make_no_sense_are_refused(
    pooled: Path, arguments: tuple[str, ...], words: str
) -> None:
    refused(decima("whatif", pooled, *arguments), words)


def test_a_cap_below_what_a_task_or_a_barrier_needs_is_refused(tmp_path: Path) -> None:
    """A barrier stage of two tasks in a pool that may hold one slot."""
    job = simple_job(0, 0, [(0, 1000)] * 2, barrier=True, spark_scheduler_pool="etl")
    path = write(tmp_path / "log", [*started("app"), executor(), *job])
    refused(decima("whatif", path, "--max-slots", "pool.etl=1"), "needs 2 slots at once")
    succeeded(decima("whatif", path, *FEW, "--max-slots", "pool.etl=2"))


def test_the_lines_of_bounds_have_the_names_of_pools_and_the_policy(tmp_path: Path) -> None:
    """Else one setting would be `spark.decima.maxSlots.pool.at`, and its value `night 1`."""
    record = read_events(
        tmp_path,
        executor(),
        *simple_job(0, 0, [(0, 1000)], spark_scheduler_pool="at night"),
        *simple_job(1, 100, [(100, 1000)], spark_scheduler_pool="a:b=c"),
    )
    caps = {"at night": 1, "a:b=c": 2}
    study = what_if(record, replace(FAST, policies=("fifo",), max_slots=caps))
    lines = bounds_files(study)[DEFAULTS].splitlines()
    assert "spark.decima.maxSlots.pool.at\\ night 1" in lines
    assert "spark.decima.maxSlots.pool.a\\:b\\=c 2" in lines
    other = replace(study, settings=replace(study.settings, policies=("tuned_srw",)))
    files = bounds_files(other)
    assert "spark.decima.priors /path/to/priors.parquet" in files[DEFAULTS], "as the study knows"
    assert "priors.parquet" in files[COMMAND]
