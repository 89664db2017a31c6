"""`decima train`: it repeats itself, survives interruptions, learns, and recovers."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import Result
from torch import Tensor

from decima import EvaluationConfig, evaluate
from decima.agent.columns import FEATURE_VERSION
from decima.agent.model import load_model
from decima.policy_names import model_path
from decima.rl.checkpoint import load_tensors
from decima.rl.optimiser import flat_parameters
from decima.rl.parallel.local import LocalPool
from decima.rl.run_folder import RunFolder
from decima.training.config import TrainConfig, config_from, read_config
from decima.training.learner import CollapsedError, DecimaLearner, Pools
from decima.training.session import MODEL, run_training
from tests.commands import decima, raises_one_line, refused, succeeded

ROOT = Path(__file__).parents[1]

SMALL = (
    "workload.executors=4",
    "workload.interarrival_s=[3.0]",
    "workload.batch_jobs=[4]",
    "episodes.settings=2",
    "episodes.start_jobs=4",
    "episodes.end_jobs=8",
    "episodes.backlog=3",
    "episodes.growth_iterations=2",
    "imitate.iterations=2",
    "imitate.sequences=2",
    "imitate.passes=2",
    "imitate.minibatches=2",
    "reinforce.iterations=2",
    "reinforce.sequences=2",
    "reinforce.rollouts=2",
    "reinforce.passes=2",
    "reinforce.minibatches=2",
    "evolve.iterations=2",
    "evolve.sequences=2",
    "evolve.pairs=2",
    "evolve.jobs=4",
    "validation.every=2",
    "validation.sequences=1",
    "validation.jobs=5",
)


def small(trace_file: Path, *more: str) -> TrainConfig:
    """A training of a second or two."""
    return read_config(None, (f"workload.trace={trace_file}", *SMALL, *more))


def final_weights(path: Path, config: TrainConfig, **how: Any) -> dict[str, Tensor]:
    """Train in a new folder; all tensors of the last checkpoint."""
    with RunFolder.create(path, config.to_json()) as folder:
        run_training(folder, **how)
        return load_tensors(folder.checkpoint_file)[0]


def assert_equal(actual: dict[str, Tensor], other: dict[str, Tensor]) -> None:
    assert actual.keys() == other.keys()
    for name, value in actual.items():
        assert torch.equal(value, other[name]), name


def weights_in(path: Path) -> dict[str, Tensor]:
    return load_tensors(path / "checkpoint.safetensors")[0]


@pytest.fixture(scope="module")
def two_processes() -> Iterator[LocalPool]:
    """A pool, as its processes take seconds to start."""
    with LocalPool(2) as pool:
        yield pool


@pytest.fixture(scope="module")
def finished(trace_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a whole small training: two iterations of each step."""
    path = tmp_path_factory.mktemp("train") / "run"
    final_weights(path, small(trace_file))
    return path


def validated_as(
    learner: DecimaLearner, scores: list[float], monkeypatch: pytest.MonkeyPatch
) -> list[Tensor]:
    """Move the weights and validate, once for each score; the weights that were scored."""
    tensors: list[Tensor] = []
    for score in scores:
        learner.network.encoder.lift.weight.data += 0.1
        learner._averaged = flat_parameters(learner.network)
        tensors.append(learner._averaged.clone())
        told = {"strict_fair": {"a": [100.0]}, None: {"a": [100.0 + score]}}
        monkeypatch.setattr(
            learner, "_validated", lambda names, *_, told=told, **__: {n: told[n] for n in names}
        )
        learner._references = {"strict_fair": {"a": [100.0]}}
        assert learner.validate()["score"] == pytest.approx(score)
    return tensors


# --- repeatable ----------------------------------------------------------------------------------


def test_results_do_not_depend_on_the_number_of_workers(
    finished: Path, trace_file: Path, tmp_path: Path, two_processes: LocalPool
) -> None:
    pools = Pools(two_processes, two_processes)
    weights = final_weights(tmp_path / "run", small(trace_file), pools=pools)
    assert_equal(weights, weights_in(finished))


def rows_of(run: Path) -> list[dict[str, float]]:
    """The figures of each iteration, but for times."""
    lines = (run / "metrics.jsonl").read_text().splitlines()
    return [{k: v for k, v in json.loads(x).items() if k != "elapsed_s"} for x in lines]


def interrupted(path: Path, config: TrainConfig) -> Path:
    """The same training, stopped after each iteration."""
    with RunFolder.create(path, config.to_json()) as folder:
        run_training(folder, time_limit_s=1e-9)
    for _ in range(config.iterations):
        with RunFolder.open(path) as folder:
            run_training(folder, time_limit_s=1e-9)
    return path


