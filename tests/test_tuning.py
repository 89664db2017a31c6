"""Fitting parameters to a workload: the file between `decima tune` and `decima evaluate`."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from decima.registry import HEURISTICS, Parameters
from decima.training.tuning import FIRST_TRAINING_SEQUENCE, read_tuned, tune
from tests.commands import SMALL, Command, decima, refused, small_config, succeeded
from traces.numbers import Float64

Json = dict[str, Any]


@pytest.fixture(scope="module")
def tuned_once(trace_file: Path, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """What `decima tune` writes."""
    path = tmp_path_factory.mktemp("tuned") / "tuned.json"
    words = ("--policy", "tuned_weighted_fair", "--trace", trace_file, "--output", path)
    result = succeeded(decima("tune", *SMALL, *words))
    assert "tuned_weighted_fair: alpha" in result.stdout
    return path.read_bytes()


@pytest.fixture
def tuned_file(tuned_once: bytes, tmp_path: Path) -> Path:
    path = tmp_path / "tuned.json"
    path.write_bytes(tuned_once)
    return path


def test_tuning_writes_what_evaluation_reads(
    run: Command, tuned_file: Path, tmp_path: Path
) -> None:
    """The parameters found are those of the evaluation, and they decide its result."""
    content = json.loads(tuned_file.read_text())
    training, held_back = content["training"], content["held_back"]
    assert training["ratio"] <= training["shipped_ratio"]
    assert held_back["first_sequence"] == training["first_sequence"] + training["sequences"]
    assert (training["sequences"], held_back["sequences"]) == (3, 40)
    out = tmp_path / "out.json"

    succeeded(run("--policies", "tuned_weighted_fair", "--tuned", tuned_file, "--json", out))

    written = json.loads(out.read_text())
    parameters = written["config"]["parameters"]["tuned_weighted_fair"]
    assert parameters == content["parameters"] == read_tuned(tuned_file)[1]


def faked(monkeypatch: pytest.MonkeyPatch, gain: Callable[[Parameters, int], float]) -> None:
    """Strict fair's average JCT is 10 s, on sequence 1,000,002 10,000 s; others' so many times it.

    Args:
        monkeypatch: undoes this.
        gain: the factor that parameters bring on a sequence.
    """

    def play(
        _: object, every: Sequence[tuple[str, Parameters]], numbers: range, label: str = ""
    ) -> Float64:
        reference_s = np.array(
            [1e4 if number == FIRST_TRAINING_SEQUENCE + 2 else 10.0 for number in numbers]
        )
        rows = [
            [1.0 if name == "strict_fair" else gain(figures, number) for number in numbers]
            for name, figures in every
        ]
        scores_s: Float64 = (np.array(rows) * reference_s)[:, None]
        return scores_s

    monkeypatch.setattr("decima.training.tuning.Candidates.play", play)


def test_one_huge_sequence_does_not_decide(
    trace_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1 % off 10,000 s outweighs twice 10 s in the plain mean, but not relative to strict fair."""

    def gain(parameters: Parameters, number: int) -> float:
        if parameters["alpha"] != 2.0:
            return 1.0
        return 0.99 if number == FIRST_TRAINING_SEQUENCE + 2 else 2.0

    faked(monkeypatch, gain)
    tuned = tune("tuned_weighted_fair", small_config(trace_file)).found

    assert tuned == HEURISTICS["tuned_weighted_fair"].defaults


@pytest.mark.parametrize(
    ("held_back", "kept"),
    [
        ([0.9, 0.9, 0.9, 0.9], "found"),
        ([1.1, 1.1, 1.1, 1.1], "shipped"),
        ([0.5, 1.9, 1.9, 0.9], "shipped"),  # better in half of them
    ],
)
def test_what_was_found_must_hold_on_sequences_held_back(
    held_back: list[float], kept: str, run: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An alpha of 2 halves every JCT in training; file and output say which parameters are kept."""
    first = FIRST_TRAINING_SEQUENCE + 3

    def gain(parameters: Parameters, number: int) -> float:
        if parameters["alpha"] != 2.0:
            return 1.0
        return 0.5 if number < first else held_back[number - first]

    faked(monkeypatch, gain)
    out, shipped = tmp_path / "tuned.json", HEURISTICS["tuned_weighted_fair"].defaults
    result = run("--policy", "tuned_weighted_fair", "--held-back", 4, "-o", out, command="tune")
    assert result.exit_code == 0, result.output

    content = json.loads(out.read_text())
    assert content["held_back"]["kept"] == kept
    assert content["training"]["found"]["alpha"] == 2.0
    assert content["parameters"]["alpha"] == (2.0 if kept == "found" else shipped["alpha"])
    told = "Saved: these." if kept == "found" else "Saved: the shipped parameters"
    assert told in result.stdout
    assert "On 4 held-out sequences: " in result.stdout
    assert "3 training sequences (seed 0)" in result.stdout


def change(content: Json, **changes: Any) -> str:
    return json.dumps({**content, **changes})


@pytest.mark.parametrize(
    ("damage", "part"),
    [
        (lambda _: "{", "not JSON"),
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
    ],
)
def test_damaged_tuned_files_are_one_line(
    run: Command, tuned_file: Path, damage: Callable[[Json], str], part: str
) -> None:
    """Whatever is wrong with the file, the message names it and the fault."""
    tuned_file.write_text(damage(json.loads(tuned_file.read_text())))
    refused(run("--policies", "tuned_weighted_fair", "--tuned", tuned_file), part)


def test_what_has_nothing_to_tune_is_refused(
    run: Command, tuned_file: Path, tmp_path: Path
) -> None:
    """Nor is the same file taken twice, which leaves open which is meant."""
    twice = ("--tuned", tuned_file, "--tuned", tuned_file)
    refused(run("--policies", "tuned_weighted_fair", *twice), "given already")
    out = tmp_path / "none.json"
    refused(run("--policy", "fifo", "-o", out, command="tune"), "'fifo' has nothing to tune")
    refused(run("--policy", "fastest", "-o", out, command="tune"), "fastest")
    policy = ("--policy", "tuned_srw")
    refused(run(*policy, "--held-back", 0, "-o", out, command="tune"), "0 is not in the range 1<=")
    assert not out.exists()
