"""Trainings of a policy and of a reward model, as the loop of `decima.rl` runs them.

Source: Harmony, sections IV, V-B and V-C.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from decima.rl.losses import (
    clipped_ratio_loss,
    entropy_loss,
    normalised,
    policy_gradient_loss,
    value_loss,
)
from decima.rl.optimiser import Optimiser, flat_parameters, one_thread, set_flat_parameters
from decima.rl.study.learner import LOWEST, NetworkLearner, entropy_of, taken_of
from decima.rl.study.streams import Draws, Purpose, seed_of
from harmony.clusters import Clusters, Predictor
from harmony.config import Config
from harmony.evaluation import completion_of
from harmony.interference import Samples, draw_samples, fit_pairs, relative_error
from harmony.jobs import draw_jobs
from harmony.models import Learned, new_network, new_reward_model
from harmony.network import ActorCritic, RewardModel
from harmony.rollouts import (
    VALUE_SCALE,
    Branches,
    Sure,
    Teacher,
    advantages_of,
    numbered_on,
    returns_of,
    roll_out,
)
from harmony.schedulers import LoadBalance, Lookahead, Scheduler, Tiresias
from harmony.tables import Float64, Int32, Jobs
from harmony.training_config import RewardConfig, TrainConfig

_MEMORY = 0.9
"""of the moving average of returns, from one iteration to the next"""


Workload = tuple[Config, Jobs]
"""a cluster, and sequences that are played in it"""
CLOSE = 0.1
"""relative error up to which a prediction counts as close"""
_AT_ONCE = 1_024


class HarmonyLearner(NetworkLearner[ActorCritic]):
    """Weights and optimiser; sequences and choices are drawn from (seed, iteration).

    Args:
        config: of the training.
        predictor: the reward model that stands in for the clusters; None: their own speeds.
    """

    def __init__(self, config: TrainConfig, predictor: Predictor | None = None) -> None:
        self._config = config
        self._predictor = predictor
        self._order = Tiresias(config.cluster)
        network = new_network(config.size, config.seed)
        super().__init__(network, Optimiser(network, config.learning_rate, config.max_norm))
        self._mean_return: Tensor | None = None
        self._spare: ActorCritic = new_network(config.size, config.seed)
        self._averaged = flat_parameters(self.network)

    def begin_with(self, network: ActorCritic) -> None:
        """Take over the weights of a network of the same size."""
        super().begin_with(network)
        self._averaged = flat_parameters(self.network)

    def iterate(self, iteration: int) -> Mapping[str, float]:
        """Fill the buffer with choices, then learn from minibatches of it.

        They are of sequences of each pattern, with about `replay` choices in all.
        """
        config = self._config
        wanted = config.replay / (config.cluster.jobs * config.cluster.mean_tasks)
        count = max(1, round(wanted / len(config.patterns)))
        clusters = [config.cluster.arriving(pattern) for pattern in config.patterns]
        first = iteration * count
        workloads = [
            (cluster, draw_jobs(cluster, count, config.seed, Purpose.TRAINING, first))
            for cluster in clusters
        ]
        return self.learn_on(iteration, workloads)

    def learn_on(self, iteration: int, workloads: Sequence[Workload]) -> Mapping[str, float]:
        """Place the jobs of some sequences, then learn from minibatches of the choices."""
        config = self._config
        remaining = 1.0 - iteration / config.iterations
        imitates = iteration < config.imitation
        parts, completion = [], []
        for number, (cluster, jobs) in enumerate(workloads):
            clusters = Clusters(
                cluster,
                jobs,
                seed=config.seed + iteration,
                discount=config.discount,
                priority=self._order.priority(jobs),
                predictor=self._predictor,
            )
            draws = Draws(config.seed, len(clusters), iteration, number)
            teacher = self._teacher if imitates else None
            exploration = 0.0 if imitates else config.exploration * remaining
            parts.append(roll_out(self.network, clusters, draws, exploration, teacher))
            completion.append(clusters.mean_completion().mean())
        played = numbered_on(parts)

        returns = returns_of(played, config.discount)
        if config.critic:
            advantage = advantages_of(played, config.discount, config.smoothing)
        else:
            now = torch.tensor([returns.mean()])
            mean_return = now if self._mean_return is None else self._mean_return
            advantage = returns - float(mean_return)
            self._mean_return = _MEMORY * mean_return + (1.0 - _MEMORY) * now
        advantage = normalised(
            torch.from_numpy(advantage), float(advantage.mean()), float(advantage.std())
        ).numpy()

        fall = config.learning_rate - config.final_learning_rate
        rate = config.learning_rate - (1.0 - remaining) * fall
        rng = np.random.default_rng(seed_of(config.seed, Purpose.BATCHES, iteration))
        batches = self._batches(len(returns), rng)
        means: dict[str, float] = {}
        for batch in batches:
            scene = played.scene.rows(batch).trimmed()
            log_prob = self.network.policy(scene).log_softmax(1)
            entropy = entropy_of(log_prob)
            figures = {"entropy": float(entropy.detach().mean())}
            if imitates:
                target = torch.from_numpy(played.target[batch])
                loss = -(target * log_prob.clamp(min=LOWEST)).sum(1).mean()
                figures["imitation_loss"] = float(loss.detach())
            else:
                taken = taken_of(log_prob, torch.from_numpy(played.action[batch]))
                gain = torch.from_numpy(advantage[batch]).float()
                if config.clip == 0.0:
                    loss = policy_gradient_loss(taken, gain)
                else:
                    old = torch.from_numpy(played.log_prob[batch]).float().clamp(min=LOWEST)
                    loss = clipped_ratio_loss(taken, old, gain, config.clip).loss
                loss = loss + entropy_loss(entropy, remaining * config.entropy)
            if config.critic:
                target = torch.from_numpy(returns[batch] / VALUE_SCALE).float()
                error = value_loss(self.network.value(scene), target)
                figures["value_loss"] = float(error.detach())
                loss = loss + error
            torch.autograd.backward(loss)
            figures["gradient_norm"] = self._move(rate)
            for name, figure in figures.items():
                means[name] = means.get(name, 0.0) + figure / len(batches)

        reached = flat_parameters(self.network)
        self._averaged = torch.lerp(self._averaged, reached, 1.0 / config.average_iterations)
        return {
            **means,
            "completion_intervals": float(np.mean(completion)),
            "reward": float(played.reward.sum() / len(np.unique(played.episode))),
            "choices": float(len(played.reward)),
        }

    def validate(self) -> Mapping[str, float]:
        """Mean completion time of the averaged weights on held-back sequences, in intervals.

        Returns:
            each pattern's, and "score": the mean of their logarithms.
        """
        scheduler = Learned(self._averaged_network().policy, self._config.cluster)
        return validation_of(scheduler, self._config)

    def state(self) -> dict[str, Tensor]:
        """Parameters, what the optimiser remembers, and two moving averages."""
        none = torch.zeros(0, dtype=torch.float64)
        return {
            **super().state(),
            "averaged": self._averaged.clone(),
            "mean_return": none if self._mean_return is None else self._mean_return,
        }

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Continue from what `state` gave; see the base."""
        super().load(state)
        self._averaged = state["averaged"].clone()
        self._mean_return = state["mean_return"] if len(state["mean_return"]) else None

    def model_state(self) -> dict[str, Tensor]:
        """The averaged weights by name."""
        return dict(self._averaged_network().state_dict())

    def _averaged_network(self) -> ActorCritic:
        set_flat_parameters(self._spare, self._averaged)
        return self._spare

    @cached_property
    def _teacher(self) -> Teacher:
        """Teacher to imitate; the lookahead goes by a table fitted to samples."""
        config = self._config
        scheduler: LoadBalance | Lookahead = LoadBalance()
        if config.teacher == "lookahead":
            samples = draw_samples(config.cluster, config.samples, config.seed)
            scheduler = Lookahead(fit_pairs(config.cluster, samples))
        if config.tau == 0.0:
            return Sure(scheduler)
        return Branches(scheduler, config.tau, config.coming)

    def _batches(self, count: int, rng: np.random.Generator) -> list[Int32]:
        """Minibatches of choices: drawn at random from the buffer, or as they came."""
        size = min(self._config.minibatch, count)
        number = max(1, round(self._config.passes * count / size))
        if not self._config.shuffled:
            starts = (size * np.arange(number)) % max(1, count - size + 1)
            return [np.arange(at, at + size, dtype=np.int32) for at in starts]
        return [rng.choice(count, size, replace=False).astype(np.int32) for _ in range(number)]


def validation_of(scheduler: Scheduler, config: TrainConfig) -> dict[str, float]:
    """Mean completion time on the sequences that choose the best weights, in intervals.

    Returns:
        each pattern's, and "score": the mean of their logarithms.
    """
    figures: dict[str, float] = {}
    for pattern in config.patterns:
        cluster = config.cluster.arriving(pattern)
        count, seed = config.validation_sequences, config.seed
        jobs = draw_jobs(cluster, count, seed, Purpose.VALIDATION)
        figures[pattern] = float(completion_of(scheduler, cluster, jobs, seed).mean())
    return {"score": float(np.mean(np.log(list(figures.values())))), **figures}


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
