"""How much better could a rule be that knows its sequence? The scoring rule, fitted in hindsight.

    python -m benchmarks.hindsight [--trace tpch] [--sequences 10] [--generations 60]

For each sequence an evolution strategy fits the 267 weights of `es_rule` to that very sequence, the
same arrivals and task durations each time, from the shipped weights. The result has learned the
sequence by heart and is worth nothing elsewhere; its gain over the rule that has not says how much
there is to be had for weights that must serve sequences they do not know. It is an indication, not
a bound: more generations find some more, and policies of another form are not covered (`bounds`).
"""

from __future__ import annotations

import argparse
from dataclasses import replace

import cma
import numpy as np

from decima import EvaluationConfig
from decima.evaluation.runner import Workload, prepare
from decima.evaluation.statistics import difference_percent
from decima.heuristics.es_rule import PARAMETERS
from decima.policies import HEURISTICS, Heuristic
from spark_sim.metrics import measure

POPULATION = 20
SIGMA = 0.15


def average_jct_s(
    workload: Workload, config: EvaluationConfig, number: int, policy: Heuristic
) -> float:
    """Average JCT of one sequence."""
    simulator = prepare(workload, config, number)
    policy.play(simulator)
    return float(measure(simulator.state).avg_jct_s)


def fitted_s(workload: Workload, config: EvaluationConfig, number: int, generations: int) -> float:
    """The least average JCT that weights fitted to this very sequence reach."""
    begin = np.array([HEURISTICS["es_rule"].defaults[name] for name in PARAMETERS])
    rng = np.random.default_rng(number)
    options = {
        "popsize": POPULATION,
        "randn": lambda *shape: rng.standard_normal(shape),
        "seed": np.nan,  # leave numpy's global generator alone
        "verbose": -9,
        "verb_log": 0,
    }
    search = cma.CMAEvolutionStrategy(begin, SIGMA, options)
    best = np.inf
    for _ in range(generations):
        asked = search.ask()
        scores = []
        for weights in asked:
            rule = Heuristic("es_rule", dict(zip(PARAMETERS, weights.tolist(), strict=True)))
            scores.append(average_jct_s(workload, config, number, rule))
        search.tell(asked, scores)
        best = min(best, *scores)
    return best


def main() -> None:
    """Print a line for each setting."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--trace", default="tpch")
    parser.add_argument("--sequences", type=int, default=10)
    parser.add_argument("--generations", type=int, default=60)
    given = parser.parse_args()
    base = EvaluationConfig(trace=given.trace, sequences=given.sequences, jobs=200)
    workload = Workload.load(given.trace)
    settings = {f"gap {gap:g} s": replace(base, interarrival_s=gap) for gap in (25.0, 18.0, 15.0)}
    settings["batch of 20"] = replace(base, arrivals="batch", jobs=20)
    for label, config in settings.items():
        rows = []
        for number in range(config.sequences):
            plain = [average_jct_s(workload, config, number, Heuristic(policy))
                     for policy in ("strict_fair", "es_rule")]  # fmt: skip
            rows.append((*plain, fitted_s(workload, config, number, given.generations)))
        strict, rule, fitted = np.array(rows).T
        gain = difference_percent(fitted, rule)
        ends = "" if gain.ci95 is None else f" [{gain.ci95[0]:+.1f}, {gain.ci95[1]:+.1f}]"
        print(
            f"{label:12} strict_fair {strict.mean():6.1f} s, es_rule {rule.mean():6.1f} s, fitted "
            f"in hindsight {fitted.mean():6.1f} s: {gain.mean:+.1f} %{ends} against es_rule, "
            f"{difference_percent(fitted, strict).mean:+.1f} % against strict_fair",
            flush=True,
        )


if __name__ == "__main__":
    main()
