"""`decima train`: it repeats itself, survives interruptions, and it learns."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner, Result
from torch import Tensor

from decima import HEURISTICS, EvaluationConfig, evaluate
from decima.agent.columns import FEATURE_VERSION
from decima.agent.model import load_model
from decima.cli.main import main
from decima.heuristics.es_classes import CLASS_PARAMETERS, CLASS_WORLDS
from decima.heuristics.es_rule import PARAMETERS, WORLDS
from decima.training.config import TrainConfig, config_from, read_config
from decima.training.gradients import Part
from decima.training.learner import Crews, DecimaLearner
from decima.training.rollouts import Rollouts
from decima.training.session import MODEL, run_training
from decima.tuning import parameters_json
from parallel.crew import Crew
from parallel.local import LocalCrew
from rl.checkpoint import load_tensors
from rl.run_folder import RunFolder
from tests.commands import refused

ROOT = Path(__file__).parents[1]

SMALL = (
    "iterations=4",
    "workload.executors=4",
    "workload.interarrival_s=[3.0]",
    "workload.batch_jobs=[4]",
    "episodes.settings=2",
    "episodes.sequences=2",
    "episodes.rollouts=2",
    "episodes.start_jobs=4",
    "episodes.end_jobs=8",
    "episodes.backlog=3",
    "episodes.growth_iterations=2",
    "credit.states=40",
    "credit.plans=4",
    "validation.every=2",
    "validation.sequences=1",
    "validation.jobs=5",
)
RETURNS = ("credit.method=returns", "update.passes=1", "update.minibatches=1")


def small(trace_file: Path, *more: str) -> TrainConfig:
    """A training of a second or two."""
    return read_config(None, (f"workload.trace={trace_file}", *SMALL, *more))


def final_weights(path: Path, config: TrainConfig, **how: Any) -> dict[str, Tensor]:
    """Train in a new folder; all tensors of the last checkpoint."""
    with RunFolder.create(path, config.to_json()) as folder:
        run_training(folder, **how)
        return load_tensors(folder.checkpoint_file)[0]


def assert_equal(one: dict[str, Tensor], other: dict[str, Tensor]) -> None:
    assert one.keys() == other.keys()
    for name, value in one.items():
        assert torch.equal(value, other[name]), name


def weights_in(path: Path) -> dict[str, Tensor]:
    return load_tensors(path / "checkpoint.safetensors")[0]


@pytest.fixture(scope="module", params=["branches", "returns"])
def method(request: pytest.FixtureRequest) -> str:
    """How credit is given."""
    return f"credit.method={request.param}"


@pytest.fixture(scope="module")
def finished(trace_file: Path, tmp_path_factory: pytest.TempPathFactory, method: str) -> Path:
    """The folder of a whole small training."""
    path = tmp_path_factory.mktemp("train") / "run"
    final_weights(path, small(trace_file, method))
    return path


# --- repeatable ----------------------------------------------------------------------------------


def test_results_do_not_depend_on_the_number_of_workers(
    finished: Path, trace_file: Path, tmp_path: Path, method: str
) -> None:
    """Two processes give the weights of one."""
    with LocalCrew(2) as crew:
        found = final_weights(tmp_path / "run", small(trace_file, method), crews=Crews(crew, crew))
    assert_equal(found, weights_in(finished))


def test_a_stopped_training_goes_on_to_the_same_weights(
    finished: Path, trace_file: Path, tmp_path: Path, method: str
) -> None:
    """Stopped after each iteration."""
    path = tmp_path / "run"
    config = small(trace_file, method)
    with RunFolder.create(path, config.to_json()) as folder:
        run_training(folder, time_limit_s=1e-9)
    for _ in range(2):
        with RunFolder.open(path) as folder:
            run_training(folder, time_limit_s=1e-9)
    with RunFolder.open(path) as folder:
        run_training(folder)
    assert_equal(weights_in(path), weights_in(finished))

    def rows(of: Path) -> list[dict[str, float]]:
        lines = (of / "metrics.jsonl").read_text().splitlines()
        return [{k: v for k, v in json.loads(x).items() if k != "elapsed_s"} for x in lines]

    assert rows(path) == rows(finished)


def test_another_seed_gives_other_weights(
    finished: Path, trace_file: Path, tmp_path: Path, method: str
) -> None:
    other = final_weights(tmp_path / "run", small(trace_file, method, "seed=1"))
    assert not torch.equal(other["weights"], weights_in(finished)["weights"])


_COMPILED_LATER = """
import gc, sys
from numba.core.dispatcher import Dispatcher
from decima.training.config import read_config
from decima.training.gradients import Part
from decima.training.learner import Crews, DecimaLearner
from decima.training.rollouts import Rollouts

