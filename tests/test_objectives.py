"""Objectives: figures by hand, names, functions of one's own."""

from __future__ import annotations

import math
import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from decima.errors import ConfigError
from decima.evaluation.runner import play
from decima.objectives import OBJECTIVES, check_objective, objective_named
from decima.registry import Heuristic
from spark_sim import Cluster
from spark_sim.metrics import RunMetrics, measure
from tests.stories import build, job, stage


def metrics() -> RunMetrics:
    """Two jobs on one executor that moves at no cost, first come, first served.

    a of 10 s comes at 0 and takes 10 s; b of 2 s comes at 4 s and ends at 12 s, after 8 s.
    """
    jobs = [job("a", stage("x", 5, 2_000)), job("b", stage("y", 1, 2_000))]
    cluster = Cluster(num_executors=1, moving_delay_ms=0.0, warmup_delay_ms=0.0)
    simulator = build(jobs, cluster, arrival_ms=[0.0, 4_000.0])
    play(simulator, Heuristic("fifo"))
    return measure(simulator.state)


@pytest.mark.parametrize(
    ("name", "figure"),
    [
        ("avg_jct", 9.0),
        ("geometric_jct", math.sqrt(80)),
        ("rms_jct", math.sqrt((100 + 64) / 2)),
        ("slowdown", (1 + 4) / 2),
        ("p95", 8 + 0.95 * 2),
        ("p99", 8 + 0.99 * 2),
        ("makespan", 12.0),
        ("avg_and_p95", 9 * math.sqrt(8 + 0.95 * 2)),
        ("deadlines:3", 1.5 / 3),  # b is late; half a job is added
        ("deadlines:4", 0.5 / 3),
    ],
)
def test_figures_of_two_jobs_by_hand(name: str, figure: float) -> None:
    assert objective_named(name).of(metrics()) == pytest.approx(figure)


def test_every_named_objective_has_a_figure_here() -> None:
    """A new one needs a row above."""
    rows = test_figures_of_two_jobs_by_hand.pytestmark[0].args[1]  # type: ignore[attr-defined]
    assert {name for name, _ in rows} >= OBJECTIVES.keys()


@pytest.mark.parametrize("name", ["avg-jct", "deadlines:", "deadlines:0.9", "deadlines:nan", ""])
def test_unknown_names_are_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="objective"):
        check_objective(name)


def test_a_figure_that_is_not_positive_is_refused() -> None:
    """Ratios of runs would not exist."""
    at_once = replace(metrics(), jct_s=np.zeros(2))
    with pytest.raises(ConfigError, match=r"'avg_jct' is 0 for a run of 2 jobs"):
        objective_named("avg_jct").of(at_once)


def test_a_function_of_ones_own(tmp_path: Path) -> None:
    """It is loaded by name, also in another process; its errors name its line."""
    path = tmp_path / "cost.py"
    path.write_text("def longest(metrics):\n    return metrics.jct_s.max()\n\n"
                    "def fails(metrics):\n    return metrics.cost\n")  # fmt: skip
    longest = objective_named(f"{path}:longest")
    assert longest.of(metrics()) == 10.0
    assert pickle.loads(pickle.dumps(longest)).of(metrics()) == 10.0  # noqa: S301
    with pytest.raises(ConfigError, match=r"AttributeError.*cost\.py, line 5"):
        objective_named(f"{path}:fails").of(metrics())
    with pytest.raises(ConfigError, match="no class or function 'other'"):
        objective_named(f"{path}:other")
