"""Scores of candidates against strict fair, computed by a pool of workers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter

import numpy as np

from decima.errors import ConfigError
from decima.registry import Parameters
from decima.rl.parallel.pool import WorkerPool
from decima.training.candidates import AVG_JCT, Candidates, Figure
from decima.training.rule_fit.config import P95_POWER, REFERENCE, Objective, RuleFitConfig
from spark_sim.metrics import RunMetrics
from traces.numbers import Float64


class CandidateScorer:
    """Scorer of candidates on numbered sequences; scores of one call may be compared."""

    def __init__(self, config: RuleFitConfig, pool: WorkerPool) -> None:
        self._candidates = Candidates(config.workloads(), pool)
        self._policy, self._figure = config.policy, _FIGURES[config.objective]

    def scores(self, candidates: Sequence[Parameters], numbers: range, label: str) -> Float64:
        """(C,) geometric mean of `logs` of each."""
        return np.array([np.exp(row.mean()) for row in self.logs(candidates, numbers, label)])

    def logs(self, candidates: Sequence[Parameters], numbers: range, label: str) -> Float64:
        """(C, settings, S) logarithm of the objective over that of the reference.

        Of ratios, so that no setting and no heavy-tailed sequence outweighs the others.
        """
        every = [(REFERENCE, {}), *((self._policy, one) for one in candidates)]
        reference, *values = self._candidates.play(every, numbers, self._figure, label)
        if not reference.all():
            raise ConfigError(f"{REFERENCE} completes every job at once: there is nothing to fit")
        logs: Float64 = np.log(np.array(values) / reference)
        return logs


def _avg_and_p95(found: RunMetrics) -> float:
    return float(found.avg_jct_s * found.jct_percentile_s(95) ** P95_POWER)


_FIGURES: Mapping[Objective, Figure] = {
    "avg_jct": AVG_JCT,
    "avg_and_p95": _avg_and_p95,
    "makespan": attrgetter("makespan_s"),
}
"""the figure that each objective minimises"""
