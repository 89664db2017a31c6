"""The arrival sequences of an evaluation, each a pure function of the settings and its number."""

from __future__ import annotations

from pathlib import Path

from decima.evaluation.config import ARRIVAL_PATTERNS, EvaluationConfig
from spark_sim import Streams
from traces import Trace
from traces import arrivals as patterns
from traces.arrivals import Arrivals
from traces.numbers import MS_PER_S


def draw_sequence(config: EvaluationConfig, trace: Trace, number: int) -> Arrivals:
    """Return sequence `number`, the same for every policy and every set of policies.

    A file or a recording gives every sequence the same arrivals; task durations still differ.
    """
    gap_ms = config.interarrival_s * MS_PER_S
    rng = Streams(config.seed, number).arrivals()
    if config.arrivals not in ARRIVAL_PATTERNS:
        return patterns.read_arrivals(Path(config.arrivals), trace)
    if config.arrivals == "recorded":
        return patterns.recorded(trace)
    if config.arrivals == "decima-sim":
        return patterns.decima_sim(trace, config.jobs, gap_ms, config.seed + number)
    return patterns.ARRIVALS[config.arrivals](trace, config.jobs, gap_ms, rng)
