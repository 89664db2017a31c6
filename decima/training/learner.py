"""`DecimaLearner`: one training, as the loop of `decima.rl` runs it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from decima.agent.model import load_model
from decima.agent.network import PolicyNetwork
from decima.errors import ConfigError
from decima.policy_names import model_path
from decima.rl.errors import RunError
from decima.rl.optimiser import Optimiser, flat_parameters, set_flat_parameters
from decima.rl.parallel.local import HERE
from decima.rl.parallel.pool import SentOnce, WorkerPool
from decima.rl.returns import AverageRate
from decima.training.config import EvolveConfig, GradientConfig, TrainConfig
from decima.training.credit import setting_weights, standardised
from decima.training.evolve import evolution_of, evolve
from decima.training.gradients import Differentiating, Part, Request, gradient
from decima.training.play import (
    ABOVE,
    REFERENCE,
    Playing,
    Rollouts,
    TrainingContext,
    Validating,
    Validation,
    compared_with,
    play,
    validate,
)
from decima.training.warm_up import warm_up, warm_up_task
from traces.numbers import Float64


class Pools(NamedTuple):
    """Pools of workers; results do not depend on them."""

    players: WorkerPool = HERE
    """rollouts and validations"""
    differentiators: WorkerPool = HERE
    """gradients, on this machine, where the rollouts are; they take little time beside playing"""


ALL_HERE = Pools()


Figures = dict[str, list[float]]
"""objective of each run, by setting; unfinished jobs count with their age"""


class Best(NamedTuple):
    """The best validated weights, to restore when a step diverges."""

    weights: Tensor  # (P,)
    score: float
    halvings: float  # halvings of the learning rate so far


class CollapsedError(RunError):
    """The policy has collapsed to one answer for all observations, and a bad one."""


COLLAPSED_ENTROPY = 0.01
"""share of the greatest entropy below which a policy worse than strict fair has collapsed"""


class DecimaLearner:
    """Learner that holds weights, optimiser and average reward; tasks do the rest."""

    def __init__(
        self, config: TrainConfig, pools: Pools = ALL_HERE, *, is_resumed: bool = False
    ) -> None:
        """Build the learner; afterwards every process on this machine has its compiled code.

        The caller closes the pools. If `is_resumed`, `load` follows, and the run's first model need
        not exist.
        """
        self._config = config
        with torch.random.fork_rng(devices=()):
            torch.manual_seed(config.seed)
            self.network = first_network(config, is_resumed)
        self._optimiser = Optimiser(self.network, config.imitate.learning_rate, None)
        self._rate = AverageRate()
        self._references: dict[str | None, Figures] = {}
        self._pools = pools
        self._context = SentOnce(TrainingContext(config))
        self._averaged = flat_parameters(self.network)
        """the weights that are validated and saved: a moving mean over iterations"""
        self._best = Best(self._averaged.clone(), math.inf, 0.0)
        self._step: GradientConfig | EvolveConfig = config.imitate
        self._entropy = 1.0
        self._evolution = evolution_of(config, len(self._averaged))
        # Compile in this process first, then load in every process, or all would compile.
        warm_up(config)
        for pool in dict.fromkeys(pools):
            if pool is not HERE:
                tasks = {number: number for number in range(pool.slots)}
                dict(pool.map(warm_up_task, config, tasks, label="preparing"))

    def teacher_lines(self) -> list[str]:
        """One line for each setting: its teacher, and how good that is; none without imitation."""
        if self._config.imitate.iterations == 0:
            return []
        context = self._context.value
        lines = []
        for setting in context.source.settings:
            teacher = context.teacher(setting)
            line = f"{setting.label}: taught by {teacher.name}, {teacher.percent:+.1f} % against"
            warning = "; worse than strict fair" if teacher.percent > 0.0 else ""
            lines.append(f"{line} {REFERENCE}{warning}")
        return lines

    # --- one iteration ---------------------------------------------------------------------------

    def iterate(self, iteration: int) -> Mapping[str, float]:
        """Play the iteration's sequences, then update the weights."""
        self._begin(iteration)
        step = self._step
        if isinstance(step, GradientConfig):
            metrics = self._descend(step, iteration)
        else:
            weights = flat_parameters(self.network).numpy()
            players = self._pools.players
            moved, metrics = evolve(self._evolution, self._context, weights, iteration, players)
            set_flat_parameters(self.network, torch.from_numpy(moved))
        # Averaging the steps reduces the noise of single iterations (Polyak).
        change = flat_parameters(self.network) - self._averaged
        self._averaged += change / step.average_iterations
        return metrics

    def _begin(self, iteration: int) -> None:
        """Start a step of the training with a new optimiser and the averaged weights."""
        self._step, number = self._config.step_at(iteration)
        if number == 0:
            set_flat_parameters(self.network, self._averaged)
            self._best = Best(self._averaged.clone(), math.inf, 0.0)
            if isinstance(self._step, GradientConfig):
                self._renew_optimiser(self._step)

    def _renew_optimiser(self, step: GradientConfig) -> None:
        self._optimiser = Optimiser(self.network, step.learning_rate, step.max_norm)

    def _descend(self, step: GradientConfig, iteration: int) -> dict[str, float]:
        """Play, weigh the advantages, and follow the gradient; PPO with several minibatches."""
        config, reinforce = self._config, self._config.reinforce
        is_reinforce = step is reinforce
        _, number = config.step_at(iteration)
        self._optimiser.max_norm = step.max_norm

        # Play the iteration's groups: rollouts with their credit, by shard.
        playing = Playing(self._context, flat_parameters(self.network), iteration, self._rate.rate)
        groups = self._context.value.source.groups_of_iteration(iteration)
        label = f"iteration {iteration}: rollouts"
        by_key = dict(self._pools.players.map(play, playing, groups, label=label))
        shards: list[list[Rollouts]] = [[] for _ in range(config.episodes.shards)]
        for key in sorted(by_key):
            if (rollouts := by_key[key]) is not None:
                shards[key[0]].append(rollouts)
        shards = weighted(shards, is_standardised=is_reinforce)
        played = [rollouts for shard in shards for rollouts in shard]
        plans = sum(len(rollouts.advantage) for rollouts in played)
        reward = math.fsum(sum(rollouts.reward for rollouts in shard) for shard in shards)
        time_s = math.fsum(
            sum(run_s for rollouts in shard for run_s in rollouts.time_s.tolist())
            for shard in shards
        )
        self._rate.add(plans, reward, time_s)
        of_network = by_setting((rollouts.setting.label, rollouts.figures) for rollouts in played)
        of_reference = by_setting(
            (rollouts.setting.label, rollouts.reference_figures) for rollouts in played
        )

        # Update: several passes over the decisions, in minibatches.
        entropy_weight = reinforce.entropy_at(number) if is_reinforce else 0.0
        rate = step.rate_at(number) / 2**self._best.halvings
        total = max(plans / step.minibatches, 1.0)
        sent: SentOnce[Sequence[Sequence[Rollouts]]] = SentOnce(shards)
        norms: list[float] = []
        parts: list[Part] = []
        divergence = 0.0
        for minibatch in range(step.passes * step.minibatches):
            request = Request(minibatch, step.minibatches, total, entropy_weight)
            weights = flat_parameters(self.network)
            differentiating = Differentiating(self._context, sent, iteration, weights, request)
            tasks = {shard: shard for shard in range(config.episodes.shards)}
            label = f"iteration {iteration}: gradient {minibatch + 1}"
            shares = [
                part
                for _, part in self._pools.differentiators.map(
                    gradient, differentiating, tasks, label=label
                )
            ]
            divergence = sum(part.divergence for part in shares)
            is_far = reinforce.max_kl is not None and divergence > reinforce.max_kl
            if is_reinforce and is_far and minibatch >= step.minibatches:
                break
            parts.extend(shares)
            summed = torch.stack([share.gradient for share in shares]).sum(0)
            norms.append(self._optimiser.step(summed, learning_rate=rate))
        count = max(1, len(norms))
        self._entropy = sum(part.entropy for part in parts) / count
        return {
            "plans": float(plans),
            "reward_rate": reward / time_s if time_s > 0 else 0.0,
            "rollouts_percent": _percent(of_network, of_reference),
            "loss": sum(part.loss for part in parts) / count,
            "entropy": self._entropy,
            "divergence": divergence,
            "clipped": sum(part.clipped for part in parts) / count,
            "gradient_norm": float(np.mean(norms)),
            "updates": float(len(norms)),
            "learning_rate": rate,
            "entropy_weight": entropy_weight,
        }

    # --- validation ------------------------------------------------------------------------------

    def validate(self) -> Mapping[str, float]:
        """The objective on the held-out sequences, over that of the references.

        "score" is percent above `strict_fair` (lower is better) of the likeliest plans, the
        geometric mean over settings; "drawn" is that of drawn plans, in the steps that draw;
        "above_NAME" is against the other heuristics; then comes the score of each setting. Raises
        CollapsedError if the policy gives one answer and is worse than strict fair.
        """
        if not self._references:
            context = self._context.value
            names = compared_with(context.source.settings, context.objective)
            self._references = self._validated(names, None)
        figures = self._validated((None,), self._averaged)[None]
        fair = self._references[REFERENCE]
        metrics = {"score": _percent(figures, fair)}
        self._keep_best(metrics["score"])
        if isinstance(self._step, GradientConfig):  # evolution plays the likeliest plans
            drawn = self._validated((None,), self._averaged, is_drawn=True)[None]
            metrics["drawn"] = _percent(drawn, fair)
        for name, reference in self._references.items():
            if name != REFERENCE:
                metrics[f"{ABOVE}{name}"] = _percent(figures, reference)
        for label in figures:
            of_label = _percent({label: figures[label]}, {label: fair[label]})
            metrics[f"{label}_percent"] = of_label
        return metrics

    def _keep_best(self, score: float) -> None:
        """Remember the best weights; restore them if the score is far worse."""
        reinforce = self._config.reinforce
        if self._step is reinforce and self._entropy < COLLAPSED_ENTROPY and score > 0.0:
            raise CollapsedError(
                f"the policy has collapsed: its entropy is {self._entropy:.4f} of the greatest, "
                f"below {COLLAPSED_ENTROPY}, at {score:+.1f} % against {REFERENCE}; try a larger "
                "reinforce.entropy_start or a smaller reinforce.learning_rate"
            )
        best = self._best
        if score < best.score:
            self._best = Best(self._averaged.clone(), score, best.halvings)
        elif self._step is reinforce and reinforce.fallback is not None:
            worse = 100 * ((100 + score) / (100 + best.score) - 1)
            if worse > reinforce.fallback:
                self._averaged = best.weights.clone()
                set_flat_parameters(self.network, best.weights)
                self._renew_optimiser(reinforce)
                self._best = best._replace(halvings=best.halvings + 1)

    def _validated(
        self, names: Sequence[str | None], weights: Tensor | None, *, is_drawn: bool = False
    ) -> dict[str | None, Figures]:
        """Heuristics by name, or the network as None, on all held-out sequences."""
        groups = self._context.value.source.groups_for_validation()
        tasks = {
            (name, shard, number): Validation(name, episodes, is_drawn)
            for name in names
            for (shard, number), episodes in groups.items()
        }
        shared = Validating(self._context, weights)
        label = "validation" if weights is not None else "validation of heuristics"
        played = list(self._pools.players.map(validate, shared, tasks, label=label))
        return {
            name: by_setting(values for key, values in played if key[0] == name) for name in names
        }

    # --- state -----------------------------------------------------------------------------------

    def state(self) -> dict[str, Tensor]:
        """Return all state that the next iteration depends on."""
        return {
            "weights": flat_parameters(self.network),
            "averaged": self._averaged.clone(),
            "best": self._best.weights.clone(),
            # All state of a run is finite, so a missing score is a very large one.
            "best_score": torch.tensor(
                [min(self._best.score, 1e30), self._best.halvings], dtype=torch.float64
            ),
            "entropy": torch.tensor(self._entropy, dtype=torch.float64),
            "average_rate": torch.from_numpy(self._rate.state().copy()),
            **{
                f"evolve.{key}": torch.from_numpy(value)
                for key, value in self._evolution.state().items()
            },
            **{f"adam.{key}": value for key, value in self._optimiser.state().items()},
        }

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Continue from what `state` gave."""
        set_flat_parameters(self.network, state["weights"])
        self._averaged = state["averaged"].clone()
        score, halvings = state["best_score"].tolist()
        self._best = Best(state["best"].clone(), score, halvings)
        self._entropy = float(state["entropy"])
        self._rate.load(state["average_rate"].numpy())
        self._evolution.load(
            {name: state[f"evolve.{name}"].numpy() for name in self._evolution.state()}
        )
        self._optimiser.load({name: state[f"adam.{name}"] for name in self._optimiser.state()})

    def model_state(self) -> dict[str, Tensor]:
        """The averaged weights by name, as a model file holds them."""
        network = PolicyNetwork(self._config.network)
        set_flat_parameters(network, self._averaged)
        return {name: value.detach() for name, value in network.state_dict().items()}


def first_network(config: TrainConfig, is_resumed: bool) -> PolicyNetwork:
    """Return new weights, or the initial model's; ConfigError if that has other sizes."""
    network = PolicyNetwork(config.network)
    if config.initial_model is None or is_resumed:
        return network
    initial = load_model(model_path(config.initial_model)).network
    if initial.config != config.network:
        raise ConfigError(
            f"initial_model {config.initial_model}: its network is {initial.config}, the "
            f"configuration's {config.network}"
        )
    return initial.train()


