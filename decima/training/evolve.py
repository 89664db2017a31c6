r"""Evolution strategies on the network's weights: the step `evolve` of a training.

One iteration plays whole sequences by the likeliest plans, under K pairs of opposite perturbations
of the weights theta. The two of a pair meet the same arrivals and task durations; each pair has
sequences of its own, and the settings take turns.

.. math::
    \epsilon_k &\sim N(0, I_P), \qquad
    \theta_k^\pm = \theta \pm \sigma D \epsilon_k \\
    d_k &= \frac{1}{S} \sum_s \log f(\theta_k^+, s) - \log f(\theta_k^-, s) \\
    g &= -\sum_k \mathrm{clip}(d_k / s_{n(k)},\, \pm 2)\, \epsilon_k, \qquad
    v \leftarrow m v + (1 - m) \sqrt{P} \, g / \lVert g \rVert \\
    \theta &\leftarrow \theta + r \sigma D v

Letters: P weights, D the root mean square of each tensor's weights, f the objective on sequence s
of S, n(k) the setting of pair k, s_n the typical size of a difference there (so that no setting
outweighs the others), m the momentum and r the rate.

Sequences differ more than perturbations do, so a direction is estimated best by many pairs, each on
a single sequence: the differences of sequences then average out with those of directions.

A perturbation is drawn again from its number wherever it is needed, so only numbers and figures
travel between processes. Sigma follows the network: it is the width at which perturbations worsen
the objective by `evolve.cost`, which is the curvature that the steps can bear.

Source: Salimans, Ho, Chen, Sidor and Sutskever, Evolution Strategies as a Scalable Alternative to
Reinforcement Learning, 2017.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from decima.agent.rollout import Lanes, play_out
from decima.agent.scales import Scales
from decima.agent.weights import NetworkWeights, unflattened
from decima.rl.parallel.pool import SentOnce, WorkerPool
from decima.training.config import TrainConfig
from decima.training.episodes import Episode
from decima.training.rollouts import TrainingContext
from spark_sim.metrics import measure
from traces.numbers import Float32, Float64, Int64

_EVOLVE_STREAM = 14
_LEAST_SCALE = 0.02  # of a tensor whose weights are near 0, such as new biases
_LANES = 32  # runs that a task plays side by side, about
_CENTRES = 4  # every fourth pair's sequences are played without a perturbation, too
_MEMORY = 0.8  # weight of earlier iterations in the typical difference of a setting
_LARGEST = 3.0  # typical differences at which one is clipped: two deviations
_WIDEST_CHANGE = 1.25  # most that sigma changes in one iteration
_WIDEST_SIGMA = 1.0


class Perturbing(NamedTuple):
    """Inputs that the tasks of an iteration share."""

    context: SentOnce[TrainingContext]
    weights: Float32  # (P,)
    width: Float32  # (P,) standard deviation of a perturbation; 0 where a weight is fixed
    iteration: int


class Scored(NamedTuple):
    """Mean logarithm of the objective over the sequences of each of Q pairs."""

    plus: Float64  # (Q,)
    minus: Float64  # (Q,)
    centre: Float64  # (Q,) of the weights themselves; NaN where they did not play


def play_perturbed(shared: Perturbing, pairs: Sequence[int]) -> Scored:
    """Play the sequences of some pairs, which are of one setting, side by side."""
    context = shared.context.value
    config = context.config
    networks: list[NetworkWeights] = []
    episodes: list[Episode] = []
    for pair in pairs:
        step = shared.width * noise(config, shared.iteration, pair, len(shared.weights))
        signs = (1, -1, 0) if pair % _CENTRES == 0 else (1, -1)
        sequences = context.source.for_evolving(shared.iteration, pair)
        for sign in signs:
            network = unflattened(config.network, shared.weights + np.float32(sign) * step)
            networks += [network] * len(sequences)
            episodes += sequences
    setting = episodes[0].setting
    arrays, _ = context.jobs(setting)
    lanes = Lanes(arrays, setting.config.cluster(), [one.run for one in episodes], None)
    states = play_out(networks, Scales.of(arrays), lanes).states
    logs = np.log([context.objective.of(measure(state)) for state in states])
    means = iter(logs.reshape(-1, config.evolve.sequences).mean(axis=1).tolist())
    scored = Scored(*np.full((3, len(pairs)), np.nan))
    for place, pair in enumerate(pairs):
        scored.plus[place], scored.minus[place] = next(means), next(means)
        if pair % _CENTRES == 0:
            scored.centre[place] = next(means)
    return scored


def noise(config: TrainConfig, iteration: int, pair: int, size: int) -> Float32:
    """(P,) the direction epsilon of a pair."""
    seeds = np.random.SeedSequence(config.seed, spawn_key=(iteration, pair, _EVOLVE_STREAM))
    return np.random.default_rng(seeds).standard_normal(size, dtype=np.float32)


def scale_of(config: TrainConfig, flat: Float32) -> Float32:
    """(P,) the diagonal of D: 0 for the critic and for other parts that may not change."""
    values: list[NDArray[np.float32]] = []
    for name, array in unflattened(config.network, flat).arrays.items():
        is_free = name.partition(".")[0] in config.evolving_parts
        size = max(float(np.sqrt(np.mean(np.square(array)))), _LEAST_SCALE)
        values.append(np.full(array.size, size if is_free else 0.0, np.float32))
    return np.concatenate(values)


class Evolution:
    """The state of the step between iterations: momentum, width, and the size of differences."""

    def __init__(self, config: TrainConfig, size: int) -> None:
        self._config = config
        self.velocity: Float64 = np.zeros(size)
        self.sigma = config.evolve.sigma
        self.typical: Float64 = np.zeros((len(config.workload.evaluations()), 2))
        """(N, 2) sums over the pairs of a setting, the older the less: of the square roots of the
        differences' sizes, which few large ones do not dominate, and of 1"""

    def iterate(
        self,
        context: SentOnce[TrainingContext],
        weights: Float32,
        iteration: int,
        pool: WorkerPool,
    ) -> tuple[Float32, dict[str, float]]:
        """Return the moved (P,) weights, and figures of the iteration."""
        evolve = self._config.evolve
        _, number = self._config.step_at(iteration)

        # Play the pairs.
        scale = scale_of(self._config, weights)
        shared = Perturbing(context, weights, np.float32(self.sigma) * scale, iteration)
        settings = context.value.source.evolving_settings(iteration)
        tasks = dict(enumerate(_tasks(settings, evolve.sequences)))
        label = f"iteration {iteration}: perturbations"
        played = dict(pool.map(play_perturbed, shared, tasks, label=label))
        scored = Scored(*np.empty((3, evolve.pairs)))
        for key, pairs in tasks.items():
            for every, values in zip(scored, played[key], strict=True):
                every[pairs] = values

        # Estimate the direction in which the objective falls.
        d = scored.plus - scored.minus
        self.typical *= _MEMORY
        np.add.at(self.typical, settings, np.stack([np.sqrt(np.abs(d)), np.ones(len(d))], axis=1))
        s = np.square(self.typical[settings, 0] / self.typical[settings, 1])
        z = np.divide(d, s, where=s > 0, out=np.zeros_like(d)).clip(-_LARGEST, _LARGEST)
        g = np.zeros(len(weights))
        for pair in range(evolve.pairs):
            g -= z[pair] * noise(self._config, iteration, pair, len(weights))
        free = scale > 0
        g[~free] = 0.0
        norm = math.sqrt(float(np.square(g).sum()))  # not by BLAS, whose sums depend on its threads
        unit = g * (math.sqrt(int(free.sum())) / norm) if norm > 0 else g

        # Move, then adapt the width to the cost of a perturbation.
        self.velocity = evolve.momentum * self.velocity + (1 - evolve.momentum) * unit
        rate = evolve.rate_at(number)
        moved = (weights + rate * self.sigma * scale * self.velocity).astype(np.float32)
        cost = float(np.nanmedian((scored.plus + scored.minus) / 2 - scored.centre))
        metrics = {
            "sigma": self.sigma,
            "rate": rate,
            "perturbation_cost": 100 * cost,
            "pair_difference": 100 * float(np.median(np.abs(d))),
            "log_objective": float((scored.plus + scored.minus).mean() / 2),
        }
        if evolve.cost is not None:
            # The cost grows with the square of sigma; half of the correction, as it is noisy.
            change = (evolve.cost / max(cost, 1e-9)) ** 0.25
            change = min(max(change, 1 / _WIDEST_CHANGE), _WIDEST_CHANGE)
            self.sigma = min(self.sigma * change, _WIDEST_SIGMA)
        return moved, metrics


def _tasks(settings: Int64, sequences: int) -> Iterator[list[int]]:
    """Pairs of one setting that play side by side; (K,) settings of all pairs."""
    size = max(1, _LANES // (2 * sequences))
    for setting in np.unique(settings):
        pairs = np.flatnonzero(settings == setting).tolist()
        for first in range(0, len(pairs), size):
            yield pairs[first : first + size]
