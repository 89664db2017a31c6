"""Scores of candidates against strict fair, computed by a pool of workers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from decima.objectives import objective_named
from decima.registry import Parameters
from decima.rl.parallel.pool import WorkerPool
from decima.training.candidates import Candidates
from decima.training.rule_fit.config import REFERENCE, RuleFitConfig
from traces.numbers import Float64


class CandidateScorer:
    """Scorer of candidates on numbered sequences; scores of one call may be compared."""

    def __init__(self, config: RuleFitConfig, pool: WorkerPool) -> None:
        self._candidates = Candidates(config.workloads(), pool)
        self._policy, self._objective = config.policy, objective_named(config.objective)

    def scores(self, candidates: Sequence[Parameters], numbers: range, label: str) -> Float64:
        """(C,) geometric mean of `logs` of each."""
        return np.array([np.exp(row.mean()) for row in self.logs(candidates, numbers, label)])

    def logs(self, candidates: Sequence[Parameters], numbers: range, label: str) -> Float64:
        """(C, settings, S) logarithm of the objective over that of the reference.

        Of ratios, so that no setting and no heavy-tailed sequence outweighs the others.
        """
        every = [(REFERENCE, {}), *((self._policy, one) for one in candidates)]
        reference, *values = self._candidates.play(every, numbers, self._objective, label)
        logs: Float64 = np.log(np.array(values) / reference)
        return logs
