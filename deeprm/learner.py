"""`DeepRmLearner`: one training, as the loop of `decima.rl` runs it.

Source: DeepRM (HotNets 2016), figure 3.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from decima.rl.losses import entropy_loss, policy_gradient_loss
from decima.rl.optimiser import Optimiser, RmsProp, flat_parameters, set_flat_parameters
from decima.rl.study.learner import NetworkLearner, entropy_of, taken_of
from decima.rl.study.streams import Draws, Purpose, seed_of, torch_seed
from deeprm.episodes import Episodes
from deeprm.evaluation import TUNING_SETS, evaluate, score_of, tuned_hold
from deeprm.jobs import draw_jobs, stack
from deeprm.network import Input
from deeprm.objectives import Objective
from deeprm.rollouts import branched, imitated, roll_out
from deeprm.schedulers import SJF, AnyNetwork, Learned, Scheduler, new_network
from deeprm.tables import Float64, Int32, Jobs
from deeprm.training_config import TrainConfig

_PASSES = 2
"""uses of each decision with branches"""
_MAX_NORM = 1.0
"""of a gradient that Adam takes"""
_LARGEST = 8.0
"""means of its size that the excess of an action counts for at most"""
CHUNK = 2**16
"""decisions whose gradient is taken at once: it bounds the memory that takes"""


class DeepRmLearner(NetworkLearner[AnyNetwork]):
    """Weights and optimiser; job sets and choices are drawn from (seed, iteration)."""

    def __init__(self, config: TrainConfig) -> None:
        self._config = config
        self._objective = Objective(config.objective)
        generator = torch.Generator().manual_seed(torch_seed(config.seed))
        network = new_network(config, generator)
        optimiser: Optimiser = RmsProp(network, config.learning_rate, config.decay)
        if config.optimiser == "adam":
            optimiser = Optimiser(network, config.learning_rate, _MAX_NORM)
        super().__init__(network, optimiser)
        self._averaged = deepcopy(network)
        """what is validated and saved"""
        self._jobs = draw_jobs(config.cluster, config.job_sets, config.seed, Purpose.TRAINING)
        self._validation = stack(
            [
                draw_jobs(cluster, config.validation_sets, config.seed, Purpose.VALIDATION)
                for cluster in config.clusters
            ]
        )

    def begin_with(self, network: AnyNetwork) -> None:
        """Take over the weights of a network of the same size."""
        super().begin_with(network)
        self._averaged.load_state_dict(network.state_dict())

    def state(self) -> dict[str, Tensor]:
        """Parameters, their moving mean and what the optimiser remembers."""
        return {**super().state(), "averaged": flat_parameters(self._averaged)}

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Continue from what `state` gave.

        Raises ValueError if it is of another network.
        """
        super().load(state)
        set_flat_parameters(self._averaged, state["averaged"])

    def model_state(self) -> dict[str, Tensor]:
        """The averaged weights by name."""
        return dict(self._averaged.state_dict())

    def iterate(self, iteration: int) -> Mapping[str, float]:
        """Play, improve the weights, and move their mean."""
        config = self._config
        turn = iteration % len(config.clusters)
        jobs = self._jobs
        if config.fresh_job_sets:
            first = config.job_sets * iteration
            cluster = config.clusters[turn]
            jobs = draw_jobs(cluster, config.job_sets, config.seed, Purpose.TRAINING, first)
        done = iteration / config.iterations
        rate = config.learning_rate + done * (config.final_learning_rate - config.learning_rate)
        if iteration < config.imitation + config.branches:
            teacher = self._teachers[turn]
            if iteration < config.imitation:
                inputs, action = imitated(self.network.frozen(), teacher, config.cluster, jobs)
                update = self._update(inputs, action, np.ones(len(action)), rate)
                figures = {
                    "imitation_loss": update["entropy"],
                    "gradient_norm": update["gradient_norm"],
                }
            else:
                figures = self._improve(iteration, jobs, teacher, rate)
        else:
            figures = self._reinforce(iteration, jobs, rate)
        mean, newest = flat_parameters(self._averaged), flat_parameters(self.network)
        part = 1.0 / config.average_iterations
        set_flat_parameters(self._averaged, newest if part == 1.0 else mean.lerp(newest, part))
        return figures

    def _reinforce(self, iteration: int, jobs: Jobs, rate: float) -> dict[str, float]:
        """Play N episodes on each job set, then move the weights once.

        Returns:
            also the curves of the paper's figure 6: mean and best reward of the job sets.
        """
        config = self._config
        repeated = np.repeat(np.arange(config.job_sets, dtype=np.int32), config.episodes)
        episodes = Episodes(config.cluster, jobs, repeated)
        rollouts = roll_out(
            self.network.frozen(),
            episodes,
            Draws(config.seed, len(episodes), iteration),
            self._objective,
            config.episodes,
            config.baseline,
            config.discount,
        )
        return {
            **self._update(rollouts.inputs, rollouts.action, rollouts.advantage, rate),
            "mean_reward": float(rollouts.reward.mean()),
            "max_reward": float(rollouts.reward.max(axis=1).mean()),
        }

    def _improve(
        self, iteration: int, jobs: Jobs, teacher: Scheduler, rate: float
    ) -> dict[str, float]:
        """Lower the expected cost of branches, in minibatches."""
        config = self._config
        episodes = Episodes(config.cluster, jobs)
        draws = Draws(config.seed, len(episodes), iteration)
        branches = branched(self.network.frozen(), teacher, episodes, draws, self._objective)
        count = len(branches.inputs)
        size = np.abs(branches.excess).mean()
        # Loads differ in their costs, and a few decisions cost far more than the others.
        weights = branches.excess
        if size > 0:
            weights = np.clip(weights / size, -_LARGEST, _LARGEST)
        rng = np.random.default_rng(seed_of(config.seed, Purpose.BATCHES, iteration))
        order = np.concatenate([rng.permutation(count) for _ in range(_PASSES)])
        loss_sum, norm, steps = 0.0, 0.0, 0
        for first in range(0, len(order), config.branch_batch):
            part = order[first : first + config.branch_batch]
            probability = self.network(torch.from_numpy(branches.inputs[part])).softmax(1)
            excess = torch.from_numpy(weights[part]).float()
            loss = (probability * excess).sum(1).mean()
            torch.autograd.backward(loss)
            loss_sum += float(loss.detach())
            norm += self._move(rate)
            steps += 1
        steps = max(steps, 1)
        return {
            "branch_excess": loss_sum / steps,
            "gradient_norm": norm / steps,
            "decisions": float(count),
        }

    def validate(self) -> Mapping[str, float]:
        """Mean figures on held-back job sets.

        Returns:
            each objective's, and "score": that of the training, negated where more is better.
        """
        scheduler = Learned(self._averaged.frozen(), greedy=self._config.is_greedy)
        outcome = evaluate(scheduler, self._config.cluster, self._validation, self._config.seed)
        figures = {
            measured.value: float(outcome.measure(measured).mean()) for measured in Objective
        }
        return {"score": score_of(outcome, self._objective), **figures}

    @cached_property
    def _teachers(self) -> list[Scheduler]:
        """One teacher for each load."""
        config = self._config
        if config.teacher == "sjf":
            return [SJF for _ in config.clusters]
        return [
            tuned_hold(
                cluster,
                draw_jobs(cluster, TUNING_SETS, config.seed, Purpose.TUNING),
                self._objective,
            )
            for cluster in config.clusters
        ]

    def _update(
        self, inputs: Input, action: Int32, advantage: Float64, rate: float
    ) -> dict[str, float]:
        """One step of the optimiser for Q decisions."""
        total = len(action)
        log_loss = 0.0
        for first in range(0, total, CHUNK):
            part = slice(first, first + CHUNK)
            log_prob = self.network(torch.from_numpy(inputs[part])).log_softmax(1)
            taken = taken_of(log_prob, torch.from_numpy(action[part]))
            gain = torch.from_numpy(advantage[part]).float()
            loss = policy_gradient_loss(taken, gain, total=total)
            if self._config.entropy > 0.0:
                bonus = entropy_loss(entropy_of(log_prob), self._config.entropy, total=total)
                loss = loss + bonus
            torch.autograd.backward(loss)
            log_loss -= float(taken.detach().sum())
        norm = self._move(rate)
        # The mean of -log p over actions that were drawn estimates the entropy.
        return {"gradient_norm": norm, "entropy": log_loss / total, "decisions": float(total)}
