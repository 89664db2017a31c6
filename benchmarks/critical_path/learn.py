"""Fit an encoder with a linear readout to the critical path of every stage, and grade it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import smooth_l1_loss

from benchmarks.critical_path.questions import NUM_FEATURES, Batch, Question, batch
from gnn.config import EncoderConfig
from gnn.encoder import Encoder

CLOSE = 0.01  # largest relative shortfall of a stage's critical path that counts as close


@dataclass(frozen=True)
class ProbeConfig:
    """Settings of the readout's training."""

    steps: int = 12_000
    """gradient steps"""
    questions_per_step: int = 64
    learning_rate: float = 5e-3
    """peak; the rate rises over `warmup_steps`, then falls to zero along a cosine"""
    warmup_steps: int = 100
    scale: tuple[float, float] = (0.7, 2.0)
    """mean work of a question's stages, drawn log-uniformly: larger DAGs have longer paths"""
    smallest_path: float = 0.3
    """least path length for relative errors"""
    tolerance: float = 0.02
    """relative errors above this count linearly, below quadratically"""
    sharpness: float = 100.0
    """a path that is 1 % longer is named e^(sharpness / 100) times as often"""
    naming_weight: float = 0.1
    """weight of the loss of naming against that of the lengths"""

    def rate(self, step: int) -> float:
        """Learning rate of step 0, 1, ..."""
        rise = min(1.0, (step + 1) / self.warmup_steps)
        return self.learning_rate * rise * (0.5 + 0.5 * math.cos(math.pi * step / self.steps))


class Probe(nn.Module):
    """Encoder and readout. The readout is linear: the embedding itself must hold the answer."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.encoder = Encoder(NUM_FEATURES, config)
        self.readout = nn.Linear(config.embedding, 1)

    def forward(self, asked: Batch) -> Tensor:
        """(V,) critical path of every node."""
        length: Tensor = self.readout(self.encoder.nodes(asked.x, asked.levels)).squeeze(1)
        return length


def fit(
    probe: Probe,
    questions: Sequence[Question],
    config: ProbeConfig,
    rng: np.random.Generator,
    progress: Callable[[int], None] = lambda _step: None,
) -> None:
    """Train `probe` in place on batches of `questions` that `rng` draws."""
    # A short memory of squared gradients: rare, long paths make single batches steep.
    optimizer = torch.optim.Adam(probe.parameters(), betas=(0.9, 0.98))
    low, high = np.log(config.scale)
    for step in range(config.steps):
        chosen = rng.integers(len(questions), size=config.questions_per_step)
        scale = np.exp(rng.uniform(low, high, len(chosen)))
        asked = batch([questions[index] for index in chosen], scale)
        optimizer.param_groups[0]["lr"] = config.rate(step)
        optimizer.zero_grad()
        loss(probe(asked), asked, config).backward()  # type: ignore[no-untyped-call]  # torch's
        nn.utils.clip_grad_norm_(probe.parameters(), 1.0)
        optimizer.step()
        progress(step + 1)


def loss(length: Tensor, asked: Batch, config: ProbeConfig) -> Tensor:
    """Relative error of all lengths (V,), and cross-entropy of naming the longest runnable one."""
    unit = asked.critical_path + config.smallest_path
    lengths = smooth_l1_loss(length / unit, asked.critical_path / unit, beta=config.tolerance)
    rows = asked.runnable.nonzero().squeeze(1)
    group = asked.question[rows]
    longest = _largest(asked.critical_path[rows], group, asked.num_questions)
    score = config.sharpness * length[rows] / longest[group]
    score = score - _largest(score.detach(), group, asked.num_questions)[group]
    total = score.new_zeros(asked.num_questions).index_add(0, group, score.exp())
    right = asked.critical_path[rows] == longest[group]
    naming = (total.log()[group] - score)[right].mean()
    return lengths + config.naming_weight * naming


def _largest(values: Tensor, group: Tensor, num_groups: int) -> Tensor:
    """(N,), (N,) -> (num_groups,) largest value of each group, none of which is empty."""
    lowest = values.new_full((num_groups,), -math.inf)
    return lowest.scatter_reduce(0, group, values, "amax")


@dataclass(frozen=True)
class Grade:
    """Shares of questions and mean errors, all between 0 and 1."""

    accuracy: float  # share with the longest critical path
    close: float  # share with a critical path at most `CLOSE` shorter than the longest
    relative_error: float  # mean |length - true length| / true length over runnable stages


def grade(length: Tensor, asked: Batch) -> Grade:
    """Name in each question the runnable stage of the largest `length` (V,)."""
    rows = asked.runnable.nonzero().squeeze(1)
    group, said, true = asked.question[rows], length[rows], asked.critical_path[rows]
    named = said == _largest(said, group, asked.num_questions)[group]
    # Of tied stages the worst counts, so that naming all of them is no answer.
    found = -_largest(-true[named], group[named], asked.num_questions)
    longest = _largest(true, group, asked.num_questions)
    return Grade(
        accuracy=float((found == longest).float().mean()),
        close=float((found >= (1 - CLOSE) * longest).float().mean()),
        relative_error=float(((said - true).abs() / true).mean()),
    )
