"""Compiled: the forward pass of `PolicyNetwork` for decisions, one row at a time.

Where rows are few, torch's sixty operations a pass take far longer than their arithmetic (benchmark
`policy_speed`). Only jobs that have changed are embedded again. Letters as in `gnn.encoder` and
`decima.agent.network`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from decima.agent.column_arrays import Columns
from decima.agent.graph_kernels import Graphs
from decima.agent.kernels import inlined_kernel, kernel
from decima.agent.scene import Scene
from traces.numbers import Float32, Int64

(
    LIFT, F_NODE, G_NODE, F_JOB, G_JOB, F_CLUSTER, G_CLUSTER,
    STAGE_STAGE, STAGE_JOB, STAGE_CLUSTER, STAGE_BODY,
    LIMIT_LIMIT, LIMIT_JOB, LIMIT_CLUSTER, LIMIT_BODY,
    KIND_KIND, KIND_STAGE, KIND_JOB, KIND_CLUSTER, KIND_BODY,
    END_CLUSTER, END_BODY, VALUE_CLUSTER, VALUE_BODY,
) = range(24)  # fmt: skip
"""parts of the network, rows of `Weights.part`"""

SLOPE = 0.2  # slope of LeakyReLU below zero, `gnn.encoder.NEGATIVE_SLOPE`


class Weights(NamedTuple):
    """All weights of a network, flat, so that one compiled kernel serves every architecture."""

    flat: Float32  # layer by layer: (inputs, outputs) weights, then (outputs,) biases
    layer: Int64  # (L, 3) inputs, outputs, where the layer begins in `flat`
    part: Int64  # (24, 2) first layer and number of layers of each part; 0 layers: the identity


class Embedded(NamedTuple):
    """Features and embeddings of every job in sight, by rows of the memory."""

    x: Float32  # (stages, F) node features
    e: Float32  # (stages, D)
    y: Float32  # (jobs, D)
    added: Float32  # (jobs, D) f3(y_i)
    sent: Float32  # (stages, D) f(e_v)


class Scratch(NamedTuple):
    """Buffers of intermediate rows. W is the widest layer, H the heads' first hidden layer."""

    one: Float32  # (W,)
    other: Float32  # (W,)
    hidden: Float32  # (W,)
    total: Float32  # (3 D + F,)
    z: Float32  # (B, D)
    clusters: Float32  # (3, B, H) the clusters' part of the stage, limit and class heads
    jobs: Float32  # (3, J, H) the jobs' part, likewise
    stages: Float32  # (O, H) the stages' part of the class head


class Found(NamedTuple):
    """Arrays to fill with the scores (`network.Scores`)."""

    stage: Float32  # (O,)
    end: Float32  # (B,)
    limit: Float32  # (M,)
    kind: Float32  # (K,)
    value: Float32  # (B,)


# --- layers of one row ---------------------------------------------------------------------------


_ONE, _TWO, _THREE, _FOUR = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)


@inlined_kernel
def _add_product(weights: Weights, first: int, values: Float32, target: Float32) -> None:
    """Add values @ W to `target`, W (len(values), len(target)) beginning at `first`.

    Four inputs at a time need a quarter of the loads and stores of `target`. Indices are unsigned:
    the compiler tests signed ones for negative values and then uses no vector instructions, which
    takes four times as long.
    """
    flat, size, count = weights.flat, np.uint64(len(target)), np.uint64(len(values))
    row, base = np.uint64(0), np.uint64(first)
    while row + _FOUR <= count:
        one, two = values[row], values[row + _ONE]
        three, four = values[row + _TWO], values[row + _THREE]
        second = base + size
        third = second + size
        fourth = third + size
        for column in range(size):
            target[column] += (
                one * flat[base + column]
                + two * flat[second + column]
                + three * flat[third + column]
                + four * flat[fourth + column]
            )
        row += _FOUR
        base = fourth + size
    while row < count:
        factor = values[row]
        for column in range(size):
            target[column] += factor * flat[base + column]
        row += _ONE
        base += size


@inlined_kernel
def _apply(weights: Weights, layer: int, values: Float32, target: Float32) -> None:
    """Write one layer of one row to `target`, as long as the layer has outputs."""
    inputs, outputs = weights.layer[layer, 0], weights.layer[layer, 1]
    first = weights.layer[layer, 2]
    bias = np.uint64(first + inputs * outputs)
    for column in range(np.uint64(outputs)):
        target[column] = weights.flat[bias + column]
    _add_product(weights, first, values, target)


