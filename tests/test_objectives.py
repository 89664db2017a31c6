"""Objectives: figures by hand, names, functions of one's own."""

from __future__ import annotations

import math
import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from decima import evaluate
from decima.agent.model import load_model
from decima.errors import ConfigError
from decima.evaluation.runner import play
from decima.objectives import OBJECTIVES, check_objective, objective_named
from decima.policy_names import model_path
from decima.registry import Heuristic
from decima.rl.run_folder import read_run
from decima.rl.statistics import difference_percent
from spark_sim import Cluster
from spark_sim.metrics import RunMetrics, measure
from tests.commands import Command, decima, refused, small_config, succeeded
from tests.stories import build, stage
from tests.test_training import sets
from traces import Job


def metrics() -> RunMetrics:
    """Two jobs on one executor that moves at no cost, first come, first served.

    a of 10 s comes at 0 and takes 10 s; b of 2 s comes at 4 s and ends at 12 s, after 8 s. b weighs
    three times as much as a, which alone has a deadline.
    """
    jobs = [
        Job("a", (stage("x", 5, 2_000),), deadline_ms=9_999.0),
        Job("b", (stage("y", 1, 2_000),), weight=3.0),
    ]
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
        ("weighted_jct", (10 + 3 * 8) / 4),
        ("deadlines", 1.5 / 2),  # of the one job with a deadline, which is late
        ("avg_and_p95", 9 * math.sqrt(8 + 0.95 * 2)),
        ("deadlines:3", 1.5 / 3),  # b is late; half a job is added
        ("deadlines:4", 0.5 / 3),
    ],
)
def test_figures_of_two_jobs_by_hand(name: str, figure: float) -> None:
    assert objective_named(name).of(metrics()) == pytest.approx(figure)


def test_every_named_objective_has_a_figure_here() -> None:
    rows = test_figures_of_two_jobs_by_hand.pytestmark[0].args[1]  # type: ignore[attr-defined]
    assert {name for name, _ in rows} >= OBJECTIVES.keys()


@pytest.mark.parametrize("name", ["avg-jct", "deadlines:", "deadlines:0.9", "deadlines:nan", ""])
def test_unknown_names_and_figures_that_are_not_positive_are_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="objective"):
        check_objective(name)
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


# --- at the command line -------------------------------------------------------------------------


def test_an_evaluation_compares_by_the_objective(run: Command, trace_file: Path) -> None:
    """Its differences are those of the makespan, and the JSON has a figure of each sequence."""
    config = small_config(
        trace_file, policies=("strict_fair", "fifo"), jobs=20, objective="makespan"
    )
    report = evaluate(config)
    makespan_s = [report.policies[name].makespan_s for name in config.policies]
    assert report.difference("fifo") == difference_percent(makespan_s[1], makespan_s[0])
    assert report.to_json()["policies"]["fifo"]["objective"]["per_sequence"] == list(makespan_s[1])
    printed = run("--policies", "strict_fair,fifo", "--objective", "makespan").stdout
    assert printed.splitlines()[0].count("makespan") == 1  # a column of it is there anyway
    printed = run("--policies", "strict_fair,fifo", "--objective", "deadlines:3").stdout
    assert "deadlines:3" in printed.splitlines()[0]
    refused(run("--objective", "speed"), "'speed'", "makespan")


def test_a_training_for_the_makespan_is_chosen_by_it(trace_file: Path, tmp_path: Path) -> None:
    """Its best weights and words are those of the makespan."""
    out = tmp_path / "run"
    few = sets(trace_file, "imitate.iterations=1", "reinforce.iterations=1", "evolve.iterations=1",
               "validation.every=1")  # fmt: skip
    arguments = ["train", "--out", str(out), "--objective", "makespan", *few]
    result = succeeded(decima(*arguments))
    assert "makespan" in result.stdout
    assert "average JCT" not in result.stdout
    scores = [row["validation/score"] for row in read_run(out).metrics if "validation/score" in row]
    assert load_model(out / "model.safetensors").card["validation"]["score"] == min(scores)


def test_code_of_ones_own_is_named_in_the_command_only(trace_file: Path, tmp_path: Path) -> None:
    """A TOML file or a run folder that names a function does not cause it to run."""
    code = tmp_path / "cost.py"
    code.write_text("def cost(metrics):\n    return metrics.jct_s.max()\n")
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(f'objective = "{code}:cost"\n')
    out = tmp_path / "run"
    few = sets(trace_file, "imitate.iterations=1", "reinforce.iterations=0", "evolve.iterations=1")
    by_file = decima("train", "--config", recipe, "--out", out, *few)
    refused(by_file, "--objective", "must not run")
    own = ["--objective", f"{code}:cost"]
    assert decima("train", "--out", out, *few, *own).exit_code == 0
    resume = ["train", "--out", str(out), "--resume"]
    refused(decima(*resume), "--objective", "cost.py:cost")
    refused(decima(*resume, "--objective", "p95"), "'p95'", "cost.py:cost")
    assert decima(*resume, *own).exit_code == 0


def test_a_function_that_fails_ends_an_evaluation_at_its_first_run(
    run: Command, tmp_path: Path
) -> None:
    """One line with its own line, and nothing is written; a missing file even before."""
    code = tmp_path / "cost.py"
    code.write_text("def nothing(metrics):\n    return float('nan')\n")
    out = tmp_path / "out.json"
    few = ("--policies", "fifo,sjf_cp", "--json", out)
    result = run(*few, "--objective", f"{code}:nothing")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "nan for a run of 6 jobs" in result.stderr
    refused(run(*few, "--objective", "missing.py:cost"), "missing.py")
    result = run("--policy", "tuned_srw", "--objective", "cost.py:cost", "-o", out,
                 "--cluster", "local[1]", command="tune")  # fmt: skip
    refused(result, "'cost.py:cost'", "--cluster lack")
    assert not out.exists()


def test_an_output_does_not_replace_a_models_card(run: Command, tmp_path: Path) -> None:
    model = tmp_path / "model.safetensors"
    model.write_bytes(model_path("decima").read_bytes())
    card = tmp_path / "model.json"
    card.write_text("{}")
    refused(run("--policies", f"fifo,{model}", "--json", card), "model.json", "would replace")
    assert card.read_text() == "{}"
