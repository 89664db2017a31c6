"""`DecimaLearner`: one training, as the loop of `rl` runs it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from decima.agent.model import load_model
from decima.agent.network import PolicyNetwork
from decima.evaluation.config import ConfigError
from decima.training.config import TrainConfig
from decima.training.gradients import Differentiating, Part, Request, gradient
from decima.training.rehearsal import rehearse, rehearse_task
from decima.training.rollouts import (
    ABOVE,
    REFERENCE,
    AverageJct,
    Ground,
    Playing,
    Rollouts,
    Validating,
    Validation,
    by_setting,
    compared_with,
    initial_network,
    play,
    validate,
)
from parallel.crew import Crew, Kept
from parallel.local import HERE
from rl.optimiser import Optimiser, flat_parameters, set_flat_parameters
from rl.returns import AverageRate
from rl.schedules import EntropySchedule
from traces.numbers import Float64


class Crews(NamedTuple):
    """Who computes; results do not depend on it."""

    players: Crew = HERE
    """rollouts and validations"""
    differentiators: Crew = HERE
    """gradients, on this machine: what was played is here, and they are quick beside it"""


ALL_HERE = Crews()


class _Shard(NamedTuple):
    """What a shard has played."""

    rollouts: tuple[Rollouts, ...]

    @property
    def advantage(self) -> Float64:
        """(Q,) of all its plans."""
        return np.concatenate([np.empty(0), *(one.advantage for one in self.rollouts)])

    @property
    def reward(self) -> float:
        """sum"""
        return float(sum(one.reward for one in self.rollouts))

    @property
    def time_s(self) -> float:
        """sum"""
        return float(sum(time_s for one in self.rollouts for time_s in one.time_s.tolist()))


class DecimaLearner:
    """Weights, optimiser and average reward; the tasks of crews do the rest."""

    def __init__(
        self, config: TrainConfig, crews: Crews = ALL_HERE, *, is_resumed: bool = False
    ) -> None:
        """Every process on this machine has its compiled code when this returns.

        Args:
            config: of the training.
            crews: who computes; whoever opened them closes them.
            is_resumed: `load` follows: the model that the run began with need not be there.

        Raises:
            ValueError: (one line) the trace or a setting breaks a rule.
        """
        self._config = config
        with torch.random.fork_rng(devices=()):
            torch.manual_seed(config.seed)
            self.network = first_network(config, is_resumed)
        update = config.update
        self._optimiser = Optimiser(self.network, update.learning_rate, update.max_norm)
        self._entropy = EntropySchedule(
            update.entropy_start, update.entropy_end, update.entropy_iterations
        )
        self._rate = AverageRate()
        self._references: dict[str | None, AverageJct] = {}
        self._crews = crews
        self._ground = Kept(Ground(config))
        self._averaged = flat_parameters(self.network)
        """the weights that are validated and kept: a moving mean over iterations"""
        self._prepare()

    def _prepare(self) -> None:
        """Compile here what the machine lacks, then load it in every process: together they would
        all compile the same.
        """
        rehearse(self._config)
        for crew in dict.fromkeys(self._crews):
            if crew is not HERE:
                tasks = {number: number for number in range(crew.slots)}
                dict(crew.map(rehearse_task, self._config, tasks, label="preparing"))

    # --- one iteration ---------------------------------------------------------------------------

    def iterate(self, iteration: int) -> Mapping[str, float]:
        """Play the iteration's sequences, then update the weights."""
        shards = self._played(iteration)
        advantage = [shard.advantage for shard in shards]
        reward = math.fsum(shard.reward for shard in shards)
        time_s = math.fsum(shard.time_s for shard in shards)
        total = sum(len(one) for one in advantage)
        self._rate.add(total, reward, time_s)
        rollouts = [one for shard in shards for one in shard.rollouts]
        found = by_setting((one.setting.label, one.jct_s) for one in rollouts)
        reference = by_setting((one.setting.label, one.reference_jct_s) for one in rollouts)
        metrics = {
            "plans": float(total),
            "reward_rate": reward / time_s if time_s > 0 else 0.0,
            "rollouts_percent": _percent(found, reference),
        }
        metrics |= self._update(iteration, shards, total)
        # Single steps follow the noise of one iteration; their mean does less (Polyak).
        moved = flat_parameters(self.network) - self._averaged
        self._averaged += moved / self._config.update.average_iterations
        return metrics

    def _played(self, iteration: int) -> list[_Shard]:
        """All rollouts of an iteration, by shard."""
        groups = self._ground.value.source.groups_of_iteration(iteration)
        shared = Playing(self._ground, flat_parameters(self.network), iteration, self._rate.rate)
        found: list[list[Rollouts]] = [[] for _ in range(self._config.episodes.shards)]
        label = f"iteration {iteration}: rollouts"
        played = dict(self._crews.players.map(play, shared, groups, label=label))
        for shard, number in sorted(played):
            rollouts = played[shard, number]
            if rollouts is not None:
                found[shard].append(rollouts)
        return [_Shard(tuple(one)) for one in found]

    def _update(self, iteration: int, shards: Sequence[_Shard], total: int) -> dict[str, float]:
        update = self._config.update
        mean, std = self._normalisation(shards, total)
        weight = self._entropy.weight(iteration)
        rate = self._learning_rate(iteration)
        played: Kept[Sequence[Sequence[Rollouts]]] = Kept([shard.rollouts for shard in shards])
        norms: list[float] = []
        parts: list[Part] = []
        divergence = 0.0
        for number in range(update.passes):
            parts = []
            for minibatch in range(update.minibatches):
                step = number * update.minibatches + minibatch
                request = Request(step, max(total / update.minibatches, 1.0), mean, std, weight)
                shares = self._shares(iteration, played, request)
                parts.extend(shares)
                summed = torch.stack([share.gradient for share in shares]).sum(0)
                norms.append(self._optimiser.step(summed, learning_rate=rate))
            divergence = sum(part.divergence for part in parts) / update.minibatches
            if update.max_kl is not None and divergence > update.max_kl:
                break
        count = update.minibatches
        return {
            "loss": sum(part.loss for part in parts) / count,
            "entropy": sum(part.entropy for part in parts) / count,
            "divergence": divergence,
            "clipped": sum(part.clipped for part in parts) / count,
            "gradient_norm": float(np.mean(norms)),
            "updates": float(len(norms)),
            "learning_rate": rate,
            "entropy_weight": weight,
        }

    def _shares(
        self, iteration: int, played: Kept[Sequence[Sequence[Rollouts]]], request: Request
    ) -> list[Part]:
        """A gradient, shard by shard."""
        weights = flat_parameters(self.network)
        shared = Differentiating(self._ground, played, iteration, weights, request)
        tasks = {shard: shard for shard in range(self._config.episodes.shards)}
        label = f"iteration {iteration}: gradient {request.step + 1}"
        found = self._crews.differentiators.map(gradient, shared, tasks, label=label)
        return [part for _, part in found]

    def _learning_rate(self, iteration: int) -> float:
        update = self._config.update
        done = min(1.0, iteration / update.decay_iterations)
        return update.learning_rate + done * (update.final_learning_rate - update.learning_rate)

    def _normalisation(self, shards: Sequence[_Shard], total: int) -> tuple[float, float]:
        """Mean and deviation of the returns' advantages over the iteration; branches have theirs
        by setting.
        """
        if self._config.credit.method == "branches" or total == 0:
            return 0.0, 1.0
        every = [shard.advantage for shard in shards]
        mean = math.fsum(float(one.sum()) for one in every) / total
        square = math.fsum(float(np.square(one).sum()) for one in every) / total
        return mean, math.sqrt(max(square - mean * mean, 0.0))

    # --- validation ------------------------------------------------------------------------------

    def validate(self) -> Mapping[str, float]:
        """Average JCT on the held-back sequences, over that of the references.

        Returns:
            "score": percent above `strict_fair` (lower is better), the geometric mean over
            settings; the same by setting; and "above_NAME" against the other heuristics.
        """
        if not self._references:
            names = compared_with(self._ground.value.source.settings)
            self._references = self._validated(names, None)
        found = self._validated((None,), self._averaged)[None]
        fair = self._references[REFERENCE]
        return {
            "score": _percent(found, fair),
            **{
                f"{ABOVE}{name}": _percent(found, reference)
                for name, reference in self._references.items()
                if name != REFERENCE
            },
            **{
                f"{label}_percent": _percent({label: found[label]}, {label: fair[label]})
                for label in found
            },
        }

    def _validated(
        self, names: Sequence[str | None], weights: Tensor | None
    ) -> dict[str | None, AverageJct]:
        """Heuristics by name, or the network as None, on all held-back sequences."""
        groups = self._ground.value.source.groups_for_validation()
        tasks = {
            (name, shard, number): Validation(name, episodes)
            for name in names
            for (shard, number), episodes in groups.items()
        }
        shared = Validating(self._ground, weights)
        label = "validation" if weights is not None else "validation of heuristics"
        found = list(self._crews.players.map(validate, shared, tasks, label=label))
        return {
            name: by_setting(values for (of, _, _), values in found if of == name) for name in names
        }

    # --- state -----------------------------------------------------------------------------------

    def state(self) -> dict[str, Tensor]:
        """All that the next iteration depends on."""
        return {
            "weights": flat_parameters(self.network),
            "averaged": self._averaged.clone(),
            "average_rate": torch.from_numpy(self._rate.state().copy()),
            **{f"adam.{key}": value for key, value in self._optimiser.state().items()},
        }

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Continue from what `state` gave."""
        set_flat_parameters(self.network, state["weights"])
        self._averaged = state["averaged"].clone()
        self._rate.load(state["average_rate"].numpy())
        self._optimiser.load(
            {
                key.removeprefix("adam."): value
                for key, value in state.items()
                if key.startswith("adam.")
            }
        )

    def model_state(self) -> dict[str, Tensor]:
        """The averaged weights by name, as a model file holds them."""
        network = initial_network(self._config)
        set_flat_parameters(network, self._averaged)
        return {name: value.detach() for name, value in network.state_dict().items()}


def first_network(config: TrainConfig, is_resumed: bool) -> PolicyNetwork:
    """New weights, or those of the model to go on from.

    Raises:
        ConfigError: that model is a network of other sizes.
    """
    network = initial_network(config)
    if config.initial_model is None or is_resumed:
        return network
    found = load_model(Path(config.initial_model)).network
    if found.config != config.network or not torch.equal(found.rule, network.rule):
        raise ConfigError(
            f"initial_model {config.initial_model}: its network is {found.config}, the "
            f"configuration's {config.network}, or it starts from another rule"
        )
    return found.train()


def _percent(found: AverageJct, reference: AverageJct) -> float:
    """Percent above the reference: geometric mean over settings of the ratio of mean JCTs."""
    ratios = [
        math.log(float(np.mean(values)) / float(np.mean(reference[label])))
        for label, values in found.items()
    ]
    return 100 * (math.exp(float(np.mean(ratios))) - 1) if ratios else 0.0
