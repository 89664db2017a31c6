"""Test of graph embeddings: the runnable stage that starts the longest chain of work.

The *critical path* of a stage is the largest sum of stage work on a chain that starts at it. The
labels are computed with networkx, independently of everything that is learned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import networkx as nx
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gnn.levels import Levels, levels_of
from traces.model import Job
from traces.synthetic import LayeredShape, layered_job
from traces.trace import Trace

STATES_PER_JOB = 2  # random states of completion asked about for each job


class Question(NamedTuple):
    """Remaining part of one job: V stages, at least two of them runnable, E edges."""

    work_ms: NDArray[np.float64]  # (V,) > 0
    edges: NDArray[np.int64]  # (2, E) row 0 parent, row 1 child
    runnable: NDArray[np.bool_]  # (V,) without parents that are left
    critical_path_ms: NDArray[np.float64]  # (V,) the answer, >= work_ms


def question(job: Job, rng: np.random.Generator) -> Question | None:
    """Complete a random number of the stages of `job`; None if fewer than two are runnable then."""
    graph = to_networkx(job)
    for _ in range(int(rng.integers(len(graph)))):
        graph.remove_node(rng.choice(_roots(graph)))
    runnable = _roots(graph)
    if len(runnable) < 2:
        return None
    row = {stage: index for index, stage in enumerate(graph)}
    edges = [(row[parent], row[child]) for parent, child in graph.edges]
    longest = critical_paths_ms(graph)
    return Question(
        work_ms=np.array([graph.nodes[stage]["work_ms"] for stage in graph]),
        edges=np.array(edges, np.int64).reshape(-1, 2).T,
        runnable=np.isin(list(graph), runnable),
        critical_path_ms=np.array([longest[stage] for stage in graph]),
    )


def to_networkx(job: Job) -> nx.DiGraph:
    """The stages of `job` as a graph: nodes are stage indices, edges go from parent to child.

    Each node has ``name``, ``num_tasks``, ``mean_ms`` and ``work_ms``; the graph has ``name``.
    """
    graph = nx.DiGraph(name=job.name)
    for index, stage in enumerate(job.stages):
        graph.add_node(
            index,
            name=stage.name,
            num_tasks=stage.num_tasks,
            mean_ms=stage.mean_ms,
            work_ms=stage.work_ms,
        )
    graph.add_edges_from(
        (parent, index) for index, stage in enumerate(job.stages) for parent in stage.parents
    )
    return graph


def critical_paths_ms(graph: nx.DiGraph) -> dict[int, float]:
    """Return the critical path of each stage of a graph of `to_networkx`."""
    longest: dict[int, float] = {}
    for stage in reversed(list(nx.topological_sort(graph))):
        below = (longest[child] for child in graph.successors(stage))
        longest[stage] = graph.nodes[stage]["work_ms"] + max(below, default=0.0)
    return longest


def _roots(graph: nx.DiGraph) -> list[int]:
    return [stage for stage, parents in graph.in_degree if parents == 0]


@dataclass(frozen=True)
class RandomDags:
    """Random layered jobs; every other one has stages of similar work."""

    stages: tuple[int, int]  # both ends included

    def draw(self, rng: np.random.Generator) -> Iterator[Job]:
        """Jobs without end."""
        uneven = LayeredShape(stages=self.stages)
        even = replace(uneven, tasks=(20, 20), task_ms=(500.0, 5_000.0))
        while True:
            yield layered_job("uneven", rng, uneven)
            yield layered_job("even", rng, even)


def trace_jobs(trace: Trace, rng: np.random.Generator) -> Iterator[Job]:
    """All jobs of `trace` in random order, again and again."""
    while True:
        for index in rng.permutation(len(trace.jobs)):
            yield trace.jobs[index]


def draw_questions(
    jobs: Iterator[Job],
    count: int,
    rng: np.random.Generator,
    progress: Callable[[int], None] = lambda _done: None,
) -> list[Question]:
    """`count` questions about `jobs`, which must not end before."""
    found: list[Question] = []
    while len(found) < count:
        job = next(jobs)
        asked = [question(job, rng) for _ in range(STATES_PER_JOB)]
        found += [one for one in asked if one is not None]
        progress(min(len(found), count))
    return found[:count]


class Batch(NamedTuple):
    """Q questions as one graph of V nodes in the order of `levels`; work in units of `scale`."""

    x: Tensor  # (V, 2) work, log(1 + work)
    levels: Levels
    question: Tensor  # (V,) int64 which question a node belongs to
    runnable: Tensor  # (V,) bool
    critical_path: Tensor  # (V,)
    num_questions: int


NUM_FEATURES = 2


def batch(questions: Sequence[Question], scale: NDArray[np.float64] | None = None) -> Batch:
    """Join Q questions to one graph; `scale` (Q,) is the mean work of each one's stages, or 1.

    So the features do not depend on how long tasks take in general.
    """
    scale = np.ones(len(questions)) if scale is None else scale
    sizes = np.array([len(one.work_ms) for one in questions])
    first = np.cumsum(sizes) - sizes
    edges = [one.edges + start for one, start in zip(questions, first, strict=True)]
    unit = np.array([one.work_ms.mean() for one in questions]) / scale
    levels, order = levels_of(torch.from_numpy(np.concatenate(edges, axis=1)), int(sizes.sum()))
    work = _joined([one.work_ms for one in questions], unit)[order]
    return Batch(
        x=torch.stack((work, work.log1p()), dim=1),
        levels=levels,
        question=torch.from_numpy(np.repeat(np.arange(len(questions)), sizes))[order],
        runnable=torch.from_numpy(np.concatenate([one.runnable for one in questions]))[order],
        critical_path=_joined([one.critical_path_ms for one in questions], unit)[order],
        num_questions=len(questions),
    )


def _joined(parts: list[NDArray[np.float64]], unit: NDArray[np.float64]) -> Tensor:
    scaled = [part / one for part, one in zip(parts, unit, strict=True)]
    return torch.from_numpy(np.concatenate(scaled).astype(np.float32))
