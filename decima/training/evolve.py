"""The step `evolve` of a training: evolution strategies (`decima.rl.evolution`) on a network.

One iteration plays whole sequences by the likeliest plans. Each pair of perturbations has sequences
of its own, and the settings take turns: sequences differ more than perturbations do, so many pairs
on one sequence each estimate a direction better than few pairs on many. D is the root mean square
of each tensor's weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from decima.agent.rollout import Lanes, play_out
from decima.agent.scales import Scales
from decima.agent.weights import NetworkWeights, unflattened
from decima.rl.evolution import Evolution, EvolutionSettings, Scored, direction
from decima.rl.parallel.pool import SentOnce, WorkerPool
from decima.training.config import TrainConfig
from decima.training.episodes import Episode
from decima.training.play import TrainingContext
from spark_sim.metrics import measure
from traces.numbers import Float32

_LEAST_SCALE = 0.02  # of a tensor whose weights are near 0, such as new biases
_LANES = 16  # runs that a task plays side by side: fewer are slower, more leave workers idle


class Perturbing(NamedTuple):
    """Inputs that the tasks of an iteration share."""

    context: SentOnce[TrainingContext]
    weights: Float32  # (P,)
    width: Float32  # (P,) standard deviation of a perturbation; 0 where a weight is fixed
    iteration: int


def evolution_of(config: TrainConfig, size: int) -> Evolution:
    """Return the evolution of a training of `size` weights, at its begin."""
    evolve = config.evolve
    settings = EvolutionSettings(evolve.sigma, evolve.cost, evolve.momentum)
    return Evolution(settings, config.seed, size, len(config.workload.evaluations()))


def evolve(
    evolution: Evolution,
    context: SentOnce[TrainingContext],
    weights: Float32,
    iteration: int,
    pool: WorkerPool,
) -> tuple[Float32, dict[str, float]]:
    """Play an iteration's pairs and return the moved (P,) weights, and figures."""
    config = context.value.config
    scale = scale_of(config, weights)
    shared = Perturbing(context, weights, np.float32(evolution.sigma) * scale, iteration)
    settings = context.value.source.evolving_settings(iteration)
    # A task plays pairs of one setting side by side.
    size = max(1, _LANES // (2 * config.evolve.sequences))
    tasks: dict[int, list[int]] = {}
    for setting in np.unique(settings):
        pairs = np.flatnonzero(settings == setting).tolist()
        for first in range(0, len(pairs), size):
            tasks[len(tasks)] = pairs[first : first + size]
    label = f"iteration {iteration}: perturbations"
    scored = Scored(*np.empty((3, config.evolve.pairs)))
    for key, part in pool.map(play_perturbed, shared, tasks, label=label):
        for figures, of_task in zip(scored, part, strict=True):
            figures[tasks[key]] = of_task
    _, number = config.step_at(iteration)
    rate = config.evolve.rate_at(number)
    return evolution.step(weights, scale, scored, settings, rate, iteration)


def play_perturbed(shared: Perturbing, pairs: Sequence[int]) -> Scored:
    """Play the sequences of some pairs, which are of one setting, side by side."""
    context = shared.context.value
    config = context.config
    centred = context.source.centred_pairs(shared.iteration)
    networks: list[NetworkWeights] = []
    episodes: list[Episode] = []
    for pair in pairs:
        step = shared.width * direction(config.seed, shared.iteration, pair, len(shared.weights))
        signs = (1, -1, 0) if pair in centred else (1, -1)
        sequences = context.source.for_evolving(shared.iteration, pair)
        for sign in signs:
            network = unflattened(config.network, shared.weights + np.float32(sign) * step)
            networks += [network] * len(sequences)
            episodes += sequences
    setting = episodes[0].setting
    arrays, _ = context.jobs(setting)
    lanes = Lanes(arrays, setting.config.cluster(), [episode.run for episode in episodes], None)
    states = play_out(networks, Scales.of(arrays), lanes).states
    logs = np.log([context.objective.of(measure(state)) for state in states])
    means = iter(logs.reshape(-1, config.evolve.sequences).mean(axis=1).tolist())
    scored = Scored(*np.full((3, len(pairs)), np.nan))
    for place, pair in enumerate(pairs):
        scored.plus[place], scored.minus[place] = next(means), next(means)
        if pair in centred:
            scored.centre[place] = next(means)
    return scored


def scale_of(config: TrainConfig, flat: Float32) -> Float32:
    """(P,) the diagonal of D: 0 for the critic and for other parts that may not change."""
    values: list[NDArray[np.float32]] = []
    for name, array in unflattened(config.network, flat).arrays.items():
        is_free = name.partition(".")[0] in config.evolving_parts
        size = max(float(np.sqrt(np.mean(np.square(array)))), _LEAST_SCALE)
        values.append(np.full(array.size, size if is_free else 0.0, np.float32))
    return np.concatenate(values)
