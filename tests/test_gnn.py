"""The encoder: the same whatever the order, the company and the batch; equal to its equations."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch_geometric.data import Batch, Data

from gnn.config import EncoderConfig
from gnn.encoder import Encoder, TwoLevelSum
from gnn.heads import Head
from gnn.levels import levels_of
from tests.commands import raises_one_line

Floats = NDArray[np.float64]

FEATURES = 3
CONFIGS = {
    "full": EncoderConfig(embedding=8, hidden=(8,)),
    "one-level": EncoderConfig(embedding=8, hidden=(8,), two_level=False),
    "no-messages": EncoderConfig(embedding=8, hidden=(8,), messages=False),
    "linear": EncoderConfig(embedding=4, hidden=()),
}
each_config = pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS.keys())


def random_dag(seed: int, nodes: int = 14, density: float = 0.25) -> tuple[Tensor, Tensor]:
    """(V, F) features and (2, E) edges of a DAG whose numbering tells nothing of its order."""
    rng = np.random.default_rng(seed)
    name = rng.permutation(nodes)
    edges = [
        (name[low], name[high])
        for low in range(nodes)
        for high in range(low + 1, nodes)
        if rng.random() < density
    ]
    x = torch.from_numpy(rng.normal(size=(nodes, FEATURES)))
    return x, torch.from_numpy(np.array(edges, np.int64).reshape(-1, 2).T)


def encoder_of(config: EncoderConfig, seed: int = 0) -> Encoder:
    """In double precision, with biases that are not zero."""
    torch.manual_seed(seed)
    encoder = Encoder(FEATURES, config).double()
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return encoder


def embedded(encoder: Encoder, x: Tensor, edges: Tensor) -> Tensor:
    """(V, D) in the numbering of `x`."""
    levels, order = levels_of(edges, len(x))
    e = torch.empty(len(x), encoder.config.embedding, dtype=x.dtype)
    e[order] = encoder.nodes(x[order], levels)
    return e


# --- embeddings ----------------------------------------------------------------------------------


def mapped(transform: nn.Module, value: Floats) -> Floats:
    """A multilayer perceptron, layer by layer; the identity is none."""
    layers = [module for module in transform.modules() if isinstance(module, nn.Linear)]
    for number, layer in enumerate(layers):
        weight, bias = layer.weight.detach().numpy(), layer.bias.detach().numpy()
        value = weight @ value + bias
        if number < len(layers) - 1:
            value = np.where(value > 0, value, 0.2 * value)
    return value


def two_level(step: TwoLevelSum, terms: list[Floats], size: int, divisor: int = 1) -> Floats:
    """g of the sum of f, or of the mean."""
    total = np.zeros(size)
    for term in terms:
        total = total + mapped(step.f, term)
    return mapped(step.g, total / divisor)


def by_the_equations(
    encoder: Encoder, x: Floats, edges: Tensor, job: list[int], observation: list[int]
) -> tuple[Floats, Floats, Floats]:
    """e, y and z of the module's docstring, node by node: a node asks its children first."""
    children: dict[int, list[int]] = {node: [] for node in range(len(x))}
    for parent, child in edges.T.tolist():
        children[parent].append(child)
    size, known = encoder.config.embedding, dict[int, Floats]()

    def node(number: int) -> Floats:
        if number not in known:
            embedded = mapped(encoder.lift, x[number])
            if children[number] and encoder.config.messages:
                below = [node(child) for child in children[number]]
                embedded = embedded + two_level(encoder.node_sum, below, size)
            known[number] = embedded
        return known[number]

    e = np.stack([node(number) for number in range(len(x))])
    rows = np.concatenate([x, e], axis=1)
    owner = np.array(job)
    y = np.stack(
        [
            two_level(encoder.job_sum, list(rows[owner == number_of]), size)
            for number_of in range(max(job) + 1)
        ]
    )
    seen_by = np.array(observation)
    parts = [list(y[seen_by == number_of]) for number_of in range(max(observation) + 1)]
    z = np.stack([two_level(encoder.cluster_sum, own, size, max(1, len(own))) for own in parts])
    return e, y, z


