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


class Networks(NamedTuple):
    """Weights of one network for all decisions of a scene, or of one for each, of equal sizes."""

    flat: Float32  # (1 or B, P)
    layer: Int64  # as in `Weights`, and so `part`
    part: Int64


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
    z: Float32  # (D,)
    cluster: Float32  # (3, H) a cluster's part of the stage, limit and class heads
    job: Float32  # (3, H) a job's part, likewise
    stage: Float32  # (H,) a stage's part of the class head


class Found(NamedTuple):
    """Arrays to fill with the scores (`network.Scores`)."""

    stage: Float32  # (O,)
    end: Float32  # (B,)
    limit: Float32  # (M,)
    kind: Float32  # (K,)
    value: Float32  # (B,)


# --- layers of one row ---------------------------------------------------------------------------


_ONE, _TWO, _THREE, _FOUR = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)

Four = tuple[np.float32, np.float32, np.float32, np.float32]


@inlined_kernel
def _four(values: Float32, row: np.uint64) -> Four:
    return values[row], values[row + _ONE], values[row + _TWO], values[row + _THREE]


@inlined_kernel
def _sum_of(four: Four, flat: Float32, at: np.uint64, size: np.uint64) -> np.float32:
    """Return the sum of four values, each times its weight in the column that begins at `at`."""
    below = at + _TWO * size
    one, two, three, last = four
    found: np.float32 = (
        one * flat[at] + two * flat[at + size] + three * flat[below] + last * flat[below + size]
    )
    return found


@inlined_kernel
def _add_product(weights: Weights, first: int, values: Float32, target: Float32) -> None:
    """Add values @ W to `target`, W (len(values), len(target)) beginning at `first`.

    Eight inputs at a time need an eighth of the loads and stores of `target`. Indices are unsigned:
    the compiler tests signed ones for negative values and then uses no vector instructions, which
    takes four times as long.
    """
    flat, size, count = weights.flat, np.uint64(len(target)), np.uint64(len(values))
    row, base = np.uint64(0), np.uint64(first)
    below = _FOUR * size
    while row + _FOUR + _FOUR <= count:
        four, next_four = _four(values, row), _four(values, row + _FOUR)
        for column in range(size):
            half = target[column] + _sum_of(four, flat, base + column, size)
            target[column] = half + _sum_of(next_four, flat, base + below + column, size)
        row += _FOUR + _FOUR
        base += below + below
    if row + _FOUR <= count:
        four = _four(values, row)
        for column in range(size):
            target[column] += _sum_of(four, flat, base + column, size)
        row += _FOUR
        base += below
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
    for column in range(np.uint64(size)):
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


@inlined_kernel
def _network_of(networks: Networks, decision: int) -> Weights:
    row = min(decision, len(networks.flat) - 1)
    return Weights(networks.flat[row], networks.layer, networks.part)


# --- embeddings ----------------------------------------------------------------------------------


@kernel
def embed(
    networks: Networks, graphs: Graphs, scene: Scene, changed: Int64, kept: Embedded, at: Scratch
) -> None:
    """Embed the jobs `changed`, by index in the scene in order, and store the results."""
    size = kept.e.shape[1]
    decision = 0
    for index in changed:
        while scene.job_ptr[decision + 1] <= index:
            decision += 1
        weights = _network_of(networks, decision)
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
    networks: Networks, scene: Scene, columns: Columns, kept: Embedded, at: Scratch, out: Found
) -> None:
    """Fill `out` from the columns of B decisions and the stored embeddings."""
    for decision in range(len(out.end)):
        weights = _network_of(networks, decision)
        _score_cluster(weights, scene, columns, kept, at, out, decision)
        for job in range(scene.job_ptr[decision], scene.job_ptr[decision + 1]):
            if columns.first_open[job] < columns.first_open[job + 1]:
                _score_stages(weights, scene, columns, kept, at, out, job)
                _score_limits(weights, scene, columns, kept, at, out, job)