@inlined_kernel
def _map(weights: Weights, part: int, embedding: Float32, x: Float32, target: Float32) -> None:
    """Write a part of a first layer, of [embedding, x], to `target`."""
    layer = weights.part[part, 0]
    _apply(weights, layer, embedding, target)
    first = weights.layer[layer, 2] + len(embedding) * len(target)
    _add_product(weights, first, x, target)


@inlined_kernel
def _bend(values: Float32, size: int) -> None:
    """LeakyReLU in place."""
    for column in range(size):
        if values[column] < 0.0:
            values[column] *= SLOPE


@inlined_kernel
def _transform(weights: Weights, part: int, at: Scratch, values: Float32, target: Float32) -> None:
    """Write a multilayer perceptron of one row to `target`."""
    first, count = weights.part[part, 0], weights.part[part, 1]
    if count == 0:
        _copy(values, target)
        return
    source = values
    for number in range(count):
        outputs = weights.layer[first + number, 1]
        into = target
        if number < count - 1:
            into = at.one if number % 2 == 0 else at.other
        _apply(weights, first + number, source, into[:outputs])
        if number < count - 1:
            _bend(into, outputs)
        source = into[:outputs]


@inlined_kernel
def _finish(weights: Weights, part: int, at: Scratch, hidden: Float32) -> float:
    """Apply the layers of a head after its first; overwrites `hidden`."""
    _bend(hidden, len(hidden))
    _transform(weights, part, at, hidden, at.total[:1])
    return float(at.total[0])


@inlined_kernel
def _copy(source: Float32, target: Float32) -> None:
    for column in range(len(source)):
        target[column] = source[column]


@inlined_kernel
def _add(source: Float32, target: Float32) -> None:
    for column in range(len(source)):
        target[column] += source[column]


# --- embeddings ----------------------------------------------------------------------------------


@kernel
def embed(
    weights: Weights, graphs: Graphs, scene: Scene, changed: Int64, kept: Embedded, at: Scratch
) -> None:
    """Embed the jobs `changed`, by index in the scene, and store the results."""
    size = kept.e.shape[1]
    for index in changed:
        job = scene.jobs[scene.rows[index]]
        memory, first = scene.memory_stage[index], graphs.first_stage[job["template"]]
        _climb(weights, graphs, first, job["num_stages"], kept, memory, at)
        total = at.total[:size]
        total[:] = 0.0
        for stage in range(memory, memory + job["num_stages"]):
            hidden = at.total[size : 2 * size]
            _join(weights, F_JOB, at, kept.x[stage], kept.e[stage], hidden)
            _add(hidden, total)
        row = scene.memory_job[index]
        _transform(weights, G_JOB, at, total, kept.y[row])
        _transform(weights, F_CLUSTER, at, kept.y[row], kept.added[row])


@inlined_kernel
def _climb(
    weights: Weights,
    graphs: Graphs,
    first: int,
    count: int,
    kept: Embedded,
    memory: int,
    at: Scratch,
) -> None:
    """Embed the stages of one job, children before their parents."""
    total = at.total[: kept.e.shape[1]]
    lift = weights.part[LIFT, 0]
    for place in range(first, first + count):
        local = graphs.order[place]
        row, stage = memory + local, first + local
        _apply(weights, lift, kept.x[row], kept.e[row])
        begin, end = graphs.first_child[stage], graphs.first_child[stage + 1]
        if begin < end:
            total[:] = 0.0
            for edge in range(begin, end):
                _add(kept.sent[memory + graphs.children[edge]], total)
            _transform(weights, G_NODE, at, total, kept.sent[row])
            _add(kept.sent[row], kept.e[row])
        _transform(weights, F_NODE, at, kept.e[row], kept.sent[row])


@inlined_kernel
def _join(
    weights: Weights, part: int, at: Scratch, x: Float32, e: Float32, target: Float32
) -> None:
    """Write a transform of [x, e] to `target`."""
    joined = at.total[2 * len(e) : 3 * len(e) + len(x)]
    _copy(x, joined)
    _copy(e, joined[len(x) :])
    _transform(weights, part, at, joined, target)


# --- scores --------------------------------------------------------------------------------------


