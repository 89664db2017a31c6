"""`decima train`: it repeats itself, survives interruptions, refuses nonsense, and it learns."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner, Result
from torch import Tensor

from decima import EvaluationConfig, evaluate
from decima.agent import model as model_files
from decima.agent.columns import FEATURE_VERSION
from decima.agent.model import ModelError, load_model
from decima.agent.network import NetworkConfig, PolicyNetwork
from decima.cli.main import main
from decima.evaluation.config import ConfigError
from decima.training.config import TrainConfig, config_from, read_config
from decima.training.episodes import EpisodeSource
from decima.training.learner import DecimaLearner
from decima.training.session import MODEL, run_training
from decima.training.shard import Collected, Part
from decima.tuning import parameters_json
from rl.checkpoint import load_tensors, save_tensors
from rl.errors import RunError
from rl.run_folder import RunFolder
from tests.commands import refused
from traces import load_trace

ROOT = Path(__file__).parents[1]

SMALL = (
    "iterations=4",
    "workload.executors=4",
    "workload.interarrival_s=[3.0]",
    "workload.batch_jobs=[4]",
    "episodes.sequences=2",
    "episodes.rollouts=2",
    "episodes.start_s=20",
    "episodes.end_s=40",
    "episodes.growth_iterations=2",
    "imitation.iterations=1",
    "imitation.teacher=strict_fair",
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


def assert_equal(one: dict[str, Tensor], other: dict[str, Tensor]) -> None:
    assert one.keys() == other.keys()
    for name, value in one.items():
        assert torch.equal(value, other[name]), name


@pytest.fixture(scope="module")
def finished(trace_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a whole small training."""
    path = tmp_path_factory.mktemp("train") / "run"
    final_weights(path, small(trace_file))
    return path


def weights_in(path: Path) -> dict[str, Tensor]:
    return load_tensors(path / "checkpoint.safetensors")[0]


# --- repeatable ----------------------------------------------------------------------------------


def test_results_do_not_depend_on_the_number_of_workers(
    finished: Path, trace_file: Path, tmp_path: Path
) -> None:
    """Two processes give the weights of one."""
    assert_equal(
        final_weights(tmp_path / "run", small(trace_file), workers=2), weights_in(finished)
    )


def test_a_stopped_training_goes_on_to_the_same_weights(
    finished: Path, trace_file: Path, tmp_path: Path
) -> None:
    """Stopped after each iteration, in the imitation and after it."""
    path = tmp_path / "run"
    config = small(trace_file)
    with RunFolder.create(path, config.to_json()) as folder:
        run_training(folder, time_limit_s=1e-9)
    for _ in range(3):
        with RunFolder.open(path) as folder:
            run_training(folder, time_limit_s=1e-9)
    with RunFolder.open(path) as folder:
        run_training(folder)
    assert_equal(weights_in(path), weights_in(finished))
    drop = ("elapsed_s",)

    def rows(of: Path) -> list[dict[str, float]]:
        lines = (of / "metrics.jsonl").read_text().splitlines()
        return [{k: v for k, v in json.loads(x).items() if k not in drop} for x in lines]

    assert rows(path) == rows(finished)


def test_another_seed_gives_other_weights(finished: Path, trace_file: Path, tmp_path: Path) -> None:
    other = final_weights(tmp_path / "run", small(trace_file, "seed=1"))
    assert not torch.equal(other["weights"], weights_in(finished)["weights"])


def test_episodes_may_begin_with_a_backlog_and_end_drained(trace_file: Path) -> None:
    """Between 0 and the backlog at time 0; without a time limit every job is completed."""
    changes = ("workload.batch_jobs=[]", "episodes.sequences=8", "episodes.backlog=5")
    for ends in ("cut", "drained"):
        config = small(trace_file, *changes, f"episodes.ends={ends}")
        source = EpisodeSource(config, load_trace(str(trace_file)))
        runs = [one.run for number in range(6) for one in source.of_iteration(number, np.ones(1))]
        backlogs = [int((run.arrival_ms == 0).sum()) for run in runs]
        assert set(backlogs) == set(range(6))
        assert all((run.time_limit_ms is None) == (ends == "drained") for run in runs)
        assert all((np.diff(run.arrival_ms) >= 0).all() for run in runs)


