"""Model files: what is refused, before anything of it is built, and where a model may serve."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from decima.agent import model as model_files
from decima.agent.columns import FEATURE_VERSION
from decima.agent.model import ModelError, load_model, save_model
from decima.agent.network import PolicyNetwork
from decima.agent.weights import NetworkConfig, weight_shapes
from decima.rl.checkpoint import load_tensors, save_tensors
from decima.rl.errors import RunError
from tests.commands import decima, python, raises_one_line, refused
from tests.test_agent_support import VARIANTS


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of a new network."""
    path = tmp_path_factory.mktemp("model") / "model.safetensors"
    network = PolicyNetwork(NetworkConfig())
    save_model(path, network.config, network.state_dict(), {"feature_version": FEATURE_VERSION})
    return path


def test_a_model_comes_back_as_it_was(tmp_path: Path) -> None:
    """Weights, sizes and the card."""
    torch.manual_seed(4)
    network = PolicyNetwork(NetworkConfig(embedding=8, head_hidden=(5,)))
    path = tmp_path / "model.safetensors"
    save_model(path, network.config, network.state_dict(), {"colour": "blue"})
    model = load_model(path)
    assert model.network.config == network.config
    assert model.card == {"colour": "blue"}
    for name, value in network.state_dict().items():
        assert torch.equal(model.network.state_dict()[name], value)
    with pytest.raises(ModelError, match=r"ends in \.safetensors"):
        save_model(tmp_path / "model.bin", network.config, network.state_dict(), {})


def test_other_files_are_no_models(
    good: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another version of the features, damage, pickles, too many bytes: one line each."""
    weights, header = load_tensors(good)
    path = tmp_path / "other.safetensors"
    first = next(iter(weights))
    cases: list[tuple[dict[str, Tensor], dict[str, Any], str]] = [
        (weights, header | {"feature_version": 99}, "feature version 99"),
        (weights, header | {"version": 2}, "version 2"),
        (weights, header | {"format": "x"}, "not a model"),
        (weights, header | {"network": {"embedding": 99}}, "do not fit"),
        (weights, header | {"network": {"colour": 1}}, "impossible network"),
        (weights, header | {"card": []}, "card is"),
        ({name: value.double() for name, value in weights.items()}, header, "do not fit"),
        (weights, {key: value for key, value in header.items() if key != "network"}, "no network"),
        ({**weights, first: weights[first] * float("nan")}, header, "not all finite"),
        ({key: value for key, value in weights.items() if key != first}, header, "do not fit"),
    ]
    for tensors, facts, part in cases:
        save_tensors(path, tensors, facts)
        with raises_one_line(ModelError, match=part):
            load_model(path)
    torch.save({"weights": 1}, path)
    refused(decima("evaluate", "--policies", f"strict_fair,{path}"), str(path))
    monkeypatch.setattr(model_files, "MAX_BYTES", 1_000)
    with pytest.raises(RunError, match="at most 1,000 are read"):
        load_model(good)


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)
def test_the_shapes_of_a_model_are_those_of_the_network(variant: NetworkConfig) -> None:
    """They are counted without torch, which knows them too."""
    for config in (variant, replace(variant, hidden=(), embedding=5, head_hidden=(7,))):
        state = PolicyNetwork(config).state_dict()
        assert weight_shapes(config) == {
            name: tuple(tensor.shape) for name, tensor in state.items()
        }


WITHOUT_TORCH = """
import sys
from decima import EvaluationConfig, evaluate
from decima.spark.answering import Answers, PoliciesByName
from decima.spark.attaching import trained_slots_of
from decima.spark.loading import TWO_JOBS, ready_policy

evaluate(EvaluationConfig(trace=sys.argv[1], policies=("decima",), jobs=2, sequences=1))
assert trained_slots_of("decima") is not None
live = Answers(PoliciesByName({"decima": ready_policy("decima")}))
plan = live.answer({"ask": "plan", "policy": "decima", **TWO_JOBS})
print(len(plan["actions"]) > 0, "torch" in sys.modules)
"""


def test_a_learned_policy_decides_without_torch(trace_file: Path) -> None:
    """In an evaluation and beside a live Spark: torch takes seconds to load and hundreds of
    megabytes, and only training needs it.
    """
    assert python("-c", WITHOUT_TORCH, trace_file).split() == ["True", "False"]


GIANTS = {
    "a million units": {"embedding": 10**6},
    "twenty thousand units": {"hidden": [20_000], "head_hidden": [20_000, 20_000]},
    "many layers": {"head_hidden": [1] * 10**5},
    "no number": {"embedding": "16"},
    "true": {"embedding": True},
}


@pytest.mark.parametrize("sizes", GIANTS.values(), ids=GIANTS)
def test_a_model_of_impossible_size_is_refused_before_memory_is_taken(
    sizes: dict[str, Any], tmp_path: Path
) -> None:
    """A file of some hundred bytes claims it; its shapes are counted, and nothing is built."""
    path = tmp_path / "giant.safetensors"
    header = {"format": "decima-model", "version": 1, "feature_version": FEATURE_VERSION}
    save_tensors(path, {"a": torch.zeros(1)}, header | {"network": sizes})
    with pytest.raises(ModelError, match="impossible network") as refused:
        load_model(path)
    assert len(str(refused.value)) < 300 + len(str(path))
