"""Fitting parameters to a workload: the file between `decima tune` and `decima evaluate`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from decima.evaluation.config import ConfigError
from decima.tuning import FIRST_TRAINING_SEQUENCE, read_tuned
from tests.commands import Command, refused, small_config

Json = dict[str, Any]


@pytest.fixture
def tuned_file(run: Command, tmp_path: Path) -> Path:
    path = tmp_path / "tuned.json"
    result = run("--policy", "tuned_weighted_fair", "--output", path, command="tune")
    assert result.exit_code == 0, result.output
    assert "tuned_weighted_fair: alpha" in result.stdout
    return path


def test_tuning_writes_what_evaluation_reads(
    run: Command, tuned_file: Path, tmp_path: Path
) -> None:
    """The parameters found are those of the evaluation, and they decide its result."""
    content = json.loads(tuned_file.read_text())
    assert content["training"]["avg_jct_s"] <= content["training"]["default_avg_jct_s"]
    out = tmp_path / "out.json"

    result = run("--policies", "tuned_weighted_fair", "--tuned", tuned_file, "--json", out)

    assert result.exit_code == 0, result.output
    found = json.loads(out.read_text())
    parameters = found["config"]["parameters"]["tuned_weighted_fair"]
    assert parameters == content["parameters"] == read_tuned(tuned_file)[1]


def test_tuned_parameters_change_the_runs(run: Command, tuned_file: Path, tmp_path: Path) -> None:
    """Extreme parameters in the file give another result than those that ship."""
    content = json.loads(tuned_file.read_text())
    content["parameters"] = {"alpha": 2.0, "limit_factor": 0.4}
    tuned_file.write_text(json.dumps(content))
    means = []
    for more in ([], ["--tuned", tuned_file]):
        out = tmp_path / "out.json"
        assert run("--policies", "tuned_weighted_fair", "--json", out, *more).exit_code == 0
        figures = json.loads(out.read_text())["policies"]["tuned_weighted_fair"]
        means.append(figures["avg_jct_s"]["mean"])
    assert means[0] != means[1]


def test_tuning_trains_on_sequences_that_no_evaluation_draws(trace_file: Path) -> None:
    """Training sequences are numbered beyond the largest number of evaluated ones."""
    with pytest.raises(ConfigError, match="sequences must lie in"):
        small_config(trace_file, sequences=FIRST_TRAINING_SEQUENCE + 1)


def change(content: Json, **changes: Any) -> str:
    return json.dumps({**content, **changes})


@pytest.mark.parametrize(
    ("damage", "part"),
    [
        (lambda _: "{", "not JSON"),
        (lambda _: "", "not JSON"),
        (lambda _: "[1]", "not a file of `decima tune`"),
        (lambda content: change(content, format="other"), "not a file of `decima tune`"),
        (lambda content: change(content, version=2), "version 2"),
        (lambda content: change(content, policy="fastest"), "unknown policy 'fastest'"),
        (lambda content: change(content, policy=None), "missing"),
        (lambda content: change(content, parameters={"beta": 1.0}), "no parameter 'beta'"),
        (lambda content: change(content, parameters={"alpha": "1"}), "'1', not a number"),
        (lambda content: change(content, parameters={"alpha": True}), "True, not a number"),
        (
            lambda content: change(content, parameters={"alpha": float("nan")}),
            "NaN is not a number",
        ),
        (lambda content: change(content, parameters={"alpha": 10**400}), "'alpha' must lie within"),
        (lambda _: "[" * 100_000, "nested too deeply"),
        (lambda _: "9" * 5_000, "integer string conversion"),
    ],
)
def test_damaged_tuned_files_are_one_line(
    run: Command, tuned_file: Path, damage: Callable[[Json], str], part: str
) -> None:
    """Whatever is wrong with the file, the message names it and the fault."""
    tuned_file.write_text(damage(json.loads(tuned_file.read_text())))
    refused(run("--policies", "tuned_weighted_fair", "--tuned", tuned_file), part)


def test_what_has_nothing_to_tune_is_refused(run: Command, tmp_path: Path) -> None:
    """`fifo` has no parameter; nothing is written."""
    out = tmp_path / "tuned.json"
    refused(run("--policy", "fifo", "-o", out, command="tune"), "'fifo' has nothing to tune")
    refused(run("--policy", "fastest", "-o", out, command="tune"), "fastest")
    assert not out.exists()


def test_parameters_of_one_policy_are_given_once(run: Command, tuned_file: Path) -> None:
    """The same file twice leaves open which is meant."""
    refused(
        run("--policies", "tuned_weighted_fair", "--tuned", tuned_file, "--tuned", tuned_file),
        "given already",
    )
