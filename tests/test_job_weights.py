"""Weights and deadlines of jobs: from any format, through every change, to what they decide."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from decima.evaluation.config import EvaluationConfig
from decima.objectives import objective_named
from decima.rl.parallel.local import HERE
from decima.training.tuning import FIRST_TRAINING_SEQUENCE, Candidates
from tests.commands import SMALL, decima, raises_one_line, refused, succeeded
from tests.test_metrics import two_jobs
from tests.test_training import sets
from traces import Job, Stage, Trace, TraceError, load_trace, read_trace, to_arrays, write_trace
from traces.dataset import read_dataset, write_dataset
from traces.estimates import drawn_demands
from traces.inflation import ExecutorModel
from traces.parquet import FORMAT, SCHEMAS
from traces.thinning import thinned

CSV = """job,stage,num_tasks,task_ms,weight,deadline_ms
heavy,a,4,1000,2.5,90000
heavy,b,1,500,2.5,
plain,a,2,100,,
late,a,1,100,,1500
"""
WORTH = {"heavy": (2.5, 90_000.0), "plain": (1.0, None), "late": (1.0, 1_500.0)}


def worth(trace: Trace) -> dict[str, tuple[float, float | None]]:
    return {job.name: (job.weight, job.deadline_ms) for job in trace.jobs}


def as_json(**of_job: Any) -> str:
    """A JSON trace of one job with these keys."""
    stages = [{"name": "a", "num_tasks": 1, "task_ms": 5}]
    return json.dumps({"jobs": [{"name": "j", "stages": stages, **of_job}]})


@pytest.fixture
def trace(tmp_path: Path) -> Trace:
    path = tmp_path / "jobs.csv"
    path.write_text(CSV)
    return load_trace(str(path))


# --- formats -------------------------------------------------------------------------------------


def test_every_format_holds_both(trace: Trace, tmp_path: Path) -> None:
    """CSV, JSON, a trace file, a folder of several; jobs that lack either are as usual."""
    assert worth(trace) == WORTH
    write_trace(trace, tmp_path / "jobs.parquet")
    assert worth(read_trace(tmp_path / "jobs.parquet")) == WORTH
    write_dataset(trace, tmp_path / "parts", part_values=1)
    assert len(list((tmp_path / "parts").glob("*.parquet"))) == 3
    assert worth(read_dataset(tmp_path / "parts")) == WORTH
    for given, loaded in (
        ({"weight": 2.5, "deadline_ms": 9}, (2.5, 9.0)),
        ({"weight": None, "deadline_ms": None}, (1.0, None)),
        ({}, (1.0, None)),
    ):
        (tmp_path / "jobs.json").write_text(as_json(**given))
        assert worth(load_trace(str(tmp_path / "jobs.json"))) == {"j": loaded}


@pytest.mark.parametrize(
    ("changes", "version"),
    [({}, 1), ({"slots": 2}, 2), ({"weight": 2.0}, 3), ({"deadline_ms": 5.0}, 3)],
)
def test_a_file_has_the_first_version_that_can_hold_it(
    changes: dict[str, Any], version: int, tmp_path: Path
) -> None:
    stage = replace(Stage.fixed("a", 1, 5.0), slots=changes.pop("slots", 1))
    path = tmp_path / "t.parquet"
    write_trace(Trace("t", (Job("j", (stage,), **changes),)), path)
    schema = pq.read_schema(path)
    assert json.loads(schema.metadata[FORMAT.encode()])["version"] == version
    assert schema.equals(SCHEMAS[version])


def parquet(path: Path, version: int, **columns: Any) -> Path:
    """A file of one job by another writer."""
    level = {"executors": 1, "fresh_ms": [], "first_ms": [], "rest_ms": [1.0]}
    stage = {"name": "a", "num_tasks": 1, "parents": [], "durations": [level]}
    header = {"format": FORMAT, "version": version, "name": "n", "metadata": {}}
    schema = SCHEMAS[version].with_metadata({FORMAT: json.dumps(header)})
    row = {"name": "j", "stages": [stage], **columns}
    pq.write_table(pa.Table.from_pylist([row], schema=schema), path)
    return path


@pytest.mark.parametrize("version", SCHEMAS)
def test_files_without_either_are_read(version: int, tmp_path: Path) -> None:
    """Those of older writers lack the columns, later ones may hold nulls."""
    loaded = read_trace(parquet(tmp_path / "t.parquet", version))
    assert worth(loaded) == {"j": (1.0, None)}
    assert to_arrays(loaded).deadline_ms.tolist() == [math.inf]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(("weight", value) for value in (0.0, -3.0, math.inf, math.nan)),
        *(("deadline_ms", value) for value in (0.0, -3.0, math.inf, math.nan, 1e300)),
    ],
)
def test_impossible_values_are_refused_by_name(key: str, value: float, tmp_path: Path) -> None:
    paths = [parquet(tmp_path / "t.parquet", 3, **{key: value})]
    for name, text in (
        ("t.csv", f"job,stage,num_tasks,task_ms,{key}\nj,a,1,5,{value}\n"),
        ("t.json", as_json(**{key: value})),
    ):
        paths.append(tmp_path / name)
        paths[-1].write_text(text)
    for path in paths:
        with raises_one_line(TraceError, match=r"must be|not a number") as caught:
            load_trace(str(path))
        message = str(caught.value)
        assert message.startswith(str(path))
        assert key.removesuffix("_ms") in message or "not a number" in message
        assert f"{value:g}".lower() in message.lower()


# --- changes of a trace --------------------------------------------------------------------------


def test_changes_of_a_trace_keep_both(trace: Trace, tmp_path: Path) -> None:
    thin = replace(trace, jobs=tuple(thinned(job, 1) for job in trace.jobs))
    assert worth(thin) == WORTH
    assert worth(drawn_demands(trace, 100.0, np.random.default_rng(0))) == WORTH
    (tmp_path / "other.csv").write_text("job,stage,num_tasks,task_ms,weight\nlast,a,1,5,7\n")
    files = (tmp_path / "jobs.csv", tmp_path / "other.csv")
    succeeded(decima("traces", "import", "csv", *files, "-o", tmp_path / "all.parquet"))
    assert worth(read_trace(tmp_path / "all.parquet")) == WORTH | {"last": (7.0, None)}


def test_deadlines_follow_a_change_of_the_unit_of_time(trace: Trace) -> None:
    slower = ExecutorModel(0.0, 20.0).apply(trace)
    assert worth(slower) == {
        name: (weight, None if deadline_ms is None else 20 * deadline_ms)
        for name, (weight, deadline_ms) in WORTH.items()
    }


def test_commands_show_both(trace: Trace, tmp_path: Path) -> None:
    """`show` those of a job, `info` those of all; neither where there are none."""
    path = tmp_path / "jobs.csv"
    heavy = " ".join(decima("traces", "show", path, "heavy").stdout.split())
    assert "weight 2.5" in heavy
    assert "due after 90.0 s" in heavy
    plain = decima("traces", "show", path, "plain").stdout
    assert "weight" not in plain
    assert "due" not in plain
    info = decima("traces", "info", path).stdout
    assert "1 to 2.5" in info
    assert "2 jobs" in info
    figures = json.loads(decima("traces", "info", path, "--json").stdout)
    assert (figures["job_weights"], figures["jobs_with_deadline"]) == ([1.0, 2.5], 2)
    assert "deadlines" not in decima("traces", "info", "random-dag").stdout


# --- objectives ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def weighted_file(trace_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small trace: `chain` counts 200 times as much as others, two jobs have deadlines."""
    path = tmp_path_factory.mktemp("weighted") / "weighted.parquet"
    goals: dict[str, dict[str, Any]] = {
        "chain": {"weight": 200.0, "deadline_ms": 9_000.0},
        "one": {"deadline_ms": 3_000.0},
    }
    small = load_trace(str(trace_file))
    jobs = tuple(replace(job, **goals.get(job.name, {})) for job in small.jobs)
    write_trace(replace(small, jobs=jobs), path)
    return path


