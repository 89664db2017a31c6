"""`Shard`: a fixed part of every iteration. It plays its sequences, then gives gradients on them.

An iteration is cut into shards by the configuration, and shards are given to processes; so results
depend on the number of shards and never on that of processes.
"""

from __future__ import annotations

from itertools import groupby
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from decima.agent import plans
from decima.agent.graph import GraphSorter
from decima.agent.network import PolicyNetwork, Scores
from decima.agent.plans import Taken
from decima.agent.rollout import Lanes, play_out
from decima.agent.scales import Scales
from decima.policies import Heuristic
from decima.training.config import TrainConfig
from decima.training.credit import to_spread
from decima.training.episodes import Episode, EpisodeSource, Setting, played
from decima.training.play import Batch, Player
from rl import objectives
from rl.optimiser import flat_gradient, set_flat_parameters
from spark_sim.metrics import measure
from traces.arrays import TraceArrays
from traces.numbers import MS_PER_S, Float64, Int64

REFERENCES = ("strict_fair", "es_rules", "es_rule", "tuned_srw", "tuned_weighted_fair")
"""the heuristics that scores are relative to, the first one above all"""

_SHUFFLE_STREAM = 11
CHUNK = 512
"""decisions that are scored at once: more need more memory and take no less time"""
BLOCK = 64
"""decisions of one lane that stay together in a minibatch, since they share embeddings"""

AverageJct = dict[str, list[float]]
"""by setting: average JCT in s of each run, unfinished jobs with their age"""


class Collected(NamedTuple):
    """What a shard tells of its rollouts."""

    plans: int
    advantage_sum: float
    advantage_squares: float
    reward: float
    """sum"""
    time_s: float
    """sum"""
    jct_s: AverageJct
    reference_jct_s: AverageJct


class Request(NamedTuple):
    """Which gradient is wanted."""

    step: int
    """which minibatch of which pass: pass x minibatches + minibatch"""
    total: float
    """plans of a minibatch over all shards"""
    mean: float
    std: float
    """by which advantages are shifted and divided"""
    entropy_weight: float


class Part(NamedTuple):
    """A shard's share of a gradient; shares add up."""

    gradient: Tensor  # (P,)
    loss: float
    entropy: float
    divergence: float
    clipped: float


class Block(NamedTuple):
    """Decisions of one batch that stay together."""

    batch: int
    rows: Int64