def test_a_stopped_training_goes_on_to_the_same_weights(
    finished: Path, trace_file: Path, tmp_path: Path
) -> None:
    """Stopped after each iteration, the last of each step too."""
    path = interrupted(tmp_path / "run", small(trace_file))
    assert_equal(weights_in(path), weights_in(finished))
    assert rows_of(path) == rows_of(finished)


# Steps so large that a validation is soon worse than the best.
ASTRAY = (
    "imitate.iterations=1",
    "reinforce.iterations=5",
    "reinforce.learning_rate=0.1",
    "reinforce.final_learning_rate=0.1",
    "reinforce.max_kl=none",
    "reinforce.average_iterations=1",
    "reinforce.fallback=0.001",
    "evolve.iterations=0",
    "validation.every=1",
)


def test_a_training_that_went_astray_is_resumed_to_the_same_weights(
    trace_file: Path, tmp_path: Path
) -> None:
    """Also where it has gone back to its best weights, at half the learning rate."""
    config = small(trace_file, *ASTRAY)
    straight = final_weights(tmp_path / "straight", config)
    assert float(straight["best_score"][1]) >= 1, "it has gone back at least once"
    path = interrupted(tmp_path / "run", config)
    assert_equal(weights_in(path), straight)
    assert rows_of(path) == rows_of(tmp_path / "straight")


# --- what is learned -----------------------------------------------------------------------------


CLASSES = ("workload.executors=6", "workload.classes=1x2,2x4", "workload.demands=drawn")
VARIANTS = [
    ("network.limit_head=false", "credit.critic=false", "credit.horizon=none"),
    ("network.messages=false", "network.two_level=false", "workload.protocol=session"),
    ("network.embeddings=false", "network.path_columns=false", "reinforce.entropy_start=0.01"),
    ("workload.protocol=decima-sim", "imitate.teachers=['sjf_cp', 'fifo']",
     "reinforce.max_kl=1e-9"),
    ("objective=makespan", "reinforce.passes=1", "reinforce.minibatches=1"),
    ("credit.baseline=mean", "objective=rms_jct", "credit.trace=none", *CLASSES),
    ("credit.baseline=none", "credit.differential=true", "episodes.ends=cut",
     "reinforce.max_norm=none", "reinforce.max_kl=none", "reinforce.fallback=none"),
]  # fmt: skip


@pytest.mark.parametrize("changes", VARIANTS, ids=" ".join)
def test_every_variant_trains(changes: tuple[str, ...], trace_file: Path) -> None:
    config = small(trace_file, "imitate.iterations=1", "reinforce.iterations=1", *changes)
    learner = DecimaLearner(config)
    before = learner.state()["weights"]
    for iteration in range(2):
        figures = learner.iterate(iteration)
        state = learner.state()["weights"]
        assert bool(torch.isfinite(state).all())
        assert not torch.equal(state, before)
        assert figures["plans"] > 0
        before = state


def test_training_goes_on_from_a_model(finished: Path, trace_file: Path, tmp_path: Path) -> None:
    """From its weights and with its sizes; another network is refused."""
    begin = f"initial_model={finished / MODEL}"
    learner = DecimaLearner(small(trace_file, begin))
    known, _ = load_tensors(finished / MODEL)
    assert_equal(learner.model_state(), known)
    shipped = DecimaLearner(small(trace_file, "initial_model=decima"))
    known, _ = load_tensors(model_path("decima"))
    assert_equal(shipped.model_state(), known)
    refused(
        command("--out", tmp_path / "run", *sets(trace_file, begin, "network.embedding=8")),
        "initial_model",
    )


def test_a_run_goes_on_with_nothing_but_its_folder(
    finished: Path, trace_file: Path, tmp_path: Path
) -> None:
    """The model that it began with is gone; the state is that of a run that was never stopped.

    Stopped before its first validation, it leaves the newest weights and a card without a score.
    """
    begin, out = tmp_path / "begin.safetensors", tmp_path / "run"
    shutil.copy(finished / MODEL, begin)
    settings = sets(trace_file, f"initial_model={begin}", "reinforce.iterations=1")
    assert command("--out", out, *settings, "--minutes", 1e-6).exit_code == 0
    assert load_model(out / MODEL).card["validation"] == {}
    begin.unlink()
    assert command("--out", out, "--resume").exit_code == 0

    shutil.copy(finished / MODEL, begin)
    straight = final_weights(tmp_path / "straight", small(trace_file, *settings[1::2]))
    resumed, _ = load_tensors(out / "checkpoint.safetensors")
    assert torch.equal(resumed["weights"], straight["weights"])


