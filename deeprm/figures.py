"""Measurements of the paper's figures: numbers with intervals, no drawing.

Every figure is measured on the same 100 job sets, of the purpose `TEST`, which no training and no
tuning has seen. Source: DeepRM (HotNets 2016), section 4.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from decima.rl.errors import NoModelsError
from decima.rl.statistics import compared, mean_of, mean_of_chosen
from decima.rl.study.streams import Purpose
from deeprm.config import PAPER, Config
from deeprm.evaluation import TUNING_SETS, Outcome, baselines, evaluate
from deeprm.jobs import draw_jobs
from deeprm.models import Model, scheduler_of
from deeprm.objectives import Objective
from deeprm.schedulers import Scheduler
from deeprm.study import (
    FIRST_AT,
    LOADS,
    OBJECTIVES_AT,
    SEEDS,
    SIZES_AT,
    Kind,
    Models,
    Training,
    branches_for,
)
from deeprm.tables import Float64, Int32, Jobs
from deeprm.training_config import OBJECTIVES

SEED = 2016
"""of job sets and choices; trainings have theirs"""
HELD_AT = 110
"""percent, of figure 7"""
PLAYS = 5
"""episodes of a policy on each job set, as its actions are drawn"""
SIZES = {1: 10, 2: 15, 4: 20}
"""capacity, in that of the paper's cluster, and slots"""


class Bench(NamedTuple):
    """Clusters and job sets that schedulers are compared on."""

    models: Models
    sets: int
    """job sets"""
    seed: int = SEED

    def cluster(self, load: int) -> Config:
        """Return the cluster at a load in percent."""
        return PAPER.at_load(load / 100)

    def jobs(self, config: Config) -> Jobs:
        """Return the unseen job sets."""
        return draw_jobs(config, self.sets, self.seed, Purpose.TEST)

    def tuned(self, config: Config, objective: Objective) -> Mapping[str, Scheduler]:
        """Return the heuristics by name, tuned on other job sets."""
        tuning = draw_jobs(config, TUNING_SETS, self.seed, Purpose.TUNING)
        return baselines(config, tuning, objective)

    def heuristics(self, config: Config, objective: Objective) -> dict[str, Outcome]:
        """Return the heuristics' outcomes by name."""
        found, jobs = self.tuned(config, objective), self.jobs(config)
        return {name: evaluate(one, config, jobs, self.seed) for name, one in found.items()}

    def learned(self, kind: Kind, load: int) -> list[Plays]:
        """Return the plays of each training of that kind."""
        return [self.played(one, self.cluster(load)) for one in self.models.of(kind, load)]

    def played(self, model: Model, config: Config) -> Plays:
        """Return the plays of a model on such a cluster."""
        scheduler, jobs = scheduler_of(model), self.jobs(config)
        seeds = range(self.seed, self.seed + PLAYS)
        return Plays([evaluate(scheduler, config, jobs, seed) for seed in seeds])

    def slowdowns(
        self, config: Config, learned: Mapping[str, Sequence[Plays]]
    ) -> dict[str, dict[str, Any]]:
        """Return slowdowns of the heuristics, and of trainings against them."""
        others = self.heuristics(config, Objective.SLOWDOWN)
        return compared(
            {name: one.slowdown for name, one in others.items()},
            {name: [one.mean(_slowdown) for one in plays] for name, plays in learned.items()},
        )


class Plays(NamedTuple):
    """Episodes of one policy, which draws its actions: several on each job set."""

    outcomes: list[Outcome]
    """one episode on each job set, several times"""

    def mean(self, of: Callable[[Outcome], Float64]) -> Float64:
        """(S,) mean over the episodes of each job set."""
        return np.asarray(np.mean([of(one) for one in self.outcomes], axis=0))


def _slowdown(one: Outcome) -> Float64:
    return one.slowdown


def _values(learned: list[Plays], of: Callable[[Outcome], Float64]) -> Float64:
    """(P, S) of P trainings."""
    return np.stack([plays.mean(of) for plays in learned])


def figure_4(bench: Bench) -> dict[str, Any]:
    """Average slowdown against load, one policy a load; those on branches serve several."""
    return {"loads": {str(load): _at_load(bench, load) for load in LOADS}}


def _at_load(bench: Bench, load: int) -> dict[str, Any]:
    on_branches = bench.models.of("branches", branches_for(load))
    learned = {
        "deeprm": bench.learned("slowdown", load),
        "on branches": [bench.played(one, bench.cluster(load)) for one in on_branches],
    }
    if load == FIRST_AT:
        learned["paper's recipe"] = bench.learned("paper", load)
    return bench.slowdowns(bench.cluster(load), learned)


