"""Compiled: the heads of `PolicyNetwork.forward` for few choices, where no gradient is wanted.

Of a few rows torch's operations, some sixty a pass, take many times as long as their arithmetic;
the benchmarks `policy_speed` and `encoder_speed` pay for this file. Letters as in
`decima.agent.network`; H is the size of a head's first hidden layer.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from compiled.kernels import Kernels
from gnn.kernels import ENCODER
from gnn.layer_kernels import Layer, Layers, add, add_product, bend, copy, transform, turn, turn_all
from traces.numbers import Float32, Int64

SCORES = Kernels("scores", ("decima/agent/score_kernels.py",), below=ENCODER)
kernel = SCORES.kernel
inlined_kernel = SCORES.inlined_kernel


class HeadLayers(NamedTuple):
    """Of one `gnn.heads.Head`."""

    parts: Layers
    body: Layers


class Heads(NamedTuple):
    """Those of a `PolicyNetwork`, by the names of what they score."""

    stage: HeadLayers
    end: HeadLayers
    limit: HeadLayers
    kind: HeadLayers
    value: HeadLayers


class Known(NamedTuple):
    """A `Graph` and its `Embeddings` as arrays."""

    e: Float32  # (O, D)
    y: Float32  # (J, D)
    z: Float32  # (B, D)
    stage_x: Float32
    job_x: Float32
    cluster_x: Float32
    limit_x: Float32
    class_x: Float32
    rule_stage: Float32  # (O,)
    rule_end: Float32  # (B,)
    rule_limit: Float32  # (M,)
    rule_kind: Float32  # (K,)
    job_of_stage: Int64  # (O,)
    job_of_limit: Int64  # (M,)
    stage_of_class: Int64  # (K,)
    decision_of_job: Int64  # (J,)


class Found(NamedTuple):
    """Arrays to fill."""

    stage: Float32  # (O,)
    end: Float32  # (B,)
    limit: Float32  # (M,)
    kind: Float32  # (K,)
    value: Float32  # (B,)
    factor: Float32  # (B,) by which the logits of a decision are multiplied
    clusters: Float32  # (3, B, H) scratch: parts of the stage, limit and class heads
    jobs: Float32  # (3, J, H) scratch, likewise
    stages: Float32  # (O, H) scratch: of the class head


@kernel
def score(
    known: Known, heads: Heads, sharpness: Float32, planned: int, slope: float, out: Found
) -> None:
    """Fill `out`.

    Args:
        known: B decisions.
        heads: the weights.
        sharpness: (3,) kappa of stages, limits and classes.
        planned: the column of `cluster_x` that holds log(1 + R) / 4.
        slope: of LeakyReLU below zero.
        out: arrays to fill.
    """
    _score_clusters(known, heads, sharpness, planned, slope, out)
    _map_jobs(known, heads, out)
    _score_stages(known, heads.stage, sharpness[0], slope, out)
    _score_limits(known, heads.limit, sharpness[1], slope, out)
    if len(known.class_x) > 0:
        _score_classes(known, heads.kind, sharpness[2], slope, out)


@inlined_kernel
def _score_clusters(
    known: Known, heads: Heads, sharpness: Float32, planned: int, slope: float, out: Found
) -> None:
    """`end`, `value` and `factor`, and the clusters' part of the other heads."""
    for head in (heads.stage, heads.limit):
        turn(head.parts[2])
    turn(heads.kind.parts[3])
    turn_all(heads.end.parts)
    turn_all(heads.end.body)
    turn_all(heads.value.parts)
    turn_all(heads.value.body)
    for row in range(len(known.z)):
        z, x = known.z[row], known.cluster_x[row]
        factor = np.float32(1.0) + x[planned] * np.float32(4.0) / np.float32(3.0)
        out.factor[row] = factor
        _map(heads.stage.parts[2], z, x, out.clusters[0, row])
        _map(heads.limit.parts[2], z, x, out.clusters[1, row])
        if len(known.class_x) > 0:
            _map(heads.kind.parts[3], z, x, out.clusters[2, row])
        end = heads.end.parts[0].out
        _map(heads.end.parts[0], z, x, end)
        found = _finish(heads.end.body, end, slope)
        out.end[row] = (found + sharpness[0] * known.rule_end[row]) * factor
        value = heads.value.parts[0].out
        _map(heads.value.parts[0], z, x, value)
        out.value[row] = _finish(heads.value.body, value, slope)


