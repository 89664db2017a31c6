"""Dynamic allocation: a session's executors follow its load."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace

import numpy as np

from spark_sim.errors import SimulationError
from spark_sim.tables import IDLE, NONE, State

MAX_TIME_MS = 1e12  # 30 years: an executor that is idle for so long never goes


@dataclass(frozen=True)
class Allocation:
    """Rules of Spark's `spark.dynamicAllocation`, and what the cluster adds. Times are ms."""

    slots_each: int
    """slots of each executor"""
    least: int
    """fewest executors"""
    most: int
    """executors at most"""
    first: int
    """executors that are requested at the start"""
    present: int
    """executors that are there at the start"""
    backlog_ms: float = 1000.0
    """tasks wait so long before the first request"""
    sustained_ms: float = 1000.0
    """and so long before each further one, of twice as many"""
    idle_ms: float = 60_000.0
    """an executor that is idle for so long goes"""
    start_ms: float = 2000.0
    """from a request until the executor can run tasks"""
    ratio: float = 1.0
    """of the executors that would run all waiting tasks at once"""

    def __post_init__(self) -> None:
        if self.slots_each < 1:
            raise SimulationError(f"an executor needs 1 slot or more, got {self.slots_each}")
        if not 0 <= self.least <= self.most or self.most < 1:
            raise SimulationError(
                f"allocation of {self.least} to {self.most} executors: the first must "
                "lie between 0 and the second, which is 1 or more"
            )
        for label, count in (("at first", self.first), ("present", self.present)):
            if not 0 <= count <= self.most:
                raise SimulationError(f"executors {label} must lie in 0..{self.most}, got {count}")
        for label in ("backlog_ms", "sustained_ms", "idle_ms", "start_ms"):
            time_ms = getattr(self, label)
            if not (math.isfinite(time_ms) and 0 <= time_ms <= MAX_TIME_MS):
                raise SimulationError(f"{label} must lie in 0..{MAX_TIME_MS:g}, got {time_ms}")
        if self.sustained_ms == 0 or not 0 < self.ratio <= 1:
            raise SimulationError(
                f"sustained_ms must be above 0 and ratio in 0..1, got {self.sustained_ms:g} and "
                f"{self.ratio:g}"
            )

    @property
    def slots(self) -> int:
        """The largest number of slots."""
        return self.most * self.slots_each

    def scaled(self, slots: int) -> Allocation:
        """Return the allocation with about so many slots at most."""
        most = max(1, round(slots / self.slots_each))
        counts = {label: min(getattr(self, label), most) for label in ("least", "first", "present")}
        return replace(self, most=most, **counts)

    def apply(self, state: State) -> None:
        """Write the rules into a session's tables, before the first event."""
        rules, clock = state.allocation[0], state.clock[0]
        for rule in fields(self):
            if rule.name != "first":
                rules[rule.name] = getattr(self, rule.name)
        rules["target"] = max(self.first, self.least)
        rules["step"] = 1
        rules["add_ms"] = np.inf
        # The slots behind those that are there leave the list of idle ones: they are absent.
        there = self.present * self.slots_each
        executors = state.executors
        executors["state"] = IDLE
        executors["prev"][there:] = NONE
        clock["present"] = clock["unattached"] = clock["num_executors"] = there
        clock["absent_head"] = NONE if there == self.slots else there
        state.idle[0, 0] = (NONE if there == 0 else 0, there - 1)  # NONE is -1
        if there > 0:
            executors["next"][there - 1] = NONE