def figure_5(bench: Bench) -> dict[str, Any]:
    """Every objective at 130 %, of the heuristics and of a policy trained for each."""
    measures: dict[str, Any] = {one.value: {} for one in Objective}
    others = bench.heuristics(bench.cluster(OBJECTIVES_AT), Objective.SLOWDOWN)
    for name, one in others.items():
        for objective in Objective:
            figure = mean_of(one.measure(objective)[None]).to_json()
            measures[objective.value][name] = figure
    for name in OBJECTIVES:
        learned = bench.learned(name, OBJECTIVES_AT)
        for objective in Objective if learned else ():
            measured = partial(Outcome.measure, objective=objective)
            figure = {**mean_of(_values(learned, measured)).to_json(), "trainings": len(learned)}
            measures[objective.value][f"deeprm for {name}"] = figure
    return {"load": OBJECTIVES_AT, "measures": measures}


def figure_6(bench: Bench) -> dict[str, Any]:
    """Slowdown and rewards against iterations at 70 %; heuristics on the same job sets."""
    curves = bench.models.curves()
    names = [Training("paper", FIRST_AT, seed).name for seed in SEEDS]
    if curves.keys().isdisjoint(names):
        raise NoModelsError(", ".join(names))
    config = bench.cluster(FIRST_AT)
    schedulers = bench.tuned(config, Objective.SLOWDOWN)
    lines: dict[str, Any] = {}
    for seed in SEEDS:
        held_back = draw_jobs(config, 100, seed, Purpose.VALIDATION)
        for name, one in schedulers.items():
            found = evaluate(one, config, held_back, bench.seed).slowdown.mean()
            lines.setdefault(name, []).append(float(found))
    return {
        "load": FIRST_AT,
        "heuristics_by_seed": lines,
        "curves": {name: curves[name] for name in names if name in curves},
    }


def figure_7(bench: Bench) -> dict[str, Any]:
    """Measure what is withheld at 110 %, and the effect on small and on large jobs."""
    heuristics = bench.heuristics(bench.cluster(HELD_AT), Objective.SLOWDOWN)
    learned = bench.learned("slowdown", HELD_AT)
    if not learned:
        raise NoModelsError(Training("slowdown", HELD_AT, 0).name)
    found: dict[str, Any] = {"load": HELD_AT, "trainings": len(learned)}
    found["held_steps"] = mean_of(_values(learned, lambda one: one.held_steps)).to_json()
    played = [one for plays in learned for one in plays.outcomes]
    durations = np.concatenate([one.duration[one.held] for one in played])
    exists = np.concatenate([one.duration[one.duration > 0] for one in played])
    found["withheld_jobs_by_duration"] = _counts(durations)
    found["jobs_by_duration"] = _counts(exists)
    sizes: Mapping[str, Callable[[Outcome], Float64]] = {
        "small": lambda one: mean_of_chosen(
            one.job_slowdown, (one.duration > 0) & (one.duration <= 3)
        ),
        "large": lambda one: mean_of_chosen(one.job_slowdown, one.duration > 3),
    }
    found["slowdown"] = {
        size: {
            "deeprm": mean_of(_values(learned, of)).to_json(),
            **{name: mean_of(of(heuristics[name])[None]).to_json() for name in ("hold", "tetris")},
        }
        for size, of in sizes.items()
    }
    return found


def _counts(durations: Int32) -> dict[str, int]:
    values, counts = np.unique(durations, return_counts=True)
    return {str(value): int(count) for value, count in zip(values, counts, strict=True)}


def sizes(bench: Bench) -> dict[str, Any]:
    """Slowdown on clusters of other sizes, of one network on numbers that was trained on the first.

    The jobs stay as they are, and more of them come, so that the load does. Not in the paper.
    """
    models = bench.models.of("compact", SIZES_AT)
    found: dict[str, Any] = {"load": SIZES_AT, "sizes": {}}
    for times, slots in SIZES.items():
        config = replace(
            bench.cluster(SIZES_AT),
            capacity=times * PAPER.capacity,
            slots=slots,
            arrival_trials=times * PAPER.arrival_trials,
        )
        learned = [bench.played(one, config) for one in models]
        found["sizes"][str(times)] = bench.slowdowns(config, {"deeprm": learned})
    return found


FIGURES: Mapping[str, Callable[[Bench], dict[str, Any]]] = {
    "figure4": figure_4,
    "figure5": figure_5,
    "figure6": figure_6,
    "figure7": figure_7,
    "sizes": sizes,
}
"""by name; those of the paper by their number there"""