def weighted_jct(names: list[str], jct_s: list[float]) -> float:
    return float(np.average(jct_s, weights=[200.0 if name == "chain" else 1.0 for name in names]))


def late_jobs(names: list[str], jct_s: list[float]) -> float:
    """Share of late jobs among those with a deadline; half a job is added."""
    due_s = {"chain": 9.0, "one": 3.0}
    jobs = zip(names, jct_s, strict=True)
    late = [value > due_s[name] for name, value in jobs if name in due_s]
    return (sum(late) + 0.5) / (len(late) + 1)


@pytest.mark.parametrize(
    ("objective", "computed", "title"),
    [
        ("weighted_jct", weighted_jct, "weighted average JCT"),
        ("deadlines", late_jobs, "deadline"),
    ],
)
def test_an_evaluation_compares_by_an_objective(
    objective: str,
    computed: Callable[[list[str], list[float]], float],
    title: str,
    weighted_file: Path,
    tmp_path: Path,
) -> None:
    """Each figure follows from the JCTs in the same file; a report takes it."""
    out, page = tmp_path / "out.json", tmp_path / "page.html"
    asked = ("--trace", weighted_file, *SMALL, "--policies", "fifo,sjf_cp", "--json", out)
    result = succeeded(decima("evaluate", *asked, "--objective", objective))
    assert objective in result.stdout.splitlines()[0]
    content, figures = json.loads(out.read_text()), []
    for policy in content["policies"].values():
        figures += policy["objective"]["per_sequence"]
        assert policy["objective"]["per_sequence"] == pytest.approx(
            [
                computed(sequence["name"], jct_s)
                for sequence, jct_s in zip(content["sequences"], policy["jct_s"], strict=True)
            ],
            abs=1e-3,
        )
    assert len(set(figures)) > 1
    succeeded(decima("report", out, "-o", page))
    assert title in page.read_text()


