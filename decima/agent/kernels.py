"""Compiled: features of stages, jobs and limits, levels of many graphs, choices from logits.

Plain loops over flat arrays, paid for by `benchmarks/policy_speed.py`. The columns are those of
`decima.agent.columns`, in their order.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from decima.agent.scene import Scene
from decima.kernels import inlined_kernel, kernel
from spark_sim.tables import NONE
from traces.numbers import Float32, Int64


class Graphs(NamedTuple):
    """The graphs of T jobs with S stages in all, by rows of a trace."""

    first_stage: NDArray[np.int32]  # (T + 1,)
    first_child: NDArray[np.int32]  # (S + 1,)
    children: NDArray[np.int32]  # (edges,) stage index inside the job
    height: NDArray[np.int32]  # (S,) edges on the longest way to a stage without children


class SceneFeatures(NamedTuple):
    """What the heads get, and what has changed. O open stages in all."""

    job_x: Float32  # (J, len(JOB))
    cluster_x: Float32  # (B, len(CLUSTER))
    stage_x: Float32  # (O, len(STAGE))
    open_stage: Int64  # (O,) row of `Scene.stages`
    open_job: Int64  # (O,) index among the J jobs
    open_node: Int64  # (O,) row of the memory
    open_ptr: Int64  # (B + 1,)
    room: Int64  # (O,) limits that differ: executors that the stage could get now
    may_pass: NDArray[np.bool_]  # (B,)
    changed: Int64  # (J,) the first `num_changed` are the jobs to embed anew
    changed_flag: NDArray[np.bool_]  # (J,)


@inlined_kernel
def _log2(ratio: float) -> float:
    return math.log2(min(max(ratio, 1.0 / 4096), 4096.0)) / 4


@inlined_kernel
def _rounded(count: float) -> float:
    """`count` to the nearest quarter power of two (of count + 1), so that it changes seldom."""
    if count <= 0:
        return 0.0
    return float(2.0 ** (round(4 * math.log2(1.0 + count)) / 4) - 1.0)


@kernel
def heights(graphs: Graphs) -> None:
    """Fill `height`."""
    for template in range(len(graphs.first_stage) - 1):
        first, last = graphs.first_stage[template], graphs.first_stage[template + 1]
        for stage in range(first, last):
            graphs.height[stage] = 0
        changed = True
        while changed:
            changed = False
            for stage in range(first, last):
                for edge in range(graphs.first_child[stage], graphs.first_child[stage + 1]):
                    above = graphs.height[first + graphs.children[edge]] + 1
                    if above > graphs.height[stage]:
                        graphs.height[stage] = above
                        changed = True


KNOWN = 6
"""numbers that the features of a stage are computed from, kept to see whether one has changed"""


@kernel
def remember_nodes(
    scene: Scene,
    task_ms: float,
    work_ms: float,
    known: NDArray[np.float64],
    memory_x: Float32,
    out: SceneFeatures,
) -> int:
    """Write the features of all stages to the memory; list the jobs in which one has changed.

    Most stages are as they were, and comparing `known` with them costs a tenth of the logarithms.

    Returns how many have changed; `SceneFeatures.changed` names them.
    """
    count = 0
    for decision in range(len(scene.time_ms)):
        executors = float(scene.num_executors[decision])
        for index in range(scene.job_ptr[decision], scene.job_ptr[decision + 1]):
            job = scene.jobs[scene.rows[index]]
            differs = False
            for local in range(job["num_stages"]):
                stage = scene.stages[job["first_stage"] + local]
                row = scene.memory_stage[index] + local
                numbers = (
                    float(stage["num_tasks"]),
                    float(stage["launched"]),
                    float(stage["covered"] - stage["finished"]),
                    float(stage["runnable"]),
                    float(stage["mean_ms"]),
                    executors,
                )
                if _noted(numbers, known[row]):
                    differs |= _describe_node(numbers, task_ms, work_ms, memory_x[row])
            out.changed_flag[index] = differs
            if differs:
                out.changed[count] = index
                count += 1
    return count


@inlined_kernel
def _noted(
    numbers: tuple[float, float, float, float, float, float], known: NDArray[np.float64]
) -> bool:
    """Copy the numbers to `known`; whether one was another, or NaN."""
    differs = False
    for column in range(KNOWN):
        if known[column] != numbers[column]:
            known[column] = numbers[column]
            differs = True
    return differs


@inlined_kernel
def _describe_node(
    numbers: tuple[float, float, float, float, float, float],
    task_ms: float,
    work_ms: float,
    row: Float32,
) -> bool:
    """Write columns `NODE` from the numbers that `remember_nodes` notes; whether one changed."""
    num_tasks, launched, working, runnable, mean_ms, executors = numbers
    left = _rounded(num_tasks - launched)
    values = (
        np.float32(math.log1p(4 * left / executors)),
        np.float32(_log2(mean_ms / task_ms)),
        np.float32(working / executors),
        np.float32(math.log1p(8 * left * mean_ms / work_ms)),
        np.float32(runnable),
    )
    differs = False
    for column in range(len(values)):
        if row[column] != values[column]:
            row[column] = values[column]
            differs = True
    return differs


@kernel
def describe(
    scene: Scene, task_ms: float, work_ms: float, always_one: bool, out: SceneFeatures
) -> int:
    """Write what the heads get, `JOB` column "shorter" excepted. Returns the open stages."""
    row = 0
    for decision in range(len(scene.time_ms)):
        out.open_ptr[decision] = row
        out.may_pass[decision] = True
        total_ms = _describe_cluster(scene, decision, work_ms, out.cluster_x[decision])
        for index in range(scene.job_ptr[decision], scene.job_ptr[decision + 1]):
            job = scene.jobs[scene.rows[index]]
            begin = row
            if job["open_stages"] > 0 and job["held"] < scene.num_executors[decision]:
                row = _describe_stages(scene, decision, index, row, task_ms, out)
            if always_one and row > begin and job["held"] == 0:
                out.may_pass[decision] = False
            _describe_job(scene, decision, index, work_ms, total_ms, out.job_x[index])
    out.open_ptr[len(scene.time_ms)] = row
    return row


@inlined_kernel
def _describe_cluster(scene: Scene, decision: int, work_ms: float, row: Float32) -> float:
    """Write columns `CLUSTER`; returns the work not launched in all jobs."""
    first, last = scene.job_ptr[decision], scene.job_ptr[decision + 1]
    executors = float(scene.num_executors[decision])
    total_ms = 0.0
    held = 0
    for index in range(first, last):
        job = scene.jobs[scene.rows[index]]
        total_ms += max(job["remaining_ms"], 0.0)
        held += job["held"]
    jobs = max(1.0, float(last - first))
    row[0] = scene.on_offer[decision] / executors
    row[1] = _log2(jobs / executors) + 0.5
    row[2] = _log2(jobs)
    row[3] = _log2(1.0 / 16 + total_ms / work_ms)
    row[4] = held / executors
    return total_ms


@inlined_kernel
def _describe_stages(
    scene: Scene, decision: int, index: int, row: int, task_ms: float, out: SceneFeatures
) -> int:
    """Write columns `STAGE` of a job's open stages from `row` on; returns the row behind them."""
    job = scene.jobs[scene.rows[index]]
    executors = float(scene.num_executors[decision])
    offered = max(1.0, float(scene.on_offer[decision]))
    remaining_ms = max(job["remaining_ms"], 1e-6)
    wanted = 0
    for local in range(job["num_stages"]):
        number = job["first_stage"] + local
        stage = scene.stages[number]
        demand = stage["num_tasks"] - stage["covered"]
        if stage["open"] == 0 or demand <= 0:
            continue
        wanted += demand
        out.open_stage[row] = number
        out.open_job[row] = index
        out.open_node[row] = scene.memory_stage[index] + local
        most = min(scene.on_offer[decision], scene.num_executors[decision] - job["held"])
        out.room[row] = min(demand, most)
        stage_x = out.stage_x[row]
        stage_x[0] = math.log1p(4 * demand / executors)
        stage_x[1] = min(1.0, demand / offered)
        stage_x[2] = stage["runnable"]
        stage_x[3] = _log2(stage["mean_ms"] / task_ms)
        stage_x[4] = math.log1p(stage["critical_path_ms"] / (4 * task_ms)) / 4
        stage_x[5] = min(1.0, demand * stage["mean_ms"] / remaining_ms)
        row += 1
    out.job_x[index, 10] = math.log1p(wanted / executors)
    return row


