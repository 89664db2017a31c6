"""The step `evolve` of a training: perturbations, the direction, the width, what stays fixed."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self, TypeVar, cast

import numpy as np
import pytest
import torch

from decima.agent.network import PolicyNetwork
from decima.agent.weights import flattened, unflattened
from decima.rl.evolution import Evolution, EvolutionSettings, Scored, direction
from decima.rl.optimiser import flat_parameters
from decima.rl.parallel.local import HERE
from decima.rl.parallel.pool import SentOnce
from decima.training.config import TrainConfig, config_from
from decima.training.evolve import Perturbing, evolution_of, evolve, play_perturbed, scale_of
from decima.training.play import TrainingContext, Validating, Validation, validate
from traces.numbers import Float32

K = TypeVar("K", bound=Hashable)
R = TypeVar("R")
S = TypeVar("S")
T = TypeVar("T")

NONE = {"iterations": 0}
SMALL_NETWORK = {"embedding": 2, "hidden": [2], "head_hidden": [3]}


def config_of(trace: Path | str = "random-dag", **evolve: Any) -> TrainConfig:
    """Settings of a training with two settings and no other step."""
    return config_from(
        {
            "workload": {
                "trace": str(trace),
                "executors": 4,
                "interarrival_s": [3.0],
                "batch_jobs": [4],
            },
            "network": SMALL_NETWORK,
            "imitate": NONE,
            "reinforce": NONE,
            "evolve": {"iterations": 40, "pairs": 4, "sequences": 2, "jobs": 4, **evolve},
            "validation": {"sequences": 2, "jobs": 4},
        }
    )


def initial(config: TrainConfig) -> Float32:
    torch.manual_seed(1)
    return flat_parameters(PolicyNetwork(config.network)).numpy()


def test_flat_weights_are_those_of_the_network() -> None:
    config = config_of()
    torch.manual_seed(1)
    network = PolicyNetwork(config.network)
    flat = flat_parameters(network).numpy()
    np.testing.assert_array_equal(flattened(network.weights()), flat)
    arrays = unflattened(config.network, flat).arrays
    state = network.state_dict()
    assert list(arrays) == list(state)
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, state[name].numpy())


def test_pairs_play_as_in_a_validation(trace_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each pair's figures are those of its networks alone on its sequences, by likeliest plans."""
    config = config_of(trace_file)
    context = SentOnce(TrainingContext(config))
    weights = initial(config)
    source = context.value.source
    held_back = source.for_validation()
    monkeypatch.setattr(source, "for_evolving", lambda _, pair: [held_back[pair]] * 2)
    monkeypatch.setattr(source, "centred_pairs", lambda _: {0})
    width = np.float32(0.5) * np.ones_like(weights)
    scored = play_perturbed(Perturbing(context, weights, width, 0), [0, 1])

    def alone(weights: Float32, pair: int) -> float:
        shared = Validating(context, torch.from_numpy(weights))
        _, (figure,) = validate(shared, Validation(None, range(pair, pair + 1)))
        return float(np.log(figure))

    for pair in (0, 1):
        step = width * direction(config.seed, 0, pair, len(weights))
        assert scored.plus[pair] == pytest.approx(alone(weights + step, pair), rel=1e-14)
        assert scored.minus[pair] == pytest.approx(alone(weights - step, pair), rel=1e-14)
    assert len({*scored.plus, *scored.minus, scored.centre[0]}) == 5
    assert scored.centre[0] == pytest.approx(alone(weights, 0), rel=1e-14)
    assert np.isnan(scored.centre[1])


@pytest.mark.parametrize("settings", [1, 2, 3, 4, 8])
def test_unperturbed_runs_meet_every_setting(settings: int) -> None:
    """A fourth of the pairs, which a fixed stride would take from one setting alone."""
    workload = {"interarrival_s": [], "batch_jobs": list(range(1, settings + 1))}
    source = TrainingContext(config_from({"workload": workload})).source
    met: set[int] = set()
    for iteration in range(2):
        centred = source.centred_pairs(iteration)
        assert len(centred) == 32
        met |= {int(source.evolving_settings(iteration)[pair]) for pair in centred}
    assert met == set(range(settings))


def test_each_pair_has_sequences_of_its_own_and_settings_take_turns(trace_file: Path) -> None:
    """Over iterations, too, where there are fewer pairs than settings."""
    source = TrainingContext(config_of(trace_file, pairs=3)).source
    assert source.evolving_settings(0).tolist() == [0, 1, 0]
    assert source.evolving_settings(1).tolist() == [1, 0, 1]
    episodes = [
        episode
        for iteration in range(2)
        for pair in range(3)
        for episode in source.for_evolving(iteration, pair)
    ]
    assert [planned.setting.number for planned in episodes] == [0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 1, 1]
    assert len({planned.run.duration_key for planned in episodes}) == 12


