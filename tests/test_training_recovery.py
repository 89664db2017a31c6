"""Trainings that go astray: steps taken back, and policies that collapse."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from decima import EvaluationConfig, evaluate
from decima.rl.parallel.local import LocalPool
from decima.rl.run_folder import RunFolder
from decima.training.config import read_config
from decima.training.learner import CollapsedError, DecimaLearner, Pools
from decima.training.session import MODEL, run_training
from tests.test_training import ROOT, command, sets, small, validated_as


def reinforcing(trace_file: Path, *changes: str) -> DecimaLearner:
    learner = DecimaLearner(small(trace_file, "imitate.iterations=0", *changes))
    learner._begin(0)
    return learner


def test_a_step_far_above_its_best_goes_back_to_it(
    trace_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """-7.4 % is 2.9 % above -10 %: nothing happens; -6 % is too much; rates halve each time."""
    rates = ("reinforce.learning_rate=1e-2", "reinforce.final_learning_rate=1e-2")
    learner = reinforcing(trace_file, "reinforce.fallback=3", *rates)
    tried = validated_as(learner, [5.0, -10.0, -7.4], monkeypatch)
    assert torch.equal(learner.state()["weights"], tried[2])
    assert torch.equal(learner.state()["best"], tried[1])
    for halvings in (1, 2):
        validated_as(learner, [-6.0], monkeypatch)
        for name in ("weights", "averaged", "best"):
            assert torch.equal(learner.state()[name], tried[1]), name
        assert learner.state()["best_score"].tolist() == pytest.approx([-10.0, halvings])
        assert float(learner.state()["adam.step"]) == 0.0
    monkeypatch.undo()
    assert learner.iterate(1)["learning_rate"] == pytest.approx(1e-2 / 4)


def test_imitation_never_goes_back(trace_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its score may well rise at first; nor does `reinforce` where it is said not to."""
    for learner in (
        DecimaLearner(small(trace_file)),
        reinforcing(trace_file, "reinforce.fallback=none"),
    ):
        tried = validated_as(learner, [-10.0, 40.0], monkeypatch)
        assert torch.equal(learner.state()["weights"], tried[1])
        monkeypatch.undo()


def test_reinforcing_begins_with_the_imitated_weights_and_a_best_of_its_own(
    trace_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Averaged ones, with a new optimiser; a score of `imitate` is none to go back to."""
    learner = DecimaLearner(small(trace_file))
    learner.iterate(0)
    learner.iterate(1)
    (averaged,) = validated_as(learner, [-20.0], monkeypatch)
    learner._begin(2)
    state = learner.state()
    assert torch.equal(state["weights"], averaged)
    assert float(state["adam.step"]) == 0.0
    assert float(state["best_score"][0]) >= 1e29
    (first,) = validated_as(learner, [10.0], monkeypatch)
    assert torch.equal(learner.state()["best"], first)


def test_a_collapsed_policy_is_reported(trace_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One answer whatever it sees, and worse than strict fair; good or undecided ones go on."""
    learner = reinforcing(trace_file)
    learner._entropy = 0.001
    validated_as(learner, [-3.0], monkeypatch)
    learner._entropy = 0.5
    validated_as(learner, [30.0], monkeypatch)
    learner._entropy = 0.001
    with pytest.raises(CollapsedError, match=r"entropy is 0\.0010 .* at \+3\.0 %") as caught:
        validated_as(learner, [3.0], monkeypatch)
    assert "\n" not in str(caught.value)
    assert "reinforce.entropy_start" in str(caught.value)


def test_a_collapse_ends_the_command_in_one_line(
    trace_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is below the greatest entropy counts as collapsed, strict fair as unbeaten."""
    monkeypatch.setattr("decima.training.learner.COLLAPSED_ENTROPY", 2.0)
    settings = sets(trace_file, "imitate.iterations=0", "workload.batch_jobs=[]")
    monkeypatch.setattr("decima.training.learner._percent", lambda *_: 7.0)
    found = command("--out", tmp_path / "run", *settings)
    assert found.exit_code == 2
    (line,) = [one for one in found.stderr.splitlines() if one.startswith("error: ")]
    assert "the policy has collapsed" in line
    assert "+7.0 %" in line


@pytest.mark.slow
def test_the_training_of_make_run_beats_strict_fair(tmp_path: Path) -> None:
    """On sequences that nothing was trained or chosen on, beyond chance."""
    recipe = read_config(ROOT / "docs" / "examples" / "small-training.toml")
    with LocalPool(2) as pool, RunFolder.create(tmp_path / "run", recipe.to_json()) as folder:
        run_training(folder, pools=Pools(pool, pool))
    model = str(tmp_path / "run" / MODEL)
    difference = evaluate(EvaluationConfig(policies=("strict_fair", model))).difference(model)
    assert difference.ci95 is not None
    assert difference.ci95[1] < 0
