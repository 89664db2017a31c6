"""What a what-if finds: results of policies, and how they compare with the first of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from decima.registry import Parameters
from decima.rl.statistics import (
    Estimate,
    are_repeats,
    difference_percent,
    neighbours_difference_percent,
)
from decima.whatif.applications.workload import ApplicationsWorkload
from decima.whatif.changes import AllocationChange, PoolChange
from decima.whatif.replay import Recording, ReplayReport
from decima.whatif.replay.check import overlapping
from decima.whatif.replay.recording import FIFO, ORDERS
from decima.whatif.settings import (
    ALONE,
    DYNAMIC,
    RECORDED,
    STATIC,
    ApplicationsSettings,
    WhatIfSettings,
)
from spark_sim import Protocol
from traces.numbers import MS_PER_S, Float64

WORTH_PERCENT = 2.0
"""a smaller change of the average JCT is not worth more than a setting"""
_SAVED_PERCENT = 5.0
"""less slot time is not worth a change"""

Progress = Callable[[str, int], None]
"""called with what is being done and how many runs were finished since the last call"""


@dataclass(frozen=True, eq=False)
class Result:
    """Completion times of the recorded jobs under one policy, or after one change."""

    jct_s: Float64
    """(draws, J) with the recorded arrivals, jobs as in the trace"""
    resampled_avg_s: Float64 = field(default_factory=lambda: np.empty(0))
    """(sequences,) average JCT with resampled arrivals; empty where these were not simulated"""
    resampled_p95_s: Float64 = field(default_factory=lambda: np.empty(0))
    """(sequences,) 95th percentile"""
    held_s: Float64 = field(default_factory=lambda: np.empty(0))
    """(draws,) slot seconds held, with the recorded arrivals; empty where all are always there"""
    starts: Float64 = field(default_factory=lambda: np.empty(0))
    """(draws,) executors that were started for applications of one cluster"""

    @property
    def by_job_s(self) -> Float64:
        """(J,) JCT of each job, mean over draws."""
        means: Float64 = self.jct_s.mean(axis=0)
        return means

    @property
    def avg_s(self) -> Float64:
        """(draws,) average JCT with the recorded arrivals."""
        averages: Float64 = self.jct_s.mean(axis=1)
        return averages

    @property
    def p95_s(self) -> Float64:
        """(draws,) 95th percentile of JCT with the recorded arrivals."""
        percentiles: Float64 = np.percentile(self.jct_s, 95, axis=1)
        return percentiles


@dataclass(frozen=True, eq=False)
class SizeResult:
    """All policies on one number of executors."""

    alone: Result
    """each job if it never met another, in the same draws: no policy can do better"""
    tuned: Mapping[str, Parameters]
    policies: Mapping[str, Result]


@dataclass(frozen=True, eq=False)
class Study(ABC):
    """A recording under several policies, compared with the first of them."""

    recording: Recording
    settings: WhatIfSettings | ApplicationsSettings

    @property
    @abstractmethod
    def policies(self) -> Mapping[str, Result]:
        """Results by policy, the reference first."""

    @property
    @abstractmethod
    def alone(self) -> Result:
        """The bound: each job, or each application, with all slots to itself."""

    @property
    def reference(self) -> Result:
        return self.policies[self.settings.reference]

    @property
    def has_repeats(self) -> bool:
        """True if all draws have equal results, so that they count as one."""
        return any(are_repeats(result.avg_s) for result in self.policies.values())

    @abstractmethod
    def differences(self, result: Result, base: Result | None = None) -> tuple[Estimate, Estimate]:
        """Percent of average JCT against `base` (the reference), by draw and by a second sample."""

    @abstractmethod
    def is_setting(self, policy: str) -> bool:
        """Return whether a setting of Spark gives this policy."""

    def is_surely_lower(self, result: Result, base: Result | None = None) -> bool:
        """Return whether both differences lie below 0; without intervals nothing is certain.

        Repeats of one draw have none: then the second sample decides.
        """
        drawn, second = self.differences(result, base)
        is_lower = drawn.is_surely_below(0)
        if self.has_repeats and drawn.ci95 is None:
            is_lower = drawn.mean < 0
        return is_lower and second.is_surely_below(0)

    def is_worth_it(self, result: Result, base: Result | None = None) -> bool:
        """Return whether the average JCT is surely lower, and by more than a setting costs."""
        change = self.differences(result, base)[0].mean
        return change <= -WORTH_PERCENT and self.is_surely_lower(result, base)

    def waiting(self) -> Estimate:
        """Percent of the reference's average JCT that is due to others, paired by draw."""
        avg_s = self.reference.avg_s
        share = difference_percent(avg_s - self.alone.avg_s, avg_s)
        interval = None if share.ci95 is None else (100 + share.ci95[0], 100 + share.ci95[1])
        return Estimate(100 + share.mean, interval).within(0.0, 100.0)

    def expected_change(self, result: Result) -> float:
        """Percent of average JCT against the reference by which policies are ranked."""
        return sum(estimate.mean for estimate in self.differences(result)) / 2

    def best(self) -> str | None:
        """The policy with the lowest average JCT, by `expected_change`.

        None if that is the reference, or no policy is better with certainty (95 %). A setting of
        Spark is preferred to a policy that is hardly better.
        """
        averages = {
            name: self.expected_change(result) - (WORTH_PERCENT if self.is_setting(name) else 0.0)
            for name, result in self.policies.items()
            if name not in (self.settings.reference, RECORDED) and self.is_surely_lower(result)
        }
        return min(averages, key=lambda name: averages[name], default=None)


