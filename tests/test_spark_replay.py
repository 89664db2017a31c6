"""Jobs of a trace as real Spark jobs: the graphs are kept, and times are near the simulator's."""

from __future__ import annotations

import json
from pathlib import Path
from unittest.mock import MagicMock

import numpy as np
import pytest

from decima.spark.replay import at_scale, simulated_in_pools_s, simulated_s, with_overhead
from decima.spark.settings import AttachError
from decima.spark.trial import (
    TrialConfig,
    TrialOutcome,
    draw_jobs,
    local_session,
    pools_of,
    run_trial,
)
from decima.whatif.replay.pools import Pool, Pools
from tests.commands import decima, refused, succeeded
from tests.shapes import chain, fork_join
from traces import Job, LevelDurations, Stage, Trace, load_trace, write_trace


def test_tasks_take_the_scaled_mean_of_their_stage() -> None:
    """In whole milliseconds, at least one; the graph stays what it was."""
    trace = load_trace("tpch")
    scaled = at_scale(trace, 0.01)
    for before, after in zip(trace.jobs, scaled.jobs, strict=True):
        assert len(after.stages) - len(before.stages) in {0, 1}
        for one, other in zip(before.stages, after.stages, strict=False):
            assert other.mean_ms == max(1.0, round(one.mean_ms * 0.01))
            assert (one.num_tasks, one.parents) == (other.num_tasks, other.parents)


def test_several_last_stages_get_a_common_end() -> None:
    """Spark runs a graph from one last stage; a job that has one gets no other."""
    level = chain("c", (1,)).stages[0].durations
    stages = (Stage("a", 2, (), level), Stage("b", 1, (0,), level), Stage("c", 1, (0,), level))
    jobs = Job("two ends", stages), fork_join("one end", (2, 5))
    two, one = at_scale(Trace("t", jobs), 1.0).jobs
    assert (two.stages[-1].parents, two.stages[-1].num_tasks) == ((1, 2), 1)
    assert len(one.stages) == len(jobs[1].stages)


def test_what_spark_adds_is_added_to_every_task() -> None:
    job = chain("c", (2, 1))
    longer = with_overhead(job, 7.0)
    assert [stage.mean_ms for stage in longer.stages] == [s.mean_ms + 7.0 for s in job.stages]
    assert [stage.parents for stage in longer.stages] == [(), (0,)]


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"policies": ("oracle",)}, "unknown policy 'oracle'"),
        ({"policies": ()}, "name at least one"),
        ({"jobs": 0}, "jobs must lie in 1..100,000"),
        ({"slots": 0}, "slots must lie in 1..100,000"),
        ({"time_scale": 0.0}, "time_scale must be positive"),
        ({"interarrival_s": float("nan")}, "interarrival_s must be positive"),
    ],
)
def test_impossible_trials_are_refused(changes: dict[str, object], part: str) -> None:
    with pytest.raises(AttachError, match=part):
        TrialConfig(**({"policies": ("fifo",)} | changes))  # type: ignore[arg-type]
    if "jobs" in changes:
        refused(decima("spark", "replay", "--jobs", "0"), part)


def test_the_command_writes_a_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what it prints; no Spark runs for a page that cannot be written."""
    ran = [
        TrialOutcome(name, np.array(jct_s), np.array(simulated_s), 4.0, None)
        for name, jct_s, simulated_s in (
            ("spark-fifo", [2.0, 4.0], [2.0, 3.2]), ("strict_fair", [1.0, 3.0], [1.0, 2.0])
        )
    ]  # fmt: skip
    monkeypatch.setattr("decima.cli.spark.run_trial", lambda *_: ran)
    command = ["spark", "replay", "--jobs", "2", "--slots", "4", "--report"]
    refused(decima(*command, tmp_path / "no" / "a.html"), "no folder")
    page = tmp_path / "a.html"
    result = succeeded(decima(*command, page))
    text = page.read_text()
    assert "Spark adds 4 ms to each" in text
    for figure in ("3.00 s", "2.60 s", "12.5%", "+15.4%", "2.00 s", "1.50 s", "25.0%", "+33.3%"):
        assert figure in result.stdout
        assert figure in text


@pytest.mark.slow
@pytest.mark.real_spark
def test_a_replay_is_near_the_simulator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Chains and fork-joins of half-second tasks: Spark adds less than they take themselves."""
    jobs = (chain("chain", (6, 2, 4)), fork_join("fork", (3, 6)))
    path, out = tmp_path / "small.parquet", tmp_path / "out.json"
    write_trace(Trace("small", jobs), path)
    config = TrialConfig(("strict_fair",), jobs=4, slots=32, interarrival_s=0.5, time_scale=0.5)
    drawn, arrival_s = draw_jobs(Trace("small", jobs), config)
    expected = simulated_s(drawn, arrival_s, 32, "strict_fair")
    few = ("--jobs", 4, "--slots", 32, "--interarrival", 0.5, "--time-scale", 0.5)
    command = ("spark", "replay", "--trace", path, *few, "--policies", "strict_fair")
    result = succeeded(decima(*command, "--json", out))
    rows = json.loads(out.read_text())["policies"]["strict_fair"]
    assert (rows["simulated_s"] >= expected).all()  # Spark's own time for a task comes on top
    np.testing.assert_allclose(rows["simulated_s"], expected, rtol=0.3)
    ratio = np.array(rows["jct_s"]) / expected
    # There is a slot for every task, so no job can gain by what delays another.
    assert (ratio > 0.9).all()
    assert np.median(ratio) < 2.0
    assert "strict_fair" in result.stdout


