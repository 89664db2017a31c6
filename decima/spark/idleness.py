"""`IdleWatch`: slots that stand idle beside tasks which plans keep from starting."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from spark_sim import Observation


class IdleWatch:
    """Detector of idle slots that are the policy's fault.

    A slot may stand idle for a moment, and strict fair leaves some idle itself, where jobs are at
    their share: it is a fault if more stand idle than strict fair would leave, for `bound_s`.
    """

    def __init__(self, bound_s: float) -> None:
        self._bound_ms = 1000 * bound_s
        self._due_ms: float | None = None

    def is_fault(self, now_ms: int, idle_ms: int, excess: Callable[[], int]) -> bool:
        """Return whether slots have been idle too long; then False for another `bound_s`.

        Args:
            now_ms: since the epoch.
            idle_ms: for how long slots have stood idle because of plans (`SessionReport.idle_ms`).
            excess: how many more than under strict fair. It is asked only after half the bound, and
                must be above 0 for the other half: what has just come up, the policy may still use.
        """
        if idle_ms < self._bound_ms / 2 or excess() <= 0:
            self._due_ms = None
            return False
        if self._due_ms is None:
            self._due_ms = now_ms + self._bound_ms / 2
        if now_ms < self._due_ms:
            return False
        self._due_ms = now_ms + self._bound_ms
        return True


def unused_slots(seen: Observation) -> int:
    """Count the slots that an unfinished plan leaves unused."""
    return int(seen.num_executors - seen.jobs[seen.active]["held"].sum())


def tasks_left(seen: Observation) -> int:
    """Tasks to start that the plan in the making gives no slots."""
    rows = seen.stages[np.isin(seen.stages["job"], seen.active)]
    rows = rows[rows["runnable"] == 1]
    return int(np.maximum(rows["num_tasks"] - rows["covered"], 0).sum())