@pytest.mark.parametrize("parts", [(), ("limit_head",), ("encoder", "end_head")])
def test_only_free_parts_move(trace_file: Path, parts: tuple[str, ...]) -> None:
    """The critic never does, nor a head for classes where there are none."""
    config = config_of(trace_file, parts=parts, pairs=4, sequences=1)
    weights = initial(config)
    evolution = evolution_of(config, len(weights))
    context = SentOnce(TrainingContext(config))
    moved, metrics = evolve(evolution, context, weights, 0, HERE)
    assert metrics["pair_difference"] > 0
    before = unflattened(config.network, weights).arrays
    for name, array in unflattened(config.network, moved).arrays.items():
        part = name.partition(".")[0]
        is_free = part in parts if parts else part not in ("value_head", "class_head")
        assert (array != before[name]).any() == is_free, name


class QuadraticPool:
    """Pool whose tasks score weights by their distance from an optimum, the same in all settings.

    The logarithm of the objective is (theta - optimum)^2 / P in units of the weights' scale.
    """

    slots = 1

    def __init__(self, config: TrainConfig, weights: Float32) -> None:
        self.config = config
        self.scale = scale_of(config, weights)
        self.factors: dict[int, float] = {}
        """of the objective's logarithm under a pair, if it is not 1"""
        self.optimum = weights + 0.5 * self.scale * direction(config.seed, 10**6, 0, len(weights))

    def log_objective(self, weights: Float32) -> float:
        free = self.scale > 0
        return float(np.mean(np.square((weights - self.optimum)[free] / self.scale[free])))

    def map(
        self, _function: Callable[[S, T], R], shared: S, tasks: Mapping[K, T], *, label: str
    ) -> Iterator[tuple[K, R]]:
        assert label
        assert isinstance(shared, Perturbing)
        size = len(shared.weights)
        centred = shared.context.value.source.centred_pairs(shared.iteration)
        for key, pairs in tasks.items():
            scored = Scored(*np.empty((3, len(cast("list[int]", pairs)))))
            for place, pair in enumerate(cast("list[int]", pairs)):
                step = shared.width * direction(self.config.seed, shared.iteration, pair, size)
                for sign, values in zip((1, -1, 0), scored, strict=True):
                    log = self.log_objective(shared.weights + sign * step)
                    values[place] = self.factors.get(pair, 1.0) * log
                if pair not in centred:
                    scored.centre[place] = np.nan
            yield key, cast("R", scored)

    def close(self) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def test_it_descends_to_a_known_optimum() -> None:
    """The distance falls to a fifth in 200 iterations, and sigma goes to where the cost is asked.

    A perturbation of sigma in units of the scale adds sigma^2 to the logarithm on average.
    """
    config = config_of(iterations=200, pairs=24, rate=1.0, cost=0.01)
    weights = initial(config)
    pool = QuadraticPool(config, weights)
    evolution = evolution_of(config, len(weights))
    context = SentOnce(TrainingContext(config))
    start = pool.log_objective(weights)
    for iteration in range(200):
        weights, metrics = evolve(evolution, context, weights, iteration, pool)
    assert pool.log_objective(weights) < start / 5
    assert metrics["sigma"] == pytest.approx(0.1, rel=0.25)
    assert metrics["perturbation_cost"] == pytest.approx(1.0, rel=0.25)


def test_sigma_stays_where_no_cost_is_asked_and_does_not_run_away_where_nothing_costs() -> None:
    """A flat objective: three times the first sigma is the widest."""
    config = config_of(cost="none", sigma=0.07)
    weights = initial(config)
    evolution = evolution_of(config, len(weights))
    context = SentOnce(TrainingContext(config))
    evolve(evolution, context, weights, 0, QuadraticPool(config, weights))
    assert evolution.sigma == 0.07

    evolution = Evolution(EvolutionSettings(0.05, 0.01, 0.8), seed=0, size=3, inputs=1)
    flat = Scored(*np.zeros((3, 2)))
    theta, ones = np.zeros(3, np.float32), np.ones(3, np.float32)
    for iteration in range(10):
        evolution.step(theta, ones, flat, np.zeros(2, np.int64), 1.0, iteration)
    assert evolution.sigma == pytest.approx(0.15)


def test_a_setting_of_larger_differences_does_not_outweigh_another(trace_file: Path) -> None:
    """Differences count in units of what is typical of their setting."""
    config = config_of(trace_file, pairs=6)
    weights = initial(config)
    context = SentOnce(TrainingContext(config))
    settings = context.value.source.evolving_settings(0)
    directions = []
    for factor in (1.0, 1000.0):
        pool = QuadraticPool(config, weights)
        pool.factors = dict.fromkeys(np.flatnonzero(settings == 1).tolist(), factor)
        moved, _ = evolve(evolution_of(config, len(weights)), context, weights, 0, pool)
        directions.append(moved - weights)
    np.testing.assert_allclose(directions[0], directions[1], rtol=1e-3, atol=1e-7)
