"""`DecimaLearner`: one training, as the loop of `rl` runs it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from decima.agent.model import load_model
from decima.agent.network import PolicyNetwork
from decima.evaluation.config import ConfigError
from decima.training.config import TrainConfig
from decima.training.crew import make_crew
from decima.training.episodes import EpisodeSource, settings_of
from decima.training.shard import Collected, Part, Request, reference_jct_s
from rl.optimiser import Optimiser, flat_parameters, set_flat_parameters
from rl.returns import AverageRate
from rl.schedules import EntropySchedule, gap_weights
from traces import load_trace
from traces.arrays import to_arrays

GAP_TEMPERATURE = 0.05
GAP_MEMORY = 0.1


class DecimaLearner:
    """Weights, optimiser and average reward; the shards do the rest."""

    def __init__(self, config: TrainConfig, *, workers: int = 1, is_resumed: bool = False) -> None:
        """Args:
            config: of the training.
            workers: processes.
            is_resumed: `load` follows: the model that the run began with need not be there.

        Raises:
            ValueError: (one line) the trace or a setting breaks a rule.
        """
        self._config = config
        torch.manual_seed(config.seed)
        self.network = _initial_network(config, is_resumed)
        update = config.update
        self._optimiser = Optimiser(self.network, update.learning_rate, update.max_norm)
        self._warm = Optimiser(self.network, config.imitation.learning_rate, update.max_norm)
        self._entropy = EntropySchedule(
            update.entropy_start, update.entropy_end, update.entropy_iterations
        )
        self._rate = AverageRate()
        self._reference: dict[str, float] | None = None
        self._settings = [one.label for one in settings_of(config.workload)]
        self._gaps = torch.zeros(len(self._settings), dtype=torch.float64)
        """by setting: a moving mean of how far the rollouts were above the reference, as a share"""
        self._crew = make_crew(config, workers)
        self._averaged = flat_parameters(self.network)
        """the weights that are validated and kept: a moving mean over iterations"""

    def close(self) -> None:
        """End the worker processes."""
        self._crew.close()

    # --- one iteration ---------------------------------------------------------------------------

    def iterate(self, iteration: int) -> Mapping[str, float]:
        """Play the iteration's sequences, then update the weights."""
        weights = flat_parameters(self.network)
        shares = gap_weights(self._gaps.numpy(), temperature=GAP_TEMPERATURE)
        collected: list[Collected] = self._crew.ask(
            "collect", iteration, weights, self._rate.rate, shares
        )
        reward = math.fsum(one.reward for one in collected)
        time_s = math.fsum(one.time_s for one in collected)
        self._rate.add(sum(one.decisions for one in collected), reward, time_s)
        metrics = _summary(collected, reward, time_s)
        metrics |= self._note_gaps(collected)
        imitate = iteration < self._config.imitations
        metrics |= self._update(iteration, collected, imitate)
        if iteration == self._config.imitations - 1:
            self.network.sharpen(self._config.imitation.sharpen)
        self._average(imitate)
        return metrics

    def _average(self, imitate: bool) -> None:
        """Single steps follow the noise of one iteration; their mean does less (Polyak)."""
        weights = flat_parameters(self.network)
        if imitate:
            self._averaged = weights
        else:
            self._averaged += (weights - self._averaged) / self._config.update.average_iterations

    def _note_gaps(self, collected: list[Collected]) -> dict[str, float]:
        """How far the rollouts, which explore, were above the reference, in percent."""
        metrics: dict[str, float] = {}
        for index, label in enumerate(self._settings):
            own = [value for one in collected for value in one.jct_s.get(label, [])]
            other = [value for one in collected for value in one.reference_jct_s.get(label, [])]
            if own:
                gap = float(np.mean(own)) / float(np.mean(other)) - 1
                self._gaps[index] += GAP_MEMORY * (gap - self._gaps[index])
                metrics[f"rollouts_percent.{label}"] = 100 * gap
        metrics["rollouts_percent"] = float(np.mean(list(metrics.values())))
        return metrics

    def _update(
        self, iteration: int, collected: list[Collected], imitate: bool
    ) -> dict[str, float]:
        update = self._config.update
        decisions = sum(one.decisions for one in collected)
        mean, std = self._normalisation(collected, decisions)
        weight = self._entropy.weight(iteration)
        rate = self._learning_rate(iteration, imitate)
        optimiser = self._warm if imitate else self._optimiser
        norms: list[float] = []
        parts: list[Part] = []
        divergence = 0.0
        for number in range(update.passes):
            parts = []
            for minibatch in range(update.minibatches):
                request = Request(
                    number * update.minibatches + minibatch,
                    max(decisions / update.minibatches, 1.0),
                    mean,
                    std,
                    weight,
                    imitate,
                    iteration < self._config.critic_until,
                )
                shares = self._crew.ask("gradient", flat_parameters(self.network), request)
                parts.extend(shares)
                gradient = torch.stack([share.gradient for share in shares]).sum(0)
                norms.append(optimiser.step(gradient, learning_rate=rate))
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

    def _learning_rate(self, iteration: int, imitate: bool) -> float:
        if imitate:
            return self._config.imitation.learning_rate
        update = self._config.update
        done = min(1.0, iteration / update.decay_iterations)
        return update.learning_rate + done * (update.final_learning_rate - update.learning_rate)

    def _normalisation(self, collected: list[Collected], decisions: int) -> tuple[float, float]:
        """Mean and deviation of the advantages of the whole iteration; 0 and 1 if not wanted."""
        if self._config.credit.normalise not in {"cost", "update"} or decisions == 0:
            return 0.0, 1.0
        mean = math.fsum(one.advantage_sum for one in collected) / decisions
        square = math.fsum(one.advantage_squares for one in collected) / decisions
        return mean, math.sqrt(max(square - mean * mean, 0.0))

    # --- validation ------------------------------------------------------------------------------

    def validate(self) -> Mapping[str, float]:
        """Average JCT on the held-back sequences, over that of the reference.

        Returns:
            "score": the mean over settings in percent above the reference (lower is better); and
            the same by setting.
        """
        if self._reference is None:
            self._reference = self._measure_reference()
        found: dict[str, list[float]] = {}
        for share in self._crew.ask("validate", self._averaged):
            for label, values in share.items():
                found.setdefault(label, []).extend(values)
        gaps = {
            label: 100 * (float(np.mean(values)) / self._reference[label] - 1)
            for label, values in found.items()
        }
        return {"score": float(np.mean(list(gaps.values())))} | {
            f"{label}_percent": gap for label, gap in gaps.items()
        }

    def _measure_reference(self) -> dict[str, float]:
        trace = load_trace(self._config.workload.trace)
        arrays = to_arrays(trace)
        source = EpisodeSource(self._config, trace)
        cluster = self._config.workload.cluster()
        episodes = [one for setting in source.settings for one in source.for_validation(setting)]
        found = reference_jct_s(episodes, arrays, cluster)
        return {label: float(np.mean(values)) for label, values in found.items()}

    # --- state -----------------------------------------------------------------------------------

    def state(self) -> dict[str, Tensor]:
        """All that the next iteration depends on."""
        return {
            "weights": flat_parameters(self.network),
            "averaged": self._averaged.clone(),
            "average_rate": torch.from_numpy(self._rate.state().copy()),
            "gaps": self._gaps.clone(),
            **{f"adam.{key}": value for key, value in self._optimiser.state().items()},
            **{f"warm.{key}": value for key, value in self._warm.state().items()},
        }

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Continue from what `state` gave."""
        set_flat_parameters(self.network, state["weights"])
        self._averaged = state["averaged"].clone()
        self._rate.load(state["average_rate"].numpy())
        self._gaps = state["gaps"].clone()
        for prefix, optimiser in (("adam.", self._optimiser), ("warm.", self._warm)):
            optimiser.load(
                {
                    key.removeprefix(prefix): value
                    for key, value in state.items()
                    if key.startswith(prefix)
                }
            )

    def model_state(self) -> dict[str, Tensor]:
        """The averaged weights by name, as a model file holds them."""
        network = PolicyNetwork(self._config.network)
        set_flat_parameters(network, self._averaged)
        return {name: value.detach() for name, value in network.state_dict().items()}


def _initial_network(config: TrainConfig, is_resumed: bool) -> PolicyNetwork:
    """New weights, or those of the model to go on from.

    Raises:
        ConfigError: that model is a network of other sizes.
    """
    if config.initial_model is None or is_resumed:
        return PolicyNetwork(config.network)
    found = load_model(Path(config.initial_model)).network
    if found.config != config.network:
        raise ConfigError(
            f"initial_model {config.initial_model}: its network is {found.config}, the "
            f"configuration's {config.network}"
        )
    found.sharpen(config.imitation.sharpen)
    return found.train()


def _summary(collected: list[Collected], reward: float, time_s: float) -> dict[str, float]:
    """Metrics of the rollouts."""
    jct_s: dict[str, list[float]] = {}
    for one in collected:
        for label, values in one.jct_s.items():
            jct_s.setdefault(label, []).extend(values)
    error = math.fsum(one.value_error for one in collected)
    spread = math.fsum(one.value_spread for one in collected)
    return {
        "decisions": float(sum(one.decisions for one in collected)),
        "reward_rate": reward / time_s if time_s > 0 else 0.0,
        "value_explained": 1 - error / spread if spread > 0 else 0.0,
        **{f"jct_s.{label}": float(np.mean(values)) for label, values in jct_s.items()},
    }
