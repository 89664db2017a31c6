"""The encoder: the same whatever the order, the company and the batch; equal to its equations."""

from __future__ import annotations

import copy

import networkx as nx
import numpy as np
import pytest
import torch
from gnn.reference import ReferenceEncoder
from torch import Tensor

from gnn.encoder import Encoder, EncoderConfig
from gnn.heads import Head
from gnn.levels import Levels, levels_of

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


def heights_by_networkx(edges: Tensor, nodes: int) -> list[int]:
    graph = nx.DiGraph()
    graph.add_nodes_from(range(nodes))
    graph.add_edges_from(edges.T.tolist())
    height = dict.fromkeys(graph, 0)
    for node in reversed(list(nx.topological_sort(graph))):
        height[node] = max((height[child] + 1 for child in graph.successors(node)), default=0)
    return [height[node] for node in range(nodes)]


# --- levels --------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_levels_are_heights(seed: int) -> None:
    """Those of networkx; every edge leads from a lower level to a higher one."""
    x, edges = random_dag(seed)
    levels, order = levels_of(edges, len(x))
    height = heights_by_networkx(edges, len(x))
    level_of_row = np.repeat(np.arange(levels.num_levels), np.diff(levels.node_ptr))
    assert [height[node] for node in order.tolist()] == level_of_row.tolist()
    named = torch.stack((order[levels.parent], order[levels.child])).T.tolist()
    assert sorted(named) == sorted(edges.T.tolist())
    assert (level_of_row[levels.parent] > level_of_row[levels.child]).all()


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        (torch.tensor([[0, 1], [1, 0]]), "contain a cycle"),
        (torch.tensor([[0], [0]]), "contain a cycle"),
        (torch.tensor([[0], [3]]), "name nodes 0 to 3, there are 3"),
        (torch.tensor([[-1], [2]]), "name nodes -1 to 2"),
        (torch.tensor([[0.0], [1.0]]), "must be int64"),
        (torch.tensor([0, 1]), "must be int64 of shape"),
    ],
)
def test_what_is_no_dag_is_refused(edges: Tensor, message: str) -> None:
    """In one line that names the value."""
    with pytest.raises(ValueError, match=message) as caught:
        levels_of(edges, 3)
    assert "\n" not in str(caught.value)


# --- embeddings ----------------------------------------------------------------------------------