class Shard:
    """Plays and differentiates its part of each iteration."""

    def __init__(self, config: TrainConfig, number: int) -> None:
        self._config = config
        self._number = number
        self._source = EpisodeSource(config)
        self._sorters: dict[tuple[str, str, int], GraphSorter] = {}
        self._network = initial_network(config)
        self._batches: list[Batch] = []
        self._blocks: list[Block] = []
        self._minibatches: list[list[Block]] = []
        self._iteration = 0

    # --- playing ---------------------------------------------------------------------------------

    def collect(self, iteration: int, weights: Tensor, rate: float) -> Collected:
        """Play the shard's sequences of an iteration and assign credit.

        Args:
            iteration: which.
            weights: (P,) of the network that plays.
            rate: average reward a second so far.
        """
        set_flat_parameters(self._network, weights)
        self._iteration = iteration
        share = (self._number, self._config.episodes.shards)
        episodes = self._source.of_iteration(iteration, share)
        self._batches = []
        jct_s: AverageJct = {}
        reference: AverageJct = {}
        for setting, own in _by_setting(episodes):
            arrays, sorter = self._jobs(setting)
            player = Player(self._config, arrays, sorter)
            batch = player.play(self._network, own, rate, iteration)
            if batch is None:
                continue
            self._batches.append(self._spread(batch))
            jct_s.setdefault(setting.label, []).extend(
                measure(state).avg_jct_s for state in batch.states
            )
            reference.setdefault(setting.label, []).extend(
                reference_jct_s(own, arrays, REFERENCES[0])
            )
        self._blocks = [
            Block(number, index)
            for number, batch in enumerate(self._batches)
            for index in _blocks(batch.recording.decisions.lane)
        ]
        self._minibatches = []
        every = [batch.advantage for batch in self._batches] or [np.empty(0)]
        advantage = np.concatenate(every)
        return Collected(
            len(advantage),
            float(advantage.sum()),
            float(np.square(advantage).sum()),
            sum(batch.reward for batch in self._batches),
            sum(
                float(state.clock[0]["time_ms"]) / MS_PER_S
                for batch in self._batches
                for state in batch.states
            ),
            jct_s,
            reference,
        )

    def validate(self, weights: Tensor) -> AverageJct:
        """Average JCT of the likeliest plans on the shard's share of the held-back sequences."""
        set_flat_parameters(self._network, weights)
        share = (self._number, self._config.episodes.shards)
        found: AverageJct = {}
        for setting, own in _by_setting(self._source.for_validation(share)):
            arrays, _ = self._jobs(setting)
            lanes = Lanes(arrays, setting.config.cluster(), [one.run for one in own], None)
            states = play_out(self._network, Scales.of(arrays), lanes).states
            found.setdefault(setting.label, []).extend(measure(state).avg_jct_s for state in states)
        return found

    def validate_reference(self, name: str) -> AverageJct:
        """The same under a heuristic."""
        share = (self._number, self._config.episodes.shards)
        found: AverageJct = {}
        for setting, own in _by_setting(self._source.for_validation(share)):
            arrays, _ = self._jobs(setting)
            found.setdefault(setting.label, []).extend(reference_jct_s(own, arrays, name))
        return found

    def _jobs(self, setting: Setting) -> tuple[TraceArrays, GraphSorter]:
        arrays = self._source.workload(setting).arrays
        key = setting.trace_key()
        if key not in self._sorters:
            self._sorters[key] = GraphSorter(arrays)
        return arrays, self._sorters[key]

    def _spread(self, batch: Batch) -> Batch:
        """Advantages of branches relative to those of their setting."""
        if self._config.credit.method == "returns":
            return batch
        group = np.zeros(len(batch.advantage), np.int64)
        return batch._replace(advantage=to_spread(batch.advantage, group))

    # --- differentiating -------------------------------------------------------------------------

    def gradient(self, weights: Tensor, request: Request) -> Part:
        """The gradient on one minibatch of what `collect` has played."""
        set_flat_parameters(self._network, weights)
        self._network.zero_grad()
        count = self._config.update.minibatches
        if request.step % count == 0:
            self._minibatches = self._shuffled(request.step // count)
        sums = np.zeros(4)
        for number, batch in enumerate(self._batches):
            chosen = [one.rows for one in self._minibatches[request.step % count]
                      if one.batch == number]  # fmt: skip
            index = np.concatenate([*chosen, np.empty(0, np.int64)]).astype(np.int64)
            for first in range(0, len(index), CHUNK):
                sums += self._add_gradient(batch, index[first : first + CHUNK], request)
        return Part(flat_gradient(self._network), *sums.tolist())

    def _add_gradient(self, batch: Batch, index: Int64, request: Request) -> Float64:
        """Add the gradient on a chunk; returns (4,) its loss, entropy, divergence and clipped."""
        graph = batch.recording.graph(index, batch.sorter)
        own, rows = batch.recording.plans_of(index)
        scores: Scores = self._network(graph)
        taken = plans.taken(scores, graph, own)
        advantage = objectives.normalised(_tensor(batch.advantage[rows]), request.mean, request.std)
        old = _tensor(batch.recording.log_prob[rows])
        loss, divergence, clipped = self._policy_loss(taken, old, advantage, request)
        loss = loss + objectives.entropy_loss(
            taken.entropy, request.entropy_weight, total=request.total
        )
        if self._config.credit.baseline == "critic":
            value = scores.value.index_select(0, torch.from_numpy(own.decision))
            target = _tensor(batch.target[rows])
            loss = loss + objectives.value_loss(value, target, total=request.total)
        loss.backward()  # type: ignore[no-untyped-call]
        entropy = float(taken.entropy.detach().sum()) / request.total
        return np.array([float(loss.detach()), entropy, divergence, clipped])

    def _policy_loss(
        self, taken: Taken, old: Tensor, advantage: Tensor, request: Request
    ) -> tuple[Tensor, float, float]:
        update = self._config.update
        if update.passes * update.minibatches == 1:
            found = objectives.policy_gradient_loss(taken.log_prob, advantage, total=request.total)
            return found, 0.0, 0.0
        parts = objectives.clipped_ratio_loss(
            taken.log_prob, old, advantage, update.clip, total=request.total
        )
        return parts.loss, float(parts.approximate_kl), float(parts.clip_fraction)

    def _shuffled(self, number: int) -> list[list[Block]]:
        """The minibatches of one pass: whole blocks, in a new order each time."""
        key = (self._iteration, number, self._number, _SHUFFLE_STREAM)
        rng = np.random.default_rng(np.random.SeedSequence(self._config.seed, spawn_key=key))
        order = rng.permutation(len(self._blocks))
        parts = np.array_split(order, self._config.update.minibatches)
        return [[self._blocks[index] for index in part] for part in parts]


def initial_network(config: TrainConfig) -> PolicyNetwork:
    """New weights, and the rule that the configuration names."""
    network = PolicyNetwork(config.network)
    if config.rule is not None:
        network.follow_rule(config.rule)
    return network


def reference_jct_s(episodes: list[Episode], arrays: TraceArrays, name: str) -> list[float]:
    """Average JCT of episodes of one setting under a heuristic."""
    return [measure(played(one, arrays, Heuristic(name))).avg_jct_s for one in episodes]


def _by_setting(episodes: list[Episode]) -> list[tuple[Setting, list[Episode]]]:
    """Neighbours of one setting together."""
    grouped = groupby(episodes, key=lambda one: one.setting.number)
    found = [list(own) for _, own in grouped]
    return [(own[0].setting, own) for own in found]


def _tensor(values: Float64) -> Tensor:
    return torch.from_numpy(values.astype(np.float32))


def _blocks(lane: Int64) -> list[Int64]:
    """Runs of up to `BLOCK` decisions, each of one lane and in the order of time."""
    order = np.argsort(lane, kind="stable")
    ends = np.append(np.flatnonzero(np.diff(lane[order])) + 1, len(order))
    found: list[Int64] = []
    first = 0
    for end in ends:
        found.extend(order[start : min(start + BLOCK, end)] for start in range(first, end, BLOCK))
        first = int(end)
    return found
