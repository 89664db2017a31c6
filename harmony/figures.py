"""Measurements of the paper's figures and table: numbers with intervals, no drawing.

All on sequences of the purpose `TEST`, which no training and no fitting has seen; every scheduler
plays the same ones. Source: Harmony, section VI.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
import torch

from decima.rl.errors import NoModelsError
from decima.rl.optimiser import one_thread
from decima.rl.statistics import compared, difference_percent, mean_of
from decima.rl.study.streams import Purpose
from harmony.clusters import Clusters
from harmony.config import CONFIGS, RATES, Config
from harmony.evaluation import baselines, completion_by_type, played
from harmony.interference import LINEAR, QUADRATIC, fit_lif, predict_lif, relative_error
from harmony.jobs import draw_jobs
from harmony.learned import Learned
from harmony.measured import measured
from harmony.network import ActorCritic
from harmony.reward_config import RewardConfig
from harmony.reward_learner import CLOSE, predict, split
from harmony.samples import Samples, draw_samples
from harmony.schedulers import Scheduler
from harmony.study import ABLATIONS, SIZES, Models, Training
from harmony.tables import Float64

SEED = 2019
"""of sequences and samples; trainings have theirs"""
SAMPLES = 10_000
"""states that LIF and the table of pairs are fitted to, for each cluster"""
GROUPS, STATES = 20, 150
"""of sequences whose speeds are predicted, and states of each: states of one are not independent"""
UNSEEN = 2_981
"""added to the seed, gives that of the first group, and on from there"""
INTERVALS_MIN = (10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0)


class Bench(NamedTuple):
    """Clusters and sequences that schedulers are compared on."""

    models: Models
    sequences: int
    seed: int = SEED

    def completions(self, pairs: Sequence[tuple[ActorCritic, Config]]) -> list[Float64]:
        """(S,) mean completion times in intervals of each policy in its cluster."""
        return [one.mean_completion() for one in self.played(pairs)]

    def played(self, pairs: Sequence[tuple[ActorCritic, Config]]) -> list[Clusters]:
        """Clusters in which each policy has played all sequences."""
        return self._on_all_cores([(_scheduler(*pair), pair[1]) for pair in pairs], [])

    def heuristics(self, config: Config) -> dict[str, Clusters]:
        """Clusters in which each heuristic has played all sequences, by name."""
        found = self._baselines(config)
        return {name: self._played(one, config) for name, one in found.items()}

    def compared(
        self, configs: Mapping[str, Config], policies: Mapping[str, Sequence[ActorCritic]]
    ) -> dict[str, Any]:
        """Completion times by cluster of heuristics and trainings, and differences in percent."""
        others = {key: self._baselines(config) for key, config in configs.items()}
        learned = [
            (_scheduler(network, config), config)
            for config in configs.values()
            for own in policies.values()
            for network in own
        ]
        heuristics = [(one, configs[key]) for key, own in others.items() for one in own.values()]
        clusters = self._on_all_cores(learned, heuristics)
        values = iter([one.mean_completion() for one in clusters])
        of_learned = {
            key: {name: [next(values) for _ in own] for name, own in policies.items()}
            for key in configs
        }
        return {
            key: compared({name: next(values) for name in own}, of_learned[key])
            for key, own in others.items()
        }

    def _baselines(self, config: Config) -> Mapping[str, Scheduler]:
        return baselines(config, samples_of(config, self.seed))

    def _on_all_cores(
        self,
        learned: Sequence[tuple[Scheduler, Config]],
        others: Sequence[tuple[Scheduler, Config]],
    ) -> list[Clusters]:
        """Clusters in which each scheduler has played all sequences, policies first."""
        # Threads: torch holds no lock while it computes, which is nearly all that a policy does.
        # Heuristics do hold it, so they are spread evenly among the policies.
        pairs = [*learned, *others]
        turn = [(n + 0.5) / len(own) for own in (learned, others) for n in range(len(own))]
        # Each sets torch's number of threads for itself, and MKL's for all.
        single = partial(torch.set_num_threads, 1)
        with one_thread(), ThreadPoolExecutor(os.cpu_count(), initializer=single) as pool:
            order = sorted(range(len(pairs)), key=lambda n: turn[n])
            begun = {n: pool.submit(self._played, *pairs[n]) for n in order}
            return [begun[n].result() for n in range(len(pairs))]

    def _played(self, scheduler: Scheduler, config: Config) -> Clusters:
        jobs = draw_jobs(config, self.sequences, self.seed, Purpose.TEST)
        return played(scheduler, config, jobs, self.seed)


def _scheduler(network: ActorCritic, config: Config) -> Scheduler:
    return Learned(network.policy, config)


def samples_of(config: Config, seed: int = SEED) -> Samples:
    """States of a cluster at the default interval and rate, that models are fitted to."""
    return _samples(replace(config.arriving("uniform"), interval_min=20.0), seed)


@cache
def _samples(config: Config, seed: int) -> Samples:
    return draw_samples(config, SAMPLES, seed)


def figure_10(bench: Bench) -> dict[str, Any]:
    """Completion time by pattern of arrival on 6 servers, by three models of speed."""
    policies = {
        "harmony": bench.models.policies("policy", "6"),
        "harmony on the reward model": bench.models.policies("model", "6"),
    }
    worst = replace(CONFIGS["6"], several="worst")
    return {
        "patterns": _by_pattern(bench, CONFIGS["6"], policies),
        "worst": _by_pattern(bench, worst, policies),
        "analytic": _on_analytic_speeds(bench, "6"),
    }


def figure_14(bench: Bench) -> dict[str, Any]:
    """Measure figure 14 on 30 servers, by both models of speed."""
    policies = {
        "harmony": bench.models.policies("policy", "30"),
        "harmony for 6 servers": bench.models.policies("policy", "6"),
    }
    return {
        "patterns": _by_pattern(bench, CONFIGS["30"], policies),
        "analytic": _on_analytic_speeds(bench, "30"),
    }


def _on_analytic_speeds(bench: Bench, servers: str) -> dict[str, Any]:
    policies = {"harmony": bench.models.policies("analytic", servers)}
    return _by_pattern(bench, replace(CONFIGS[servers], speed="analytic"), policies)


def _by_pattern(
    bench: Bench, config: Config, policies: Mapping[str, list[ActorCritic]]
) -> dict[str, Any]:
    return bench.compared({one: config.arriving(one) for one in RATES}, policies)


def figure_11(bench: Bench) -> dict[str, Any]:
    """Completion time by type of job on 6 servers, uniform arrivals."""
    policies = bench.models.policies("policy", "6")
    learned = bench.played([(one, CONFIGS["6"]) for one in policies])
    heuristics = bench.heuristics(CONFIGS["6"])
    found = {}
    for number, name in enumerate(measured().models):
        others = {key: completion_by_type(one, number) for key, one in heuristics.items()}
        own = [completion_by_type(one, number) for one in learned]
        found[name] = compared(others, {"harmony": own})
    return {"types": found}


def figure_12(bench: Bench) -> dict[str, Any]:
    """Completion time in minutes against the length of the interval."""
    policies = bench.models.policies("policy", "6")
    if not policies:
        raise NoModelsError(Training("policy", "6", 0).name)
    configs = [replace(CONFIGS["6"], interval_min=minutes) for minutes in INTERVALS_MIN]
    values = bench.completions([(one, config) for config in configs for one in policies])
    found: dict[str, Any] = {}
    for number, minutes in enumerate(INTERVALS_MIN):
        own = np.stack(values[number * len(policies) :][: len(policies)])
        found[f"{minutes:.0f}"] = mean_of(own * minutes).to_json()
    return {"minutes": found}


def figure_13(bench: Bench) -> dict[str, Any]:
    """Relative errors of predicted speeds in sequences nothing has seen, and shares within 10 %."""
    found: dict[str, Any] = {}
    first = bench.seed + UNSEEN
    for servers, config in CONFIGS.items():
        models = bench.models.rewards(servers)
        if not models:
            continue
        unseen = [draw_samples(config, STATES, seed) for seed in range(first, first + GROUPS)]
        errors: dict[str, list[_Errors]] = {}
        for model in models:
            for name, one in _errors(model.network, model.config, unseen).items():
                errors.setdefault(name, []).append(one)
        found[servers] = {name: _error_figures(one) for name, one in errors.items()}
    if not found:
        raise NoModelsError(Training("reward", "6", 0).name)
    return {"servers": found, "models": list(measured().models)}


class _Errors(NamedTuple):
    """Errors of one way to predict."""

    groups: list[Float64]
    """of all jobs of each group of sequences"""
    models: list[Float64]
    """of all jobs of each type"""


def _errors(network: Any, config: RewardConfig, unseen: list[Samples]) -> dict[str, _Errors]:
    """Errors by who predicts; LIF is fitted to what the network has learned from."""
    known, _ = split(config)
    gpus = len(config.cluster.gpu_table)
    linear, quadratic = (fit_lif(known, terms, gpus) for terms in (LINEAR, QUADRATIC))
    predictors: dict[str, Callable[[Samples], Float64]] = {
        "reward model": lambda samples: predict(network, samples),
        "lif_linear": lambda samples: predict_lif(samples, linear),
        "lif_quad": lambda samples: predict_lif(samples, quadratic),
    }
    found = {}
    for name, predictor in predictors.items():
        predicted = [(predictor(samples), samples) for samples in unseen]
        found[name] = _Errors(
            [relative_error(*pair) for pair in predicted],
            [
                np.concatenate([relative_error(*pair, model=kind) for pair in predicted])
                for kind in range(len(measured().models))
            ],
        )
    return found


def _error_figures(runs: list[_Errors]) -> dict[str, Any]:
    """Mean errors and shares within 10 %: of all jobs, intervals over groups, and by type."""
    by_model = [np.concatenate(k) for k in zip(*(run.models for run in runs), strict=True)]
    return {
        "error": mean_of(np.array([[g.mean() for g in run.groups] for run in runs])).to_json(),
        "close": mean_of(
            np.array([[(g < CLOSE).mean() for g in run.groups] for run in runs])
        ).to_json(),
        "error_by_model": [float(one.mean()) for one in by_model],
        "close_by_model": [float((one < CLOSE).mean()) for one in by_model],
        "trainings": len(runs),
    }


def figure_15(bench: Bench) -> dict[str, Any]:
    """Completion time of short trainings, by the size of the network."""
    return {"sizes": _variants(bench, list(SIZES), "paper_size")}


def table_2(bench: Bench) -> dict[str, Any]:
    """Completion time of the paper's recipe, and without each of its parts."""
    return {"rows": _variants(bench, list(ABLATIONS), "recipe")}


def _variants(bench: Bench, kinds: list[str], reference: str) -> dict[str, Any]:
    values = {
        kind: np.stack(bench.completions([(one, CONFIGS["6"]) for one in networks]))
        for kind in kinds
        if (networks := bench.models.policies(kind, "6"))
    }
    if not values:
        raise NoModelsError(", ".join(Training(kind, "6", 0).name for kind in kinds))
    found: dict[str, Any] = {}
    for kind, own in values.items():
        each = [float(one.mean()) for one in own]
        found[kind] = {**mean_of(own).to_json(), "trainings": len(own), "each": each}
        if reference in values and kind != reference:
            against = difference_percent(own, values[reference])
            found[kind]["percent_against"] = {reference: against.to_json()}
    return found


FIGURES: Mapping[str, Callable[[Bench], dict[str, Any]]] = {
    "figure10": figure_10,
    "figure11": figure_11,
    "figure12": figure_12,
    "figure13": figure_13,
    "figure14": figure_14,
    "figure15": figure_15,
    "table2": table_2,
}
"""by name; those of the paper by their number there"""
