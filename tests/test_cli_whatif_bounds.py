"""`decima whatif` with a cap of a pool or a bound on jobs, on a log whose answers are known."""

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
from tests.spark_events import executor, simple_job, started, write

FEW = ("--policies", "fifo", "--draws", "2", "--sequences", "2")


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
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


def bounded(log: Path, output: Path, *bounds: str) -> tuple[str, dict[str, object]]:
    """What is printed, and the bounds and times of the JSON."""
    result = succeeded(decima("whatif", log, *FEW, *bounds, "--json", output))
    content = json.loads(output.read_text())
    assert "max_jobs" not in content["settings"]
    return result.output, content["bounded"]


def test_a_cap_of_a_pool_costs_its_jobs_and_saves_others(log: Path, tmp_path: Path) -> None:
    """etl has one slot for three seconds, so that bi starts at once."""
    output, content = bounded(log, tmp_path / "out.json", "--max-slots", "pool.etl=1")
    assert (content["max_slots"], content["max_jobs"]) == ({"etl": 1}, None)
    assert content["jct_s"] == pytest.approx([3.0, 1.0, 1.0])
    flat = " ".join(output.split())
    assert "fifo with maxSlots.pool.etl 1: average JCT +2 %" in flat
    assert "pool etl (1 job) 2.00 s -> 3.00 s, +50 %" in flat
    assert "others (2 jobs) 1.45 s -> 1.00 s, -31 %" in flat
    assert "1 end clearly earlier, 1 clearly later" in flat


def test_a_bound_on_jobs_holds_the_next_one_back(log: Path, tmp_path: Path) -> None:
    """bi starts at the end of etl's job, though a slot is idle for a second before."""
    page = tmp_path / "out.html"
    output, content = bounded(log, tmp_path / "out.json", "--max-jobs", "1", "--report", str(page))
    assert (content["max_slots"], content["max_jobs"]) == (None, 1)
    assert content["jct_s"] == pytest.approx([2.0, 2.9, 1.0])
    assert "fifo, maxJobs 1" in output
    assert "fifo with maxJobs 1: average JCT +20 %" in html.unescape(page.read_text())
    _, both = bounded(log, tmp_path / "both.json", "--max-jobs", "2", "--max-slots", "pool.etl=2")
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


def test_a_learned_policy_and_a_heuristic_have_bounds_too(log: Path, tmp_path: Path) -> None:
    for policy in ("decima", "tuned_srw"):
        bounds = ("--max-slots", "pool.etl=1", "--max-jobs", "1", "--policies", policy)
        _, content = bounded(log, tmp_path / "out.json", *bounds)
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
    log: Path, arguments: tuple[str, ...], words: str
) -> None:
    refused(decima("whatif", log, *arguments), words)


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