def weighted(shards: list[list[Rollouts]], *, is_standardised: bool) -> list[list[Rollouts]]:
    """Return the rollouts with advantages that give settings equal weight.

    Those of a policy gradient are standardised in each setting first.
    """
    of_setting: dict[int, list[Rollouts]] = {}
    for shard in shards:
        for rollouts in shard:
            of_setting.setdefault(rollouts.setting.number, []).append(rollouts)
    advantages = {
        number: np.concatenate([rollouts.advantage for rollouts in group])
        for number, group in of_setting.items()
    }
    if is_standardised:
        advantages = {number: standardised(values) for number, values in advantages.items()}
        counts = [float(len(values)) for values in advantages.values()]
    else:
        counts = [
            float(sum(rollouts.recording.plans.used.sum() for rollouts in group))
            for group in of_setting.values()
        ]
    ready: dict[int, Iterator[Float64]] = {}
    for (number, group), weight in zip(of_setting.items(), setting_weights(counts), strict=True):
        ends = np.cumsum([len(rollouts.advantage) for rollouts in group])[:-1]
        ready[number] = iter(np.split(advantages[number] * weight, ends))
    return [
        [rollouts._replace(advantage=next(ready[rollouts.setting.number])) for rollouts in shard]
        for shard in shards
    ]


def by_setting(figures: Iterable[tuple[str, list[float]]]) -> Figures:
    """The runs of each setting, in their order."""
    joined: Figures = {}
    for label, values in figures:
        joined.setdefault(label, []).extend(values)
    return joined


def _percent(figures: Figures, reference: Figures) -> float:
    """Percent above the reference: geometric mean over settings of the ratio of mean figures."""
    ratios = [
        math.log(float(np.mean(values)) / float(np.mean(reference[label])))
        for label, values in figures.items()
    ]
    return 100 * (math.exp(float(np.mean(ratios))) - 1) if ratios else 0.0
