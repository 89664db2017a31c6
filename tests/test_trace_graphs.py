"""Jobs as graphs of networkx and of PyTorch Geometric, there and back."""

from __future__ import annotations

from collections.abc import Callable

import networkx as nx
import numpy as np
import pytest
import torch
from torch_geometric.loader import DataLoader

from tests.commands import raises_one_line
from traces import Job, JobGraphs, TraceError, load_trace, to_pyg
from traces.model import LevelDurations, Stage


def job_with_everything() -> Job:
    """Parents out of order, two levels, demands, a deadline."""
    levels = (LevelDurations.of(1, rest_ms=[0.1, 7.0]), LevelDurations.of(4, fresh_ms=[9.0]))
    return Job(
        "all",
        (
            Stage("last", 3, (2, 1), levels, cpu=0.5, memory_mb=512.0, slots=2),
            Stage.fixed("middle", 2, 30.0, (2,)),
            Stage("first", 1, (), levels, barrier=True),
        ),
        arrival_ms=5.0,
        weight=2.0,
        deadline_ms=100.0,
    )


def test_the_way_to_networkx_and_back_loses_nothing() -> None:
    for job in (job_with_everything(), *load_trace("tpch").jobs[:20]):
        graph = job.to_networkx()
        back = Job.from_networkx(graph)
        assert back == job
        ahead = [[job.stages[parent].name for parent in stage.parents] for stage in job.stages]
        assert [list(graph.predecessors(stage.name)) for stage in job.stages] == ahead


def pair(**first: object) -> nx.DiGraph:
    graph = nx.DiGraph(name="pair")
    graph.add_node("a", **({"num_tasks": 4, "task_ms": 10.0} | first))
    graph.add_node("b", num_tasks=1, task_ms=5.0)
    graph.add_edge("a", "b")
    return graph


def cyclic() -> nx.DiGraph:
    graph = pair()
    graph.add_edge("b", "a")
    return graph


def lacking_its_tasks() -> nx.DiGraph:
    graph = pair()
    del graph.nodes["a"]["num_tasks"]
    return graph


def of_unknown_attribute() -> nx.DiGraph:
    graph = pair()
    graph.graph["owner"] = "me"
    return graph


def test_a_graph_of_ones_own() -> None:
    """`task_ms` stands for durations; the name may be given; nodes need not be texts."""
    job = Job.from_networkx(pair(memory_mb=64.0))
    assert (job.name, job.critical_path_ms, job.stages[0].memory_mb) == ("pair", (15.0, 5.0), 64.0)
    numbered = nx.relabel_nodes(pair(), {"a": 1, "b": 2})
    named = Job.from_networkx(numbered, "other")
    assert (named.name, [stage.name for stage in named.stages]) == ("other", ["1", "2"])


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (cyclic, "^job 'pair': its stages form a cycle"),
        (lambda: pair().to_undirected(), "job 'pair': Graph is not a DiGraph"),
        (lambda: pair(color="red"), "stage 'a' has the unknown attribute 'color'"),
        (of_unknown_attribute, "job 'pair' has the unknown attribute 'owner'"),
        (lambda: pair(num_tasks="4"), "stage 'a': num_tasks '4' is not a whole number"),
        (lambda: pair(num_tasks=2.5), "stage 'a': num_tasks 2.5 is not a whole number"),
        (lambda: pair(durations=()), "stage 'a' has both durations and task_ms"),
        (lambda: pair(num_tasks=0), "stage 'a': 0 tasks"),
        (lambda: pair(task_ms="long"), "stage 'a': .*'long'"),
        (lambda: nx.DiGraph(name="empty"), "job 'empty' has no stage"),
        (lacking_its_tasks, "stage 'a' lacks 'num_tasks'"),
    ],
)
def test_a_graph_that_is_no_job_is_refused(build: Callable[[], nx.Graph], message: str) -> None:
    """In one line."""
    with raises_one_line(TraceError, match=message):
        Job.from_networkx(build())


def test_a_job_as_a_graph_of_pyg() -> None:
    graph = to_pyg(job_with_everything())
    assert graph.edge_index.tolist() == [[2, 1, 2], [0, 0, 1]]
    assert graph.num_nodes == 3
    level_ms = (0.1 + 7.0 + 9.0) / 3
    assert graph.task_s.tolist() == pytest.approx([level_ms / 1000, 0.03, level_ms / 1000])
    longest = [level_ms, 30.0 + level_ms, 30.0 + 2 * level_ms]
    assert graph.critical_path_s.tolist() == pytest.approx([ms / 1000 for ms in longest])
    assert graph.x[1].tolist() == pytest.approx(np.log1p([2.0, 0.03, 0.06]).tolist())
    assert to_pyg(Job("one", (Stage.fixed("a", 1, 1.0),))).edge_index.shape == (2, 0)


def test_a_loader_joins_the_jobs_of_a_trace() -> None:
    """Each job once; edges stay within their job."""
    trace = load_trace("tpch")
    graphs = JobGraphs(trace)
    assert (len(graphs), graphs.num_features) == (len(trace.jobs), 3)
    names = []
    for batch in DataLoader(graphs, batch_size=40, shuffle=True):
        names += batch.name
        assert torch.equal(batch.batch[batch.edge_index[0]], batch.batch[batch.edge_index[1]])
    assert sorted(names) == sorted(trace.job_names)
    doubled = JobGraphs(trace, lambda graph: graph.update({"x": 2 * graph.x}))
    torch.testing.assert_close(doubled[5].x, 2 * graphs[5].x)
