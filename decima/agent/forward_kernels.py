"""Compiled: the forward pass of `PolicyNetwork` for decisions, one row at a time.

Where rows are few, torch's sixty operations a pass take far longer than their arithmetic (benchmark
`policy_speed`). Only jobs that have changed are embedded again. Letters as in `gnn.encoder` and
`decima.agent.network`.
"""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from decima.agent.columns import Choices
from decima.agent.feature_kernels import remember_nodes
from decima.agent.graph_kernels import Graphs
from decima.agent.kernels import inlined_kernel, kernel, outlined_kernel
from decima.agent.scales import Scales
from spark_sim.compiled.kernels import never_inline
from spark_sim.observation import ObservationBatch
from traces.numbers import Float32, Float64, Int64

(
    LIFT, F_NODE, G_NODE, F_JOB, G_JOB, F_CLUSTER, G_CLUSTER,
    STAGE_STAGE, STAGE_JOB, STAGE_CLUSTER, STAGE_BODY,
    LIMIT_LIMIT, LIMIT_JOB, LIMIT_CLUSTER, LIMIT_BODY,
    KIND_KIND, KIND_STAGE, KIND_JOB, KIND_CLUSTER, KIND_BODY,
    END_CLUSTER, END_BODY, VALUE_CLUSTER, VALUE_BODY,
) = range(24)  # fmt: skip
"""parts of the network, rows of `Weights.part`"""

CERTAIN = 1e4
"""scale of a limit's logit where the ablation leaves no choice"""
SLOPE = 0.2  # slope of LeakyReLU below zero, `gnn.encoder.NEGATIVE_SLOPE`


class Weights(NamedTuple):
    """All weights of a network, flat, so that one compiled kernel serves every architecture."""

    flat: Float32  # layer by layer: (inputs, outputs) weights, then (outputs,) biases
    layer: Int64  # (L, 3) inputs, outputs, where the layer begins in `flat`
    part: Int64  # (24, 2) first layer and number of layers of each part; 0 layers: the identity


class Networks(NamedTuple):
    """Weights of one network for all decisions, or of one for each, of equal sizes."""

    flat: Float32  # (1 or B, P)
    layer: Int64  # as in `Weights`, and so `part`
    part: Int64


class Memory(NamedTuple):
    """Features and embeddings of jobs, kept between decisions, with the rows of J jobs in it.

    H is the width of the heads' first hidden layer.
    """

    x: Float32  # (stages, F) node features
    e: Float32  # (stages, D)
    y: Float32  # (jobs, D)
    added: Float32  # (jobs, D) f3(y_i)
    sent: Float32  # (stages, D) f(e_v)
    summand: Float32  # (stages, D) f2(x_v, e_v)
    is_stale: NDArray[np.bool_]  # (stages,) its features differ from those that were embedded
    stage_part: Float32  # (stages, H) e_v's part of the stage head; NaN until it is needed
    job_part: Float32  # (jobs, H) y_i's part of it, likewise
    job: Int64  # (J,) row of each job that is in the system
    first_stage: Int64  # (J,) row of its first stage


class Scratch(NamedTuple):
    """Buffers of intermediate rows. W is the widest layer, H the heads' first hidden layer."""

    one: Float32  # (W,)
    other: Float32  # (W,)
    hidden: Float32  # (W,)
    total: Float32  # (2 D + F,)
    cluster: Float32  # (3, H) a cluster's part of the stage, limit and class heads
    job: Float32  # (3, H) a job's part, likewise
    stage: Float32  # (H,) a stage's part of the class head


A = TypeVar("A")


class Scores(NamedTuple, Generic[A]):
    """Logits of all choices of B decisions, and the critic's values of their states.

    Arrays where a policy acts, tensors where it learns.
    """

    stage: A  # (O,) q_v
    end: A  # (B,) of leaving the remaining executors idle
    limit: A  # (M,) w_i(l), among the limits of one job
    kind: A  # (K,) u_v(c), among the classes of one stage
    value: A  # (B,)


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
    first, second, third, last = four
    total = first * flat[at] + second * flat[at + size]
    return np.float32(total + third * flat[below] + last * flat[below + size])


@outlined_kernel
def _add_product(flat: Float32, first: int, values: Float32, target: Float32) -> None:
    """Add values @ W to `target`, W (len(values), len(target)) beginning at `flat[first]`.

    Eight inputs at a time need an eighth of the loads and stores of `target`. Indices are unsigned:
    the compiler tests signed ones for negative values and then uses no vector instructions, which
    takes four times as long.
    """
    never_inline()
    size, count = np.uint64(len(target)), np.uint64(len(values))
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
    _add_product(weights.flat, first, values, target)


