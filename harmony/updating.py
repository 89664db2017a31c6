"""Periodic updates of a policy while it is in use.

A policy places the jobs of one period after another. After each it learns from them: it places the
jobs of the last periods again in the simulator, with choices that are drawn, and makes one
iteration of a training on the outcome. Source: Harmony, figure 1 and section VI-A: the models are
updated with data that is collected online; the buffer is first in, first out.

Letters: T policies, S sequences of a period.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from decima.rl.errors import StudyError
from decima.rl.statistics import difference_percent, mean_of
from decima.rl.study.lockstep import joined
from decima.rl.study.streams import Purpose
from harmony.config import Config
from harmony.evaluation import completion_of
from harmony.jobs import draw_jobs
from harmony.learner import HarmonyLearner
from harmony.models import POLICY, Learned, check_network, load_model, new_network
from harmony.network import ActorCritic
from harmony.tables import Float64, Jobs
from harmony.training_config import TrainConfig
from traces.files.settings import changed

UPDATE = {
    "imitation": 0,
    "learning_rate": 1e-5,
    "final_learning_rate": 1e-5,
    "world": "environment",
    "initial": True,
}
"""settings of an update that differ from those of the training before"""


class Period(NamedTuple):
    """Completion times in one period, in intervals."""

    updated: Float64
    """(T, S) of policies that have learned from the periods before"""
    before: Float64
    """(T, S) of the same policies without updates"""


class _InUse:
    """A policy that goes on learning, beside itself as it was."""

    def __init__(self, path: Path, cluster: Config, periods: int, changes: Sequence[str]) -> None:
        network, config, _ = load_model(path)
        settings: dict[str, Any] = config.to_json() | UPDATE
        settings |= {"cluster": cluster.to_json(), "iterations": periods}
        self.config = changed(TrainConfig, settings, changes, StudyError)
        if self.config.size != config.size:
            raise StudyError(f"{path}: updates do not change the size of a network")
        check_network(config.size.models, config.size.gpu_types, self.config.cluster)
        if self.config.world != "environment":
            raise StudyError(f"world is {self.config.world}: updates are rewarded by the cluster")
        self.before = network
        self._learner = HarmonyLearner(self.config)
        self._learner.begin_with(network)
        self._recent: deque[Jobs] = deque()

    @property
    def now(self) -> ActorCritic:
        """The policy with all updates so far."""
        network = new_network(self.config.size)
        network.load_state_dict(self._learner.model_state())
        return network

    def learn(self, period: int, jobs: Jobs) -> None:
        """Learn from the jobs of this period and of the last ones, up to `replay` choices."""
        self._recent.append(jobs)
        while len(self._recent) > 1 and (
            sum(int((past.workers + past.ps).sum()) for past in self._recent) > self.config.replay
        ):
            self._recent.popleft()
        self._learner.learn_on(period, [(self.config.cluster, joined(self._recent))])

    def completion(self, network: ActorCritic, jobs: Jobs, seed: int) -> Float64:
        """(S,) mean completion times, in intervals."""
        cluster = self.config.cluster
        return completion_of(Learned(network.policy, cluster), cluster, jobs, seed)


def use(
    paths: Sequence[Path],
    cluster: Config,
    periods: int,
    sequences: int,
    seed: int,
    changes: Sequence[str] = (),
    output: Path | None = None,
) -> Iterator[Period]:
    """Let policies place the jobs of some periods, with an update after each.

    Args:
        paths: files of T policies.
        cluster: that they are used in.
        periods: how many.
        sequences: S, of each period.
        seed: of the jobs.
        changes: of settings of the updates, as `--set` takes them.
        output: file for the policy after the last update; only for a single one.

    Raises StudyError if a file is no such model, a setting is wrong, or an output has several
    models.
    """
    if output is not None and len(paths) > 1:
        raise StudyError(f"{output}: one model is written, but {len(paths)} are updated")
    policies = [_InUse(path, cluster, periods, changes) for path in paths]
    for period in range(periods):
        updated, before = [], []
        for policy in policies:
            cluster = policy.config.cluster
            jobs = draw_jobs(cluster, sequences, seed, Purpose.TEST, period * sequences)
            updated.append(policy.completion(policy.now, jobs, seed))
            before.append(policy.completion(policy.before, jobs, seed))
            if output is not None or period + 1 < periods:
                policy.learn(period, jobs)
        yield Period(np.stack(updated), np.stack(before))
    if output is not None:
        (policy,) = policies
        POLICY.save(output, policy.config, policy.now.state_dict(), {"iterations": periods})


def rows_of(periods: Iterator[Period]) -> Iterator[list[str]]:
    """Rows of a table, headings first: completion by period, and of all periods after an update."""
    yield ["period", "with updates, intervals, 95 %", "without", "difference, 95 %"]
    later = []
    for number, period in enumerate(periods):
        yield [str(number + 1), *_cells(*period)]
        if number > 0:
            later.append(period)
    if later:
        both = (np.concatenate(column, axis=1) for column in zip(*later, strict=True))
        yield [f"2 to {len(later) + 1}", *_cells(*both)]


def _cells(updated: Float64, before: Float64) -> list[str]:
    against = difference_percent(updated, before, same_trainings=True)
    means = [mean_of(times).words(".2f") for times in (updated, before)]
    return [*means, against.words("+.1f", " %")]
