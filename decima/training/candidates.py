"""`Candidates`: parameters of heuristics, played on numbered sequences by a pool of workers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from decima.evaluation.config import EvaluationConfig
from decima.evaluation.runner import Workload, prepare
from decima.objectives import OBJECTIVES, Objective
from decima.registry import Heuristic, Parameters
from decima.rl.parallel.pool import SentOnce, WorkerPool
from spark_sim.metrics import measure
from traces.numbers import Float64

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
        objective: Objective = OBJECTIVES["avg_jct"],
        label: str = "trials",
    ) -> Float64:
        """(C, settings, S) objective of heuristics with parameters, the candidates, by sequence."""
        settings = len(self._settings.value)
        tasks = {
            (row, setting, first): _Task(
                *one, setting, numbers[first : first + _TOGETHER], objective
            )
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
    objective: Objective


def _play(settings: SentOnce[list[tuple[EvaluationConfig, Workload]]], task: _Task) -> Float64:
    """(sequences,) the objective of each."""
    config, workload = settings.value[task.setting]
    policy = Heuristic(task.policy, task.parameters)
    values = []
    for number in task.numbers:
        simulator = prepare(workload, config, number)
        policy.play(simulator)
        values.append(task.objective.of(measure(simulator.state)))
    return np.array(values)
