r"""Compiled: `Encoder.embed` of few nodes, where no gradient is wanted.

Of a few jobs at a time, as a live decision or a step of a rollout embeds them, torch's operations
take sixty times as long as their arithmetic: a dozen calls a level. Of thousands of nodes torch's
matrix products are the faster ones (benchmark `encoder_speed`, which pays for this file).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gnn.kernels import inlined_kernel, kernel
from gnn.layer_kernels import Layer, Layers, add, apply, copy, transform, turn, turn_all

Rows = NDArray[np.int64]


class Weights(NamedTuple):
    """All transforms of an encoder. A second one that is left out has the layers of the first."""

    lift: Layer
    f_node: Layers
    g_node: Layers
    f_job: Layers
    g_job: Layers
    f_cluster: Layers
    g_cluster: Layers


class Few(NamedTuple):
    """V nodes by level, E edges by the level of their child (`gnn.levels.Levels`), J jobs."""

    x: NDArray[np.float32]  # (V, F)
    job: Rows  # (V,)
    node_ptr: Rows  # (L + 1,)
    child: Rows  # (E,)
    parent: Rows  # (E,)
    edge_ptr: Rows  # (L,)
    sums: NDArray[np.float32]  # (V, D) zeros: what the children of a node send
    sent: NDArray[np.float32]  # (V, D) scratch
    joined: NDArray[np.float32]  # (F + D,) scratch: [x_v, e_v]
    job_sums: NDArray[np.float32]  # (J, D) zeros
    e: NDArray[np.float32]  # (V, D) filled
    y: NDArray[np.float32]  # (J, D) filled
    added: NDArray[np.float32]  # (J, D) filled: f3(y_i)


@kernel
def embed(at: Few, weights: Weights, has_messages: bool, has_second: bool, slope: float) -> None:
    """Fill `e`, `y` and `added`.

    Args:
        at: nodes, edges and jobs.
        weights: of the encoder.
        has_messages: False where the ablation leaves out the graph.
        has_second: False where the ablation leaves out the second transforms.
        slope: of LeakyReLU below zero.
    """
    turn(weights.lift)
    for layers in (
        weights.f_node, weights.g_node, weights.f_job, weights.g_job, weights.f_cluster,
    ):  # fmt: skip
        turn_all(layers)
    _climb(at, weights, has_messages, has_second, slope)
    features = at.x.shape[1]
    for node in range(len(at.x)):
        copy(at.x[node], at.joined)
        copy(at.e[node], at.joined[features:])
        transform(weights.f_job, at.joined, slope)
        add(weights.f_job[-1].out, at.job_sums[at.job[node]])
    for job in range(len(at.y)):
        if has_second:
            transform(weights.g_job, at.job_sums[job], slope)
            copy(weights.g_job[-1].out, at.y[job])
        else:
            copy(at.job_sums[job], at.y[job])
        transform(weights.f_cluster, at.y[job], slope)
        copy(weights.f_cluster[-1].out, at.added[job])


@inlined_kernel
def _climb(at: Few, weights: Weights, has_messages: bool, has_second: bool, slope: float) -> None:
    """Level by level: finish the sums, embed, and send to all levels above."""
    levels = len(at.node_ptr) - 1
    for level in range(levels):
        for node in range(at.node_ptr[level], at.node_ptr[level + 1]):
            apply(weights.lift, at.x[node])
            copy(weights.lift.out, at.e[node])
            if level > 0 and has_messages:
                if has_second:
                    transform(weights.g_node, at.sums[node], slope)
                    add(weights.g_node[-1].out, at.e[node])
                else:
                    add(at.sums[node], at.e[node])
            if level < levels - 1 and has_messages:
                transform(weights.f_node, at.e[node], slope)
                copy(weights.f_node[-1].out, at.sent[node])
        if level < levels - 1 and has_messages:
            for edge in range(at.edge_ptr[level], at.edge_ptr[level + 1]):
                add(at.sent[at.child[edge]], at.sums[at.parent[edge]])


@kernel
def summarise(
    added: NDArray[np.float32],
    observation: Rows,
    jobs: Rows,
    z: NDArray[np.float32],
    layers: Layers,
    has_second: bool,
    slope: float,
) -> None:
    """Fill z: g3 of the mean of f3(y_i).

    Args:
        added: (J, D) f3(y_i).
        observation: (J,) which of the B observations each is of.
        jobs: (B,) zeros, scratch: how many jobs each has.
        z: (B, D) zeros.
        layers: of g3.
        has_second: False where the ablation leaves it out.
        slope: of LeakyReLU below zero.
    """
    for job in range(len(added)):
        add(added[job], z[observation[job]])
        jobs[observation[job]] += 1
    turn_all(layers)
    for number in range(len(z)):
        for column in range(z.shape[1]):
            z[number, column] /= max(1, jobs[number])
        if has_second:
            transform(layers, z[number], slope)
            copy(layers[-1].out, z[number])
