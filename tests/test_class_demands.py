"""Demands of stages, and classes of executors at the command line and in the environment."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from gymnasium import spaces

from decima import EvaluationConfig
from decima.evaluation.runner import Workload as Evaluated
from decima.evaluation.timeline import read_timeline
from spark_sim.env import SparkEnv
from tests.commands import Command, refused, succeeded
from tests.test_executor_classes import BIG, LARGE, LITTLE, SMALL, L, cluster_of
from traces import Trace, load_trace, to_arrays, write_trace
from traces.estimates import drawn_demands

# --- the environment -----------------------------------------------------------------------------


def test_the_environment_shows_classes_and_takes_one() -> None:
    """A third part of the action; its mask says which; an illegal one is a pass."""
    env = SparkEnv(Trace("t", (LITTLE, BIG)), cluster_of(1, 1), max_jobs=4, max_stages=4)
    shown, _ = env.reset(seed=1)
    assert env.observation_space.contains(shown)
    assert env.action_space == spaces.MultiDiscrete([5, 2, 3])
    assert shown["class_memory_mb"].tolist() == [SMALL, LARGE]
    assert shown["class_on_offer"].tolist() == shown["class_count"].tolist() == [1, 1]
    is_big = shown["stage_memory_mb"][0] == LARGE
    assert shown["class_mask"][0].tolist() == ([0, 1, 1] if is_big else [1, 1, 1])
    shown, _, _, _, info = env.step(np.array([0, 0, L]))
    assert not info["illegal_action"]
    assert env.observation_space.contains(shown)


# --- demands and the command line ----------------------------------------------------------------


def test_drawn_demands_lie_in_the_unit_interval_and_depend_on_the_seed() -> None:
    """Uniform in (0, largest]; jobs, tasks and durations stay as they are."""
    trace = load_trace("tpch")
    drawn = drawn_demands(trace, 1024.0, np.random.default_rng(3))
    values = to_arrays(drawn).memory_mb
    assert 0 < values.min() <= values.max() <= 1024.0
    assert np.quantile(values, [0.25, 0.5, 0.75]) == pytest.approx([256, 512, 768], rel=0.1)
    assert [job.name for job in drawn.jobs] == [job.name for job in trace.jobs]
    config = EvaluationConfig(executors=2, classes="0.5x1,1x1", demands="drawn")
    one, same = (Evaluated.of(config).arrays.memory_mb for _ in range(2))
    other = Evaluated.of(replace(config, seed=1)).arrays.memory_mb
    assert one.tolist() == same.tolist() != other.tolist()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--classes", "4x0"), "an executor class needs a count of 1 or more, got 0"),
        (("--classes", "4x2,8x2"), "the trace lacks the memory of its tasks"),
        (("--demands", "drawn"), "demands are drawn for executor classes, and there are none"),
    ],
)
def test_impossible_classes_are_one_line(
    options: tuple[str, ...], message: str, run: Command
) -> None:
    refused(run("--jobs", "2", "--sequences", "1", "--trace", "tpch", *options), message)


def test_classes_are_reported(run: Command, tmp_path: Path) -> None:
    """How busy each was and the memory left idle, for people and in JSON; timelines say how large
    the executor is.
    """
    path, timeline = tmp_path / "r.json", tmp_path / "t.parquet"
    classes = ("--classes", "0.5x1,1x3", "--demands", "drawn")
    result = succeeded(run(*classes, "--json", path, "--timeline", timeline))
    assert "1 of 0.5 GB" in result.output
    report = json.loads(path.read_text())
    for policy in report["policies"].values():
        small, large = policy["classes"]
        assert (small["memory_mb"], large["executors"]) == (512.0, 3)
        busy_s = small["busy_executor_s"] + large["busy_executor_s"]
        assert busy_s == pytest.approx(policy["busy_executor_s"])
        assert 0 < small["idle_memory_share"] < 1
    rows = read_timeline(timeline)
    executor, memory_mb = (rows[name].to_pylist() for name in ("executor", "executor_memory_mb"))
    pairs = set(zip(executor, memory_mb, strict=True))
    assert pairs == {(0, 512.0), (1, 1024.0), (2, 1024.0), (3, 1024.0)}
    succeeded(run("--timeline", timeline))
    assert "executor_memory_mb" not in read_timeline(timeline).column_names


def test_a_demand_beyond_every_class_names_job_and_stage(tmp_path: Path) -> None:
    """The value too, and what there is."""
    path = tmp_path / "t.parquet"
    write_trace(Trace("t", (BIG,)), path)
    config = EvaluationConfig(trace=str(path), executors=2, classes="0.25x1,0.5x1")
    with pytest.raises(ValueError, match=r"job 'big', stage 'a': its tasks need 1000 MB .* 512 MB"):
        Evaluated.of(config)


def test_settings_that_draw_demands_keep_workloads_of_their_own() -> None:
    """Fits and trainings share what agrees in everything that a workload depends on."""
    plain = EvaluationConfig(executors=2)
    classed = replace(plain, classes="0.5x1,1x1", demands="drawn")
    keys = {setting.workload_key() for setting in (plain, classed, replace(classed, seed=1))}
    assert len(keys) == 3
    assert replace(plain, jobs=7).workload_key() == plain.workload_key()
