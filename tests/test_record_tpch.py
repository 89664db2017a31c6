"""Recording TPC-H on Spark: the plan, finding Java, what is kept of a recording, end to end."""

from __future__ import annotations

import importlib.util
import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.record_tpch.__main__ import main
from benchmarks.record_tpch.calibration import PUBLIC_WORK_MS
from benchmarks.record_tpch.java import find_java, packaged_java
from benchmarks.record_tpch.plan import QUERIES, RecordingPlan
from benchmarks.record_tpch.recording import read_recording
from benchmarks.record_tpch.session import check_space
from tests.real_spark import skip_without
from tests.spark_events import Event, simple_job, started, write
from traces import Job, LevelDurations, Stage, Trace, TraceError, read_trace
from traces.catalog import DATA_FOLDER
from traces.graph import depth
from traces.inflation import with_model
from traces.thinning import quantile_means, thinned
from traces.tpch.tables import TABLE_BYTES, find_generator, query_text

SHIPPED = DATA_FOLDER / "tpch.parquet"


# The plan


def test_all_queries_warm_up_before_anything_is_kept() -> None:
    """One pass on the smallest data under a name of its own, then the passes that count."""
    plan = RecordingPlan(scale_factors=(1.0, 0.5), queries=(3, 6), repetitions=2)
    runs = list(plan.runs())
    warm_up = [(run.description, run.scale_factor, run.query) for run in runs[:2]]
    assert warm_up == [("warm-up", 0.5, 3), ("warm-up", 0.5, 6)]
    jobs = ("sf1/q3", "sf1/q6", "sf0.5/q3", "sf0.5/q6")
    assert [run.description for run in runs[2:]] == [
        f"{job}/run{n}" for n in (1, 2) for job in jobs
    ]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"scale_factors": ()}, "scale factors []"),
        ({"scale_factors": (0.0,)}, "scale factor 0 must be above 0"),
        ({"scale_factors": (1e6,)}, "at most 1000"),
        ({"queries": (23,)}, "queries [23] must be some of 1 to 22"),
        ({"repetitions": 0}, "repetitions 0"),
        ({"driver_memory": "much"}, "driver memory 'much'"),
    ],
)
def test_impossible_plans_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(TraceError, match=re.escape(message)):
        RecordingPlan(**settings)


def test_every_query_is_there_and_together_they_read_every_table() -> None:
    """22 texts without a placeholder left, each of at least one table, all eight in all."""
    read: set[str] = set()
    for query in QUERIES:
        text = query_text(query, 1.0)
        assert ":" not in re.sub(r"'[^']*'", "", text)
        tables = {table for table in TABLE_BYTES if re.search(rf"\b{table}\b", text)}
        assert tables, f"query {query} reads no table"
        read |= tables
    assert read == set(TABLE_BYTES)


# Tables


def test_a_disk_too_small_is_found_out_first(tmp_path: Path) -> None:
    """A thousand thousand-gigabyte sizes fit on no disk here."""
    with pytest.raises(TraceError, match=r"the tables take about .* GB are free"):
        check_space(tmp_path, (1_000.0,) * 1_000)


# Fewer samples


def test_many_samples_become_means_of_equal_shares() -> None:
    """Five values in two shares: the middle one belongs to both by half."""
    values = np.array([5, 1, 4, 2, 3], np.float32)
    assert quantile_means(values, 2).tolist() == pytest.approx([(1 + 2 + 1.5) / 2.5, 12 / 3 * 1.05])


@given(
    values=st.lists(st.floats(1.0, 1e6, width=32), min_size=0, max_size=300),
    most=st.integers(1, 100),
)
def test_thinning_keeps_the_mean_the_order_and_the_range(values: list[float], most: int) -> None:
    """Whatever was measured: never more than asked, and work does not change."""
    before = np.array(values, np.float32)
    after = quantile_means(before, most)
    assert len(after) == min(len(values), most)
    if values:
        mean = before.mean(dtype=np.float64)
        assert after.mean(dtype=np.float64) == pytest.approx(mean, rel=1e-5)
        assert np.all(np.diff(after) >= -1e-6 * after[1:])
        assert before.min() * (1 - 1e-6) <= after[0]
        assert after[-1] <= before.max() * (1 + 1e-6)


