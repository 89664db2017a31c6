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

from decima.reproduce.bench import TRACE, Bench
from decima.rl.drawing import Found, panels
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
    learned = _graphs(_LEARNED)
    tests = {name: Batch.from_data_list(_graphs(traces)) for name, traces in _TESTED.items()}
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


def _graphs(traces: Iterable[str]) -> list[Data]:
    """All jobs of these traces, durations and paths over the job's mean duration."""

    def scaled(graph: Data) -> Data:
        mean_s = graph.task_s.mean()
        graph.x, graph.y = graph.task_s[:, None] / mean_s, graph.critical_path_s / mean_s
        return graph

    return [graph for name in traces for graph in JobGraphs(load_trace(name), scaled)]


class _Predictor(nn.Module):
    """Critical path of each stage: an encoder, and a linear layer on its embeddings."""

    def __init__(self, two_level: bool) -> None:
        super().__init__()
        self.encoder = Encoder(1, EncoderConfig(_SIZE, (_SIZE,), two_level=two_level))
        self.last = nn.Linear(_SIZE, 1)

    def forward(self, graphs: Data) -> Tensor:
        """Return (V,) paths in mean durations of the job."""
        predicted: Tensor = self.last(self.encoder(graphs.x, graphs.edge_index).node)
        return predicted.squeeze(1)


def _learned(
    bench: Bench, two_level: bool, learned: list[Data], tests: dict[str, Batch]
) -> dict[str, list[float]]:
    """Train an encoder; accuracy on each test after each of `_steps`."""
    torch.manual_seed(bench.seed)
    predictor = _Predictor(two_level)
    optimiser = torch.optim.Adam(predictor.parameters(), lr=_RATE)
    steps = _steps(bench)
    decay = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps[-1])
    batches = DataLoader(learned, _BATCH, shuffle=True)
    epochs = itertools.chain.from_iterable(itertools.repeat(batches))
    curve: dict[str, list[float]] = {name: [] for name in tests}
    for step, graphs in enumerate(itertools.islice(epochs, steps[-1]), start=1):
        # Relative errors: a long path must not outweigh the many short ones.
        loss = ((predictor(graphs) - graphs.y) / (1 + graphs.y)).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        decay.step()
        if step in steps:
            with torch.no_grad():
                for name, test in tests.items():
                    curve[name].append(_accuracy(predictor(test), test))
    return curve


def _accuracy(predicted: Tensor, graphs: Batch) -> float:
    """Share of the jobs of several roots whose longest root is predicted to be it."""
    is_root = torch.ones(graphs.num_nodes, dtype=torch.bool)
    is_root[graphs.edge_index[1]] = False
    named = []
    for job in range(graphs.num_graphs):
        roots = (is_root & (graphs.batch == job)).nonzero().flatten()
        if len(roots) > 1:
            chosen = roots[predicted[roots].argmax()]
            named.append(bool(graphs.y[chosen] >= _NEAR * graphs.y[roots].max()))
    return sum(named) / max(1, len(named))


def draw_appendix_e(found: Found) -> Figure:
    """Accuracy over gradient steps, a panel for each test."""
    figure, axes_of = panels(len(_TESTED))
    for axes, jobs in zip(axes_of, _TESTED, strict=True):
        for name, curve in found["accuracy"].items():
            axes.plot(found["steps"], curve[jobs], label=name)
        axes.set(xlabel="gradient steps", ylabel="accuracy", ylim=(0, 1.02))
        axes.set_title(jobs, fontsize=9)
    axes_of[0].legend(frameon=False)
    return figure