@kernel
def score(
    weights: Weights, scene: Scene, columns: Columns, kept: Embedded, at: Scratch, out: Found
) -> None:
    """Fill `out` from the columns of B decisions and the stored embeddings."""
    _score_clusters(weights, scene, columns, kept, at, out)
    has_classes = len(out.kind) > 0
    for index in range(len(scene.rows)):
        y, x = kept.y[scene.memory_job[index]], columns.job_x[index]
        decision = columns.decision_of_job[index]
        _map(weights, STAGE_JOB, y, x, at.jobs[0, index])
        _add(at.clusters[0, decision], at.jobs[0, index])
        _map(weights, LIMIT_JOB, y, x, at.jobs[1, index])
        _add(at.clusters[1, decision], at.jobs[1, index])
        if has_classes:
            _map(weights, KIND_JOB, y, x, at.jobs[2, index])
            _add(at.clusters[2, decision], at.jobs[2, index])
    _score_stages(weights, scene, columns, kept, at, out)
    _score_limits(weights, columns, at, out)
    if has_classes:
        _score_classes(weights, columns, at, out)


@inlined_kernel
def _score_clusters(
    weights: Weights, scene: Scene, columns: Columns, kept: Embedded, at: Scratch, out: Found
) -> None:
    """Fill `end` and `value`, and the clusters' part of the other heads."""
    size = kept.y.shape[1]
    for decision in range(len(out.end)):
        first, last = scene.job_ptr[decision], scene.job_ptr[decision + 1]
        total = at.total[:size]
        total[:] = 0.0
        for index in range(first, last):
            _add(kept.added[scene.memory_job[index]], total)
        for column in range(size):
            total[column] /= max(1, last - first)
        z, x = at.z[decision], columns.cluster_x[decision]
        _transform(weights, G_CLUSTER, at, total, z)
        _map(weights, STAGE_CLUSTER, z, x, at.clusters[0, decision])
        _map(weights, LIMIT_CLUSTER, z, x, at.clusters[1, decision])
        if len(out.kind) > 0:
            _map(weights, KIND_CLUSTER, z, x, at.clusters[2, decision])
        hidden = at.hidden[: weights.layer[weights.part[END_CLUSTER, 0], 1]]
        _map(weights, END_CLUSTER, z, x, hidden)
        out.end[decision] = _finish(weights, END_BODY, at, hidden)
        hidden = at.hidden[: at.clusters.shape[2]]
        _map(weights, VALUE_CLUSTER, z, x, hidden)
        out.value[decision] = _finish(weights, VALUE_BODY, at, hidden)


@inlined_kernel
def _score_stages(
    weights: Weights, scene: Scene, columns: Columns, kept: Embedded, at: Scratch, out: Found
) -> None:
    """Fill `stage`, and the stages' part of the class head."""
    hidden = at.hidden[: at.clusters.shape[2]]
    for row in range(len(out.stage)):
        job = columns.open_job[row]
        local = columns.open_stage[row] - scene.jobs[scene.rows[job]]["first_stage"]
        e, x = kept.e[scene.memory_stage[job] + local], columns.stage_x[row]
        _map(weights, STAGE_STAGE, e, x, hidden)
        _add(at.jobs[0, job], hidden)
        out.stage[row] = _finish(weights, STAGE_BODY, at, hidden)
        if len(out.kind) > 0:
            _map(weights, KIND_STAGE, e, x, at.stages[row])
            _add(at.jobs[2, job], at.stages[row])


@inlined_kernel
def _score_limits(weights: Weights, columns: Columns, at: Scratch, out: Found) -> None:
    """Fill `limit`; 0 for a job with a single limit, whose score does not matter."""
    hidden = at.hidden[: at.clusters.shape[2]]
    layer = weights.part[LIMIT_LIMIT, 0]
    for job in range(len(columns.limit_ptr) - 1):
        first, last = columns.limit_ptr[job], columns.limit_ptr[job + 1]
        for row in range(first, last):
            if last - first == 1:
                out.limit[row] = 0.0
                continue
            _apply(weights, layer, columns.limit_x[row], hidden)
            _add(at.jobs[1, job], hidden)
            out.limit[row] = _finish(weights, LIMIT_BODY, at, hidden)


@inlined_kernel
def _score_classes(weights: Weights, columns: Columns, at: Scratch, out: Found) -> None:
    """Fill `kind`."""
    hidden = at.hidden[: at.clusters.shape[2]]
    layer = weights.part[KIND_KIND, 0]
    for row in range(len(out.kind)):
        _apply(weights, layer, columns.classes.x[row], hidden)
        _add(at.stages[columns.classes.stage[row]], hidden)
        out.kind[row] = _finish(weights, KIND_BODY, at, hidden)
