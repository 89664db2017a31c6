"""Spark's order of the tasks inside an application; `replay.spark_order` is its compiled form."""

from __future__ import annotations

from collections.abc import Sequence

from decima.whatif.applications.parts import Pool, StageRun, no_pool
from decima.whatif.replay import pools
from decima.whatif.replay.recording import FAIR, FIFO


class SparkOrder:
    """Order of the stages of one application."""

    def __init__(self, policy: str, settings: pools.Pools) -> None:
        """Args:
        policy: one of `recording.ORDERS`.
        settings: of the pools that jobs name.
        """
        self._policy = policy
        self._settings = settings
        self._pools: dict[str, Pool] = {}
        self._turns: dict[tuple[int, int], int] = {}

    def submit(self, stage: StageRun) -> None:
        """Note that a stage may run: its Spark job is submitted, if it was not."""
        stage.turn = self._turns.setdefault((stage.job.row, stage.spark_job), len(self._turns))
        name = stage.job.pool
        if self._policy == FIFO:
            stage.pool = self._pools.setdefault("", no_pool())
        elif self._policy == FAIR:
            # Each job has a pool of its own, with the defaults.
            key = f"{name} {stage.job.row}"
            stage.pool = self._pools.setdefault(key, Pool(name, pools.Pool()))
        else:
            stage.pool = self._pools.setdefault(name, Pool(name, self._settings.named(name)))

    def next_stage(self, runnable: Sequence[StageRun]) -> StageRun:
        """The stage, of those with tasks to start, that gets a free slot."""
        return runnable[0] if len(runnable) == 1 else min(runnable, key=_key)


def _key(stage: StageRun) -> tuple[tuple[int, float, str], int, int, str]:
    """Sort key: by pool, then in a FAIR pool by running tasks, else by the Spark job."""
    if stage.pool.settings.fair:
        return stage.pool.claim, stage.launched - stage.finished, 0, stage.number
    return stage.pool.claim, stage.turn, stage.row, stage.number