@inlined_kernel
def _map(weights: Weights, part: int, embedding: Float32, x: Float32, target: Float32) -> None:
    """Write a part of a first layer, of [embedding, x], to `target`."""
    layer = weights.part[part, 0]
    _apply(weights, layer, embedding, target)
    first = weights.layer[layer, 2] + len(embedding) * len(target)
    _add_product(weights.flat, first, x, target)


@inlined_kernel
def _map_known(
    weights: Weights, part: int, embedding: Float32, known: Float32, x: Float32, target: Float32
) -> None:
    """`_map` of an embedding whose part is stored in `known`, unless that begins with NaN."""
    layer = weights.part[part, 0]
    if np.isnan(known[0]):
        _apply(weights, layer, embedding, known)
    _copy(known, target)
    first = weights.layer[layer, 2] + len(embedding) * len(target)
    _add_product(weights.flat, first, x, target)


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
    networks: Networks,
    graphs: Graphs,
    observation: ObservationBatch,
    changed: Int64,
    memory: Memory,
    at: Scratch,
) -> None:
    """Embed the jobs `changed`, ascending indices among the J jobs, and store the results.

    Only stages that are stale or have a stale descendant are embedded again.
    """
    size = memory.e.shape[1]
    total, joined = at.total[:size], at.total[size:]
    decision = 0
    for index in changed:
        while observation.job_ptr[decision + 1] <= index:
            decision += 1
        weights = _network_of(networks, decision)
        job = observation.jobs[observation.rows[index]]
        base, first = memory.first_stage[index], graphs.first_stage[job["template"]]
        for place in range(first, first + job["num_stages"]):  # children before their parents
            local = graphs.order[place]
            row, stage = base + local, first + local
            for edge in range(graphs.first_child[stage], graphs.first_child[stage + 1]):
                if memory.is_stale[base + graphs.children[edge]]:
                    memory.is_stale[row] = True
            if not memory.is_stale[row]:
                continue
            _apply(weights, weights.part[LIFT, 0], memory.x[row], memory.e[row])
            begin, end = graphs.first_child[stage], graphs.first_child[stage + 1]
            if begin < end:
                total[:] = 0.0
                for edge in range(begin, end):
                    _add(memory.sent[base + graphs.children[edge]], total)
                _transform(weights, G_NODE, at, total, memory.sent[row])
                _add(memory.sent[row], memory.e[row])
            _transform(weights, F_NODE, at, memory.e[row], memory.sent[row])
            memory.stage_part[row, 0] = np.nan
        total[:] = 0.0
        for row in range(base, base + job["num_stages"]):
            if memory.is_stale[row]:
                x = memory.x[row]
                _copy(x, joined)
                _copy(memory.e[row], joined[len(x) :])
                _transform(weights, F_JOB, at, joined, memory.summand[row])
                memory.is_stale[row] = False
            _add(memory.summand[row], total)
        row = memory.job[index]
        _transform(weights, G_JOB, at, total, memory.y[row])
        memory.job_part[row, 0] = np.nan
        _transform(weights, F_CLUSTER, at, memory.y[row], memory.added[row])


@kernel
def forward(
    networks: Networks,
    graphs: Graphs,
    observation: ObservationBatch,
    units: Scales,
    known: Float64,
    choices: Choices,
    changed: Int64,
    memory: Memory,
    at: Scratch,
    clusters: Float32,
    out: Scores[Float32],
) -> int:
    """Embed the jobs that changed, list them in `changed`, and score as `score` does.

    Returns how many changed.
    """
    count = remember_nodes(
        observation, memory.first_stage, units, known, memory.x, memory.is_stale, changed
    )
    embed(networks, graphs, observation, changed[:count], memory, at)
    score(networks, observation, choices, memory, at, clusters, out)
    return int(count)


# --- scores --------------------------------------------------------------------------------------


