"""`RewardLearner`: the training of a reward model, as the loop of `decima.rl` runs it.

Source: Harmony, section V-C.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from decima.rl.optimiser import Optimiser, one_thread
from decima.rl.study.learner import NetworkLearner
from decima.rl.study.streams import Purpose, seed_of
from harmony.interference import Samples, draw_samples, relative_error
from harmony.models import new_reward_model
from harmony.network import RewardModel
from harmony.tables import Float64, Int32
from harmony.training_config import RewardConfig

CLOSE = 0.1
"""relative error up to which a prediction counts as close"""
_AT_ONCE = 1_024


class RewardLearner(NetworkLearner[RewardModel]):
    """Weights, optimiser and samples; an iteration is one pass over the samples."""

    def __init__(self, config: RewardConfig) -> None:
        self._config = config
        network = new_reward_model(config.size, config.seed)
        super().__init__(network, Optimiser(network, config.learning_rate, max_norm=1.0))
        self._samples, self._held_out = split(config)

    def iterate(self, iteration: int) -> Mapping[str, float]:
        r"""Learn from every sample once, in an order of the iteration's own.

        The loss is the mean relative error of all jobs of a minibatch.

        .. math:: L = \frac{1}{N} \sum_n |c_n - c'_n| / c'_n
        """
        config = self._config
        fall = config.final_learning_rate / config.learning_rate
        self.network.train()
        rng = np.random.default_rng(seed_of(config.seed, Purpose.BATCHES, iteration))
        order = rng.permutation(len(self._samples.speed)).astype(np.int32)
        steps = -(-len(order) // config.minibatch)
        total = 0.0
        for step in range(steps):
            batch = order[step * config.minibatch : (step + 1) * config.minibatch]
            done = (iteration + step / steps) / config.iterations
            samples = self._samples.rows(batch)
            is_job = torch.from_numpy(samples.running.is_job)
            speed = torch.from_numpy(samples.speed).float()[is_job]
            loss = ((self.network(samples.running)[is_job] - speed).abs() / speed).mean()
            torch.autograd.backward(loss)
            self._move(config.learning_rate * math.exp(done * math.log(fall)))
            total += float(loss.detach()) / steps
        return {"relative_error": total}

    def validate(self) -> Mapping[str, float]:
        """Mean relative error on what is held out, and the share of predictions within 10 %.

        Returns:
            both, and "score": the error.
        """
        error = relative_error(predict(self.network, self._held_out), self._held_out)
        mean = float(error.mean())
        return {"score": mean, "held_out_error": mean, "close": float((error < CLOSE).mean())}

    def state(self) -> dict[str, Tensor]:
        """Parameters, running means of the normalisation, and what the optimiser remembers."""
        norm = {
            f"norm.{name}": buffer.clone() for name, buffer in self.network.norm.named_buffers()
        }
        return {**super().state(), **norm}

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Continue from what `state` gave; see the base."""
        super().load(state)
        for name, buffer in self.network.norm.named_buffers():
            buffer.copy_(state[f"norm.{name}"])


def split(config: RewardConfig) -> tuple[Samples, Samples]:
    """The samples that are learned from, and those that are held out."""
    samples = draw_samples(config.cluster, config.samples, config.seed)
    held_out = int(config.held_out * config.samples)
    order = np.arange(config.samples, dtype=np.int32)
    return samples.rows(order[held_out:]), samples.rows(order[:held_out])


def predict(network: RewardModel, samples: Samples) -> Float64:
    """(n, N) epochs a minute; rows without a job have numbers that mean nothing."""
    network.eval()
    parts = []
    with one_thread(), torch.no_grad():
        for first in range(0, len(samples.speed), _AT_ONCE):
            chosen: Int32 = np.arange(first, min(first + _AT_ONCE, len(samples.speed)), dtype="i4")
            parts.append(network(samples.running.rows(chosen)).double().numpy())
    return np.concatenate(parts)
