"""A network that places jobs, as a scheduler; a model that predicts speeds."""

from __future__ import annotations

import numpy as np
import torch

from decima.rl.errors import StudyError
from decima.rl.optimiser import one_thread
from decima.rl.study.streams import Draws
from harmony.clusters import Clusters
from harmony.config import Config
from harmony.measured import measured
from harmony.network import PolicyNetwork, RewardModel
from harmony.schedulers import Tiresias
from harmony.tables import Float64, Int32, Jobs
from harmony.tokens import Scene, see, see_running


def check_network(known: int, gpu_types: int, config: Config) -> None:
    """Refuse a network for another number of models or of types of GPU than the cluster's.

    One for a single type of GPU ignores types, and fits any cluster.

    Raises:
        StudyError: the numbers differ.
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

    Raises:
        StudyError: the network was made for another number of models.
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