def test_averaged_weights_lag_behind(trace_file: Path) -> None:
    """They move a part of the way to the newest, which the next iteration begins with."""
    learner = DecimaLearner(small(trace_file, "imitate.average_iterations=4"))
    before = learner.state()
    assert torch.equal(before["averaged"], before["weights"])
    learner.iterate(0)
    after = learner.state()
    moved = after["weights"] - before["averaged"]
    assert moved.abs().max() > 0
    torch.testing.assert_close(after["averaged"] - before["averaged"], moved / 4)


# --- the command ---------------------------------------------------------------------------------


def command(*arguments: object) -> Result:
    return decima("train", *(str(argument) for argument in arguments))


def sets(trace_file: Path, *more: str) -> list[str]:
    changes = (f"workload.trace={trace_file}", *SMALL, *more)
    return [part for change in changes for part in ("--set", change)]


def test_a_trained_model_is_a_policy(
    trace_file: Path, tmp_path: Path, two_processes: LocalPool
) -> None:
    """The command leaves a model with its card, which `decima evaluate` accepts."""
    out = tmp_path / "run"
    result = succeeded(command("--out", out, *sets(trace_file)))
    assert "model.safetensors" in result.output
    card = json.loads((out / "model.json").read_text())["card"]
    assert card["config"] == config_from(card["config"]).to_json() | card["config"]
    assert card["feature_version"] == FEATURE_VERSION
    settings = [f"{number}.{trace_file.stem}.4_executors" for number in range(2)]
    assert set(card["validation"]) == {
        "score",
        "drawn",
        "above_es_rule",
        "above_tuned_srw",
        "above_tuned_weighted_fair",
        f"{settings[0]}.gap_3s_percent",
        f"{settings[1]}.batch_4_percent",
    }
    assert str(tmp_path) not in json.dumps({k: v for k, v in card.items() if k == "environment"})
    model = str(out / MODEL)
    config = EvaluationConfig(
        trace=str(trace_file), policies=("strict_fair", model, f"{model}:sampled"),
        jobs=6, sequences=2, executors=4, interarrival_s=3,
    )  # fmt: skip
    report = evaluate(config)
    assert all(np.isfinite(policy.avg_jct_s).all() for policy in report.policies.values())
    others = evaluate(config, pool=two_processes)
    assert others.policies[model].avg_jct_s.tolist() == report.policies[model].avg_jct_s.tolist()


def test_resuming_keeps_the_settings(finished: Path, trace_file: Path, tmp_path: Path) -> None:
    """A finished run stays as it is; other settings are refused; so is a second new run there."""
    for words in (("--set", "seed=3"), ("--trace", trace_file), ("--interarrival", 9)):
        told = command("--out", finished, "--resume", *words)
        refused(told, f"--resume keeps the run's settings: no {words[0]} beside it")
    refused(command("--out", finished, *sets(trace_file)), str(finished), "resume it")
    refused(command("--out", tmp_path / "none", "--resume"), str(tmp_path / "none"))
    before = (finished / "checkpoint.safetensors").read_bytes()
    assert command("--out", finished, "--resume").exit_code == 0
    assert (finished / "checkpoint.safetensors").read_bytes() == before


def test_a_run_of_another_version_is_refused(trace_file: Path, tmp_path: Path) -> None:
    """Its settings have a step that this version lacks: one line with the file and the step."""
    config = small(trace_file).to_json() | {"search": {"iterations": 0}}
    RunFolder.create(tmp_path / "old", config).close()
    result = command("--out", tmp_path / "old", "--resume")
    refused(result, str(tmp_path / "old" / "config.json"), "unknown setting search")


# --- what goes astray -----------------------------------------------------------------------------


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
    with raises_one_line(CollapsedError, match=r"entropy is 0\.0010 .* at \+3\.0 %") as caught:
        validated_as(learner, [3.0], monkeypatch)
    assert "reinforce.entropy_start" in str(caught.value)


@pytest.mark.slow
def test_the_training_of_make_run_beats_strict_fair(tmp_path: Path) -> None:
    """On sequences that nothing was trained or chosen on, beyond chance."""
    recipe = read_config(ROOT / "docs" / "examples" / "small-training.toml")
    with LocalPool(2) as pool, RunFolder.create(tmp_path / "run", recipe.to_json()) as folder:
        run_training(folder, pools=Pools(pool, pool))
    model = str(tmp_path / "run" / MODEL)
    config = EvaluationConfig(policies=("strict_fair", model), interarrival_s=18.0)
    difference = evaluate(config).difference(model)
    assert difference.ci95 is not None
    assert difference.ci95[1] < 0
