"""Interface of the schedulers, and the heuristics.

Source of the heuristics: Harmony, section VI-B, and for Tiresias its own paper (NSDI 2019). All
place a job's workers before its parameter servers, task by task, and see what was asked for, never
a speed. Those that need samples of speeds are made by `harmony.interference`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from decima.rl.errors import StudyError
from decima.rl.study.streams import Draws, Purpose
from harmony import rule_kernels
from harmony.clusters import Clusters
from harmony.config import Config
from harmony.jobs import draw_jobs
from harmony.measured import measured
from harmony.rule_kernels import (
    BALANCE,
    LEAST_INTERFERENCE,
    LOOKAHEAD,
    PACK,
    RANDOM,
    TIRESIAS,
)
from harmony.tables import Bool, Float64, Int32, Jobs, Rule, Types

FORM = 6
"""weights of `rule_kernels.drop` for each model"""


class Scheduler(Protocol):
    """Protocol of a scheduler: it places jobs task by task."""

    def priority(self, jobs: Jobs) -> Float64 | None:
        """(S, J) jobs with lower numbers are tried first; None: in the order of arrival."""
        ...

    def choose(self, clusters: Clusters, rows: Int32, draws: Draws, /) -> Int32:
        """(n,) actions for the episodes `rows`; whatever is random comes from `draws`."""
        ...


class _Heuristic:
    """A heuristic of `harmony.rule_kernels`, by its number and what it goes by."""

    number: int
    weights: Float64 | None = None
    believed: Types | None = None
    together: Bool | None = None
    empty_worth: float = 0.0

    def priority(self, jobs: Jobs) -> Float64 | None:
        """None: in the order of arrival."""
        return None

    def choose(self, clusters: Clusters, rows: Int32, draws: Draws) -> Int32:
        """(n,) actions."""
        chance = draws.next(rows) if self.number == RANDOM else np.zeros(len(rows))
        action = np.empty(len(rows), np.int32)
        rule_kernels.choose_all(*clusters.world, rows, self._rule(clusters), chance, action)
        return action

    def play_out(self, clusters: Clusters) -> None:
        """Play all episodes to their ends, as `lockstep.play` but in one call of a kernel.

        Raises StudyError if the rule draws, or a model stands in for the clusters' speeds.
        """
        if self.number == RANDOM or clusters.speeds_are_predicted:
            raise StudyError("a kernel plays neither rules that draw nor predicted speeds")
        rows = clusters.under_way()
        spare = np.zeros(len(rows)), np.zeros(len(rows), np.int32)
        rule_kernels.play_out(*clusters.world, rows, self._rule(clusters), *spare)

    def _rule(self, clusters: Clusters) -> Rule:
        """The rule as kernels take it."""
        models = len(clusters.types.demand)
        weights = np.zeros((models, FORM)) if self.weights is None else self.weights
        believed = clusters.types if self.believed is None else self.believed
        together = np.zeros(models, np.bool_) if self.together is None else self.together
        return Rule(self.number, weights, believed, together, self.empty_worth)


class LoadBalance(_Heuristic):
    """The server with the least load: shares of its cores and GPUs in use, added."""

    number = BALANCE


class Tetris(_Heuristic):
    """The server that is left with the least of all resources: multi-resource best fit."""

    number = PACK


class RandomChoice(_Heuristic):
    """Uniform choice among the servers with room."""

    number = RANDOM


class Tiresias(_Heuristic):
    """Jobs in the order of an index; those with a skewed model on as few servers as they can be.

    Placements are fixed and jobs are not preempted here, so that a waiting job has attained no
    service: least attained service (`las`) is the order of arrival, and the 2D Gittins index
    (`gittins`) goes by the service, GPUs times minutes alone, of earlier jobs with as many GPUs:
    those of 20 sequences that no figure is measured on.

    Args:
        config: the cluster.
        index: "gittins" or "las".
        threshold: models whose largest tensor has at least this share are consolidated.
    """

    number = TIRESIAS

    def __init__(self, config: Config, index: str = "gittins", threshold: float = 0.5) -> None:
        if index not in ("gittins", "las"):
            raise StudyError(f"index is {index!r:.40}: gittins or las")
        self.together = measured(config.table_file).skew >= threshold
        self._gittins = _gittins(config) if index == "gittins" else None

    def priority(self, jobs: Jobs) -> Float64 | None:
        """(S, J) minus the Gittins index of each job."""
        return None if self._gittins is None else -self._gittins[jobs.workers]


def _gittins(config: Config) -> Float64:
    r"""(W + 1,) index of a job that has not begun, by its number of workers.

    .. math:: G = \sup_\Delta \frac{P(S \le \Delta)}{E[\min(S, \Delta)]}

    with the service S of earlier jobs. Source: Tiresias (NSDI 2019), section 4.
    """
    history = draw_jobs(config, 20, 0, Purpose.TUNING)
    alone = Clusters(config, history).types.alone
    fewest = -(-history.workers // config.gpus)
    speed = alone[history.model, history.workers, history.ps, fewest]
    service = history.workers * history.epochs / speed
    index = np.zeros(config.max_workers + 1)
    for workers in range(1, config.max_workers + 1):
        rising = np.sort(service[history.workers == workers])
        count = len(rising)
        if count > 0:
            done = np.arange(1, count + 1) / count
            spent = (np.cumsum(rising) + rising * np.arange(count - 1, -1, -1)) / count
            index[workers] = (done / spent).max()
    return index


class LeastInterference(_Heuristic):
    """LIF: the server on which all tasks together are predicted to lose the least speed.

    Args:
        weights: (L, 6) of `rule_kernels.drop`: linear, or quadratic, in the shares of the server's
            cores and network that other jobs have asked for.
    """

    number = LEAST_INTERFERENCE

    def __init__(self, weights: Float64) -> None:
        self.weights = weights


class Lookahead(_Heuristic):
    """Choice of the server after which all jobs together run fastest, by a table of pairs.

    Each choice is tried with the rest of the job placed as close together as it can be.

    Args:
        believed: speeds alone and beside each other, as estimated by `interference.fit_pairs`
            from samples; with the true ones it is a bound for what looks one job ahead.
        empty_worth: of a server that is left without any job.
    """

    number = LOOKAHEAD

    def __init__(self, believed: Types | None, empty_worth: float = 0.3) -> None:
        self.believed = believed
        self.empty_worth = empty_worth


@dataclass(frozen=True)
class InOrder:
    """Places as one scheduler does, and serves waiting jobs in the order of another."""

    placing: Scheduler
    order: Scheduler

    def priority(self, jobs: Jobs) -> Float64 | None:
        """(S, J) that of the order."""
        return self.order.priority(jobs)

    def choose(self, clusters: Clusters, rows: Int32, draws: Draws) -> Int32:
        """(n,) actions."""
        return self.placing.choose(clusters, rows, draws)


@dataclass(frozen=True)
class Mixed:
    """Uniform mixture of schedulers, redrawn at each choice: for exploration and sampling."""

    schedulers: tuple[Scheduler, ...]

    def priority(self, jobs: Jobs) -> Float64 | None:
        """None: in the order of arrival."""
        return None

    def choose(self, clusters: Clusters, rows: Int32, draws: Draws) -> Int32:
        """(n,) actions."""
        which = (draws.next(rows) * len(self.schedulers)).astype(np.int32)
        action = np.empty(len(rows), np.int32)
        for number, scheduler in enumerate(self.schedulers):
            chosen = which == number
            if chosen.any():
                action[chosen] = scheduler.choose(clusters, rows[chosen], draws)
        return action
