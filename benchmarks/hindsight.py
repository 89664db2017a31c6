"""Bound on rules: the scoring rule, fitted in hindsight to the very sequence that it plays.

    python -m benchmarks.hindsight [--trace tpch] [--sequences 10] [--generations 60] [--classes]

For each sequence an evolution strategy fits the 295 weights of `es_rule` to that very sequence, the
same arrivals and task durations each time, from the shipped weights. The result has learned the
sequence by heart and is worthless elsewhere; its gain over the usual rule shows how much
there is to be had for weights that must serve sequences they do not know. It is an indication, not
a bound: more generations find some more, and policies of another form are not covered (`bounds`).
With `--classes` the settings are those of `executor_classes`, the rule is that of `es_classes`, and
beside it stands Graphene* as it ships.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import cma
import numpy as np

from benchmarks.executor_classes import settings_of
from decima import EvaluationConfig
from decima.evaluation.runner import Workload, prepare
from decima.heuristics.es_rule import PARAMETERS
from decima.registry import HEURISTICS, Heuristic
from decima.rl.statistics import difference_percent
from spark_sim.metrics import measure

POPULATION = 20
SIGMA = 0.15


class Setting(NamedTuple):
    """Workload and weights of one fit."""

    label: str
    config: EvaluationConfig
    reference: str
    policy: str

    def begin(self) -> list[float]:
        """The shipped weights."""
        defaults = HEURISTICS[self.policy].defaults
        return [defaults[name] for name in PARAMETERS]

    def rule(self, weights: list[float]) -> Heuristic:
        """The policy with these."""
        own = dict(zip(PARAMETERS, weights, strict=True))
        return Heuristic(self.policy, {**HEURISTICS[self.policy].defaults, **own})


def average_jct_s(
    workload: Workload, config: EvaluationConfig, number: int, policy: Heuristic
) -> float:
    """Average JCT of one sequence."""
    simulator = prepare(workload, config, number)
    policy.play(simulator)
    return float(measure(simulator.state).avg_jct_s)


def fitted_s(workload: Workload, setting: Setting, number: int, generations: int) -> float:
    """The least average JCT that weights fitted to this very sequence reach."""
    rng = np.random.default_rng(number)
    options = {
        "popsize": POPULATION,
        "randn": lambda *shape: rng.standard_normal(shape),
        "seed": np.nan,  # leave numpy's global generator alone
        "verbose": -9,
        "verb_log": 0,
    }
    search = cma.CMAEvolutionStrategy(setting.begin(), SIGMA, options)
    best = np.inf
    for _ in range(generations):
        asked = search.ask()
        scores = [
            average_jct_s(workload, setting.config, number, setting.rule(weights.tolist()))
            for weights in asked
        ]
        search.tell(asked, scores)
        best = min(best, *scores)
    return best


def plain_settings(trace: str) -> Iterator[Setting]:
    """Executors that are all alike."""
    base = EvaluationConfig(trace=trace, jobs=200)
    configs = {f"gap {gap:g} s": replace(base, interarrival_s=gap) for gap in (25.0, 18.0, 15.0)}
    configs["batch of 20"] = replace(base, arrivals="batch", jobs=20)
    for label, config in configs.items():
        yield Setting(label, config, "strict_fair", "es_rule")


def class_settings(trace: str) -> Iterator[Setting]:
    """Yield the settings of `executor_classes`, on 50 executors."""
    for label, config in settings_of(trace, 50, 100):
        yield Setting(label, config, "graphene", "es_classes")


def main() -> None:
    """Print a line for each setting."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--trace", default="tpch")
    parser.add_argument("--sequences", type=int, default=10)
    parser.add_argument("--generations", type=int, default=60)
    parser.add_argument("--classes", action="store_true")
    given = parser.parse_args()
    for setting in (class_settings if given.classes else plain_settings)(given.trace):
        workload = Workload.of(setting.config)
        rows = []
        for number in range(given.sequences):
            plain = [average_jct_s(workload, setting.config, number, Heuristic(policy))
                     for policy in (setting.reference, setting.policy)]  # fmt: skip
            rows.append((*plain, fitted_s(workload, setting, number, given.generations)))
        reference, rule, fitted = np.array(rows).T
        gain = difference_percent(fitted, rule)
        print(
            f"{setting.label:12} {setting.reference} {reference.mean():6.1f} s, {setting.policy} "
            f"{rule.mean():6.1f} s, fitted in hindsight {fitted.mean():6.1f} s: "
            f"{gain.words('+.1f', ' %')} against {setting.policy}, "
            f"{difference_percent(fitted, reference).mean:+.1f} % against {setting.reference}",
            flush=True,
        )


if __name__ == "__main__":
    main()
