"""Appendix E: two-level sums can express a critical path, one-level sums cannot."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor, nn
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader
from torch_geometric.utils import scatter, softmax

from decima.reproduce.bench import TRACE, Bench
from decima.rl.drawing import Measured, panels
from gnn.config import EncoderConfig
from gnn.encoder import Encoder
from traces import JobGraphs, load_trace

_SIZE = 16
_BATCH = 32
_RATE = 3e-3
_POINTS = 10
"""points of a learning curve"""
_LEARNED = tuple(f"any-dag-{number}" for number in range(1, 21))
_TESTED = {
    "random jobs": tuple(f"any-dag-{number}" for number in range(1001, 1011)),
    TRACE: (TRACE,),
}
_NEAR = 0.99
"""a stage with this share of the longest path counts as it"""


def appendix_e(bench: Bench) -> dict[str, Any]:
    """Accuracy at naming the longest stage while encoders of both kinds learn."""
    learned = labelled_graphs(_LEARNED)
    tests = {
        name: Batch.from_data_list(labelled_graphs(traces)) for name, traces in _TESTED.items()
    }
    curves = {
        name: _learned(bench, two_level, learned, tests)
        for name, two_level in (("two-level sums", True), ("one-level sums", False))
    }
    return {
        "steps": _steps(bench),
        "accuracy": curves,
        "here": {
            f"accuracy of {name}": ", ".join(
                f"{values[-1]:.0%} ({jobs})" for jobs, values in curve.items()
            )
            for name, curve in curves.items()
        },
    }


def _steps(bench: Bench) -> list[int]:
    """Gradient steps after which accuracy is measured."""
    return [bench.scale.encoder_steps * point // _POINTS for point in range(1, _POINTS + 1)]


def labelled_graphs(traces: Iterable[str]) -> list[Data]:
    """Jobs in which several stages could start first: durations over their mean, and the longest.

    `is_first` (V,) marks the stages that could start first, `is_longest` (V,) those of them with
    the longest critical path.
    """

    def labelled(graph: Data) -> Data:
        graph.x = graph.task_s[:, None] / graph.task_s.mean()
        graph.is_first = torch.ones(len(graph.task_s), dtype=torch.bool)
        graph.is_first[graph.edge_index[1]] = False
        longest_s = graph.critical_path_s[graph.is_first].max()
        graph.is_longest = graph.is_first & (graph.critical_path_s >= _NEAR * longest_s)
        return graph

    graphs = (graph for name in traces for graph in JobGraphs(load_trace(name), labelled))
    return [graph for graph in graphs if graph.is_first.sum() > 1]


class _Scorer(nn.Module):
    """Score of each stage: an encoder, and a linear layer on its embeddings."""

    def __init__(self, two_level: bool) -> None:
        super().__init__()
        self.encoder = Encoder(1, EncoderConfig(_SIZE, (_SIZE,), two_level=two_level))
        self.last = nn.Linear(_SIZE, 1)

    def forward(self, graphs: Data) -> Tensor:
        """Return (V,) scores."""
        scores: Tensor = self.last(self.encoder(graphs.x, graphs.edge_index).node)
        return scores.squeeze(1)


def _learned(
    bench: Bench, two_level: bool, learned: list[Data], tests: dict[str, Batch]
) -> dict[str, list[float]]:
    """Train an encoder; accuracy on each test after each of `_steps`."""
    torch.manual_seed(bench.seed)
    scorer = _Scorer(two_level)
    optimiser = torch.optim.Adam(scorer.parameters(), lr=_RATE)
    steps = _steps(bench)
    decay = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps[-1])
    batches = DataLoader(learned, _BATCH, shuffle=True)
    epochs = itertools.chain.from_iterable(itertools.repeat(batches))
    curve: dict[str, list[float]] = {name: [] for name in tests}
    for step, graphs in enumerate(itertools.islice(epochs, steps[-1]), start=1):
        probability = softmax(scorer(graphs)[graphs.is_first], graphs.batch[graphs.is_first])
        named = probability * graphs.is_longest[graphs.is_first]
        loss = -scatter(named, graphs.batch[graphs.is_first]).log().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        decay.step()
        if step in steps:
            with torch.no_grad():
                for name, test in tests.items():
                    curve[name].append(accuracy(scorer(test), test))
    return curve


def accuracy(scores: Tensor, graphs: Batch) -> float:
    """Share of the jobs whose stage of the highest score, of those that could start first, is the
    longest.
    """
    named = 0.0
    for job in range(graphs.num_graphs):
        first = (graphs.is_first & (graphs.batch == job)).nonzero().flatten()
        named += float(graphs.is_longest[first[scores[first].argmax()]])
    return named / int(graphs.num_graphs)


def draw_appendix_e(measured: Measured) -> Figure:
    """Accuracy over gradient steps, a panel for each test."""
    figure, axes_of = panels(len(_TESTED))
    for axes, jobs in zip(axes_of, _TESTED, strict=True):
        for name, curve in measured["accuracy"].items():
            axes.plot(measured["steps"], curve[jobs], label=name)
        axes.set(xlabel="gradient steps", ylabel="accuracy", ylim=(0, 1.02))
        axes.set_title(jobs, fontsize=9)
    axes_of[0].legend(frameon=False)
    return figure