def test_a_trace_without_deadlines_is_refused_before_anything_runs(
    trace_file: Path, tmp_path: Path
) -> None:
    """By every command that takes an objective, and nothing is written."""
    out = tmp_path / "out"
    few = ("--trace", trace_file, "--objective", "deadlines")
    for command in (
        ["evaluate", "--policies", "fifo", "--json", out],
        ["tune", "--policy", "tuned_srw", "-o", out],
        ["fit-rule", "-o", out],
    ):
        refused(decima(*command, *few, *SMALL), "'deadlines'", "'small'", "deadline_ms")
    result = decima("train", *few, "--out", out)  # prepares before
    assert result.exit_code == 2
    assert "error: objective 'deadlines': no job of trace 'small'" in result.stderr
    assert not out.exists()


@pytest.mark.parametrize("scale", [1e-320, 1.0, 1e308])
def test_weights_of_any_size_have_a_mean(scale: float) -> None:
    """Neither their sum nor a product overflows: (0.5 x 2 s + 1.5 x 4 s) / 2."""
    weight = scale * np.array([0.5, 1.5])
    metrics = replace(two_jobs().metrics, jct_s=np.array([2.0, 4.0]), weight=weight)
    assert objective_named("weighted_jct").of(metrics) == pytest.approx(3.5, rel=1e-3)


def test_a_run_without_a_job_that_has_a_deadline_decides_nothing() -> None:
    """Such sequences are drawn where few jobs have one: all policies have the same figure."""
    metrics = replace(two_jobs().metrics, deadline_s=np.full(2, np.inf))
    assert objective_named("deadlines").of(metrics) == 0.5


def test_parameters_are_tuned_to_the_weighted_jct(weighted_file: Path, tmp_path: Path) -> None:
    """They are better by weights than those for the average JCT, which are better by that."""
    config = EvaluationConfig(trace=str(weighted_file), jobs=20, executors=3, interarrival_s=3.0)
    cluster = ("--trace", weighted_file, "--policy", "tuned_srw", "--jobs", 20,
               "--executors", 3, "--interarrival", 3, "--sequences", 3)  # fmt: skip
    names = ("avg_jct", "weighted_jct")
    parameters = []
    for name in names:
        path = tmp_path / f"{name}.json"
        goal = ("--objective", name, "--held-back", 4, "-o", path)
        succeeded(decima("tune", *cluster, *goal))
        training = json.loads(path.read_text())["training"]
        assert training["objective"] == name
        parameters.append(("tuned_srw", training["found"]))
    numbers = range(FIRST_TRAINING_SEQUENCE, FIRST_TRAINING_SEQUENCE + 3)
    ratios = {}
    for name in names:
        candidates = Candidates([config], HERE, objective_named(name))
        average, weighted = candidates.play(parameters, numbers)[:, 0]
        ratios[name] = float(np.exp(np.log(weighted / average).mean()))
    assert ratios["weighted_jct"] < 0.999
    assert ratios["avg_jct"] > 1.001


def test_a_training_is_scored_by_weights_and_deadlines(weighted_file: Path, tmp_path: Path) -> None:
    """It imitates and evolves; `reinforce` has no reward for what is known at the end only."""
    few = sets(weighted_file, "imitate.iterations=1", "evolve.iterations=1")
    for name, title in (("weighted_jct", "weighted average JCT"), ("deadlines", "deadline")):
        arguments = ["--objective", name, *few]
        out = tmp_path / name
        only = ("--set", "reinforce.iterations=0")
        result = succeeded(decima("train", "--out", out, *arguments, *only))
        assert title in result.stdout
        more = ("--set", "reinforce.iterations=1")
        refused(decima("train", "--out", tmp_path / "x", *arguments, *more), name, "reinforce")
