"""Comparing policies: pairing, figures, intervals, files, and what is refused."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from decima import EvaluationConfig, evaluate
from decima.errors import ConfigError
from decima.evaluation import runner
from decima.evaluation.config import draw_sequence
from decima.evaluation.notes import notes_of
from decima.evaluation.runner import Workload
from tests.commands import Command, refused, small_config, succeeded
from traces import Job, LevelDurations, Stage, Trace, load_trace

Json = dict[str, Any]


# --- pairing -------------------------------------------------------------------------------------


def test_policies_meet_the_same_sequences_and_the_same_tasks(trace_file: Path) -> None:
    """Two names of one rule give the same runs; they differ between sequences."""
    report = evaluate(
        small_config(
            trace_file,
            policies=("strict_fair", "weighted_fair"),
            parameters={"weighted_fair": {"alpha": 0.0}},
        )
    )
    fair, weighted = (report.policies[name] for name in ("strict_fair", "weighted_fair"))
    assert fair.avg_jct_s.tolist() == weighted.avg_jct_s.tolist()
    assert report.difference("weighted_fair").mean == 0
    assert report.difference("weighted_fair").ci95 == (0, 0)
    assert len(set(fair.avg_jct_s)) == 3


def test_a_trace_in_memory_is_that_of_its_file(trace_file: Path) -> None:
    """And a trace in place of a name says where it belongs."""
    trace = load_trace(str(trace_file))
    config = small_config(trace_file)
    of_file, in_memory = evaluate(config), evaluate(replace(config, trace="tpch"), trace=trace)
    assert in_memory.config.trace == trace.name
    for name, policy in of_file.policies.items():
        assert policy.avg_jct_s.tolist() == in_memory.policies[name].avg_jct_s.tolist()
    with pytest.raises(ConfigError, match=r"trace is a name or a file, .*evaluate\(config, trace="):
        EvaluationConfig(trace=trace)  # type: ignore[arg-type]


def test_results_are_tables(trace_file: Path) -> None:
    """A row for each policy and sequence, and one for each of their jobs; one line in print."""
    report = evaluate(small_config(trace_file, policies=("strict_fair", "fifo")))
    figures, jobs = report.to_arrow(), report.jobs_to_arrow()
    assert figures.num_rows == 2 * 3
    assert jobs.num_rows == sum(
        len(run.metrics.jct_s) for policy in report.policies.values() for run in policy.runs
    )
    means = jobs.group_by(["policy", "sequence"], use_threads=False).aggregate([("jct_s", "mean")])
    assert means["jct_s_mean"].to_pylist() == pytest.approx(figures["avg_jct_s"].to_pylist())
    assert set(jobs["job"].to_pylist()) <= set(report.trace.job_names)
    percent = report.difference("fifo").mean
    assert re.search(rf"\nfifo .*{re.escape(f'{percent:+.1f}')} %", report._repr_html_())
    assert repr(report).startswith("<Report, average JCT over 3 sequences: strict_fair ")
    assert repr(report).endswith(f" s ({percent:+.1f} %)>")


def test_a_policy_gives_the_same_whatever_stands_beside_it(trace_file: Path) -> None:
    """Neither the other policies, nor their order, nor the number of sequences matter."""
    alone = evaluate(small_config(trace_file, policies=("random",), sequences=2))
    among = evaluate(small_config(trace_file, policies=("fifo", "random", "sjf_cp")))
    assert (
        alone.policies["random"].avg_jct_s.tolist()
        == among.policies["random"].avg_jct_s[:2].tolist()
    )


def test_the_seed_decides_the_sequences(trace_file: Path) -> None:
    """Another seed gives other arrivals, and every sequence has its own."""
    settings = small_config(trace_file)
    trace = Workload.load(settings.trace).trace
    drawn = [
        draw_sequence(replace(settings, seed=seed), trace, number).arrival_ms.tolist()
        for seed in (0, 1)
        for number in (0, 1)
    ]
    assert len({tuple(times) for times in drawn}) == 4
    assert draw_sequence(settings, trace, 0).arrival_ms.tolist() == drawn[0]


def test_results_do_not_depend_on_the_number_of_workers(run: Command, tmp_path: Path) -> None:
    """The JSON of one and of two processes is the same to the byte."""
    reports = []
    for workers in (1, 2):
        path = tmp_path / f"{workers}.json"
        succeeded(run("--policies", "random,fifo", "--workers", workers, "--json", path))
        reports.append(path.read_bytes())
    assert reports[0] == reports[1]


# --- figures -------------------------------------------------------------------------------------


def test_the_json_has_the_documented_form(run: Command, tmp_path: Path) -> None:
    """Settings, and for every policy the figures with mean, interval and one value a sequence."""
    path = tmp_path / "out.json"
    succeeded(run("--policies", "strict_fair,fifo", "--json", path))

    content = json.loads(path.read_text())
    assert set(content) == {"format", "version", "config", "sequences", "policies"}
    assert (content["format"], content["version"]) == ("decima-evaluation", 3)
    for sequence in content["sequences"]:
        assert [len(values) for values in sequence.values()] == [6, 6, 6]
    assert content["config"]["executors"] == 4
    assert content["config"]["policies"] == list(content["policies"]) == ["strict_fair", "fifo"]
    for policy in content["policies"].values():
        for figure in ("avg_jct_s", "p95_jct_s", "makespan_s"):
            low, high = policy[figure]["ci95"]
            assert 0 < low <= policy[figure]["mean"] <= high
            assert len(policy[figure]["per_sequence"]) == 3


# --- arrivals and files --------------------------------------------------------------------------


def write_csv(path: Path, *rows: str) -> Path:
    path.write_text("arrival_ms,job\n" + "".join(f"{row}\n" for row in rows))
    return path


def test_arrivals_are_replayed_from_a_file(run: Command, trace_file: Path, tmp_path: Path) -> None:
    """Two jobs at their times, each with 2 s of moving and 1 s of work, on four executors."""
    arrivals = write_csv(tmp_path / "arrivals.csv", "500,one", "9000,one")
    out, timeline = tmp_path / "out.json", tmp_path / "timeline.csv"

    result = run(
        "--policies", "fifo", "--arrivals", arrivals, "--json", out, "--timeline", timeline
    )
    assert result.exit_code == 0, result.output

    assert "3 sequences of 2 jobs" in result.stdout
    figures = json.loads(out.read_text())["policies"]["fifo"]
    assert figures["avg_jct_s"]["per_sequence"] == [3.0, 3.0, 3.0]
    assert figures["makespan_s"]["per_sequence"] == [12.0, 12.0, 12.0]
    rows = list(csv.DictReader(timeline.open()))
    assert [(row["sequence"], row["job"], row["name"]) for row in rows[:2]] == [
        ("0", "0", "one"),
        ("0", "1", "one"),
    ]
    assert [float(row["start_ms"]) for row in rows[:2]] == [2500.0, 11000.0]
    assert [float(row["finish_ms"]) for row in rows[:2]] == [3500.0, 12000.0]


def test_batch_brings_all_jobs_at_0(run: Command, trace_file: Path, tmp_path: Path) -> None:
    """The flag is the arrival pattern `batch`, and contradicts any other."""
    settings = small_config(trace_file, arrivals="batch")
    assert not draw_sequence(settings, Workload.load(settings.trace).trace, 0).arrival_ms.any()
    flag, pattern = tmp_path / "flag.json", tmp_path / "pattern.json"
    assert run("--policies", "fifo", "--batch", "--json", flag).exit_code == 0
    assert run("--policies", "fifo", "--arrivals", "batch", "--json", pattern).exit_code == 0
    one, other = (path.read_bytes() for path in (flag, pattern))
    assert one == other
    for said in ("bursty", "poisson"):  # the default said aloud is no default
        refused(run("--batch", "--arrivals", said), f"--batch contradicts --arrivals {said}")


def test_the_timeline_holds_every_task_of_every_run(run: Command, tmp_path: Path) -> None:
    """Parquet and CSV hold the same rows; stages count within their job."""
    parquet, table = tmp_path / "t.parquet", tmp_path / "t.csv"
    out = tmp_path / "out.json"
    assert run("--policies", "fifo,random", "--timeline", parquet, "--json", out).exit_code == 0
    assert run("--policies", "fifo,random", "--timeline", table).exit_code == 0

    rows = pq.read_table(parquet).to_pylist()
    events = json.loads(out.read_text())["policies"]
    assert list(rows[0]) == [
        "policy", "sequence", "job", "name", "stage", "task", "executor", "start_ms", "finish_ms",
    ]  # fmt: skip
    for policy in ("fifo", "random"):
        mine = [row for row in rows if row["policy"] == policy]
        assert len(mine) == events[policy]["task_events"]
        keys = {(row["sequence"], row["job"], row["stage"], row["task"]) for row in mine}
        assert len(keys) == len(mine)
    stages = dict.fromkeys(("chain", "fork", "one", "varied"), 0)
    for row in rows:
        stages[row["name"]] = max(stages[row["name"]], row["stage"])
    assert {name: last for name, last in stages.items() if last} == {"chain": 2, "fork": 3}
    read = list(csv.DictReader(table.open()))
    assert [str(row["task"]) for row in rows] == [row["task"] for row in read]


# --- learned policies ----------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", ["executors", "session"])
@pytest.mark.parametrize("policy", ["decima", "decima:sampled"])
def test_side_by_side_a_sequence_goes_as_it_would_alone(
    trace_file: Path, policy: str, protocol: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lockstep is a matter of speed: with timelines, sequences are played one by one."""
    monkeypatch.setattr(runner, "LANES", 2)  # so that three sequences are two parts
    settings = small_config(trace_file, policies=("strict_fair", policy), protocol=protocol)
    together = evaluate(settings).policies[policy]
    alone = evaluate(settings, timelines=range(settings.sequences)).policies[policy]
    assert [run.sequence for run in together.runs] == [0, 1, 2]
    for side_by_side, other in zip(together.runs, alone.runs, strict=True):
        np.testing.assert_array_equal(side_by_side.metrics.jct_s, other.metrics.jct_s)
        assert side_by_side.metrics.decisions == other.metrics.decisions


