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
from decima.agent.plans import Plans
from decima.agent.recording import joined
from decima.rl import losses
from decima.rl.optimiser import flat_gradient
from decima.rl.parallel.pool import SentOnce
from decima.training.play import Rollouts, TrainingContext
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
    config, update = context.config, context.config.reinforce
    network = context.network(shared.weights)
    is_reinforce = config.step_at(shared.iteration)[0] is update
    groups = shared.played.value[shard]
    number, place = divmod(request.number, request.minibatches)
    key = (shared.iteration, number, shard, _SHUFFLE_STREAM)
    minibatch = _minibatches(groups, request.minibatches, config.seed, key)[place]
    sums = np.zeros(4)
    for chunk in _chunks(minibatch):
        graph, plans, rows = _joined(context, groups, chunk)
        advantage = _column([groups[group].advantage[of_group] for group, of_group in rows])
        old = _column([groups[group].recording.log_prob[of_group] for group, of_group in rows])
        scores: Scores[Tensor] = network(graph)
        taken = plan_probabilities.taken(scores, graph, plans)
        divergence, clipped = 0.0, 0.0
        if is_reinforce and update.passes * update.minibatches > 1:
            ppo = losses.clipped_ratio_loss(
                taken.log_prob, old, advantage, update.clip, total=request.total
            )
            loss = ppo.loss
            divergence, clipped = float(ppo.approximate_kl), float(ppo.clip_fraction)
        else:
            loss = losses.policy_gradient_loss(taken.log_prob, advantage, total=request.total)
        loss = loss + losses.entropy_loss(
            taken.entropy, request.entropy_weight, total=request.total
        )
        if is_reinforce and config.credit.critic:
            value = scores.value.index_select(0, torch.from_numpy(plans.decision))
            target = _column([groups[group].target[of_group] for group, of_group in rows])
            loss = loss + losses.value_loss(value, target, total=request.total)
        loss.backward()
        entropy = float(taken.entropy.detach().sum()) / request.total
        sums += np.array([float(loss.detach()), entropy, divergence, clipped])
    return Part(flat_gradient(network), *sums.tolist())


def _minibatches(
    groups: Sequence[Rollouts], count: int, seed: int, key: tuple[int, ...]
) -> list[list[_Block]]:
    """The minibatches of one pass: whole blocks, in an order by iteration, pass and shard.

    A block is up to `BLOCK` decisions of one lane, in order of time.
    """
    blocks: list[_Block] = []
    for group, rollouts in enumerate(groups):
        lane = rollouts.recording.decisions.lane
        order = np.argsort(lane, kind="stable")
        for rows in np.split(order, np.flatnonzero(np.diff(lane[order])) + 1):
            blocks += [
                _Block(group, rows[first : first + BLOCK]) for first in range(0, len(rows), BLOCK)
            ]
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))
    parts = np.array_split(rng.permutation(len(blocks)), count)
    return [[blocks[index] for index in part] for part in parts]


def _chunks(blocks: Sequence[_Block]) -> Iterator[list[_Block]]:
    """Blocks of about `CHUNK` decisions together, those of a group side by side."""
    chunk: list[_Block] = []
    size = 0
    for block in sorted(blocks, key=lambda block: block.group):
        chunk.append(block)
        size += len(block.rows)
        if size >= CHUNK:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def _joined(
    context: TrainingContext, groups: Sequence[Rollouts], chunk: Sequence[_Block]
) -> tuple[Graph, Plans, list[tuple[int, Int64]]]:
    """The decisions of a chunk as one batch, their plans, and the rows of those by group."""
    graphs: list[Graph] = []
    plans: list[Plans] = []
    rows: list[tuple[int, Int64]] = []
    decisions = 0
    for group in sorted({block.group for block in chunk}):
        recording = groups[group].recording
        _, sorter = context.jobs(groups[group].setting)
        index = np.concatenate([block.rows for block in chunk if block.group == group])
        graphs.append(recording.graph(index, sorter))
        of_group, plan_rows = recording.plans_of(index)
        plans.append(of_group._replace(decision=of_group.decision + decisions))
        rows.append((group, plan_rows))
        decisions += len(index)
    return joined_graphs(graphs), joined(plans), rows


def _column(parts: list[Float64]) -> Tensor:
    return torch.from_numpy(np.concatenate(parts).astype(np.float32))