@inlined_kernel
def _score_cluster(
    weights: Weights,
    scene: Scene,
    columns: Columns,
    kept: Embedded,
    at: Scratch,
    out: Found,
    decision: int,
) -> None:
    """Fill `end` and `value` of a decision, and its cluster's part of the other heads."""
    size = kept.y.shape[1]
    first, last = scene.job_ptr[decision], scene.job_ptr[decision + 1]
    total = at.total[:size]
    total[:] = 0.0
    for index in range(first, last):
        _add(kept.added[scene.memory_job[index]], total)
    for column in range(size):
        total[column] /= max(1, last - first)
    z, x = at.z, columns.cluster_x[decision]
    _transform(weights, G_CLUSTER, at, total, z)
    _map(weights, STAGE_CLUSTER, z, x, at.cluster[0])
    _map(weights, LIMIT_CLUSTER, z, x, at.cluster[1])
    if len(out.kind) > 0:
        _map(weights, KIND_CLUSTER, z, x, at.cluster[2])
    hidden = at.hidden[: weights.layer[weights.part[END_CLUSTER, 0], 1]]
    _map(weights, END_CLUSTER, z, x, hidden)
    out.end[decision] = _finish(weights, END_BODY, at, hidden)
    hidden = at.hidden[: at.cluster.shape[1]]
    _map(weights, VALUE_CLUSTER, z, x, hidden)
    out.value[decision] = _finish(weights, VALUE_BODY, at, hidden)


@inlined_kernel
def _score_stages(
    weights: Weights,
    scene: Scene,
    columns: Columns,
    kept: Embedded,
    at: Scratch,
    out: Found,
    job: int,
) -> None:
    """Fill `stage` and `kind` for the open stages of a job."""
    hidden = at.hidden[: at.cluster.shape[1]]
    y, job_x = kept.y[scene.memory_job[job]], columns.job_x[job]
    _map(weights, STAGE_JOB, y, job_x, at.job[0])
    _add(at.cluster[0], at.job[0])
    has_classes = len(out.kind) > 0
    if has_classes:
        _map(weights, KIND_JOB, y, job_x, at.job[2])
        _add(at.cluster[2], at.job[2])
    first_stage = scene.jobs[scene.rows[job]]["first_stage"]
    for row in range(columns.first_open[job], columns.first_open[job + 1]):
        stage = scene.memory_stage[job] + columns.open_stage[row] - first_stage
        e, x = kept.e[stage], columns.stage_x[row]
        _map(weights, STAGE_STAGE, e, x, hidden)
        _add(at.job[0], hidden)
        out.stage[row] = _finish(weights, STAGE_BODY, at, hidden)
        if has_classes:
            _map(weights, KIND_STAGE, e, x, at.stage)
            _add(at.job[2], at.stage)
            _score_classes(weights, columns, at, out, row)


@inlined_kernel
def _score_limits(
    weights: Weights,
    scene: Scene,
    columns: Columns,
    kept: Embedded,
    at: Scratch,
    out: Found,
    job: int,
) -> None:
    """Fill `limit` of a job; 0 for a single limit, whose score does not matter."""
    first, last = columns.limit_ptr[job], columns.limit_ptr[job + 1]
    if last - first == 1:
        out.limit[first] = 0.0
        return
    _map(weights, LIMIT_JOB, kept.y[scene.memory_job[job]], columns.job_x[job], at.job[1])
    _add(at.cluster[1], at.job[1])
    hidden = at.hidden[: at.cluster.shape[1]]
    for row in range(first, last):
        _apply(weights, weights.part[LIMIT_LIMIT, 0], columns.limit_x[row], hidden)
        _add(at.job[1], hidden)
        out.limit[row] = _finish(weights, LIMIT_BODY, at, hidden)


@inlined_kernel
def _score_classes(weights: Weights, columns: Columns, at: Scratch, out: Found, stage: int) -> None:
    """Fill `kind` for the classes that an open stage may be given."""
    hidden = at.hidden[: at.cluster.shape[1]]
    for row in range(columns.classes.ptr[stage], columns.classes.ptr[stage + 1]):
        _apply(weights, weights.part[KIND_KIND, 0], columns.classes.x[row], hidden)
        _add(at.stage, hidden)
        out.kind[row] = _finish(weights, KIND_BODY, at, hidden)