@inlined_kernel
def _describe_job(
    scene: Scene, decision: int, index: int, work_ms: float, total_ms: float, row: Float32
) -> None:
    """Write columns `JOB`, but for "shorter" and "wanted"."""
    job = scene.jobs[scene.rows[index]]
    executors = float(scene.num_executors[decision])
    jobs = float(scene.job_ptr[decision + 1] - scene.job_ptr[decision])
    remaining_ms = max(job["remaining_ms"], 0.0)
    row[0] = job["held"] / executors
    row[1] = _log2((job["held"] + 0.5) * jobs / executors)
    row[2] = 1.0 if job["held"] == 0 else 0.0
    row[3] = job["local"] / max(1.0, float(scene.on_offer[decision]))
    row[4] = 1.0 if scene.rows[index] == scene.source[decision] else 0.0
    row[5] = _log2(remaining_ms / work_ms)
    row[6] = _log2(remaining_ms * jobs / max(total_ms, 1e-6))
    row[8] = remaining_ms / max(job["work_ms"], 1e-6)
    age_ms = max(scene.time_ms[decision] - job["arrival_ms"], 0.0)
    row[9] = math.log1p(age_ms * executors / work_ms) / 4


# --- levels of many graphs -----------------------------------------------------------------------


class LevelArrays(NamedTuple):
    """V nodes of D graphs, sorted by height (`gnn.levels.Levels` as arrays)."""

    node: Int64  # (V,) row of the node features
    graph: Int64  # (V,) which of the D graphs
    place: Int64  # (V,) where the nodes went: graph by graph, stage by stage
    child: Int64  # (E,) rows in the sorted numbering
    parent: Int64  # (E,)
    node_ptr: Int64  # (L + 1,)
    edge_ptr: Int64  # (L + 1,)


