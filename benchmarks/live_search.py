"""Gain and time of a look ahead where jobs arrive, as `decima:search` does on a live session.

    python -m benchmarks.live_search [--slots 24] [--load 0.9] [--sequences 30] [--jobs 60]

Sessions of `tpch` jobs, played decision by decision from observations alone: the network, and the
network with a look ahead. Prints paired differences of the average JCT with 95 % bootstrap
intervals over sequences, and the CPU milliseconds of a plan with a search.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np

from benchmarks.quality import percent
from decima.agent.lookahead.live import LiveSearchPolicy
from decima.agent.model import load_model
from decima.agent.policy import LearnedPolicy
from decima.evaluation.runner import play
from decima.evaluation.settings_file import gap_at
from decima.policies import policy_named
from decima.policy import Policy
from decima.policy_names import model_path
from decima.rl.statistics import difference_percent
from spark_sim import Cluster, Observation, Protocol, Simulator, Streams
from traces import load_trace, to_arrays
from traces.arrivals import poisson
from traces.numbers import MS_PER_S, Float64

TRACE, SEED = "tpch", 77_000


class Timed(LiveSearchPolicy):
    """A look ahead that notes the time of each plan with a search."""

    spent_ms: list[float]

    def plan(self, observation: Observation) -> object:  # type: ignore[override]
        before, began_s = self.searches, time.process_time()
        seen = super().plan(observation)
        if self.searches > before:
            self.spent_ms.append(1_000.0 * (time.process_time() - began_s))
        return seen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--slots", type=int, default=24)
    parser.add_argument("--load", type=float, default=0.9)
    parser.add_argument("--sequences", type=int, default=30)
    parser.add_argument("--jobs", type=int, default=60)
    arguments = parser.parse_args()
    trace = load_trace(TRACE)
    arrays = to_arrays(trace)
    network = load_model(model_path("decima")).weights
    cluster = Cluster(num_executors=arguments.slots, protocol=Protocol.SESSION)
    gap_ms = MS_PER_S * gap_at(TRACE, arguments.slots, arguments.load)
    spent_ms: list[float] = []

    def searching() -> Policy:
        policy = Timed(network, arrays)
        policy.spent_ms = spent_ms
        return policy

    def average_s(make: Callable[[], Policy]) -> Float64:
        found = []
        for number in range(arguments.sequences):
            streams = Streams(SEED, number)
            drawn = poisson(trace, arguments.jobs, gap_ms, streams.arrivals())
            key = streams.duration_key()
            simulator = Simulator(arrays, cluster, drawn.arrival_ms, drawn.job, duration_key=key)
            play(simulator, make())
            found.append(float((simulator.completion_ms() - drawn.arrival_ms).mean()) / MS_PER_S)
        return np.array(found)

    own_s = average_s(lambda: LearnedPolicy(network, arrays))
    rule_s = average_s(lambda: policy_named("es_rule", arrays))
    search_s = average_s(searching)
    for name, jct_s in (("decima", own_s), ("es_rule", rule_s)):
        print(f"decima:search against {name}: {percent(difference_percent(search_s, jct_s))}")
    median, p95 = np.percentile(spent_ms, (50, 95))
    print(
        f"{len(spent_ms)} searches: median {median:.1f} ms, p95 {p95:.1f}, max {max(spent_ms):.1f}"
    )


if __name__ == "__main__":
    main()