@kernel
def score(
    networks: Networks,
    observation: ObservationBatch,
    choices: Choices,
    memory: Memory,
    at: Scratch,
    clusters: Float32,
    out: Scores[Float32],
) -> None:
    """Fill `out` but for the limits, from the columns of B decisions and the stored embeddings.

    `clusters` (B, D) gets the embedding z of each decision's cluster.
    """
    size, width = memory.y.shape[1], at.cluster.shape[1]
    has_classes = len(out.kind) > 0
    for decision in range(len(out.end)):
        weights = _network_of(networks, decision)
        first_job, last_job = observation.job_ptr[decision], observation.job_ptr[decision + 1]
        total = at.total[:size]
        total[:] = 0.0
        for job in range(first_job, last_job):
            _add(memory.added[memory.job[job]], total)
        for column in range(size):
            total[column] /= max(1, last_job - first_job)
        z, cluster_x = clusters[decision], choices.cluster_x[decision]
        _transform(weights, G_CLUSTER, at, total, z)
        _map(weights, STAGE_CLUSTER, z, cluster_x, at.cluster[0])
        if has_classes:
            _map(weights, KIND_CLUSTER, z, cluster_x, at.cluster[2])
        hidden = at.hidden[: weights.layer[weights.part[END_CLUSTER, 0], 1]]
        _map(weights, END_CLUSTER, z, cluster_x, hidden)
        out.end[decision] = _finish(weights, END_BODY, at, hidden)
        hidden = at.hidden[:width]
        _map(weights, VALUE_CLUSTER, z, cluster_x, hidden)
        out.value[decision] = _finish(weights, VALUE_BODY, at, hidden)
        for job in range(first_job, last_job):
            if choices.first_open[job] < choices.first_open[job + 1]:
                _score_stages(weights, observation, choices, memory, at, out, job)


@inlined_kernel
def _score_stages(
    weights: Weights,
    observation: ObservationBatch,
    choices: Choices,
    memory: Memory,
    at: Scratch,
    out: Scores[Float32],
    job: int,
) -> None:
    """Fill `stage` and `kind` for the open stages of a job."""
    hidden = at.hidden[: at.cluster.shape[1]]
    y, job_x = memory.y[memory.job[job]], choices.job_x[job]
    _map_known(weights, STAGE_JOB, y, memory.job_part[memory.job[job]], job_x, at.job[0])
    _add(at.cluster[0], at.job[0])
    has_classes = len(out.kind) > 0
    if has_classes:
        _map(weights, KIND_JOB, y, job_x, at.job[2])
        _add(at.cluster[2], at.job[2])
    first_stage = observation.jobs[observation.rows[job]]["first_stage"]
    for row in range(choices.first_open[job], choices.first_open[job + 1]):
        stage = memory.first_stage[job] + choices.open_stage[row] - first_stage
        e, x = memory.e[stage], choices.stage_x[row]
        _map_known(weights, STAGE_STAGE, e, memory.stage_part[stage], x, hidden)
        _add(at.job[0], hidden)
        out.stage[row] = _finish(weights, STAGE_BODY, at, hidden)
        if has_classes:
            _map(weights, KIND_STAGE, e, x, at.stage)
            _add(at.job[2], at.stage)
            for kind in range(choices.kind_ptr[row], choices.kind_ptr[row + 1]):
                _apply(weights, weights.part[KIND_KIND, 0], choices.class_x[kind], hidden)
                _add(at.stage, hidden)
                out.kind[kind] = _finish(weights, KIND_BODY, at, hidden)


@kernel
def score_limits(
    networks: Networks,
    has_limit_head: bool,
    choices: Choices,
    memory: Memory,
    at: Scratch,
    clusters: Float32,
    is_needed: NDArray[np.bool_],
    out: Scores[Float32],
) -> None:
    """Fill `limit` for the jobs that are needed (J,), whose limits are described; see `score`.

    The limit of a job that has no other gets 0: its score does not matter. Without the head, the
    largest is certain.
    """
    hidden = at.hidden[: at.cluster.shape[1]]
    mapped = -1  # decision whose cluster's part is in `at`
    for job in range(len(is_needed)):
        first, last = choices.limit_ptr[job], choices.limit_ptr[job + 1]
        if not is_needed[job] or first == last:
            continue
        if not has_limit_head:
            for row in range(first, last):
                out.limit[row] = np.float32(CERTAIN) * choices.limit_x[row, 0]
            continue
        if last - first == 1:
            out.limit[first] = 0.0
            continue
        decision = choices.decision_of_job[job]
        weights = _network_of(networks, decision)
        if decision != mapped:
            cluster_x = choices.cluster_x[decision]
            _map(weights, LIMIT_CLUSTER, clusters[decision], cluster_x, at.cluster[1])
            mapped = decision
        _map(weights, LIMIT_JOB, memory.y[memory.job[job]], choices.job_x[job], at.job[1])
        _add(at.cluster[1], at.job[1])
        for row in range(first, last):
            _apply(weights, weights.part[LIMIT_LIMIT, 0], choices.limit_x[row], hidden)
            _add(at.job[1], hidden)
            out.limit[row] = _finish(weights, LIMIT_BODY, at, hidden)
