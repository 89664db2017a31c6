"""What candidates are worth: average JCT against strict fair, wherever a crew has room."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from decima.evaluation.config import ConfigError, EvaluationConfig
from decima.evaluation.runner import Workload, prepare
from decima.heuristics.es_rule import PARAMETERS
from decima.policies import Heuristic
from decima.rule_fit.config import POLICY, REFERENCE, RuleFitConfig
from parallel.crew import Crew, Kept
from spark_sim.metrics import measure
from traces.numbers import Float64


class CandidateScorer:
    """Plays candidates on numbered sequences.

    All candidates of a call meet the same arrivals and task durations, and unfinished jobs count
    with their age, so scores of one call may be compared.
    """

    def __init__(self, config: RuleFitConfig, crew: Crew) -> None:
        settings = config.workloads()
        different = {one.workload_key(): one for one in settings}
        workloads = {key: Workload.of(one) for key, one in different.items()}
        self._settings = Kept([_Setting(one, workloads[one.workload_key()]) for one in settings])
        self._crew = crew

    def scores(self, candidates: Sequence[Float64], numbers: range, label: str) -> Float64:
        """(C,) average JCT of each candidate over that of the reference, geometric mean.

        Ratios, and their logarithms, so that no setting and no heavy-tailed sequence outweighs the
        others.

        Args:
            candidates: C arrays of weights in the order of `es_rule.PARAMETERS`.
            numbers: sequences, of each setting.
            label: of the work, for those who watch.
        """
        every = [None, *candidates]
        settings = range(len(self._settings.value))
        tasks = {
            (number, setting): _Task(weights, setting, numbers)
            for number, weights in enumerate(every)
            for setting in settings
        }
        found = [part for _, part in self._crew.map(_play, self._settings, tasks, label=label)]
        averages_s = np.concatenate(found).reshape(len(every), -1)
        reference_s = averages_s[0]
        if not reference_s.all():
            raise ConfigError(f"{REFERENCE} completes every job at once: there is nothing to fit")
        return np.array([np.exp(np.log(row / reference_s).mean()) for row in averages_s[1:]])


class _Setting(NamedTuple):
    """A cluster and what arrives there."""

    config: EvaluationConfig
    workload: Workload


class _Task(NamedTuple):
    """One candidate in one setting."""

    weights: Float64 | None
    """None: the reference"""
    setting: int
    numbers: range


def _play(settings: Kept[list[_Setting]], task: _Task) -> Float64:
    """(sequences,) average JCT in s."""
    name = REFERENCE if task.weights is None else POLICY
    named = (
        None if task.weights is None else dict(zip(PARAMETERS, task.weights.tolist(), strict=True))
    )
    policy = Heuristic(name, named)
    config, workload = settings.value[task.setting]
    averages_s = []
    for number in task.numbers:
        simulator = prepare(workload, config, number)
        policy.play(simulator)
        averages_s.append(measure(simulator.state).avg_jct_s)
    return np.array(averages_s)
