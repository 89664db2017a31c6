"""Choosing actions from what the network scores: a stage, then a limit of its job."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from decima.agent import columns, kernels
from decima.agent.memory import Seen
from decima.agent.network import LimitInputs, PolicyNetwork
from spark_sim.tables import NONE
from traces.numbers import Float64, Int64


class Choices(NamedTuple):
    """One action for each of B decisions, and how it came about."""

    stage: Int64  # (B,) row of the scene's stages, NONE to leave the rest idle
    limit: Int64  # (B,)
    picked: Int64  # (B,) index among the decision's open stages; their number to pass
    added: Int64  # (B,) executors above what the job holds; 0 to pass
    log_prob: Float64  # (B,) of stage and limit together
    held: Int64  # (B,) executors of the chosen job, 0 to pass
    local: Int64  # (B,) executors on offer that are in the chosen job


class Limits(NamedTuple):
    """The limits between which K stages choose."""

    inputs: LimitInputs
    ptr: Int64  # (K + 1,)


@torch.no_grad()
def act(network: PolicyNetwork, seen: Seen, uniform: Float64 | None) -> Choices:
    """Choose for every decision of `seen`.

    Args:
        network: scores.
        seen: B decisions; one without an open stage passes.
        uniform: (B, 2) numbers in [0, 1) that decide between stages and between limits; None takes
            the likeliest of both.
    """
    features = seen.features
    decisions = len(features.may_pass)
    if uniform is None:
        uniform = np.full((decisions, 2), -1.0)
    picked, log_prob = _pick_stages(network, seen, uniform[:, 0])
    chosen = np.flatnonzero(picked < np.diff(features.open_ptr))
    row = features.open_ptr[chosen] + picked[chosen]
    job = np.full(decisions, NONE, np.int64)
    job[chosen] = features.open_job[row]
    held, local = np.empty(decisions, np.int64), np.empty(decisions, np.int64)
    kernels.held_of(seen.scene, job, held, local)
    stage = np.full(decisions, NONE, np.int64)
    stage[chosen] = features.open_stage[row]
    added = np.zeros(decisions, np.int64)
    added[chosen] = features.room[row]
    if network.config.limit_head:
        _pick_limits(network, seen, uniform[:, 1], chosen, row, (held, local), added, log_prob)
    return Choices(stage, held + added, picked, added, log_prob, held, local)


def _pick_stages(
    network: PolicyNetwork, seen: Seen, uniform: Float64
) -> tuple[Int64, NDArray[np.float64]]:
    features = seen.features
    logits, passing = network.stage_logits(seen.embeddings, seen.inputs)
    last = pass_logits(passing.numpy(), features.may_pass, features.open_ptr, network)
    picked = np.empty(len(uniform), np.int64)
    log_prob = np.empty(len(uniform))
    kernels.choose(logits.numpy(), features.open_ptr, last, uniform, picked, log_prob)
    return picked, log_prob


def pass_logits(
    logits: NDArray[np.float32],
    may_pass: NDArray[np.bool_],
    open_ptr: Int64,
    network: PolicyNetwork,
) -> NDArray[np.float32]:
    """(B,) the logit of passing; -inf where it is not among the choices."""
    none_open = np.diff(open_ptr) == 0
    allowed = none_open | (may_pass & network.config.may_idle)
    found: NDArray[np.float32] = np.where(allowed, logits, np.float32(-np.inf))
    return found


def _pick_limits(
    network: PolicyNetwork,
    seen: Seen,
    uniform: Float64,
    chosen: Int64,
    row: Int64,
    holdings: tuple[Int64, Int64],
    added: Int64,
    log_prob: NDArray[np.float64],
) -> None:
    """Replace `added` of the `chosen` decisions that have a choice; add to `log_prob`."""
    free = seen.features.room[row] > 1
    chosen, row = chosen[free], row[free]
    if not len(chosen):
        return
    held, local = holdings
    scene = seen.scene
    limits = limits_of(
        held[chosen],
        seen.features.room[row],
        local[chosen],
        np.diff(scene.job_ptr)[chosen],
        scene.num_executors[chosen].astype(np.int64),
        row,
    )
    logits = network.limit_logits(seen.embeddings, seen.inputs, limits.inputs)
    index, of_limit = np.empty(len(chosen), np.int64), np.empty(len(chosen))
    never = np.full(len(chosen), -np.inf, np.float32)
    kernels.choose(logits.numpy(), limits.ptr, never, uniform[chosen], index, of_limit)
    added[chosen] = index + 1
    log_prob[chosen] += of_limit


def limits_of(
    held: Int64, room: Int64, local: Int64, jobs: Int64, executors: Int64, row: Int64
) -> Limits:
    """The limits held + 1 .. held + room of K stages: the legal ones that differ.

    Higher legal limits than these give the stage no more executors at this decision: with them
    all is on offer is given, or every task has one.

    Args:
        held: (K,) executors that the stage's job holds.
        room: (K,) executors that the stage could get now.
        local: (K,) executors on offer that are in the job.
        jobs: (K,) jobs in the system.
        executors: (K,) of the cluster.
        row: (K,) the stages' rows among the open ones.
    """
    ptr = np.concatenate([[0], np.cumsum(room)])
    limit_x = np.empty((ptr[-1], len(columns.LIMIT)), np.float32)
    owner = np.empty(ptr[-1], np.int64)
    kernels.describe_limits(held, room, local, jobs, executors, limit_x, owner)
    inputs = LimitInputs(torch.from_numpy(limit_x), torch.from_numpy(owner), torch.from_numpy(row))
    return Limits(inputs, ptr)