@inlined_kernel
def _map_jobs(known: Known, heads: Heads, out: Found) -> None:
    """The jobs' part of the heads of stages, limits and classes."""
    turn(heads.stage.parts[1])
    turn(heads.limit.parts[1])
    turn(heads.kind.parts[2])
    for row in range(len(known.y)):
        y, x = known.y[row], known.job_x[row]
        _map(heads.stage.parts[1], y, x, out.jobs[0, row])
        _map(heads.limit.parts[1], y, x, out.jobs[1, row])
        if len(known.class_x) > 0:
            _map(heads.kind.parts[2], y, x, out.jobs[2, row])


@inlined_kernel
def _score_stages(
    known: Known, head: HeadLayers, sharpness: np.float32, slope: float, out: Found
) -> None:
    turn(head.parts[0])
    turn_all(head.body)
    hidden = head.parts[0].out
    for row in range(len(out.stage)):
        job = known.job_of_stage[row]
        decision = known.decision_of_job[job]
        _map(head.parts[0], known.e[row], known.stage_x[row], hidden)
        add(out.jobs[0, job], hidden)
        add(out.clusters[0, decision], hidden)
        found = _finish(head.body, hidden, slope)
        out.stage[row] = (found + sharpness * known.rule_stage[row]) * out.factor[decision]


@inlined_kernel
def _score_limits(
    known: Known, head: HeadLayers, sharpness: np.float32, slope: float, out: Found
) -> None:
    turn(head.parts[0])
    turn_all(head.body)
    hidden = head.parts[0].out
    for row in range(len(out.limit)):
        if not _has_other(known.job_of_limit, row):
            out.limit[row] = 0.0
            continue
        job = known.job_of_limit[row]
        decision = known.decision_of_job[job]
        _begin(head.parts[0], known.limit_x[row], hidden)
        add(out.jobs[1, job], hidden)
        add(out.clusters[1, decision], hidden)
        found = _finish(head.body, hidden, slope)
        out.limit[row] = (found + sharpness * known.rule_limit[row]) * out.factor[decision]


@inlined_kernel
def _has_other(job: Int64, row: int) -> bool:
    """Whether the limit of the row is one of `Graph.limits_to_choose`."""
    return (row > 0 and job[row - 1] == job[row]) or (
        row + 1 < len(job) and job[row + 1] == job[row]
    )


@inlined_kernel
def _score_classes(
    known: Known, head: HeadLayers, sharpness: np.float32, slope: float, out: Found
) -> None:
    turn(head.parts[0])
    turn(head.parts[1])
    turn_all(head.body)
    for row in range(len(known.e)):
        _map(head.parts[1], known.e[row], known.stage_x[row], out.stages[row])
    hidden = head.parts[0].out
    for row in range(len(out.kind)):
        stage = known.stage_of_class[row]
        job = known.job_of_stage[stage]
        decision = known.decision_of_job[job]
        _begin(head.parts[0], known.class_x[row], hidden)
        add(out.stages[stage], hidden)
        add(out.jobs[2, job], hidden)
        add(out.clusters[2, decision], hidden)
        found = _finish(head.body, hidden, slope)
        out.kind[row] = (found + sharpness * known.rule_kind[row]) * out.factor[decision]


@inlined_kernel
def _map(part: Layer, embedding: Float32, x: Float32, target: Float32) -> None:
    """A part of a first layer, of [embedding, x]."""
    _begin(part, embedding, target)
    add_product(part.turned[len(embedding) :], x, target)


@inlined_kernel
def _begin(part: Layer, values: Float32, target: Float32) -> None:
    copy(part.bias, target)
    add_product(part.turned, values, target)


@inlined_kernel
def _finish(body: Layers, hidden: Float32, slope: float) -> np.float32:
    """The layers behind the first; spoils `hidden`."""
    bend(hidden, slope)
    transform(body, hidden, slope)
    found: np.float32 = body[len(body) - 1].out[0]
    return found