@dataclass(frozen=True, eq=False)
class WhatIf(Study):
    """Results of all policies at the given number of executors, at half and at twice of it."""

    settings: WhatIfSettings
    sizes: Mapping[int, SizeResult]
    driver_times: bool = True
    """whether the driver took the time that was measured"""
    pools: tuple[PoolChange, Result] | None = None
    """the best change of one pool's settings; None where there are not several pools"""
    all_slots: Result | None = None
    """under the reference if no slot came or went; None where none did"""
    allocations: tuple[tuple[AllocationChange, Result], ...] = ()
    """the log's settings of dynamic allocation, simulated, and changes of them; () without any"""
    bounded: Result | None = None
    """under the reference and the bounds of the settings; None without any"""

    @property
    def main(self) -> SizeResult:
        return self.sizes[self.settings.executors]

    @property
    def policies(self) -> Mapping[str, Result]:
        return self.main.policies

    @property
    def alone(self) -> Result:
        """Each job if it never met another."""
        return self.main.alone

    def differences(self, result: Result, base: Result | None = None) -> tuple[Estimate, Estimate]:
        """Percent of average JCT against `base`, with recorded and with resampled arrivals."""
        base = base or self.reference
        return (
            difference_percent(result.avg_s, base.avg_s),
            difference_percent(result.resampled_avg_s, base.resampled_avg_s),
        )

    def is_setting(self, policy: str) -> bool:
        """Return whether the policy is one of Spark's own, of a session."""
        return policy in ORDERS and self.settings.protocol == Protocol.SESSION.label

    def shared_avg_s(self, executors: int, policy: str | None) -> Float64:
        """(shared draws,) average JCT with the recorded arrivals; None: without other jobs.

        Sizes are compared by it, since tasks take the same time in the same draw.
        """
        size = self.sizes[executors]
        result = size.alone if policy is None else size.policies[policy]
        return result.avg_s[: self.settings.shared_draws]

    def best_pool_change(self) -> tuple[PoolChange, Result] | None:
        """The best change of one pool, if it is worth its while for certain."""
        return self.pools if self.pools is not None and self.is_worth_it(self.pools[1]) else None

    def fastest_allocation(self) -> tuple[AllocationChange, Result] | None:
        """The change of allocation with the lowest average JCT; None if none is surely lower."""
        sure = [
            (change, result)
            for change, result in self.allocations[1:]
            if self.is_worth_it(result, self.allocations[0][1])
        ]
        return min(sure, key=lambda pair: float(pair[1].avg_s.mean()), default=None)

    def cheapest_allocation(self) -> tuple[AllocationChange, Result] | None:
        """The change that saves most slot time at no cost in JCT; None if none does."""
        good = []
        for change, result in self.allocations[1:]:
            base = self.allocations[0][1]
            saved = -difference_percent(result.held_s, base.held_s).mean
            slower = max(estimate.mean for estimate in self.differences(result, base))
            if saved >= _SAVED_PERCENT and slower <= WORTH_PERCENT / 2:
                good.append((change, result))
        return min(good, key=lambda pair: float(pair[1].held_s.mean()), default=None)


@dataclass(frozen=True, eq=False)
class ApplicationsWhatIf(Study):
    """Results of all ways to divide the executors of a cluster among applications."""

    settings: ApplicationsSettings
    workload: ApplicationsWorkload
    is_delay_measured: bool
    """whether the logs show how long an executor takes to come"""
    results: Mapping[str, Result]
    """of the ways in the settings, of the recorded executors, and alone"""

    @property
    def policies(self) -> Mapping[str, Result]:
        return {name: self.results[name] for name in self.settings.policies}

    @property
    def alone(self) -> Result:
        return self.results[ALONE]

    def differences(self, result: Result, base: Result | None = None) -> tuple[Estimate, Estimate]:
        """Percent of average JCT against `base`, over draws and over stretches of the jobs."""
        base = base or self.reference
        order = np.argsort(self.recording.arrival_ms, kind="stable")
        values, others = (each.by_job_s[order] for each in (result, base))
        return (
            difference_percent(result.avg_s, base.avg_s),
            neighbours_difference_percent(values, others),
        )

    def expected_change(self, result: Result) -> float:
        """Percent over draws alone: stretches of jobs only show whether it is certain."""
        return self.differences(result)[0].mean

    def is_setting(self, policy: str) -> bool:
        """Return whether Spark divides its executors so without a coordinator."""
        return policy in (STATIC, FIFO, DYNAMIC)

    def check(self) -> ReplayReport:
        """Compare the recorded division, simulated, with the recording."""
        recording, simulated = self.recording, self.results[RECORDED]
        simulated_s = simulated.by_job_s
        return ReplayReport(
            recording,
            tuple(recording.policy(place) for place in range(len(recording.slots))),
            recording.slots,
            recording.recorded_ms / MS_PER_S,
            simulated_s,
            simulated.jct_s.std(axis=0),
            simulated_s,
            overlapping(recording),
        )
