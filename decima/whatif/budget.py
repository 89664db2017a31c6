"""The fewest executors that keep the p95, or a deadline, and what they cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from rich.table import Table

from decima.rl.parallel.local import HERE
from decima.rl.parallel.pool import WorkerPool
from decima.rl.statistics import Estimate, difference_percent, mean_of
from decima.rl.tables import aligned
from decima.whatif import load
from decima.whatif.replay import ReplayWorkload
from decima.whatif.results import Progress, WhatIf
from decima.whatif.settings import WhatIfSettings
from decima.whatif.spark_settings import Files, budget_files
from decima.whatif.study import jct_by_slots
from decima.whatif.text import figure, percent
from spark_sim import Protocol
from spark_sim.cluster import MAX_EXECUTORS
from spark_sim.tables import NONE
from traces.files.names import counted
from traces.numbers import MS_PER_S, Float64

SHARES = (*(eighths / 8 for eighths in range(1, 9)), 1.25, 1.5, 2.0)
"""of the study's executors: the numbers that are tried"""
_S_PER_HOUR = 3600.0
CHEAPER_PERCENT = -2.0
"""a smaller change of the cost is not worth more than leaving things as they are"""


class Terms(NamedTuple):
    """Price and deadline."""

    price: float
    """of an hour of one executor, above 0, in any currency"""
    deadline_s: float | None = None
    """that the p95 must keep; None: the p95 of the baseline"""


@dataclass(frozen=True, eq=False)
class Budget:
    """Cost and p95 with E fixed numbers of executors, recorded arrivals, D draws."""

    study: WhatIf
    terms: Terms
    slots_each: int
    """slots of an executor"""
    executors: tuple[int, ...]
    """(E,) ascending"""
    p95_s: Mapping[str, Float64]
    """(E, D) by policy"""
    cost: Mapping[str, Float64]
    """(E, D) by policy: all executors from the first submission to the last end"""
    base_cost: Float64
    """(D,) of the baseline, with its slots as they come and go"""

    @property
    def base_p95_s(self) -> Float64:
        """(D,) p95 of the baseline."""
        return self.study.reference.p95_s[: self.study.settings.shared_draws]

    def fewest(self, policy: str) -> int | None:
        """Row of the fewest executors from which on all numbers keep the p95; None: none does.

        By the upper end of the 95 % interval, paired by draw where the p95 is the baseline's.
        """
        fewest = None
        for row in reversed(range(len(self.executors))):
            p95_s = self.p95_s[policy][row]
            if self.terms.deadline_s is None:
                is_kept = difference_percent(p95_s, self.base_p95_s).upper <= 0
            else:
                is_kept = mean_of(p95_s).upper <= self.terms.deadline_s
            if not is_kept:
                break
            fewest = row
        return fewest

    def target_words(self) -> str:
        """Describe what must be kept."""
        if self.terms.deadline_s is not None:
            return f"a p95 of {self.terms.deadline_s:g} s"
        return f"the p95 of {self.study.settings.reference}, {figure(mean_of(self.base_p95_s))}"

    def change(self, policy: str, row: int) -> Estimate:
        """Cost against the baseline's, in percent, paired by draw."""
        return difference_percent(self.cost[policy][row], self.base_cost)

    def cheapest(self) -> tuple[str, int] | None:
        """Policy and row of the lowest cost that keeps the p95, if it is certainly cheaper."""
        rows = {policy: self.fewest(policy) for policy in self.p95_s}
        changes = {
            (policy, row): self.change(policy, row)
            for policy, row in rows.items()
            if row is not None
        }
        best = min(changes, key=lambda pair: changes[pair].mean, default=None)
        if best is None or changes[best].upper > CHEAPER_PERCENT:
            return None
        return best

    def words(self) -> str | None:
        """Describe the cheapest way; None where none is cheaper than the baseline."""
        best = self.cheapest()
        if best is None:
            return None
        policy, row = best
        return (
            f"On a budget: {policy} on {counted(self.executors[row], 'executor')} keeps "
            f"{self.target_words()}, and changes the cost by {percent(self.change(policy, row))}."
        )

    def caveat(self) -> str | None:
        """What makes the fixed numbers look better than they are; None where nothing does."""
        if not self.study.settings.slots_vary:
            return None
        return (
            "Fixed executors are simulated as there from the first submission on; those of the "
            "baseline come and go as recorded, and jobs wait for them."
        )

    def files(self) -> Files:
        """Lines of settings for `words`; none without them."""
        best = self.cheapest()
        if best is None:
            return {}
        policy, row = best
        return budget_files(self.study, policy, self.executors[row])

    def rows(self) -> Iterator[tuple[str, ...]]:
        """Yield the cells below `HEADINGS`: the baseline, then each policy's fewest executors."""
        settings = self.study.settings
        yield (
            f"{settings.reference}, baseline",
            f"{-(-settings.executors // self.slots_each):,}",
            f"{settings.executors:,}",
            figure(mean_of(self.base_p95_s)),
            _money(float(self.base_cost.mean())),
            "",
        )
        for policy in self.p95_s:
            row = self.fewest(policy)
            if row is None:
                yield policy, f"more than {self.executors[-1]:,}", "", "", "", ""
                continue
            cost = float(self.cost[policy][row].mean())
            yield (
                policy,
                f"{self.executors[row]:,}",
                f"{self.executors[row] * self.slots_each:,}",
                figure(mean_of(self.p95_s[policy][row])),
                _money(cost),
                percent(self.change(policy, row)),
            )

    def to_json(self) -> dict[str, Any]:
        """Return all figures in the documented form (`docs/whatif.md`)."""
        return {
            **self.terms._asdict(),
            "slots_each": self.slots_each,
            "executors": list(self.executors),
            "baseline": {"p95_jct_s": self.base_p95_s.tolist(), "cost": self.base_cost.tolist()},
            "policies": {
                policy: {
                    "fewest_executors": None if (row := self.fewest(policy)) is None
                    else self.executors[row],
                    "p95_jct_s": self.p95_s[policy].tolist(),
                    "cost": self.cost[policy].tolist(),
                }
                for policy in self.p95_s
            },
        }  # fmt: skip