@each_config
@pytest.mark.parametrize("seed", range(3))
def test_embeddings_and_gradients_are_those_of_the_equations(
    config: EncoderConfig, seed: int
) -> None:
    """Against textbook message passing: e, y, z, and the gradient of each weight and feature."""
    x, edges = random_dag(seed)
    job = torch.arange(len(x)) % 3
    observation = torch.tensor([0, 1, 0])
    levels, order = levels_of(edges, len(x))

    def gradients(is_reference: bool) -> tuple[list[Tensor], list[Tensor]]:
        encoder = encoder_of(config)
        own = x.clone().requires_grad_()
        reference = ReferenceEncoder(encoder)
        if is_reference:
            e = reference.nodes(own, edges)
            y = reference.jobs(own, e, job, 3)
            z = reference.cluster(y, observation, 2)
        else:
            inverse = torch.empty_like(order)
            inverse[order] = torch.arange(len(order))
            e = encoder.nodes(own[order], levels)[inverse]
            y = encoder.jobs(own, e, job, 3)
            z = encoder.cluster(encoder.summands(y), observation, 2)
        (e.sin().sum() + y.cos().sum() + z.pow(2).sum()).backward()  # type: ignore[no-untyped-call]
        leaves = [own, *encoder.parameters()]
        return [e, y, z], [
            torch.zeros_like(leaf) if leaf.grad is None else leaf.grad for leaf in leaves
        ]

    for found, wanted in zip(gradients(False), gradients(True), strict=True):
        for one, other in zip(found, wanted, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


@each_config
@pytest.mark.parametrize("seed", range(3))
def test_compiled_code_embeds_as_torch_does(config: EncoderConfig, seed: int) -> None:
    """Of few nodes without gradients: e, y and what a job brings to z, against the equations."""
    x, edges = random_dag(seed)
    job = torch.arange(len(x)) % 3
    levels, order = levels_of(edges, len(x))
    encoder = encoder_of(config)
    reference = ReferenceEncoder(encoder)
    e = reference.nodes(x, edges)
    y = reference.jobs(x, e, job, 4)
    with torch.no_grad():
        found = encoder.embed(x[order], levels, job[order], 4)
    torch.testing.assert_close(found.e, e[order].detach(), rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(found.y, y.detach(), rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(found.added, encoder.f_cluster(y).detach(), rtol=1e-9, atol=1e-9)
    slow = encoder.embed(x[order], levels, job[order], 4)
    assert slow.e.requires_grad, "with gradients torch does it"
    torch.testing.assert_close(slow.e.detach(), found.e, rtol=1e-9, atol=1e-9)


def test_compiled_code_reads_weights_where_they_are_now() -> None:
    """Changed in place, cast or copied: never those of before."""
    x, edges = random_dag(0)
    job = torch.zeros(len(x), dtype=torch.int64)
    levels, order = levels_of(edges, len(x))
    encoder = encoder_of(CONFIGS["full"])

    def both(asked: Encoder, x: Tensor) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            found = asked.embed(x[order], levels, job, 1).added
        return found, asked.embed(x[order], levels, job, 1).added.detach()

    before, _ = both(encoder, x)
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter.mul_(1.5)
    after, wanted = both(encoder, x)
    assert not torch.allclose(before, after)
    torch.testing.assert_close(after, wanted)
    other = copy.deepcopy(encoder)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.mul_(0.5)
    torch.testing.assert_close(*both(other, x))
    torch.testing.assert_close(*both(encoder.float(), x.float()))


@each_config
def test_the_cluster_is_the_mean_over_its_jobs(config: EncoderConfig) -> None:
    """Each job ten times over is the same cluster; g3 of the mean of f3, and g3(0) of no job."""
    encoder = encoder_of(config)
    y = torch.from_numpy(np.random.default_rng(3).normal(size=(3, config.embedding)))
    once, often = (
        encoder.cluster(
            encoder.summands(y.repeat(times, 1)), torch.zeros(3 * times, dtype=torch.int64), 2
        )
        for times in (1, 10)
    )
    with torch.no_grad():  # in compiled code
        few = encoder.cluster(encoder.summands(y), torch.zeros(3, dtype=torch.int64), 2)
    torch.testing.assert_close(few, once.detach(), rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(often, once)
    torch.testing.assert_close(once[0], encoder.g_cluster(encoder.f_cluster(y).mean(0)))
    torch.testing.assert_close(once[1], encoder.g_cluster(torch.zeros_like(y[0])))


@each_config
def test_names_of_nodes_do_not_matter(config: EncoderConfig) -> None:
    """Permuted nodes give permuted embeddings, and the same summaries."""
    x, edges = random_dag(7)
    encoder = encoder_of(config)
    renamed = torch.from_numpy(np.random.default_rng(1).permutation(len(x)))
    other = torch.empty_like(x)
    other[renamed] = x
    e, e_other = embedded(encoder, x, edges), embedded(encoder, other, renamed[edges])
    torch.testing.assert_close(e_other[renamed], e)
    zero = torch.zeros(len(x), dtype=torch.int64)
    torch.testing.assert_close(encoder.jobs(other, e_other, zero, 1), encoder.jobs(x, e, zero, 1))


def test_a_change_reaches_the_nodes_above_and_no_others() -> None:
    """e_v depends on v and on what is below it."""
    x, edges = random_dag(3)
    graph = nx.DiGraph()
    graph.add_nodes_from(range(len(x)))
    graph.add_edges_from(edges.T.tolist())
    encoder = encoder_of(CONFIGS["full"])
    before = embedded(encoder, x, edges)
    for node in graph:
        changed = x.clone()
        changed[node] += 1.0
        after = embedded(encoder, changed, edges)
        moved = set((after != before).any(1).nonzero().flatten().tolist())
        assert moved == nx.ancestors(graph, node) | {node}


@each_config
def test_a_batch_is_its_graphs_one_by_one(config: EncoderConfig) -> None:
    """Jobs of different depth embedded together and alone."""
    encoder = encoder_of(config)
    dags = [random_dag(seed, nodes) for seed, nodes in ((0, 1), (1, 4), (2, 20), (3, 9))]
    first = np.cumsum([0] + [len(x) for x, _ in dags])[:-1]
    joined_x = torch.cat([x for x, _ in dags])
    joined = torch.cat(
        [edges + int(start) for (_, edges), start in zip(dags, first, strict=True)], dim=1
    )
    together = embedded(encoder, joined_x, joined)
    for (x, edges), start in zip(dags, first, strict=True):
        alone = embedded(encoder, x, edges)
        torch.testing.assert_close(together[start : start + len(x)], alone)


def test_ablations_leave_out_what_they_name() -> None:
    """Without messages the edges do not matter; with one level a second transform is absent."""
    x, edges = random_dag(5)
    no_edges = torch.empty((2, 0), dtype=torch.int64)
    for name in ("no-messages", "full"):
        encoder = encoder_of(CONFIGS[name])
        is_same = torch.equal(embedded(encoder, x, edges), embedded(encoder, x, no_edges))
        assert is_same == (name == "no-messages")
    sizes = {
        name: sum(parameter.numel() for parameter in encoder_of(config).parameters())
        for name, config in CONFIGS.items()
    }
    assert sizes["one-level"] == sizes["full"] - 3 * 2 * (8 * 8 + 8)


def test_only_the_two_level_sum_can_take_a_maximum() -> None:
    """What one level of transforms maps to sums of its children stays a sum (Decima, appendix E).

    Adding a copy of each child doubles what a sum passes on; g may undo it, the identity cannot.
    """
    x = torch.ones(3, FEATURES, dtype=torch.float64)
    one_child, two_children = torch.tensor([[0], [1]]), torch.tensor([[0, 0], [1, 2]])
    encoder = encoder_of(CONFIGS["one-level"])
    lifted = encoder.lift(x)[0]
    once = embedded(encoder, x, one_child)[0] - lifted
    twice = embedded(encoder, x, two_children)[0] - lifted
    torch.testing.assert_close(twice, 2 * once)
    encoder = encoder_of(CONFIGS["full"])
    lifted = encoder.lift(x)[0]
    once = embedded(encoder, x, one_child)[0] - lifted
    twice = embedded(encoder, x, two_children)[0] - lifted
    assert (twice - 2 * once).abs().max() > 1e-3


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (torch.zeros(2, FEATURES), r"x must have shape \(3, 3\), got \(2, 3\)"),
        (torch.zeros(3, FEATURES + 1), r"x must have shape \(3, 3\), got \(3, 4\)"),
    ],
)
def test_wrong_shapes_are_named(x: Tensor, message: str) -> None:
    """At the border, not inside a matrix product."""
    nothing = torch.empty(0, dtype=torch.int64)
    levels = Levels((0, 3), nothing, nothing, (0, 0))
    with pytest.raises(ValueError, match=message):
        Encoder(FEATURES, CONFIGS["full"]).nodes(x, levels)
    with pytest.raises(ValueError, match="embedding 0 must be at least 1"):
        EncoderConfig(embedding=0)
    with pytest.raises(ValueError, match="hidden"):
        EncoderConfig(hidden=(0,))


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


@pytest.mark.parametrize(("inputs", "hidden"), [((), (4,)), ((3,), ())])
def test_a_head_needs_tables_and_a_hidden_layer(
    inputs: tuple[int, ...], hidden: tuple[int, ...]
) -> None:
    with pytest.raises(ValueError, match="needs both"):
        Head(inputs, hidden)
