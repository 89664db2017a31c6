"""Node embeddings learn critical paths (Decima, appendix E), beside layers of PyTorch Geometric.

Each network sees a stage's mean task duration and predicts its critical path: the longest chain of
durations from the stage to the end of its job. It is trained on random jobs, and tested on others
and on the jobs of `tpch`. A critical path is a maximum of sums, which one sum over the children
cannot express; the second transform of Decima's sums can. Printed are the mean error of the length,
and how often the longest of the stages that could start first is named.

    python examples/critical_path.py
    python examples/critical_path.py --steps 3000 --seed 1
"""

import argparse
import itertools

import torch
from torch import Tensor, nn
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GATConv, GCNConv, Sequential
from torch_geometric.utils import degree

from gnn.config import EncoderConfig
from gnn.encoder import Encoder
from traces import JobGraphs, load_trace

SIZE, LAYERS, BATCH = 16, 4, 32
TRAINED_ON = [f"any-dag-{number}" for number in range(1, 21)]
TESTED_ON = {
    "random jobs": [f"any-dag-{number}" for number in range(1001, 1011)],
    "tpch": ["tpch"],
}


def scaled(graph: Data) -> Data:
    """Durations and critical paths over the mean duration of the job's stages."""
    mean = graph.task_s.mean()
    graph.x, graph.y = graph.task_s[:, None] / mean, graph.critical_path_s / mean
    return graph


def graphs_of(traces: list[str]) -> list[Data]:
    """All jobs of these traces."""
    return [graph for name in traces for graph in JobGraphs(load_trace(name), scaled)]


class Decima(nn.Module):
    """The encoder of this project, and one linear layer on e_v."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.encoder, self.last = Encoder(1, config), nn.Linear(config.embedding, 1)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        predicted: Tensor = self.last(self.encoder(x, edge_index).node)
        return predicted


def convolutions(layer: type[nn.Module]) -> nn.Module:
    """`LAYERS` graph convolutions, which send from children to parents as Decima does."""
    steps: list[object] = []
    for width in [1] + [SIZE] * (LAYERS - 1):
        steps += [(layer(width, SIZE, flow="target_to_source"), "x, edge_index -> x"), nn.ReLU()]
    network: nn.Module = Sequential("x, edge_index", [*steps, nn.Linear(SIZE, 1)])
    return network


def accuracy(predicted: Tensor, graphs: Batch) -> float:
    """How often the root with the longest critical path is predicted to have it."""
    root = degree(graphs.edge_index[1], graphs.num_nodes) == 0
    named = []
    for job in range(graphs.num_graphs):
        rows = (root & (graphs.batch == job)).nonzero().flatten()
        if len(rows) > 1:
            chosen = rows[predicted[rows].argmax()]
            named.append(bool(graphs.y[chosen] >= 0.99 * graphs.y[rows].max()))
    return sum(named) / max(1, len(named))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=1500, help="gradient steps of each network")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    torch.manual_seed(arguments.seed)
    train = DataLoader(graphs_of(TRAINED_ON), BATCH, shuffle=True)
    tests = [Batch.from_data_list(graphs_of(traces)) for traces in TESTED_ON.values()]
    networks = {
        "Decima, two-level sums": Decima(EncoderConfig(SIZE, (SIZE,))),
        "Decima, one-level sums": Decima(EncoderConfig(SIZE, (SIZE,), two_level=False)),
        f"GCN, {LAYERS} layers": convolutions(GCNConv),
        f"GAT, {LAYERS} layers": convolutions(GATConv),
    }
    print(f"{'':24}" + "".join(f"{name:>16} error, named" for name in TESTED_ON))
    for name, network in networks.items():
        optimizer = torch.optim.Adam(network.parameters(), lr=3e-3)
        decay = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, arguments.steps)
        epochs = itertools.chain.from_iterable(itertools.repeat(train))
        for graphs in itertools.islice(epochs, arguments.steps):
            predicted = network(graphs.x, graphs.edge_index).squeeze(1)
            loss = ((predicted - graphs.y) / (1 + graphs.y)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            decay.step()
        row = f"{name:24}"
        with torch.no_grad():
            for graphs in tests:
                predicted = network(graphs.x, graphs.edge_index).squeeze(1)
                error = ((predicted - graphs.y).abs() / graphs.y).mean()
                row += f"{100 * error:20.1f} % {100 * accuracy(predicted, graphs):5.1f} %"
        print(row)


if __name__ == "__main__":
    main()
