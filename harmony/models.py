"""Networks with their files of weights, as schedulers and in the place of a cluster's speeds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from decima.rl.errors import StudyError
from decima.rl.optimiser import one_thread
from decima.rl.study.models import C, Model, ModelKind, N
from decima.rl.study.streams import Draws, torch_seed
from harmony.clusters import Clusters
from harmony.config import Config
from harmony.measured import measured
from harmony.network import MAX_PARAMETERS, ActorCritic, PolicyNetwork, RewardModel, Size
from harmony.schedulers import Tiresias
from harmony.tables import Float64, Int32, Jobs
from harmony.tokens import Scene, see, see_running
from harmony.training_config import RewardConfig, TrainConfig


def new_network(size: Size, seed: int = 0) -> ActorCritic:
    """A policy and a critic that have learned nothing."""
    return _seeded(seed, lambda: ActorCritic(size))


def new_reward_model(size: Size, seed: int = 0) -> RewardModel:
    """A reward model that has learned nothing."""
    return _seeded(seed, lambda: RewardModel(size))


def _kind(name: str, config: type[C], make: Callable[[C], N]) -> ModelKind[N, C]:
    return ModelKind("harmony", "harmony-1", config, make, name, MAX_PARAMETERS)


POLICY = _kind("policy", TrainConfig, lambda config: new_network(config.size))
REWARD_MODEL = _kind("reward model", RewardConfig, lambda config: new_reward_model(config.size))
load_model = POLICY.load


def kind_of(config: TrainConfig | RewardConfig) -> ModelKind[Any, Any]:
    """The kind of network that a configuration trains."""
    return POLICY if isinstance(config, TrainConfig) else REWARD_MODEL


def load_reward_model(path: Path) -> Model[RewardModel, RewardConfig]:
    """A reward model, in evaluation mode; raises what `ModelKind.load` does."""
    model = REWARD_MODEL.load(path)
    model.network.eval()
    return model


def network_to_begin_with(path: Path, config: TrainConfig) -> ActorCritic:
    """Load a network whose weights a training with `config` can begin with.

    One that ignores types of GPU is widened to see them: at first it acts as before.

    Raises StudyError if it is of another size.
    """
    network, trained, _ = load_model(path)
    wanted = new_network(config.size)
    weights = network.state_dict()
    shapes = {name: weight.shape for name, weight in wanted.state_dict().items()}
    if replace(trained.size, gpu_types=config.size.gpu_types) == config.size and (
        trained.size.gpu_types == 1
    ):
        # The columns of types come last in the rows of inputs; their weights are 0 at first.
        for name, weight in weights.items():
            wider = shapes[name][-1] - weight.shape[-1]
            weights[name] = functional.pad(weight, (0, wider)) if wider else weight
    if {name: weight.shape for name, weight in weights.items()} != shapes:
        raise StudyError(f"a model of another size cannot begin a training of {config.size}")
    wanted.load_state_dict(weights)
    return wanted


def _seeded(seed: int, make: Callable[[], N]) -> N:
    # torch's modules draw their first weights from the global generator, which is put back.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(torch_seed(seed))
        return make()


def check_network(known: int, gpu_types: int, config: Config) -> None:
    """Refuse a network for another number of models or of types of GPU than the cluster's.

    One for a single type of GPU ignores types, and fits any cluster.

    Raises StudyError if the numbers differ.
    """
    count = len(measured(config.table_file).models)
    if known != count:
        raise StudyError(
            f"a network for {known} models, where the table of interference has {count}: train one "
            "with size.models"
        )
    types = len(config.gpu_table)
    if gpu_types not in (1, types):
        raise StudyError(f"a network for {gpu_types} types of GPU, where the cluster has {types}")


class Learned:
    """A policy network as a scheduler.

    Waiting jobs are tried in the order of Tiresias' index, which needs no speeds: the paper leaves
    the order open.

    Args:
        network: the policy.
        config: the cluster.
        greedy: take the likeliest action instead of drawing one.

    Raises StudyError if the network was made for another number of models.
    """

    def __init__(self, network: PolicyNetwork, config: Config, *, greedy: bool = True) -> None:
        check_network(network.models, network.gpu_types, config)
        self.network = network
        self._order = Tiresias(config)
        self._greedy = greedy

    def priority(self, jobs: Jobs) -> Float64 | None:
        """(S, J) that of Tiresias."""
        return self._order.priority(jobs)

    def choose(self, clusters: Clusters, rows: Int32, draws: Draws) -> Int32:
        """(n,) actions."""
        log_prob = log_probabilities(self.network, see(clusters, rows))
        if self._greedy:
            return np.asarray(log_prob.argmax(axis=1).astype(np.int32))
        return drawn(np.exp(log_prob), draws.next(rows))


def log_probabilities(network: PolicyNetwork, scene: Scene) -> Float64:
    """(n, 2 M) of the actions."""
    with one_thread(), torch.no_grad():
        return np.asarray(network(scene).double().log_softmax(1).numpy())


def drawn(probability: Float64, chance: Float64) -> Int32:
    """(n,) columns of (n, A) probabilities, picked by (n,) numbers in [0, 1)."""
    total = np.cumsum(probability, axis=1)
    passed = total <= (chance * total[:, -1])[:, None]
    return np.asarray(passed.sum(axis=1).astype(np.int32))


class PredictedSpeeds:
    """A reward model in the place of the cluster's own speeds.

    Args:
        model: in evaluation mode.
    """

    def __init__(self, model: RewardModel) -> None:
        self._model = model

    def __call__(self, clusters: Clusters, rows: Int32) -> Float64:
        """(n, R) epochs a minute, in the order of `state.running`."""
        running = see_running(clusters, rows, clusters.state.running.shape[1])
        with one_thread(), torch.no_grad():
            return np.asarray(self._model(running).double().numpy())
