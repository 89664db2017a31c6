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
from decima.training.shard import (
    REFERENCES,
    AverageJct,
    Collected,
    Part,
    Request,
    initial_network,
)
from rl.optimiser import Optimiser, flat_parameters, set_flat_parameters
from rl.returns import AverageRate
from rl.schedules import EntropySchedule


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
        self.network = _first_network(config, is_resumed)
        update = config.update
        self._optimiser = Optimiser(self.network, update.learning_rate, update.max_norm)
        self._entropy = EntropySchedule(
            update.entropy_start, update.entropy_end, update.entropy_iterations
        )
        self._rate = AverageRate()
        self._references: dict[str, AverageJct] = {}
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
        collected: list[Collected] = self._crew.ask("collect", iteration, weights, self._rate.rate)
        reward = math.fsum(one.reward for one in collected)
        time_s = math.fsum(one.time_s for one in collected)
        total = sum(one.plans for one in collected)
        self._rate.add(total, reward, time_s)
        played, reference = (
            _joined([getattr(one, name) for one in collected])
            for name in ("jct_s", "reference_jct_s")
        )
        metrics = {
            "plans": float(total),
            "reward_rate": reward / time_s if time_s > 0 else 0.0,
            "rollouts_percent": _percent(played, reference),
        }
        metrics |= self._update(iteration, collected, total)
        # Single steps follow the noise of one iteration; their mean does less (Polyak).
        moved = flat_parameters(self.network) - self._averaged
        self._averaged += moved / self._config.update.average_iterations
        return metrics

    def _update(self, iteration: int, collected: list[Collected], total: int) -> dict[str, float]:
        update = self._config.update
        mean, std = self._normalisation(collected, total)
        weight = self._entropy.weight(iteration)
        rate = self._learning_rate(iteration)
        norms: list[float] = []
        parts: list[Part] = []
        divergence = 0.0
        for number in range(update.passes):
            parts = []
            for minibatch in range(update.minibatches):
                request = Request(
                    number * update.minibatches + minibatch,
                    max(total / update.minibatches, 1.0),
                    mean,
                    std,
                    weight,
                )
                shares = self._crew.ask("gradient", flat_parameters(self.network), request)
                parts.extend(shares)
                gradient = torch.stack([share.gradient for share in shares]).sum(0)
                norms.append(self._optimiser.step(gradient, learning_rate=rate))
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

    def _learning_rate(self, iteration: int) -> float:
        update = self._config.update
        done = min(1.0, iteration / update.decay_iterations)
        return update.learning_rate + done * (update.final_learning_rate - update.learning_rate)

    def _normalisation(self, collected: list[Collected], total: int) -> tuple[float, float]:
        """Mean and deviation of the returns' advantages over the iteration; branches have theirs
        by setting.
        """
        if self._config.credit.method == "branches" or total == 0:
            return 0.0, 1.0
        mean = math.fsum(one.advantage_sum for one in collected) / total
        square = math.fsum(one.advantage_squares for one in collected) / total
        return mean, math.sqrt(max(square - mean * mean, 0.0))

    # --- validation ------------------------------------------------------------------------------

    def validate(self) -> Mapping[str, float]:
        """Average JCT on the held-back sequences, over that of the references.

        Returns:
            "score": percent above `strict_fair` (lower is better), the geometric mean over
            settings; the same by setting; and "above_NAME" against the other heuristics.
        """
        if not self._references:
            for name in REFERENCES:
                self._references[name] = _joined(self._crew.ask("validate_reference", name))
        found = _joined(self._crew.ask("validate", self._averaged))
        fair = self._references[REFERENCES[0]]
        return {
            "score": _percent(found, fair),
            **{f"above_{name}": _percent(found, self._references[name]) for name in REFERENCES[1:]},
            **{
                f"{label}_percent": _percent({label: found[label]}, {label: fair[label]})
                for label in found
            },
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


def _first_network(config: TrainConfig, is_resumed: bool) -> PolicyNetwork:
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


def _joined(parts: list[AverageJct]) -> AverageJct:
    found: AverageJct = {}
    for part in parts:
        for label, values in part.items():
            found.setdefault(label, []).extend(values)
    return found


def _percent(found: AverageJct, reference: AverageJct) -> float:
    """Percent above the reference: geometric mean over settings of the ratio of mean JCTs."""
    ratios = [
        math.log(float(np.mean(values)) / float(np.mean(reference[label])))
        for label, values in found.items()
    ]
    return 100 * (math.exp(float(np.mean(ratios))) - 1) if ratios else 0.0