def compiled():
    kernels = [found for found in gc.get_objects() if isinstance(found, Dispatcher)]
    return {f"{found.py_func.__name__}{types}" for found in kernels for types in found.signatures}

learner = DecimaLearner(read_config(None, tuple(sys.argv[1:])))
before = compiled()
learner.iterate(0)
learner.iterate(1)
learner.validate()
print(len(before), *sorted(compiled() - before))
"""


def test_the_clock_starts_when_everything_is_compiled(trace_file: Path, method: str) -> None:
    """A new learner has every kernel that playing, branching, updates and validation call."""
    changes = (f"workload.trace={trace_file}", *SMALL, method)
    found = subprocess.run(  # noqa: S603 - our own code
        [sys.executable, "-c", _COMPILED_LATER, *changes],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    before, *later = found.stdout.split(maxsplit=1)
    assert int(before) >= 5
    assert later == []


# --- what is learned -----------------------------------------------------------------------------


CLASSES = ("workload.executors=6", "workload.classes=1x2,2x4", "workload.demands=drawn")
VARIANTS = [
    ("network.limit_head=false",),
    ("network.messages=false", "network.two_level=false"),
    ("network.embeddings=false", "update.entropy_start=0.01"),
    ("network.rule=false", "workload.protocol=session"),
    ("credit.objective=makespan", "update.passes=1", "update.minibatches=1"),
    (*RETURNS, "credit.baseline=critic", "credit.horizon_s=300"),
    (*RETURNS, "credit.baseline=mean", "credit.objective=tail"),
    (*RETURNS, "credit.baseline=none", "credit.differential=true", "episodes.ends=cut"),
    (*RETURNS, "network.rule=false", "update.max_norm=none"),
    CLASSES,
    (*RETURNS, *CLASSES, "network.rule=false"),
]


@pytest.mark.parametrize("changes", VARIANTS, ids=" ".join)
def test_every_variant_trains(changes: tuple[str, ...], trace_file: Path, tmp_path: Path) -> None:
    """Finite weights that moved."""
    config = small(trace_file, "iterations=1", *changes)
    learner = DecimaLearner(config)
    begun = learner.state()["weights"]
    figures = [learner.iterate(number) for number in range(2)]
    found = learner.state()["weights"]
    assert bool(torch.isfinite(found).all())
    assert not torch.equal(found, begun)
    assert all(one["plans"] > 0 for one in figures)


def test_training_goes_on_from_a_model(finished: Path, trace_file: Path, tmp_path: Path) -> None:
    """From its weights. Another network, or one that starts from another rule, is refused."""
    begin = f"initial_model={finished / MODEL}"
    learner = DecimaLearner(small(trace_file, begin))
    known, _ = load_tensors(finished / MODEL)
    assert_equal(learner.model_state(), known)
    refused(
        command("--out", tmp_path / "run", *sets(trace_file, begin, "network.embedding=8")),
        "initial_model",
    )
    tuned = tmp_path / "tuned.json"
    tuned.write_text(json.dumps(parameters_json("es_rule", dict.fromkeys(PARAMETERS, 0.5))))
    refused(
        command("--out", tmp_path / "other", "--tuned", tuned, *sets(trace_file, begin)),
        "starts from another rule",
    )


def test_a_run_goes_on_with_nothing_but_its_folder(
    finished: Path, trace_file: Path, tmp_path: Path
) -> None:
    """The model that it began with is gone; the state is that of a run that was never stopped."""
    begin, out = tmp_path / "begin.safetensors", tmp_path / "run"
    shutil.copy(finished / MODEL, begin)
    settings = sets(trace_file, f"initial_model={begin}", "iterations=2")
    assert command("--out", out, *settings, "--minutes", 1e-6).exit_code == 0
    begin.unlink()
    assert command("--out", out, "--resume").exit_code == 0

    shutil.copy(finished / MODEL, begin)
    straight = final_weights(tmp_path / "straight", small(trace_file, *settings[1::2]))
    resumed, _ = load_tensors(out / "checkpoint.safetensors")
    assert torch.equal(resumed["weights"], straight["weights"])


def test_averaged_weights_lag_behind(trace_file: Path) -> None:
    """They move a part of the way to the newest, which the next iteration begins with."""
    learner = DecimaLearner(small(trace_file, "update.average_iterations=4"))
    before = learner.state()
    assert torch.equal(before["averaged"], before["weights"])
    learner.iterate(0)
    after = learner.state()
    moved = after["weights"] - before["averaged"]
    assert moved.abs().max() > 0
    torch.testing.assert_close(after["averaged"] - before["averaged"], moved / 4)


def test_the_average_reward_forgets_by_decisions(trace_file: Path) -> None:
    """Iterations of 60,000, 50,000 and 70,000 decisions: the window of 100,000 keeps the last two.

    They earned -180 in 60 s, -50 in 50 s and -140 in 70 s, each half by either shard. After two,
    -230 in 110 s; after three the newest two hold 120,000 steps, and -190 in 120 s remain.
    """
    learner = DecimaLearner(small(trace_file))
    crew = Told([(30_000, -90.0, 30.0), (25_000, -25.0, 25.0), (35_000, -70.0, 35.0)])
    learner._crews = Crews(crew, crew)
    for iteration in range(4):
        learner.iterate(iteration)

    assert crew.rates == pytest.approx([0.0, -180 / 60, -230 / 110, -190 / 120])
    assert learner.state()["average_rate"][:, 0].tolist() == [50_000, 70_000, 0]


class Told(Crew):
    """Two shards that play nothing: each tells what it was given; afterwards, of no decisions."""

    def __init__(self, iterations: list[tuple[int, float, float]]) -> None:
        self.rates: list[float] = []
        """the average reward a second with which each iteration began"""
        self._iterations = iterations

    slots = 1

    def map(
        self, _function: object, shared: Any, tasks: Mapping[Any, Any], *, label: str
    ) -> Iterator[tuple[Any, Any]]:
        if "gradient" in label:
            nothing = torch.zeros_like(shared.weights)
            yield from ((key, Part(nothing, 0.0, 0.0, 0.0, 0.0)) for key in tasks)
            return
        self.rates.append(shared.rate)
        steps, reward, time_s = (*self._iterations, (0, 0.0, 0.0))[shared.iteration]
        setting = shared.ground.value.source.settings[0]
        recording: Any = None
        told = np.zeros(steps)
        for key in tasks:
            yield (
                key,
                Rollouts(setting, recording, told, told, reward, np.array([time_s]), [1.0], [1.0]),
            )

    def close(self) -> None:
        """Nothing to end."""


@pytest.mark.slow
def test_a_short_training_by_branches_is_not_worse_than_the_rule(tmp_path: Path) -> None:
    """It begins at the rule; on batches that nothing was trained or chosen on, it stays as good."""
    changes = (
        "workload.interarrival_s=[]",
        "workload.batch_jobs=[20]",
        "iterations=20",
        "validation.every=20",
    )
    config = read_config(None, changes)
    with LocalCrew(2) as crew, RunFolder.create(tmp_path / "run", config.to_json()) as folder:
        run_training(folder, crews=Crews(crew, crew))
    model = str(tmp_path / "run" / MODEL)
    other = EvaluationConfig(
        trace="tpch", policies=("es_rule", model), arrivals="batch", jobs=20, sequences=40
    )
    difference = evaluate(other).difference(model)
    assert difference.ci95 is not None
    assert difference.ci95[0] < 0


@pytest.mark.slow
def test_the_training_of_make_run_beats_strict_fair(tmp_path: Path) -> None:
    """On sequences that nothing was trained or chosen on, beyond chance."""
    recipe = read_config(ROOT / "docs" / "examples" / "small-training.toml")
    with LocalCrew(2) as crew, RunFolder.create(tmp_path / "run", recipe.to_json()) as folder:
        run_training(folder, crews=Crews(crew, crew))
    model = str(tmp_path / "run" / MODEL)
    difference = evaluate(EvaluationConfig(policies=("strict_fair", model))).difference(model)
    assert difference.ci95 is not None
    assert difference.ci95[1] < 0


# --- the command ---------------------------------------------------------------------------------


def command(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["train", *(str(argument) for argument in arguments)])


def sets(trace_file: Path, *more: str) -> list[str]:
    changes = (f"workload.trace={trace_file}", *SMALL, *more)
    return [part for change in changes for part in ("--set", change)]


def test_a_trained_model_is_a_policy(trace_file: Path, tmp_path: Path) -> None:
    """The command leaves a model with its card, which `decima evaluate` accepts."""
    out = tmp_path / "run"
    found = command("--out", out, *sets(trace_file, "iterations=2"))
    assert found.exit_code == 0, found.output
    assert "model.safetensors" in found.output
    card = json.loads((out / "model.json").read_text())["card"]
    assert card["config"] == config_from(card["config"]).to_json() | card["config"]
    assert card["feature_version"] == FEATURE_VERSION
    settings = [f"{number}.{trace_file.stem}.4_executors" for number in range(2)]
    assert set(card["validation"]) == {
        "score",
        "above_es_rule",
        "above_es_rules",
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
    assert all(np.isfinite(one.avg_jct_s).all() for one in report.policies.values())
    with LocalCrew(2) as crew:
        others = evaluate(config, crew=crew)
    assert others.policies[model].avg_jct_s.tolist() == report.policies[model].avg_jct_s.tolist()


def test_a_run_that_is_stopped_early_leaves_a_model(trace_file: Path, tmp_path: Path) -> None:
    """Before its first validation: the newest weights, and a card that claims no score."""
    out = tmp_path / "run"
    found = command("--out", out, "--minutes", "0.0001", *sets(trace_file, "validation.every=100"))
    assert found.exit_code == 0, found.output
    assert load_model(out / MODEL).card["validation"] == {}


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


def test_a_run_in_use_is_refused(finished: Path) -> None:
    with RunFolder.open(finished):
        refused(command("--out", finished, "--resume"), "another process is training")


def test_the_rule_that_training_starts_from_is_the_one_to_beat(
    trace_file: Path, tmp_path: Path
) -> None:
    """`above_es_rule` is of these weights: what the rule reaches is no merit of the model."""

    def against_strict_fair(name: str, scale: float | None) -> float:
        more: list[object] = []
        if scale is not None:
            shipped = HEURISTICS["es_rule"].defaults
            weights = {key: scale * value for key, value in shipped.items()}
            (tmp_path / f"{name}.json").write_text(json.dumps(parameters_json("es_rule", weights)))
            more = ["--tuned", tmp_path / f"{name}.json"]
        out = tmp_path / name
        found = command("--out", out, *more, *sets(trace_file, "iterations=1"))
        assert found.exit_code == 0, found.output
        validation = json.loads((out / "model.json").read_text())["card"]["validation"]
        return float((100 + validation["score"]) / (100 + validation["above_es_rule"]))

    shipped = against_strict_fair("shipped", None)
    assert against_strict_fair("same", 1.0) == pytest.approx(shipped)
    assert against_strict_fair("none", 0.0) > 1.01 * shipped


def test_the_rule_that_training_starts_from_is_part_of_the_settings(
    trace_file: Path, tmp_path: Path
) -> None:
    """Its weights are stored with the run and in the model: neither needs the file again."""
    tuned, out = tmp_path / "tuned.json", tmp_path / "run"
    weights = {name: 0.9 * value for name, value in HEURISTICS["es_rule"].defaults.items()}
    tuned.write_text(json.dumps(parameters_json("es_rule", weights)))
    settings = sets(trace_file, "iterations=1")
    assert command("--out", out, "--tuned", tuned, *settings).exit_code == 0
    assert json.loads((out / "config.json").read_text())["rule"] == weights
    tuned.unlink()
    rule = load_model(out / MODEL).network.rule.tolist()
    worlds = len(CLASS_WORLDS) + len(WORLDS)
    assert rule[len(CLASS_PARAMETERS) :] == worlds * list(weights.values())
    assert command("--out", out, "--resume").exit_code == 0

    tuned.write_text(
        json.dumps(
            parameters_json("tuned_srw", {"factor": 0.4, "jobs_power": 0.0, "work_power": 1.5})
        )
    )
    refused(command("--out", tmp_path / "no", "--tuned", tuned, *settings), "not of tuned_srw")
    tuned.write_text("{}")
    refused(command("--out", tmp_path / "no", "--tuned", tuned, *settings), "not a file of")
    assert not (tmp_path / "no").exists()
