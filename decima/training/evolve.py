r"""Evolution strategies on the network's weights: the step `evolve` of a training.

One iteration plays whole sequences by the likeliest plans, under K pairs of opposite perturbations
of the weights theta and under theta itself. All meet the same arrivals and task durations.

.. math::
    \epsilon_k &\sim N(0, I_P), \qquad
    \theta_k^\pm = \theta \pm \sigma D \epsilon_k \\
    d_k &= \frac{1}{N} \sum_n \frac{1}{s_n S} \sum_s
        \log f(\theta_k^+, n, s) - \log f(\theta_k^-, n, s) \\
    g &= -\sum_k \mathrm{clip}(d_k / s,\, \pm 2)\, \epsilon_k, \qquad
    v \leftarrow m v + (1 - m) \sqrt{P} \, g / \lVert g \rVert \\
    \theta &\leftarrow \theta + r \sigma D v

Letters: P weights, D the root mean square of each tensor's weights, f the objective on sequence s
of S in setting n of N, s_n the deviation of the pairs' differences in that setting (so that no
setting outweighs the others), s the deviation of d, m the momentum and r the rate.

A perturbation is drawn again from its number wherever it is needed, so only numbers and figures
travel between processes. Sigma follows the network: it is the width at which perturbations worsen
the objective by `evolve.cost` on average, which is the curvature that the steps can bear.

Source: Salimans, Ho, Chen, Sidor and Sutskever, Evolution Strategies as a Scalable Alternative to
Reinforcement Learning, 2017.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from decima.agent.rollout import Lanes, play_out
from decima.agent.scales import Scales
from decima.agent.weights import NetworkConfig, NetworkWeights, weight_shapes
from decima.rl.parallel.pool import SentOnce, WorkerPool
from decima.training.config import TrainConfig
from decima.training.rollouts import TrainingContext
from spark_sim.metrics import measure
from traces.numbers import Float32, Float64

_EVOLVE_STREAM = 14
_LEAST_SCALE = 0.02  # of a tensor whose weights are near 0, such as new biases
_MOST_DEVIATIONS = 2.0
_WIDEST_CHANGE = 1.25  # most that sigma changes in one iteration
_WIDEST_SIGMA = 1.0


class Perturbing(NamedTuple):
    """Inputs that the tasks of an iteration share."""

    context: SentOnce[TrainingContext]
    weights: Float32  # (P,)
    width: Float32  # (P,) standard deviation of a perturbation; 0 where a weight is fixed
    iteration: int


class Perturbation(NamedTuple):
    """A task: play the iteration's sequences under perturbed weights."""

    pair: int
    sign: int  # 1 or -1; 0 plays the weights themselves


def play_perturbed(shared: Perturbing, task: Perturbation) -> Float64:
    """(N, S) logarithm of the objective on each sequence of each setting."""
    context = shared.context.value
    config = context.config
    weights = shared.weights
    if task.sign != 0:
        step = task.sign * shared.width
        weights = weights + step * noise(config, shared.iteration, task.pair, len(weights))
    network = network_weights(config.network, weights)
    figures = []
    for episodes in context.source.for_evolving(shared.iteration):
        setting = episodes[0].setting
        arrays, _ = context.jobs(setting)
        lanes = Lanes(arrays, setting.config.cluster(), [one.run for one in episodes], None)
        states = play_out(network, Scales.of(arrays), lanes).states
        figures.append([context.objective.of(measure(state)) for state in states])
    logs: Float64 = np.log(np.array(figures))
    return logs


def noise(config: TrainConfig, iteration: int, pair: int, size: int) -> Float32:
    """(P,) the direction epsilon of a pair."""
    seeds = np.random.SeedSequence(config.seed, spawn_key=(iteration, pair, _EVOLVE_STREAM))
    return np.random.default_rng(seeds).standard_normal(size, dtype=np.float32)


def network_weights(config: NetworkConfig, flat: Float32) -> NetworkWeights:
    """Return the network with these (P,) weights, which are in the order of `weight_shapes`."""
    arrays: dict[str, Float32] = {}
    first = 0
    for name, shape in weight_shapes(config).items():
        last = first + math.prod(shape)
        arrays[name] = flat[first:last].reshape(shape)
        first = last
    return NetworkWeights(config, arrays)


def scale_of(config: TrainConfig, flat: Float32) -> Float32:
    """(P,) the diagonal of D: 0 for the critic and for other parts that may not change."""
    values: list[NDArray[np.float32]] = []
    for name, array in network_weights(config.network, flat).arrays.items():
        is_free = name.partition(".")[0] in config.evolving_parts
        size = max(float(np.sqrt(np.mean(np.square(array)))), _LEAST_SCALE)
        values.append(np.full(array.size, size if is_free else 0.0, np.float32))
    return np.concatenate(values)


class Evolution:
    """The momentum and the width of the step's iterations so far."""

    def __init__(self, config: TrainConfig, size: int) -> None:
        self._config = config
        self.velocity: Float64 = np.zeros(size)
        self.sigma = config.evolve.sigma

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

        # Play the pairs, and the weights themselves.
        scale = scale_of(self._config, weights)
        width = np.float32(self.sigma) * scale
        shared = Perturbing(context, weights, width, iteration)
        tasks = {
            (pair, sign): Perturbation(pair, sign)
            for pair in range(evolve.pairs)
            for sign in (1, -1)
        }
        tasks[0, 0] = Perturbation(0, 0)
        label = f"iteration {iteration}: perturbations"
        played = dict(pool.map(play_perturbed, shared, tasks, label=label))
        plus = np.stack([played[pair, 1] for pair in range(evolve.pairs)])  # (K, N, S)
        minus = np.stack([played[pair, -1] for pair in range(evolve.pairs)])
        centre = played[0, 0]

        # Estimate the direction in which the objective falls.
        differences = (plus - minus).mean(axis=2)  # (K, N)
        d = in_deviations(differences).mean(axis=1)
        z = np.clip(in_deviations(d[:, None])[:, 0], -_MOST_DEVIATIONS, _MOST_DEVIATIONS)
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
        cost = float(((plus + minus) / 2 - centre).mean())
        metrics = {
            "sigma": self.sigma,
            "rate": rate,
            "perturbation_cost": 100 * cost,
            "pair_difference": 100 * float(np.abs(differences).mean()),
            "log_objective": float(centre.mean()),
        }
        if evolve.cost is not None:
            # The cost grows with the square of sigma; half of the correction, as it is noisy.
            change = (evolve.cost / max(cost, 1e-9)) ** 0.25
            change = min(max(change, 1 / _WIDEST_CHANGE), _WIDEST_CHANGE)
            self.sigma = min(self.sigma * change, _WIDEST_SIGMA)
        return moved, metrics


def in_deviations(differences: Float64) -> Float64:
    """(K, N) differences over the deviation in each of N columns; 0 where all are equal."""
    deviation = np.sqrt(np.square(differences).mean(axis=0))
    scaled: Float64 = np.divide(
        differences, deviation, where=deviation > 0, out=np.zeros_like(differences)
    )
    return scaled