def refusals() -> list[tuple[Exception, str]]:
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import IllegalArgumentException, PySparkRuntimeError

    thrown = MagicMock(_target_id="o1")
    thrown.toString.return_value = (
        "java.lang.IllegalArgumentException: bad port\n\tat a.B(B.java:1)"
    )
    return [
        (Py4JJavaError("While calling\n", thrown), "java.lang.IllegalArgumentException: bad port"),
        (IllegalArgumentException("no such master\n\nJVM stacktrace:\na.B"), "no such master"),
        (PySparkRuntimeError("no gateway\nat all"), "(is Java there?): no gateway"),
        (FileNotFoundError(2, "No such file", "submit"), "[Errno 2] No such file: 'submit'"),
    ]


def test_a_spark_that_does_not_start_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it says at length, no traceback, and exit code 2."""
    sql = pytest.importorskip("pyspark.sql")
    for error, said in refusals():
        monkeypatch.setattr(sql.SparkSession.Builder, "getOrCreate", MagicMock(side_effect=error))
        result = decima("spark", "replay", "--jobs", 1, "--slots", 2, "--policies", "spark-fifo")
        assert result.exit_code == 2, result.exception
        line = result.stderr.splitlines()[-1]
        assert result.stderr.endswith(f"running spark-fifo\n{line}\n")
        assert line.startswith("error: Spark does not start")
        assert line.endswith(f" {said}")


def test_sessions_after_a_recorded_one_write_no_event_log(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The settings of the session that starts the JVM hold for the next one too, and its folder
    may be gone by then.
    """
    sql = pytest.importorskip("pyspark.sql")
    told = dict[str, str]()
    builder = MagicMock()
    for name in ("master", "appName"):
        getattr(builder, name).return_value = builder
    builder.config.side_effect = lambda key, value: (told.update({key: value}), builder)[1]
    monkeypatch.setattr(sql.SparkSession, "builder", builder)
    local_session(2, fair=False, event_log=tmp_path)
    assert told["spark.eventLog.enabled"] == "true"
    local_session(2, fair=False)
    assert told["spark.eventLog.enabled"] == "false"


# --- the pools of a log --------------------------------------------------------------------------


def pooled_trace(*names: str | None) -> Trace:
    """A job of four short tasks for each name, recorded in that pool."""
    level = LevelDurations.of(1, rest_ms=[300.0])
    jobs = tuple(
        Job(f"job {number}", (Stage("s", 4, (), (level,)),)) for number in range(len(names))
    )
    rows = [{} if name is None else {"pool": name} for name in names]
    recorded = {job.name: row for job, row in zip(jobs, rows, strict=True)}
    return Trace("log", jobs, {"recorded": recorded})


def test_jobs_go_to_their_recorded_pools() -> None:
    """Those without one to the default pool; a trace without any is refused."""
    trace = pooled_trace("web", None, "etl")
    assert pools_of(trace, trace.jobs[::-1]) == ["etl", "default", "web"]
    none = pooled_trace(None)
    with pytest.raises(AttachError, match="needs jobs with pools, which 'log' lacks"):
        pools_of(none, none.jobs)


def test_pools_decide_in_the_simulator() -> None:
    """One slot; the second pool's job overtakes where it has a minShare, else names decide."""
    trace = pooled_trace("a", "b")
    arrival_s = np.array([0.0, 0.1])
    pools = Pools({"a": Pool(), "b": Pool(min_share=1)})
    averages = [
        simulated_in_pools_s(trace.jobs, arrival_s, 1, ["a", "b"], settings)
        for settings in (None, pools)
    ]
    assert averages[0].round(6).tolist() == [1.2, 2.3]
    assert averages[1].round(6).tolist() == [2.4, 1.4]


@pytest.mark.slow
@pytest.mark.real_spark
def test_recorded_pools_run_on_spark(tmp_path: Path) -> None:
    """The same file for both: with a minShare the pool of the last job is served first."""
    pools = Pools({"web": Pool(min_share=2)})
    config = TrialConfig(
        ("spark-pools",), jobs=6, slots=2, interarrival_s=0.05, time_scale=1.0, pools=pools
    )
    trace = pooled_trace("etl", "etl", "web")
    (trial,) = run_trial(trace, config)
    web = np.array([name == "web" for name in pools_of(trace, draw_jobs(trace, config)[0])])
    assert web.any()
    assert not web.all()
    assert trial.jct_s[web].mean() < trial.jct_s[~web].mean()
    assert trial.simulated_s[web].mean() < trial.simulated_s[~web].mean()
