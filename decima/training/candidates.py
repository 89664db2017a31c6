"""`Candidates`: parameters of heuristics, played on numbered sequences by a pool of workers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from decima.evaluation.config import EvaluationConfig
from decima.evaluation.runner import Workload, prepare
from decima.registry import Heuristic, Parameters
from decima.rl.parallel.pool import SentOnce, WorkerPool
from spark_sim.metrics import RunMetrics, measure
from traces.numbers import Float64

Figure = Callable[[RunMetrics], float]
AVG_JCT: Figure = attrgetter("avg_jct_s")

_TOGETHER = 5
"""sequences of one task: more than a cluster's overhead, and enough tasks for many workers"""


class Candidates:
    """Settings in which all candidates of a call meet the same arrivals and task durations.

    Unfinished jobs count with their age, so figures of one call may be compared.
    """

    def __init__(self, settings: Sequence[EvaluationConfig], pool: WorkerPool) -> None:
        different = {one.workload_key(): one for one in settings}
        workloads = {key: Workload.of(one) for key, one in different.items()}
        self._settings = SentOnce([(one, workloads[one.workload_key()]) for one in settings])
        self._pool = pool

    def play(
        self,
        candidates: Sequence[tuple[str, Parameters]],
        numbers: range,
        figure: Figure = AVG_JCT,
        label: str = "trials",
    ) -> Float64:
        """(C, settings, S) a figure of each candidate, a heuristic with parameters, by sequence."""
        settings = len(self._settings.value)
        tasks = {
            (row, setting, first): _Task(*one, setting, numbers[first : first + _TOGETHER], figure)
            for row, one in enumerate(candidates)
            for setting in range(settings)
            for first in range(0, len(numbers), _TOGETHER)
        }
        found = [part for _, part in self._pool.map(_play, self._settings, tasks, label=label)]
        return np.concatenate(found).reshape(len(candidates), settings, len(numbers))


class _Task(NamedTuple):
    """Sequences of one setting, to be played under one candidate."""

    policy: str
    parameters: Parameters
    setting: int
    numbers: range
    figure: Figure


def _play(settings: SentOnce[list[tuple[EvaluationConfig, Workload]]], task: _Task) -> Float64:
    """(sequences,) the figure, from times in s."""
    config, workload = settings.value[task.setting]
    policy = Heuristic(task.policy, task.parameters)
    values = []
    for number in task.numbers:
        simulator = prepare(workload, config, number)
        policy.play(simulator)
        values.append(task.figure(measure(simulator.state)))
    return np.array(values)
