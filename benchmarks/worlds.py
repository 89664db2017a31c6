"""Random worlds: shapes, sizes, loads and moving delays, to find where a policy fails.

    python -m benchmarks.worlds --count 200 --policies tuned_srw,es_rule,decima
    python -m benchmarks.worlds --count 100 --family any-heavy
    python -m benchmarks.worlds --count 100 --protocol session

A world is a trace `any-dag-N`, or `any-heavy-N`, with N from 1000 on, which no fit has seen; 8 to
300 executors, log-uniformly; a load of 0.4 to 1.1, or a batch of 8 to 40; and a moving delay of 0.1
to 5 s. Printed are the difference of a policy's average JCT to strict fair's, mean over worlds with
twice its standard error, in how many it is over 1 % above strict fair and above the better of
strict fair and `tuned_srw`, and the worlds where it is furthest above these.
"""

from __future__ import annotations

import argparse
from typing import NamedTuple

import numpy as np

from decima import EvaluationConfig, evaluate
from decima.evaluation.config import gap_at
from decima.rl.statistics import difference_percent

FIRST_TRACE = 1000
SEQUENCES = 6
FAIR = "strict_fair"
_BASELINES = (FAIR, "tuned_srw")
_MARGIN_PERCENT = 1.0
_SHOWN = 5


class World(NamedTuple):
    """One draw."""

    name: str
    percent: dict[str, float]
    """by policy: average JCT against strict fair's"""

    def behind(self, policy: str) -> float:
        """Return how far a policy is above the better of the baselines, in points."""
        return self.percent[policy] - min(0.0, self.percent["tuned_srw"])


def settings_of(
    number: int, family: str, protocol: str, policies: tuple[str, ...]
) -> EvaluationConfig:
    """World `number`: a pure function of it and the family."""
    rng = np.random.default_rng([FIRST_TRACE, number])
    trace = f"{family}-{FIRST_TRACE + number}"
    executors = round(float(np.exp(rng.uniform(np.log(8), np.log(300)))))
    load = float(rng.choice([0.4, 0.6, 0.8, 0.95, 1.1, 0.0]))
    delay_s = float(rng.choice([0.1, 0.5, 1.0, 2.0, 2.0, 2.0, 5.0]))
    batch = int(rng.choice([8, 20, 40]))
    return EvaluationConfig(
        policies=policies,
        trace=trace,
        executors=executors,
        protocol=protocol,
        moving_delay_s=delay_s,
        arrivals="poisson" if load else "batch",
        interarrival_s=gap_at(trace, executors, load) if load else 1.0,
        jobs=100 if load else batch,
        sequences=SEQUENCES,
        seed=FIRST_TRACE + number,
    )


def play(config: EvaluationConfig) -> World:
    """Every policy in one world."""
    results = evaluate(config).policies
    fair = results[FAIR].avg_jct_s
    percent = {
        name: difference_percent(results[name].avg_jct_s, fair).mean
        for name in results
        if name != FAIR
    }
    arrivals = "batch" if config.arrivals == "batch" else f"gap {config.interarrival_s:.3g} s"
    name = f"{config.trace}, {config.executors} executors, {arrivals}, {config.moving_delay_s} s"
    return World(name, percent)


def summary(worlds: list[World], policy: str) -> str:
    """Summarise one policy over the worlds."""
    percent = np.array([world.percent[policy] for world in worlds])
    behind = sorted(worlds, key=lambda world: -world.behind(policy))
    over = sum(world.behind(policy) > _MARGIN_PERCENT for world in worlds)
    error = 2 * percent.std(ddof=1) / np.sqrt(len(percent))
    above = (percent > _MARGIN_PERCENT).sum()
    lines = [
        f"{policy}: {percent.mean():+.1f} ± {error:.1f} % against strict_fair; over 1 % above it "
        f"in {above} of {len(worlds)}, at worst {percent.max():+.1f} %; over 1 % above the better "
        f"of it and tuned_srw in {over}"
    ]
    if policy not in _BASELINES:
        lines += [
            f"    {world.name}: {world.percent[policy]:+.1f} %, "
            f"tuned_srw {world.percent['tuned_srw']:+.1f} %"
            for world in behind[:_SHOWN]
        ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--policies", default="es_rule,decima")
    parser.add_argument("--family", choices=("any-dag", "any-heavy"), default="any-dag")
    parser.add_argument("--protocol", default="executors")
    parser.add_argument("--count", type=int, default=100)
    arguments = parser.parse_args()
    others = (name for name in arguments.policies.split(",") if name not in _BASELINES)
    policies = (*_BASELINES, *others)
    worlds = [
        play(settings_of(number, arguments.family, arguments.protocol, policies))
        for number in range(arguments.count)
    ]
    for policy in policies[1:]:
        print(summary(worlds, policy))


if __name__ == "__main__":
    main()
