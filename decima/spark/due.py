"""`Due`: whether a report calls for a plan, or what waits will start without one."""

from __future__ import annotations

from collections import Counter

from decima.spark.planning import Plan
from decima.spark.reports import SessionReport

SETTLE_S = 0.05
"""what can start at once has started after so long, or something holds it back"""


class Due:
    """Detector of reports that need a new plan."""

    def __init__(self) -> None:
        self._signature: object = None
        self._since_s = 0.0

    def is_due(self, report: SessionReport, plan: Plan | None, now_s: float) -> bool:
        """Return whether a plan's inputs changed, or a slot idles beside a task that will not start
        by itself.

        Args:
            report: of the JVM.
            plan: the one in force; None before the first.
            now_s: seconds on any clock.
        """
        if not any(one.waiting for one in report.sets):
            return False
        signature = (
            report.slots,
            tuple((one.stage, one.attempt, one.waiting > 0) for one in report.sets),
        )
        is_new = signature != self._signature
        if is_new:
            self._signature, self._since_s = signature, now_s
        if now_s - self._since_s < SETTLE_S and starts_by_itself(report, plan):
            return False
        return is_new or report.running < report.slots


def starts_by_itself(report: SessionReport, plan: Plan | None) -> bool:
    """Return whether every waiting task has an idle slot that the plan allows: a plan would come
    too late.
    """
    waiting = sum(one.waiting for one in report.sets)
    if waiting > report.slots - report.running:
        return False
    if plan is None:
        return True
    held_back = set(plan.considered) - set(plan.chosen)
    wants: Counter[str] = Counter()
    for one in report.sets:
        if one.waiting > 0 and one.stage in held_back:
            return False
        wants[one.job] += one.running + one.waiting
    return all(wants[job] <= limit for job, limit in plan.limits.items())
