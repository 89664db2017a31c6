"""The tasks that differentiate: the share of one shard in a gradient.

The configuration splits an iteration into shards. Each share comes from one shard's rollouts, and
shares are added in order. Results thus depend on the number of shards, never on that of processes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from decima.agent import plan_probabilities
from decima.agent.forward_kernels import Scores
from decima.agent.graph import Graph, joined_graphs
from decima.agent.network import PolicyNetwork
from decima.agent.plan_probabilities import Taken
from decima.agent.plans import Plans
from decima.agent.recording import joined
from decima.rl import objectives
from decima.rl.optimiser import flat_gradient
from decima.rl.parallel.pool import SentOnce
from decima.training.config import TrainConfig
from decima.training.rollouts import Rollouts, TrainingContext
from traces.numbers import Float64, Int64

_SHUFFLE_STREAM = 11
CHUNK = 2_048  # decisions that are scored at once
BLOCK = 64  # decisions of one lane that stay together in a minibatch, since they share embeddings


class Request(NamedTuple):
    """Request for a gradient."""

    number: int  # of the minibatch: pass x minibatches + minibatch
    minibatches: int  # of a pass
    total: float  # plans of a minibatch over all shards
    entropy_weight: float


class Differentiating(NamedTuple):
    """Inputs that all shares of one gradient have in common."""

    context: SentOnce[TrainingContext]
    played: SentOnce[Sequence[Sequence[Rollouts]]]  # rollouts of the iteration, by shard
    iteration: int
    weights: Tensor  # (P,)
    request: Request


class Part(NamedTuple):
    """A shard's share of a gradient; shares add up."""

    gradient: Tensor  # (P,)
    loss: float
    entropy: float
    divergence: float
    clipped: float


class _Block(NamedTuple):
    """Decisions of one group that stay together."""

    group: int
    rows: Int64


def gradient(shared: Differentiating, shard: int) -> Part:
    """The gradient on a shard's part of one minibatch."""
    context, request = shared.context.value, shared.request
    network = context.network(shared.weights)
    step, _ = context.config.step_at(shared.iteration)
    played = shared.played.value[shard]
    number, place = divmod(request.number, request.minibatches)
    key = (shared.iteration, number, shard)
    chosen = _minibatches(played, context.config, request.minibatches, key)[place]
    differ = _Differ(context, network, is_imitation=step is not context.config.reinforce)
    sums = np.zeros(4)
    for chunk in _chunks(chosen):
        sums += differ.add(played, chunk, request)
    return Part(flat_gradient(network), *sums.tolist())


class _Differ:
    """Task that adds gradients on rollouts to those of the network."""

    def __init__(
        self, context: TrainingContext, network: PolicyNetwork, *, is_imitation: bool
    ) -> None:
        self._context = context
        self._config = context.config
        self._network = network
        self._is_imitation = is_imitation

    def add(self, played: Sequence[Rollouts], chunk: Sequence[_Block], request: Request) -> Float64:
        """Add the gradient on a chunk; returns (4,) its loss, entropy, divergence and clipped."""
        graph, own, rows = self._joined(played, chunk)
        own_rows = [(played[group], part) for group, part in rows]
        advantage = _tensor([one.advantage[part] for one, part in own_rows])
        old = _tensor([one.recording.log_prob[part] for one, part in own_rows])
        scores: Scores[Tensor] = self._network(graph)
        taken = plan_probabilities.taken(scores, graph, own)
        loss, divergence, clipped = self._policy_loss(taken, old, advantage, request)
        loss = loss + objectives.entropy_loss(
            taken.entropy, request.entropy_weight, total=request.total
        )
        if self._config.credit.critic and not self._is_imitation:
            value = scores.value.index_select(0, torch.from_numpy(own.decision))
            target = _tensor([one.target[part] for one, part in own_rows])
            loss = loss + objectives.value_loss(value, target, total=request.total)
        loss.backward()  # type: ignore[no-untyped-call]
        entropy = float(taken.entropy.detach().sum()) / request.total
        return np.array([float(loss.detach()), entropy, divergence, clipped])

    def _joined(
        self, played: Sequence[Rollouts], chunk: Sequence[_Block]
    ) -> tuple[Graph, Plans, list[tuple[int, Int64]]]:
        """The decisions of a chunk as one batch, their plans, and the rows of those by group."""
        graphs: list[Graph] = []
        own: list[Plans] = []
        rows: list[tuple[int, Int64]] = []
        decisions = 0
        for group in sorted({block.group for block in chunk}):
            recording = played[group].recording
            _, sorter = self._context.jobs(played[group].setting)
            index = np.concatenate([block.rows for block in chunk if block.group == group])
            graphs.append(recording.graph(index, sorter))
            found, plan_rows = recording.plans_of(index)
            own.append(found._replace(decision=found.decision + decisions))
            rows.append((group, plan_rows))
            decisions += len(index)
        return joined_graphs(graphs), joined(own), rows

    def _policy_loss(
        self, taken: Taken, old: Tensor, advantage: Tensor, request: Request
    ) -> tuple[Tensor, float, float]:
        update = self._config.reinforce
        if self._is_imitation or update.passes * update.minibatches == 1:
            found = objectives.policy_gradient_loss(taken.log_prob, advantage, total=request.total)
            return found, 0.0, 0.0
        parts = objectives.clipped_ratio_loss(
            taken.log_prob, old, advantage, update.clip, total=request.total
        )
        return parts.loss, float(parts.approximate_kl), float(parts.clip_fraction)


def _chunks(blocks: Sequence[_Block]) -> Iterator[list[_Block]]:
    """Blocks of about `CHUNK` decisions together, those of a group side by side."""
    chunk: list[_Block] = []
    size = 0
    for block in sorted(blocks, key=lambda one: one.group):
        chunk.append(block)
        size += len(block.rows)
        if size >= CHUNK:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def _minibatches(
    played: Sequence[Rollouts], config: TrainConfig, count: int, key: tuple[int, int, int]
) -> list[list[_Block]]:
    """The minibatches of one pass: whole blocks, in an order by iteration, pass and shard."""
    blocks = [
        _Block(group, rows)
        for group, rollouts in enumerate(played)
        for rows in _blocks(rollouts.recording.decisions.lane)
    ]
    seeds = np.random.SeedSequence(config.seed, spawn_key=(*key, _SHUFFLE_STREAM))
    order = np.random.default_rng(seeds).permutation(len(blocks))
    parts = np.array_split(order, count)
    return [[blocks[index] for index in part] for part in parts]


def _tensor(parts: list[Float64]) -> Tensor:
    return torch.from_numpy(np.concatenate(parts).astype(np.float32))


def _blocks(lane: Int64) -> list[Int64]:
    """Return runs of up to `BLOCK` decisions, each of one lane and in order of time."""
    order = np.argsort(lane, kind="stable")
    ends = np.append(np.flatnonzero(np.diff(lane[order])) + 1, len(order))
    found: list[Int64] = []
    first = 0
    for end in ends:
        found.extend(order[start : min(start + BLOCK, end)] for start in range(first, end, BLOCK))
        first = int(end)
    return found