def test_waves_keep_their_weights() -> None:
    """20 first tasks of 1,000 ms and 180 later ones of 10 ms, in 20 samples: work stays."""
    level = LevelDurations.of(2, first_ms=[1_000.0] * 20, rest_ms=[10.0] * 180)
    job = thinned(Job("j", (Stage("s", 200, (), (level,)),)), 20)
    (duration,) = job.stages[0].durations
    assert (duration.first_ms.tolist(), duration.rest_ms.tolist()) == ([1_000.0] * 2, [10.0] * 18)
    assert thinned(job, 20) == job
    with pytest.raises(TraceError, match="samples 0"):
        thinned(job, 0)


# What is kept of a recording


def run_events(job: int, description: str, at_ms: int, task_ms: Sequence[int]) -> list[Event]:
    """A Spark job of one stage, its tasks one after the other."""
    ends_ms = at_ms + np.cumsum(task_ms)
    tasks = [(int(end) - took, int(end)) for end, took in zip(ends_ms, task_ms, strict=True)]
    return simple_job(job, at_ms, tasks, on="driver", spark_job_description=description)


FACTS: dict[str, Any] = {
    "spark": "4.3.0",
    "java": "17.0.15 (Debian), from PATH",
    "generator": "tpchgen-cli 4.0.0",
    "layout": {"file_bytes": 4_000_000, "row_group_bytes": None},
    "variant": "cluster",
    "scale_factors": [0.5, 10.0],
    "repetitions": 2,
    "slots": 2,
    "master": "local[2]",
    "settings": {"spark.sql.adaptive.enabled": "false"},
    "driver_memory": "4g",
    "size_settings": {"0.5": {"spark.sql.shuffle.partitions": "50"}},
    "cpu": "a processor, 2 cores",
    "system": "Linux x86_64",
    "runs": 6,
    "wall_s": 12.0,
    "mean_load": 1.5,
}


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """A warm-up, two jobs run twice each, and the reading of a schema in between."""
    events = [
        *started("tpch"),
        *run_events(0, "warm-up", 0, [900]),
        *run_events(1, "schemas", 1_000, [5]),
        *run_events(2, "sf10/q2/run1", 2_000, [70, 90]),
        *run_events(3, "sf0.5/q11/run1", 3_000, [20]),
        *run_events(4, "sf10/q2/run2", 4_000, [40, 60]),
        *run_events(5, "sf0.5/q11/run2", 5_000, [50]),
    ]
    (tmp_path / "events").mkdir()
    write(tmp_path / "events" / "local-1", events)
    (tmp_path / "facts.json").write_text(json.dumps(FACTS))
    return tmp_path


def test_of_each_job_the_run_with_the_least_work_is_kept(recording: Path) -> None:
    """Sizes in order of size, not of spelling; warm-up and schemas are no jobs."""
    trace = read_recording(recording)
    assert [job.name for job in trace.jobs] == ["sf0.5/q11", "sf10/q2"]
    (small, large) = (job.stages[0].durations[0] for job in trace.jobs)
    assert (small.mean_ms, large.mean_ms) == (20.0, 50.0)
    assert (small.executors, large.executors) == (2, 2)
    # Arrivals and recorded times are on one clock that begins with the first run that is used.
    assert [job.arrival_ms for job in trace.jobs] == [0.0, 1_000.0]
    times = trace.metadata["recorded"]["sf10/q2"]
    assert (times["start_ms"], times["end_ms"]) == (1_000, 1_100)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "facts.json: cannot read"),
        ("{", "facts.json:1: not JSON"),
        ("[]", "the number of slots is missing"),
    ],
)
def test_a_folder_that_holds_no_recording_is_refused(
    recording: Path, content: str | None, message: str
) -> None:
    (recording / "facts.json").unlink()
    if content is not None:
        (recording / "facts.json").write_text(content)
    with pytest.raises(TraceError, match=message):
        read_recording(recording)


# The command