def test_training_validation_and_evaluation_never_meet_the_same_sequence(
    trace_file: Path,
) -> None:
    """Their numbers lie apart, and so do the arrivals drawn from them."""
    config = small(trace_file, "workload.batch_jobs=[]", "episodes.sequences=8")
    source = EpisodeSource(config, load_trace(str(trace_file)))
    shares = np.ones(1)
    played = [one for index in range(4) for one in source.of_iteration(index, shares)]
    kept = source.for_validation(source.settings[0])
    numbers = [one.number for one in (*played, *kept)]
    assert len(set(numbers)) == len(numbers)
    assert min(numbers) >= 2_000_000
    last = [tuple(one.run.arrival_ms[-3:]) for one in (*played, *kept)]
    assert len(set(last)) == len(last)


_COMPILED_LATER = """
import gc, sys
from numba.core.dispatcher import Dispatcher
from decima.training.config import read_config
from decima.training.learner import DecimaLearner

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


def test_the_clock_starts_when_everything_is_compiled(trace_file: Path) -> None:
    """A new learner has every kernel that imitation, policy gradient and validation call."""
    changes = (f"workload.trace={trace_file}", *SMALL)
    found = subprocess.run(  # noqa: S603 - our own code
        [sys.executable, "-c", _COMPILED_LATER, *changes],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    before, *later = found.stdout.split(maxsplit=1)
    assert int(before) > 10
    assert later == []


# --- what is learned -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [
        ("network.limit_head=false",),
        ("network.messages=false",),
        ("network.embeddings=false", "network.may_idle=false"),
        ("network.two_level=false",),
        ("credit.critic=true", "credit.horizon_s=300", "update.entropy_start=0.01"),
        ("credit.baseline=mean", "credit.normalise=update"),
        ("credit.baseline=none", "credit.objective=tail"),
        ("credit.objective=makespan", "episodes.pick=gap"),
        (
            "credit.differential=true",
            "episodes.ends=cut",
            "update.passes=1",
            "update.minibatches=1",
            "imitation.iterations=0",
        ),
    ],
    ids=lambda changes: changes[0],
)
def test_every_variant_trains(changes: tuple[str, ...], trace_file: Path, tmp_path: Path) -> None:
    """Finite weights that moved."""
    config = small(trace_file, "iterations=2", *changes)
    found = final_weights(tmp_path / "run", config)["weights"]
    torch.manual_seed(config.seed)
    learner = DecimaLearner(config)
    begun = learner.state()["weights"]
    learner.close()
    assert bool(torch.isfinite(found).all())
    assert not torch.equal(found, begun)


def test_training_goes_on_from_a_model(finished: Path, trace_file: Path, tmp_path: Path) -> None:
    """Nothing is imitated; first the critic learns alone, then all. Another network is refused."""
    begin = f"initial_model={finished / MODEL}"
    critic = ("credit.critic=true", "credit.horizon_s=300", "imitation.sharpen=1")
    learner = DecimaLearner(small(trace_file, begin, *critic, "update.critic_first=1"))
    known, _ = load_tensors(finished / MODEL)
    assert_equal(learner.model_state(), known)
    learner.iterate(0)
    after = learner.network.state_dict()
    heads = [name for name in known if name.startswith(("stage_head", "limit_head", "pass_head"))]
    assert all(torch.equal(after[name], known[name]) for name in heads)
    assert not torch.equal(after["value_head.last.weight"], known["value_head.last.weight"])
    learner.iterate(1)
    assert not torch.equal(learner.network.state_dict()[heads[0]], known[heads[0]])
    learner.close()
    refused(
        command("--out", tmp_path / "run", *sets(trace_file, begin, "network.embedding=8")),
        "initial_model",
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
    """During imitation they are the newest; afterwards they move a part of the way."""
    learner = DecimaLearner(small(trace_file, "update.average_iterations=4"))
    learner.iterate(0)
    before = learner.state()
    assert torch.equal(before["averaged"], before["weights"])
    learner.iterate(1)
    after = learner.state()
    moved = after["weights"] - before["averaged"]
    torch.testing.assert_close(after["averaged"] - before["averaged"], moved / 4)
    learner.close()


def test_the_average_reward_forgets_by_decisions(trace_file: Path) -> None:
    """Iterations of 60,000, 50,000 and 70,000 decisions: the window of 100,000 keeps the last two.

    They earned -180 in 60 s, -50 in 50 s and -140 in 70 s, each half by either shard. After two,
    -230 in 110 s; after three the newest two hold 120,000 steps, and -190 in 120 s remain.
    """
    learner = DecimaLearner(small(trace_file))
    learner.close()
    crew = Told([(30_000, -90.0, 30.0), (25_000, -25.0, 25.0), (35_000, -70.0, 35.0)])
    learner._crew = crew
    for iteration in range(4):
        learner.iterate(iteration)

    assert crew.rates == pytest.approx([0.0, -180 / 60, -230 / 110, -190 / 120])
    assert learner.state()["average_rate"][:, 0].tolist() == [50_000, 70_000, 0]


class Told:
    """Two shards that play nothing: each tells what it was given; afterwards, of no decisions."""

    def __init__(self, iterations: list[tuple[int, float, float]]) -> None:
        self.rates: list[float] = []
        """the average reward a second with which each iteration began"""
        self._iterations = iterations

    def ask(self, method: str, *arguments: Any) -> list[Any]:
        if method == "gradient":
            return 2 * [Part(torch.zeros_like(arguments[0]), 0.0, 0.0, 0.0, 0.0)]
        iteration, _, rate, _ = arguments
        self.rates.append(rate)
        steps, reward, time_s = (*self._iterations, (0, 0.0, 0.0))[iteration]
        jct_s = {"gap_3s": [1.0]}
        return 2 * [Collected(steps, 0.0, float(steps), reward, time_s, 0.0, 1.0, jct_s, jct_s)]

    def close(self) -> None:
        """Nothing to end."""


@pytest.mark.slow
def test_a_minute_of_training_beats_what_it_imitates(tmp_path: Path) -> None:
    """On unseen batches of the built-in trace, against tuned_srw with its shipped parameters."""
    changes = (
        "workload.interarrival_s=[]",
        "workload.batch_jobs=[20]",
        "imitation.teacher=tuned_srw",
        "iterations=60",
    )
    with RunFolder.create(tmp_path / "run", read_config(None, changes).to_json()) as folder:
        run_training(folder, workers=2)
    model = str(tmp_path / "run" / MODEL)
    config = EvaluationConfig(
        trace="tpch", policies=("tuned_srw", model), arrivals="batch", jobs=20, sequences=40
    )
    difference = evaluate(config).difference(model)
    assert difference.ci95 is not None
    assert difference.ci95[1] < 0


@pytest.mark.slow
def test_the_training_of_make_run_beats_strict_fair(tmp_path: Path) -> None:
    """On sequences that nothing was trained or chosen on, beyond chance."""
    recipe = read_config(ROOT / "docs" / "examples" / "small-training.toml")
    with RunFolder.create(tmp_path / "run", recipe.to_json()) as folder:
        run_training(folder, workers=2)
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
    assert set(card["validation"]) == {"score", "gap_3s_percent", "batch_4_percent"}
    assert str(tmp_path) not in json.dumps({k: v for k, v in card.items() if k == "environment"})
    model = str(out / MODEL)
    config = EvaluationConfig(
        trace=str(trace_file), policies=("strict_fair", model, f"{model}:sampled"),
        jobs=6, sequences=2, executors=4, interarrival_s=3,
    )  # fmt: skip
    report = evaluate(config)
    assert all(np.isfinite(one.avg_jct_s).all() for one in report.policies.values())
    assert evaluate(config, workers=2).policies[model].avg_jct_s.tolist() == (
        report.policies[model].avg_jct_s.tolist()
    )


def test_a_run_that_is_stopped_early_leaves_a_model(trace_file: Path, tmp_path: Path) -> None:
    """Before its first validation: the newest weights, and a card that claims no score."""
    out = tmp_path / "run"
    found = command("--out", out, "--minutes", "0.0001", *sets(trace_file, "validation.every=100"))
    assert found.exit_code == 0, found.output
    assert load_model(out / MODEL).card["validation"] == {}


def test_resuming_keeps_the_settings(finished: Path, trace_file: Path, tmp_path: Path) -> None:
    """A finished run stays as it is; other settings are refused; so is a second new run there."""
    refused(
        command("--out", finished, "--resume", "--set", "seed=3"), "no --config, --set, --tuned"
    )
    refused(command("--out", finished, *sets(trace_file)), str(finished), "resume it")
    refused(command("--out", tmp_path / "none", "--resume"), str(tmp_path / "none"))
    before = (finished / "checkpoint.safetensors").read_bytes()
    assert command("--out", finished, "--resume").exit_code == 0
    assert (finished / "checkpoint.safetensors").read_bytes() == before


def test_a_run_in_use_is_refused(finished: Path) -> None:
    with RunFolder.open(finished):
        refused(command("--out", finished, "--resume"), "another process is training")


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        ("workload.excutors=4", ("unknown setting workload.excutors", "executors")),
        ("speed=4", ("unknown setting speed",)),
        ("seed=high", ("seed is 'high'", "whole number")),
        ("seed=-1", ("seed: -1 is negative",)),
        ("seed=true", ("seed is True", "whole number")),
        ("seed=1979-05-27", ("seed is '1979-05-27'", "whole number")),
        (f"seed=0x{'f' * 5_000}", ("cannot be read",)),
        (f"seed={'9' * 400}", ("seed", "64 bits")),
        (f"credit.trace_s={'9' * 400}", ("credit.trace_s", "number")),
        ("credit.trace_s=inf", ("credit.trace_s", "finite")),
        (f"workload.trace={'x' * 10**6}", ("xxx",)),
        (f"network.hidden=[{10**6}]", ("network: ", "units")),
        ("network.hidden=[1000, 1000, 1000]", ("network: ", "parameters")),
        ("iterations=0", ("iterations: 0 is not at least 1",)),
        ("credit=3", ("credit is 3", "section")),
        ("seed", ("expected section.key=value",)),
        ("credit.objective=p99", ("'p99'", "'avg_jct', 'tail' or 'makespan'")),
        ("workload.interarrival_s=3", ("a list is needed",)),
        ("workload.interarrival_s=[-3.0]", ("-3.0 is not > 0",)),
        ("workload.executors=0", ("workload", "0")),
        ("episodes.sequences=3", ("no multiple of 2 shards",)),
        ("episodes.end_s=10", ("from 20.0 to 10.0 s",)),
        ("episodes.rollouts=1", ("rollouts must be at least 2",)),
        ("credit.critic=true", ("a critic needs a horizon_s",)),
        ("update.final_learning_rate=1.0", ("final_learning_rate <= learning_rate",)),
        ("update.entropy_end=1.0", ("entropy_end <= entropy_start",)),
        ("imitation.sharpen=0.0", ("imitation.sharpen must be > 0",)),
        ("imitation.teacher=oracle", ("no policy 'oracle'",)),
        ("imitation.parameters=3", ("imitation.parameters is 3", "table")),
        ("imitation.parameters.speed=3.0", ("imitation.parameters", "speed")),
        ("network.embedding=0", ("embedding 0 must be at least 1",)),
        ("network.hidden=[0]", ("hidden",)),
        ("workload.trace=nothing", ("nothing",)),
    ],
)
def test_contradictions_are_one_line(
    change: str, parts: tuple[str, ...], trace_file: Path, tmp_path: Path
) -> None:
    """And no run folder is begun, so the corrected command may use it."""
    out = tmp_path / "run"
    refused(command("--out", out, *sets(trace_file, change)), *parts)
    assert not out.exists() or not (out / "checkpoint.safetensors").exists()
    assert command("--out", out, *sets(trace_file, "iterations=1")).exit_code == 0


def test_a_tuned_teacher_is_part_of_the_settings(trace_file: Path, tmp_path: Path) -> None:
    """Its parameters are stored with the run, so that it can be resumed without the file."""
    tuned, out = tmp_path / "tuned.json", tmp_path / "run"
    parameters = {"factor": 0.4, "jobs_power": 0.0, "work_power": 1.5}
    tuned.write_text(json.dumps(parameters_json("tuned_srw", parameters)))
    settings = sets(trace_file, "iterations=1")
    assert command("--out", out, "--tuned", tuned, *settings).exit_code == 0
    imitation = json.loads((out / "config.json").read_text())["imitation"]
    assert (imitation["teacher"], imitation["parameters"]) == ("tuned_srw", parameters)
    plain = small(trace_file, "iterations=1", "imitation.teacher=tuned_srw")
    untuned = final_weights(tmp_path / "plain", plain)["weights"]
    assert not torch.equal(weights_in(out)["weights"], untuned)
    tuned.write_text("{}")
    refused(command("--out", tmp_path / "no", "--tuned", tuned, *settings), "not a file of")
    assert not (tmp_path / "no").exists()


def test_a_file_of_settings(trace_file: Path, tmp_path: Path) -> None:
    """TOML sections, with `--set` on top; what is no TOML is refused."""
    path = tmp_path / "my.toml"
    path.write_text("seed = 5\n[episodes]\nrollouts = 4\n[credit]\nhorizon_s = 300\n")
    config = read_config(path, ("episodes.rollouts=6", "seed=5"))
    assert (config.seed, config.episodes.rollouts, config.credit.horizon_s) == (5, 6, 300.0)
    assert config_from(json.loads(json.dumps(config.to_json()))) == config
    path.write_text("seed = = 5")
    with pytest.raises(ConfigError, match="not TOML"):
        read_config(path)


# --- model files ---------------------------------------------------------------------------------


def test_other_files_are_no_models(finished: Path, tmp_path: Path) -> None:
    """Another version of the features, damage, pickles: one line each."""
    good = finished / MODEL
    weights, header = load_tensors(good)
    path = tmp_path / "other.safetensors"
    first = next(iter(weights))
    cases: list[tuple[dict[str, Tensor], dict[str, Any], str]] = [
        (weights, header | {"feature_version": 99}, "feature version 99"),
        (weights, header | {"version": 2}, "version 2"),
        (weights, header | {"format": "x"}, "not a model"),
        (weights, header | {"network": {"embedding": 99}}, "do not fit"),
        (weights, header | {"network": {"colour": 1}}, "impossible network"),
        (weights, {key: value for key, value in header.items() if key != "network"}, "no network"),
        ({**weights, first: weights[first] * float("nan")}, header, "not all finite"),
        ({key: value for key, value in weights.items() if key != first}, header, "do not fit"),
    ]
    for tensors, facts, part in cases:
        save_tensors(path, tensors, facts)
        with pytest.raises(ModelError, match=part) as caught:
            load_model(path)
        assert "\n" not in str(caught.value)
    torch.save({"weights": 1}, path)
    refused(CliRunner().invoke(main, ["evaluate", "--policies", f"strict_fair,{path}"]), str(path))


def test_a_model_serves_clusters_of_any_size(finished: Path) -> None:
    """Trained on four executors, it completes all jobs on three and puts dozens to work of 80."""
    model = str(finished / MODEL)
    config = EvaluationConfig(
        trace="tpch", policies=(model,), arrivals="batch", jobs=2, sequences=1
    )
    used: dict[int, int] = {}
    for executors in (3, 80):
        report = evaluate(replace(config, executors=executors), timelines=True)
        (run,) = report.policies[model].runs
        assert (run.metrics.unfinished, run.metrics.forced) == (0, 0)
        assert run.timeline is not None
        used[executors] = len(set(run.timeline["executor"].tolist()))
    assert used[3] == 3
    assert used[80] > 24


GIANTS = {
    "a million units": {"embedding": 10**6},
    "twenty thousand units": {"hidden": [20_000], "head_hidden": [20_000, 20_000]},
    "many layers": {"head_hidden": [1] * 10**5},
    "many parameters": {"head_hidden": [1000] * 10},
    "no number": {"embedding": "16"},
    "half a unit": {"embedding": 16.5},
    "true": {"embedding": True},
}


@pytest.mark.parametrize("sizes", GIANTS.values(), ids=GIANTS)
def test_a_model_of_impossible_size_is_refused_before_memory_is_taken(
    sizes: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of some hundred bytes claims it; no network is built but one of shapes alone."""
    path = tmp_path / "giant.safetensors"
    header = {"format": "decima-model", "version": 1, "feature_version": FEATURE_VERSION}
    save_tensors(path, {"a": torch.zeros(1)}, header | {"network": sizes})

    def outline_only(config: NetworkConfig) -> PolicyNetwork:
        assert torch.empty(0).is_meta
        return PolicyNetwork(config)

    monkeypatch.setattr(model_files, "PolicyNetwork", outline_only)
    with pytest.raises(ModelError, match="impossible network") as refused:
        load_model(path)
    assert len(str(refused.value)) < 300 + len(str(path))


def test_a_model_whose_weights_are_not_those_it_claims_is_not_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A permitted size, but other tensors in the file; a file that is too large to be a model."""
    path = tmp_path / "other.safetensors"
    config = NetworkConfig(head_hidden=(500, 500))
    header = {"format": "decima-model", "version": 1, "feature_version": FEATURE_VERSION}
    weights = PolicyNetwork(config).state_dict()
    wide = {name: value.double() for name, value in weights.items()}
    for tensors in ({"a": torch.zeros(1)}, wide):
        save_tensors(path, tensors, header | {"network": {"head_hidden": [500, 500]}})
        with pytest.raises(ModelError, match="do not fit"):
            load_model(path)
    save_tensors(path, weights, header | {"network": {"head_hidden": [500, 500]}, "card": []})
    with pytest.raises(ModelError, match="card is"):
        load_model(path)
    monkeypatch.setattr(model_files, "MAX_BYTES", 1_000)
    with pytest.raises(RunError, match="at most 1,000 are read"):
        load_model(path)