@kernel
def sort_by_height(graphs: Graphs, template: Int64, first_node: Int64, out: LevelArrays) -> None:
    """Number the nodes of the graphs `template` by height, edges by the height of the child.

    Args:
        graphs: all graphs.
        template: (D,) which of them.
        first_node: (D,) row of the features of the graph's first stage.
        out: arrays of the right lengths, with L the greatest height plus 1.
    """
    out.node_ptr[:] = 0
    out.edge_ptr[:] = 0
    for job in template:
        first = graphs.first_stage[job]
        for stage in range(first, graphs.first_stage[job + 1]):
            out.node_ptr[graphs.height[stage] + 1] += 1
            for edge in range(graphs.first_child[stage], graphs.first_child[stage + 1]):
                out.edge_ptr[graphs.height[first + graphs.children[edge]] + 1] += 1
    for level in range(1, len(out.node_ptr)):
        out.node_ptr[level] += out.node_ptr[level - 1]
        out.edge_ptr[level] += out.edge_ptr[level - 1]
    _place_nodes(graphs, template, first_node, out)
    _place_edges(graphs, template, out)


@inlined_kernel
def _place_nodes(graphs: Graphs, template: Int64, first_node: Int64, out: LevelArrays) -> None:
    base = 0
    for graph in range(len(template)):
        first = graphs.first_stage[template[graph]]
        count = graphs.first_stage[template[graph] + 1] - first
        for local in range(count):
            level = graphs.height[first + local]
            place = out.node_ptr[level]
            out.node_ptr[level] += 1
            out.place[base + local] = place
            out.node[place] = first_node[graph] + local
            out.graph[place] = graph
        base += count
    _shift(out.node_ptr)