def _money(cost: float) -> str:
    return f"{cost:,.2f}" if cost >= 1 else f"{cost:.2g}"


def budget_table(planned: Budget) -> Table:
    """The baseline, then for each policy the fewest executors."""
    table = aligned(HEADINGS[:1], HEADINGS[1:])
    for row in planned.rows():
        table.add_row(*row)
    return table


HEADINGS = ("policy", "fewest executors", "slots", "p95 JCT", "cost", "change")


def budget(
    study: WhatIf,
    terms: Terms,
    *,
    pool: WorkerPool = HERE,
    progress: Progress | None = None,
) -> Budget:
    """Simulate all policies of the study with fixed numbers of executors."""
    each = slots_each(study)
    executors = numbers_tried(study.settings, each)
    slots = [each * number for number in executors]
    played = jct_by_slots(study, slots, pool=pool, progress=progress)
    workload = ReplayWorkload.of(study.recording, driver_times=study.driver_times)
    price = terms.price / _S_PER_HOUR  # of a second
    p95_s: dict[str, Float64] = {}
    cost: dict[str, Float64] = {}
    for policy in study.settings.policies:
        jct_s = [played[number, policy] for number in slots]
        p95_s[policy] = np.array([np.percentile(times_s, 95, axis=1) for times_s in jct_s])
        spans_s = np.array([span_s(workload, times_s) for times_s in jct_s])
        cost[policy] = price * np.array(executors)[:, None] * spans_s
    base_slot_s = _base_slot_s(study, workload)
    return Budget(study, terms, each, executors, p95_s, cost, price * base_slot_s / each)


def slots_each(study: WhatIf) -> int:
    """Return the slots of an executor; one for each where executors are of applications."""
    if study.settings.protocol != Protocol.SESSION.label:
        return 1
    return study.recording.slots_each(range(len(study.recording.trace.jobs)))


def numbers_tried(settings: WhatIfSettings, each: int) -> tuple[int, ...]:
    """Return the numbers of executors to try, with `each` slots."""
    number = -(-settings.executors // each)
    tried = sorted({max(1, -int(-share * number // 1)) for share in SHARES})
    return tuple(n for n in tried if settings.least_slots <= n * each <= MAX_EXECUTORS)


def span_s(workload: ReplayWorkload, jct_s: Float64) -> Float64:
    """(D,) time from the first submission to the last end.

    Jobs arrive as recorded; those of a waiting client arrive after its previous job.

    Args:
        workload: of J jobs.
        jct_s: (D, J) of each job of its trace.
    """
    arrivals = workload.arrivals
    end_ms = np.zeros((len(jct_s), len(arrivals)))
    for place, (job, leader) in enumerate(zip(arrivals.job, workload.follows, strict=True)):
        begin_ms = arrivals.arrival_ms[place]
        if leader != NONE:
            begin_ms = end_ms[:, leader] + workload.think_ms[job]
        end_ms[:, place] = begin_ms + MS_PER_S * jct_s[:, job]
    spans: Float64 = (end_ms.max(axis=1) - arrivals.arrival_ms[0]) / MS_PER_S
    return spans


def _base_slot_s(study: WhatIf, workload: ReplayWorkload) -> Float64:
    """(D,) slot seconds of the baseline, while slots come and go as recorded or are all there."""
    duration_s = span_s(workload, study.reference.jct_s[: study.settings.shared_draws])
    if not study.settings.slots_vary or (curve := load.varying_slots(study.recording)) is None:
        return duration_s * study.settings.executors
    end_ms = MS_PER_S * duration_s[:, None]
    until_ms = np.minimum(np.append(curve.time_ms[1:], np.inf), end_ms)
    slot_s: Float64 = np.maximum(until_ms - curve.time_ms, 0.0) @ curve.count / MS_PER_S
    return slot_s