def test_the_command_reads_logs_that_were_kept(recording: Path, tmp_path: Path) -> None:
    """`--from-logs` needs neither Spark nor Java."""
    output = tmp_path / "again.parquet"
    done = CliRunner().invoke(
        main, ["--from-logs", str(recording), "-o", str(output)], catch_exceptions=False
    )
    assert done.exit_code == 0, done.output
    assert "2 jobs, 2 stages, 3 tasks" in done.output
    assert read_trace(output).name == "again"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-o", "x.csv"], "x.csv: a trace file ends in .parquet"),
        (["-o", "none/x.parquet"], "is no folder"),
        (["--scale-factors", "1,x"], "'1,x': numbers with commas between them"),
        (["--queries", "1.5"], "'1.5': whole numbers with commas between them"),
        (["--variant", "other"], "'other' is not one of"),
        (["--scale-factors", "0"], "scale factor 0 must be above 0"),
        (["--from-logs", "."], "facts.json: cannot read"),
    ],
)
def test_mistakes_end_in_one_line_without_a_traceback(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code in (1, 2)
    assert message in done.output.splitlines()[-1]
    assert not list(tmp_path.iterdir())


def missing_for_recording() -> str | None:
    if importlib.util.find_spec("pyspark") is None:
        return "needs the extra [spark]"
    try:
        find_generator()
        find_java(4, os.environ, packaged_java())
    except TraceError as error:
        return str(error)
    return None


@pytest.mark.slow
def test_two_queries_on_real_spark_become_two_jobs(tmp_path: Path) -> None:
    """Query 6 scans and adds up; query 4 joins two scans, groups, and sorts by sampling first."""
    skip_without(missing_for_recording(), os.environ)
    output = tmp_path / "small.parquet"
    arguments = ["-o", str(output), "--scale-factors", "0.01", "--queries", "4,6"]
    done = CliRunner().invoke(
        main, [*arguments, "--repetitions", "1", "--driver-memory", "1g"], catch_exceptions=False
    )
    assert done.exit_code == 0, done.output
    trace = read_trace(output)
    assert [job.name for job in trace.jobs] == ["sf0.01/q4", "sf0.01/q6"]
    grouped, summed = trace.jobs
    assert [stage.parents for stage in summed.stages] == [(), (0,)]
    assert sum(not stage.parents for stage in grouped.stages) == 2
    assert depth(grouped) >= 4
    assert 20 in [stage.num_tasks for stage in grouped.stages]
    assert all(len(stage.durations[0].fresh_ms) == 0 for stage in summed.stages)
    assert trace.metadata["skipped"] == {"lines": 0, "tasks without an end": 0}
    assert with_model(trace).jobs[0].stages[0].durations[-1].executors == 100


# The trace that comes with the project


@pytest.fixture(scope="module")
def shipped() -> Trace:
    return read_trace(SHIPPED)


def test_the_shipped_trace_has_the_documented_shape(shipped: Trace) -> None:
    """22 queries at five sizes; graphs like those of a cluster, measured on two slots."""
    assert len(shipped.jobs) == 5 * 22
    assert {job.name.partition("/")[2] for job in shipped.jobs} == {f"q{q}" for q in QUERIES}
    stages = [len(job.stages) for job in shipped.jobs]
    assert (min(stages), max(stages)) == (2, 18)
    assert 8 <= np.mean(stages) <= 10
    assert max(job.num_tasks for job in shipped.jobs) > 1_000
    levels = {level.executors for job in shipped.jobs for s in job.stages for level in s.durations}
    assert levels == {2}


def test_the_shipped_trace_asks_for_the_model_and_holds_none(shipped: Trace) -> None:
    """In the file are measurements; the model adds the public levels and mean work at load."""
    model = shipped.metadata["model"]
    assert "applied" not in model
    assert "not measured" in model["note"]
    modelled = with_model(shipped)
    assert [level.executors for level in modelled.jobs[0].stages[0].durations] == [
        2, 5, 10, 20, 40, 50, 80, 100,
    ]  # fmt: skip
    warm_ms = np.mean([job.work_ms for job in shipped.jobs]) * model["time_scale"]
    assert warm_ms == pytest.approx(PUBLIC_WORK_MS, rel=5e-3)


def test_the_shipped_trace_says_where_it_comes_from(shipped: Trace) -> None:
    """Versions and settings, and no path or name of the machine it was made on."""
    recipe = shipped.metadata["recipe"]
    for key in ("data", "spark", "java", "machine", "settings", "scale factors", "runs"):
        assert recipe[key]
    assert not re.search(r"/(work|tmp|root|home)/", json.dumps(dict(shipped.metadata)))
