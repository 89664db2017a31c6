"""Networks with random weights, heads included, for tests that need a policy and no training."""

from __future__ import annotations

import numpy as np
import torch

from decima.agent import columns, feature_kernels
from decima.agent.columns import Choices
from decima.agent.graph import Graph, GraphSorter
from decima.agent.network import PolicyNetwork
from decima.agent.scales import Scales
from decima.agent.weights import NetworkConfig
from spark_sim.observation import ObservationBatch


def random_network(seed: int = 0, config: NetworkConfig | None = None) -> PolicyNetwork:
    """Return a network whose heads' last layers are drawn, so that its choices differ."""
    torch.manual_seed(seed)
    network = PolicyNetwork(NetworkConfig() if config is None else config)
    for module in network.modules():
        last = getattr(module, "last", None)
        if isinstance(last, torch.nn.Linear):
            torch.nn.init.normal_(last.weight, std=0.3)
    return network.eval()


def described(seen: ObservationBatch, units: Scales) -> Choices:
    """Return what may be chosen, with the columns of all limits."""
    choices = feature_kernels.describe(seen, units)
    feature_kernels.describe_limits(seen, choices, np.ones(len(seen.rows), np.bool_))
    return choices


def whole_graph(
    seen: ObservationBatch, sorter: GraphSorter, units: Scales
) -> tuple[Graph, Choices]:
    """Build the graph of all decisions with all their nodes: one job graph for each visible job.

    Tensors share the memory of the choices' arrays.
    """
    choices = described(seen, units)
    table = seen.jobs[seen.rows]
    template = table["template"].astype(np.int64)
    size = table["num_stages"].astype(np.int64)
    first = np.cumsum(size) - size
    node_x = np.full((int(size.sum()), len(columns.NODE)), np.nan, np.float32)
    known = np.full((len(node_x), feature_kernels.KNOWN), np.nan)
    changed = np.empty(len(template), np.int64)
    is_stale = np.zeros(len(node_x), np.bool_)
    feature_kernels.remember_nodes(seen, first, units, known, node_x, is_stale, changed)
    local = choices.open_stage - table["first_stage"][choices.open_job]
    own_graph = np.arange(len(template))
    nodes = sorter.nodes(template, first, node_x, own_graph, (choices.open_job, local))
    graph = Graph(
        stage_x=torch.from_numpy(choices.stage_x),
        job_x=torch.from_numpy(choices.job_x),
        cluster_x=torch.from_numpy(choices.cluster_x),
        limit_x=torch.from_numpy(choices.limit_x),
        class_x=torch.from_numpy(choices.class_x),
        job_of_stage=torch.from_numpy(choices.open_job),
        job_of_limit=torch.from_numpy(choices.limit_job),
        stage_of_class=torch.from_numpy(choices.kind_stage),
        decision_of_job=torch.from_numpy(choices.decision_of_job),
        nodes=nodes,
    )
    return graph, choices