def test_a_graph_of_pyg_embeds_as_its_levels_do() -> None:
    """By tensors, by a `Data` and by a `Batch`; rows come back in their order."""
    encoder = encoder_of(CONFIGS["full"])
    graphs = [Data(*random_dag(seed)) for seed in range(3)]
    alone = [encoder(graph) for graph in graphs]
    for graph, embeddings in zip(graphs, alone, strict=True):
        expected = embedded(encoder, graph.x, graph.edge_index)
        torch.testing.assert_close(embeddings.node, expected)
        torch.testing.assert_close(encoder(graph.x, graph.edge_index).cluster, embeddings.cluster)
    together = encoder(Batch.from_data_list(graphs))
    torch.testing.assert_close(together.node, torch.cat([each.node for each in alone]))
    torch.testing.assert_close(together.job, torch.cat([each.job for each in alone]))
    of = torch.stack((torch.arange(3), torch.zeros(3, dtype=torch.int64)))
    torch.testing.assert_close(together.cluster, encoder.cluster(together.job, of, 1))
    numbers = torch.randperm(len(graphs[0].x))
    shuffled = encoder(graphs[0].x[numbers], numbers.argsort()[graphs[0].edge_index])
    torch.testing.assert_close(shuffled.node, alone[0].node[numbers])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"edge_index": torch.tensor([[0, 1], [1, 0]])}, "contain a cycle"),
        ({"edge_index": torch.tensor([[0], [0]])}, "contain a cycle"),
        ({"edge_index": torch.tensor([[0], [3]])}, "name nodes 0 to 3, there are 3"),
        ({"edge_index": torch.tensor([[-1], [2]])}, "name nodes -1 to 2"),
        ({"edge_index": torch.tensor([[0.0], [1.0]])}, "must be int64"),
        ({"edge_index": torch.tensor([0, 1])}, "must be int64 of shape"),
        ({"edge_index": None}, "needs x and edge_index"),
        ({"x": torch.zeros(1, FEATURES).double()}, "name nodes 0 to 1, there are 1"),
        ({"x": torch.zeros(3, FEATURES + 2).double()}, r"x must have shape \(3, 3\)"),
        ({"batch": torch.tensor([0, 0])}, r"job must be int64 of shape \(3,\)"),
        ({"batch": torch.tensor([0, 0, -1])}, "batch names job -1"),
    ],
)
def test_a_graph_that_is_no_dag_is_refused(change: dict[str, Tensor | None], message: str) -> None:
    graph = Data(x=torch.zeros(3, FEATURES).double(), edge_index=torch.tensor([[0], [1]]))
    with raises_one_line(ValueError, match=message):
        encoder_of(CONFIGS["full"])(graph.update(change))


def by_the_encoder(
    encoder: Encoder, x: Tensor, edges: Tensor, job: list[int], observation: list[int]
) -> tuple[Tensor, Tensor, Tensor]:
    e = embedded(encoder, x, edges)
    y = encoder.jobs(x, e, torch.tensor(job), max(job) + 1)
    of = torch.stack((torch.arange(len(y)), torch.tensor(observation)))
    return e, y, encoder.cluster(y, of, max(observation) + 1)


JOBS = [number % 3 for number in range(14)]
OBSERVATIONS = [0, 2, 0]
"""of the three jobs; observation 1 has none"""


@each_config
@pytest.mark.parametrize("seed", range(3))
def test_embeddings_are_those_of_the_equations(config: EncoderConfig, seed: int) -> None:
    """Message passing of all levels at once, against a recursion over single nodes."""
    x, edges = random_dag(seed)
    encoder = encoder_of(config)
    wanted = by_the_equations(encoder, x.numpy(), edges, JOBS, OBSERVATIONS)
    by_hand = by_the_encoder(encoder, x, edges, JOBS, OBSERVATIONS)
    for embedding, other in zip(by_hand, wanted, strict=True):
        np.testing.assert_allclose(embedding.detach().numpy(), other, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("hidden", [(8,), (16, 8), (12, 10, 8)])
@pytest.mark.parametrize("rows", [0, 1, 30])
def test_a_head_is_a_perceptron_of_joined_rows(hidden: tuple[int, ...], rows: int) -> None:
    """Three tables: each row of the first has one of the second, each of those the same third."""
    torch.manual_seed(rows)
    head = Head((3, 5, 2), hidden).double()
    torch.nn.init.normal_(head.last.weight)
    index = torch.randint(4, (rows,))
    tables = (
        (torch.randn(rows, 3).double(), index),
        (torch.randn(4, 5).double(), torch.zeros(4, dtype=torch.int64)),
        (torch.randn(1, 2).double(), None),
    )
    joined = torch.cat([tables[0][0], tables[1][0][index], tables[2][0].expand(rows, 2)], dim=1)
    layer = torch.cat([part.get_parameter("weight") for part in head.parts], dim=1)
    value = joined @ layer.T + head.parts[0].get_parameter("bias")
    for one in (*head.body, head.last):
        value = one(torch.where(value > 0, value, 0.2 * value))
    torch.testing.assert_close(head(*tables), value.squeeze(1), rtol=1e-9, atol=1e-9)
