"""Scores of candidates against strict fair, computed by a pool of workers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from decima.errors import ConfigError
from decima.evaluation.config import EvaluationConfig
from decima.evaluation.runner import Workload, prepare
from decima.registry import Heuristic, Parameters
from decima.rl.parallel.pool import SentOnce, WorkerPool
from decima.training.rule_fit.config import P95_POWER, REFERENCE, Objective, RuleFitConfig
from spark_sim.metrics import RunMetrics, measure
from traces.numbers import Float64


class CandidateScorer:
    """Scorer of candidates on numbered sequences.

    All candidates of a call meet the same arrivals and task durations, and unfinished jobs count
    with their age, so scores of one call may be compared.
    """

    def __init__(self, config: RuleFitConfig, pool: WorkerPool) -> None:
        settings = config.workloads()
        different = {one.workload_key(): one for one in settings}
        workloads = {key: Workload.of(one) for key, one in different.items()}
        self._settings = SentOnce(
            [_Setting(one, workloads[one.workload_key()]) for one in settings]
        )
        self._policy, self._objective = config.policy, config.objective
        self._pool = pool

    def scores(self, candidates: Sequence[Parameters], numbers: range, label: str) -> Float64:
        """(C,) geometric mean of `logs` of each."""
        return np.array([np.exp(row.mean()) for row in self.logs(candidates, numbers, label)])

    def logs(self, candidates: Sequence[Parameters], numbers: range, label: str) -> Float64:
        """(C, settings, S) logarithm of the objective over that of the reference.

        Of ratios, so that no setting and no heavy-tailed sequence outweighs the others.
        """
        policies = [Heuristic(REFERENCE), *(Heuristic(self._policy, one) for one in candidates)]
        settings = range(len(self._settings.value))
        tasks = {
            (number, setting): _Task(policy, self._objective, setting, numbers)
            for number, policy in enumerate(policies)
            for setting in settings
        }
        found = [part for _, part in self._pool.map(_play, self._settings, tasks, label=label)]
        values = np.concatenate(found).reshape(len(policies), len(settings), len(numbers))
        reference = values[0]
        if not reference.all():
            raise ConfigError(f"{REFERENCE} completes every job at once: there is nothing to fit")
        logs: Float64 = np.log(values[1:] / reference)
        return logs


class _Setting(NamedTuple):
    """A cluster and what arrives there."""

    config: EvaluationConfig
    workload: Workload


class _Task(NamedTuple):
    """One candidate in one setting."""

    policy: Heuristic
    objective: Objective
    setting: int
    numbers: range


def _play(settings: SentOnce[list[_Setting]], task: _Task) -> Float64:
    """(sequences,) the objective, from times in s."""
    config, workload = settings.value[task.setting]
    values = []
    for number in task.numbers:
        simulator = prepare(workload, config, number)
        task.policy.play(simulator)
        values.append(_value(measure(simulator.state), task.objective))
    return np.array(values)


def _value(found: RunMetrics, objective: Objective) -> float:
    """Return the objective's value, which the fit minimises."""
    if objective == "makespan":
        return found.makespan_s
    if objective == "avg_and_p95":
        return float(found.avg_jct_s * found.jct_percentile_s(95) ** P95_POWER)
    return found.avg_jct_s