def test_where_jobs_hardly_meet_it_is_said(run: Command) -> None:
    """An engineer who leaves out --executors and --interarrival would compare nothing."""
    few = ("--policies", "fifo", "--jobs", "3", "--sequences", "1", "--interarrival", "1000")
    assert "jobs hardly overlap" in run(*few).output
    # All at once they meet, whatever the gap that is not used.
    assert "jobs hardly overlap" not in run(*few, "--batch").output


# --- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["--policies", "fifo,fifo"], ["policy 'fifo' is named twice"]),
        (["--policies", "fastest"], ["unknown policy 'fastest'", "fifo"]),
        (["--policies", ","], ["no policy"]),
        (["--executors", "0"], ["executors", "1..100,000", "0"]),
        (["--jobs", "0"], ["jobs", "0"]),
        (["--interarrival", "0"], ["interarrival", "0"]),
        (["--time-limit", "0"], ["time limit", "0"]),
        (["--time-limit", "0.001"], ["no job of sequence 0 has arrived by then"]),
        (["--protocol", "spark"], ["unknown protocol 'spark'", "decima-sim"]),
        (["--arrivals", "weekly"], ["'weekly'", "poisson"]),
        (["--arrivals", "recorded"], ["no recorded arrival"]),
        (["--arrivals", "decima-sim"], ["no job '"]),
        (["--timeline", "tasks.txt"], ["tasks.txt", ".parquet"]),
    ],
)
def test_bad_settings_are_one_line(
    run: Command, tmp_path: Path, arguments: list[str], parts: list[str]
) -> None:
    """The value and the rule, exit code 2, and no file appears."""
    out = tmp_path / "out.json"
    refused(run(*arguments, "--json", out), *parts)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"policies": "fifo"}, "policies are a tuple of names, not 'fifo'"),
        ({"interarrival_s": 1e17}, r"interarrival must be above 0 and at most 1e\+06 s"),
        ({"parameters": {"fastest": {"alpha": 1.0}}}, "'fastest', which is not among"),
        ({"jobs": 1.5}, r"jobs is a whole number, not 1\.5"),
    ],
)
def test_settings_are_refused_in_python_too(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        EvaluationConfig(**settings)

    config = EvaluationConfig(policies=("fifo",), jobs=2, sequences=1)
    for own, refusal in ((SimpleNamespace(name="mine"), "give its class"), (object, "`name`")):
        with pytest.raises(ConfigError, match=refusal):
            evaluate(config, own=(own,))  # type: ignore[arg-type]


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a folder that takes no file")
def test_a_folder_that_takes_no_file_is_refused_before_the_runs(run: Command) -> None:
    refused(run("--policies", "fifo", "--json", "/proc/out.json"), "/proc/out.json: cannot write")


# --- notes ---------------------------------------------------------------------------------------


def test_short_tasks_and_long_moves_are_noted() -> None:
    """Tasks of a recorded session, on executors that move between applications."""
    stage = Stage("s", 10, (), (LevelDurations.of(1, first_ms=[100.0], rest_ms=[100.0]),))
    short = Trace("short", (Job("a", (stage,)),))
    config = EvaluationConfig(executors=2, interarrival_s=0.5)
    (note,) = notes_of(config, short)
    assert "2 s to move" in note
    assert "0.1 s on average" in note
    session = EvaluationConfig(executors=2, interarrival_s=0.5, protocol="session")
    assert notes_of(session, short) == []
