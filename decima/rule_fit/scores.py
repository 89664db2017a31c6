"""What candidates are worth: average JCT against strict fair, on as many processes as asked for."""

from __future__ import annotations

import multiprocessing
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from types import TracebackType
from typing import Self

import numpy as np

from decima.evaluation.config import ConfigError, EvaluationConfig
from decima.evaluation.runner import Workload, prepare
from decima.heuristics.es_rule import PARAMETERS
from decima.policies import Heuristic
from decima.rule_fit.config import POLICY, REFERENCE, RuleFitConfig
from spark_sim.metrics import measure
from traces.numbers import Float64

_Work = tuple[Float64 | None, range]
"""weights (None: the reference), numbers of the sequences"""


class CandidateScorer:
    """Plays candidates on numbered sequences. A context: on leaving, its processes end.

    All candidates of a call meet the same arrivals and task durations, and unfinished jobs count
    with their age, so scores of one call may be compared.
    """

    def __init__(self, config: RuleFitConfig, workers: int) -> None:
        if workers < 1:
            raise ConfigError(f"workers must be 1 or more, got {workers}")
        self._player = _Player(config)
        self._pool: ProcessPoolExecutor | None = None
        self._stack = ExitStack()
        if workers > 1:
            # "spawn": forking a process that has started threads may hang.
            context = multiprocessing.get_context("spawn")
            pool = ProcessPoolExecutor(workers, context, _start_worker, (config,))
            self._pool = self._stack.enter_context(pool)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def scores(self, candidates: Sequence[Float64], numbers: range) -> Float64:
        """(C,) average JCT of each candidate over that of the reference, geometric mean.

        Ratios, and their logarithms, so that no setting and no heavy-tailed sequence outweighs the
        others.

        Args:
            candidates: C arrays of weights in the order of `es_rule.PARAMETERS`.
            numbers: sequences, of each setting.
        """
        work: list[_Work] = [(None, numbers), *((weights, numbers) for weights in candidates)]
        found = map(self._player.play, work) if self._pool is None else self._pool.map(_play, work)
        reference, *rest = found
        if not reference.all():
            raise ConfigError(f"{REFERENCE} completes every job at once: there is nothing to fit")
        return np.array([np.exp(np.log(average_s / reference).mean()) for average_s in rest])


class _Player:
    """One process's trace and settings."""

    def __init__(self, config: RuleFitConfig) -> None:
        self._settings = config.workloads()
        told = {_told(one): one for one in self._settings}
        self._workloads = {key: Workload.of(one) for key, one in told.items()}

    def play(self, work: _Work) -> Float64:
        """(settings x sequences,) average JCT in s."""
        weights, numbers = work
        name = REFERENCE if weights is None else POLICY
        named = None if weights is None else dict(zip(PARAMETERS, weights.tolist(), strict=True))
        policy = Heuristic(name, named)
        averages_s = []
        for config in self._settings:
            for number in numbers:
                simulator = prepare(self._workloads[_told(config)], config, number)
                policy.play(simulator)
                averages_s.append(measure(simulator.state).avg_jct_s)
        return np.array(averages_s)


def _told(config: EvaluationConfig) -> tuple[str, str]:
    """By what a workload is known: its trace, and what policies are told of durations."""
    return config.trace, config.estimates


_worker: _Player


def _start_worker(config: RuleFitConfig) -> None:
    global _worker  # noqa: PLW0603 - the one way to hand a pool's process its state once
    _worker = _Player(config)


def _play(work: _Work) -> Float64:
    return _worker.play(work)