@inlined_kernel
def _place_edges(graphs: Graphs, template: Int64, out: LevelArrays) -> None:
    base = 0
    for graph in range(len(template)):
        first = graphs.first_stage[template[graph]]
        count = graphs.first_stage[template[graph] + 1] - first
        for local in range(count):
            stage = first + local
            for edge in range(graphs.first_child[stage], graphs.first_child[stage + 1]):
                child = graphs.children[edge]
                level = graphs.height[first + child]
                place = out.edge_ptr[level]
                out.edge_ptr[level] += 1
                out.child[place] = out.place[base + child]
                out.parent[place] = out.place[base + local]
        base += count
    _shift(out.edge_ptr)


@inlined_kernel
def _shift(ends: Int64) -> None:
    """Starts from ends: filling moved each level's start to the next one's."""
    for level in range(len(ends) - 1, 0, -1):
        ends[level] = ends[level - 1]
    ends[0] = 0


# --- limits and choices --------------------------------------------------------------------------


@kernel
def describe_limits(
    held: Int64,
    room: Int64,
    local: Int64,
    jobs: Int64,
    executors: Int64,
    limit_x: Float32,
    owner: Int64,
) -> None:
    """Columns `LIMIT` of the limits held + 1 .. held + room of each of D chosen stages.

    Args:
        held: (D,) executors that the job of the stage holds.
        room: (D,) limits that differ.
        local: (D,) executors on offer that are in the job already.
        jobs: (D,) jobs in the system.
        executors: (D,) N.
        limit_x: (sum of room, len(LIMIT)) to fill.
        owner: (sum of room,) to fill: which of the D each limit belongs to.
    """
    row = 0
    for index in range(len(held)):
        size = float(executors[index])
        for added in range(1, room[index] + 1):
            limit = held[index] + added
            limit_x[row, 0] = limit / size
            limit_x[row, 1] = _log2(limit * jobs[index] / size)
            limit_x[row, 2] = added / size
            limit_x[row, 3] = max(0.0, added - local[index]) / added
            owner[row] = index
            row += 1


@kernel
def choose(
    logits: Float32,
    ptr: Int64,
    last: Float32,
    uniform: NDArray[np.float64],
    chosen: Int64,
    log_prob: NDArray[np.float64],
) -> None:
    """One choice for each of D segments of `logits`, and its log-probability.

    A segment may have one more choice behind its own with the logit `last` (-inf: it has not);
    `chosen` is the index inside the segment. With uniform < 0 the likeliest is taken.
    """
    for index in range(len(uniform)):
        first, end = ptr[index], ptr[index + 1]
        top = float(last[index])
        best = end - first
        for row in range(first, end):
            if logits[row] > top:
                top = float(logits[row])
                best = row - first
        total = math.exp(last[index] - top)
        for row in range(first, end):
            total += math.exp(logits[row] - top)
        if uniform[index] >= 0:
            best = _draw(logits[first:end], last[index], top, uniform[index] * total)
        logit = last[index] if best == end - first else logits[first + best]
        chosen[index] = best
        log_prob[index] = logit - top - math.log(total)


@inlined_kernel
def _draw(logits: Float32, last: float, top: float, height: float) -> int:
    """The choice at `height` in the cumulated weights; the last possible one at their end."""
    possible = len(logits)
    if last == -math.inf:
        possible -= 1
    total = 0.0
    for row in range(possible):
        total += math.exp(logits[row] - top)
        if height < total:
            return row
    return possible


@kernel
def held_of(scene: Scene, index: Int64, held: Int64, local: Int64) -> None:
    """Columns "held" and "local" of the jobs with these indices; NONE gives 0."""
    for place in range(len(index)):
        held[place] = 0
        local[place] = 0
        if index[place] != NONE:
            job = scene.jobs[scene.rows[index[place]]]
            held[place] = job["held"]
            local[place] = job["local"]
