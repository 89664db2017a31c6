"""The fewest executors, or settings of dynamic allocation, that keep the p95 or a deadline."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from rich.table import Table

from decima.rl.parallel.local import HERE
from decima.rl.parallel.pool import WorkerPool
from decima.rl.statistics import Estimate, difference_percent, mean_of
from decima.rl.tables import table_of
from decima.whatif import load
from decima.whatif.advice import is_allocation_trusted
from decima.whatif.changes import MOST_GRID, AllocationChange, allocation_grid
from decima.whatif.replay import ReplayWorkload
from decima.whatif.replay.allocation import IDLE, MOST, is_dynamic
from decima.whatif.results import Progress, WhatIf
from decima.whatif.settings import WhatIfSettings
from decima.whatif.spark_settings import Files, budget_files
from decima.whatif.study import Run, recorded_results
from decima.whatif.text import figure, percent, seconds
from spark_sim import Allocation, Protocol
from spark_sim.cluster import MAX_EXECUTORS
from spark_sim.tables import NONE
from traces.files.names import counted
from traces.numbers import MS_PER_S, Float64

SHARES = (*(eighths / 8 for eighths in range(1, 9)), 1.25, 1.5, 2.0)
"""of the study's executors: the numbers that are tried"""
_S_PER_HOUR = 3600.0
CHEAPER_PERCENT = -2.0
"""a smaller change of the cost is not worth more than leaving things as they are"""
_LOOK_DRAWS = 2
"""of each setting of dynamic allocation, before the candidates get all draws"""
_AT_ONCE = 4  # candidates of a policy, the cheapest first


class Terms(NamedTuple):
    """Price and deadline."""

    price: float
    """of an hour of one executor, above 0, in any currency"""
    deadline_s: float | None = None
    """that the p95 must keep; None: the p95 of the baseline"""


@dataclass(frozen=True, eq=False)
class Option:
    """A policy on executors that are always there, or follow the load; D draws."""

    policy: str
    executors: int
    """at most"""
    change: AllocationChange | None
    """settings of dynamic allocation; None: all executors are always there"""
    p95_s: Float64
    """(D,)"""
    cost: Float64
    """(D,)"""

    def where(self) -> str:
        if self.change is None:
            return counted(self.executors, "executor")
        least, idle = self.change.allocation.least, self.change.values[IDLE]
        return f"{least:,} to {self.executors:,} executors that go after {idle} idle"

    def cell(self) -> str:
        if self.change is None:
            return f"{self.executors:,}"
        least, idle = self.change.allocation.least, self.change.values[IDLE]
        return f"{least:,} to {self.executors:,}, idle {idle}"


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
    base: Option
    """the baseline, in all draws: its slots as they come and go, or by dynamic allocation"""
    dynamic: Mapping[str, Sequence[Option]] = field(default_factory=dict)
    """(S,) settings of dynamic allocation by policy, candidates in all draws; {} if not tried"""

    def excess(self, p95_s: Float64) -> Estimate:
        """Percent by which a (D,) p95 exceeds the one to be kept, paired by draw."""
        target_s = self.base.p95_s[: len(p95_s)]
        if self.terms.deadline_s is not None:
            target_s = np.full(len(p95_s), self.terms.deadline_s)
        return difference_percent(p95_s, target_s)

    def keeps(self, p95_s: Float64) -> bool:
        """Return whether a (D,) p95 is kept, by the upper end of its 95 % interval."""
        return self.excess(p95_s).upper <= 0

    def fewest(self, policy: str) -> int | None:
        """Row of the fewest executors from which on all numbers keep the p95; None: none does."""
        fewest = None
        for row in reversed(range(len(self.executors))):
            if not self.keeps(self.p95_s[policy][row]):
                break
            fewest = row
        return fewest

    def fixed(self, policy: str) -> Option | None:
        """The fewest executors that keep the p95; None: none do."""
        row = self.fewest(policy)
        if row is None:
            return None
        p95_s, cost = self.p95_s[policy][row], self.cost[policy][row]
        return Option(policy, self.executors[row], None, p95_s, cost)

    def allocated(self, policy: str) -> Option | None:
        """The cheapest settings of dynamic allocation that keep the p95 in all draws."""
        kept = [
            option
            for option in self.dynamic.get(policy, ())
            if len(option.p95_s) == self.study.settings.draws and self.keeps(option.p95_s)
        ]
        return min(kept, key=lambda option: float(option.cost.mean()), default=None)

    def target_words(self) -> str:
        """Describe what must be kept."""
        if self.terms.deadline_s is not None:
            return f"a p95 of {self.terms.deadline_s:g} s"
        return f"the p95 of {self.study.settings.reference}, {figure(mean_of(self.base.p95_s))}"

    def change(self, option: Option) -> Estimate:
        """Cost against the baseline's, in percent, paired by draw."""
        return difference_percent(option.cost, self.base.cost[: len(option.cost)])

    def cheapest(self) -> Option | None:
        """The lowest cost that keeps the p95, if it is certainly cheaper."""
        options = [
            option
            for policy in self.p95_s
            for option in (self.fixed(policy), self.allocated(policy))
            if option is not None
        ]
        best = min(options, key=lambda option: self.change(option).mean, default=None)
        if best is None or self.change(best).upper > CHEAPER_PERCENT:
            return None
        return best

    def words(self) -> str | None:
        best = self.cheapest()
        if best is None:
            return None
        return (
            f"On a budget: {best.policy} on {best.where()} keeps {self.target_words()}, and "
            f"changes the cost by {percent(self.change(best))}."
        )

    def heading(self) -> str:
        what = "Fewest executors"
        if self.dynamic:
            what = "Fewest fixed executors, and cheapest settings of dynamic allocation,"
        return f"{what} that keep {self.target_words()}:"

    def caveat(self) -> str | None:
        """What makes some numbers look better than they are; None where nothing does."""
        words = []
        study, model = self.study, next((each[0].change for each in self.dynamic.values()), None)
        if study.settings.slots_vary or self.base.change is not None:
            words.append(
                "Fixed executors are simulated as there from the first submission on; those of the "
                "baseline come and go, and jobs wait for them."
            )
        if model is not None and self.base.change is None:
            start_s = model.allocation.start_ms / MS_PER_S
            words.append(
                "This log has no dynamic allocation: an executor is taken to come "
                f"{seconds(start_s)} after its request (--allocation executorStart=...)."
            )
        if model is None and study.settings.slots_vary and study.allocations:
            words.append(
                "Settings of dynamic allocation are not tried, since its model does not repeat "
                "this recording."
            )
        return " ".join(words) or None

    def files(self) -> Files:
        best = self.cheapest()
        if best is None:
            return {}
        return budget_files(self.study, best.policy, best.executors, best.change)

    def rows(self) -> Iterator[tuple[str, ...]]:
        yield self._cells(f"{self.base.policy}, baseline", self.base)
        for policy in self.p95_s:
            option = self.fixed(policy)
            if option is None:
                yield policy, f"more than {self.executors[-1]:,}", *[""] * 5
            else:
                yield self._cells(policy, option)
            if self.dynamic:
                option = self.allocated(policy)
                if option is None:
                    yield policy, f"none of {len(self.dynamic[policy])} settings", *[""] * 5
                else:
                    yield self._cells(policy, option)

    def _cells(self, label: str, option: Option) -> tuple[str, ...]:
        cost = float(option.cost.mean())
        return (
            label,
            option.cell(),
            f"{option.executors * self.slots_each:,}",
            figure(mean_of(option.p95_s)),
            _number(cost / self.terms.price),
            _number(cost),
            "" if option is self.base else percent(self.change(option)),
        )

    def to_json(self) -> dict[str, Any]:
        def drawn(option: Option) -> dict[str, Any]:
            return {
                "setting": None if option.change is None else option.change.setting,
                "p95_jct_s": option.p95_s.tolist(),
                "cost": option.cost.tolist(),
            }

        policies = {}
        for policy in self.p95_s:
            fixed, allocated = self.fixed(policy), self.allocated(policy)
            policies[policy] = {
                "fewest_executors": None if fixed is None else fixed.executors,
                "p95_jct_s": self.p95_s[policy].tolist(),
                "cost": self.cost[policy].tolist(),
                "allocation": None if allocated is None else drawn(allocated)["setting"],
                "allocations": [drawn(option) for option in self.dynamic.get(policy, ())],
            }
        return {
            **self.terms._asdict(),
            "slots_each": self.slots_each,
            "executors": list(self.executors),
            "baseline": drawn(self.base),
            "policies": policies,
        }


def _number(value: float) -> str:
    return f"{value:,.2f}" if value >= 1 else f"{value:.2g}"


HEADINGS = ("policy", "executors", "slots", "p95 JCT", "executor-hours", "cost", "change")


def budget_table(planned: Budget) -> Table:
    return table_of(HEADINGS, planned.rows(), words=2)


def is_assumption_trusted(study: WhatIf) -> bool:
    """Whether the assumed dynamic allocation, where a log has one, repeats the recording."""
    is_assumed = study.settings.allocation is not None and is_dynamic(study.recording.settings(0))
    return not is_assumed or is_allocation_trusted(study)


def most_runs(settings: WhatIfSettings) -> int:
    """Number of runs of `budget`, where the first candidates keep what is asked for."""
    of_policy = len(SHARES) * settings.shared_draws
    if settings.slots_vary or settings.allocation is not None:
        of_policy += (1 + MOST_GRID) * _LOOK_DRAWS + _AT_ONCE * settings.draws
    return settings.draws + of_policy * len(settings.policies)


class _Asked(NamedTuple):
    """What an `Option` is simulated from."""

    policy: str
    executors: int
    change: AllocationChange | None
    draws: int


def budget(
    study: WhatIf,
    terms: Terms,
    *,
    pool: WorkerPool = HERE,
    progress: Progress | None = None,
) -> Budget:
    """Simulate all policies of the study with fixed numbers of executors.

    Where dynamic allocation can be simulated, its settings are tried, too: all of them in few
    draws, then in all draws those that seem to keep the p95, the cheapest first, until one does.
    """
    settings, model = study.settings, _model(study)
    policies, reference = settings.policies, settings.reference
    each = slots_each(study) if model is None else model.slots_each
    price = terms.price / _S_PER_HOUR / each  # of a second of one slot
    workload = ReplayWorkload.of(study.recording, driver_times=study.driver_times)

    def simulated(asked: Sequence[_Asked]) -> list[Option]:
        runs = {}
        for place, (policy, executors, change, draws) in enumerate(asked):
            run = Run(each * executors, policy, is_fixed=change is None)
            if change is not None:
                run = run._replace(allocation=change.allocation)
            runs[place] = run, draws
        options = []
        results = recorded_results(study, runs, pool=pool, progress=progress)
        for place, (policy, executors, change, _) in enumerate(asked):
            result = results[place]
            slot_s = result.held_s
            if change is None:
                slot_s = each * executors * span_s(workload, result.jct_s)
            options.append(Option(policy, executors, change, result.p95_s, price * slot_s))
        return options

    grid: list[AllocationChange] = []
    if model is None:
        most = -(-settings.executors // each)
        base_cost = price * _base_slot_s(study, workload)
        base = Option(reference, most, None, study.reference.p95_s, base_cost)
    else:
        assumed = settings.allocation or {}
        most = -(-load.recorded_slots(study.recording) // each)
        around = model.most if MOST in assumed else min(most, model.most)
        grid = allocation_grid(study.recording, assumed, model, around, settings.least_slots)
        asked = [_Asked(reference, model.most, grid[0], settings.draws)]
        if not is_dynamic(study.recording.settings(0)):
            asked = [_Asked(reference, most, None, settings.draws)]
        (base,) = simulated(asked)

    executors = numbers_tried(settings, each)
    options = simulated(
        [_Asked(name, n, None, settings.shared_draws) for name in policies for n in executors]
    )
    shape = len(policies), len(executors), settings.shared_draws
    p95_s, cost = (
        dict(zip(policies, np.array(values).reshape(shape), strict=True))
        for values in zip(*((option.p95_s, option.cost) for option in options), strict=True)
    )
    planned = Budget(study, terms, each, executors, p95_s, cost, base)
    if not grid:
        return planned

    # Settings of dynamic allocation: a look at all, then the candidates.
    look = min(_LOOK_DRAWS, settings.draws)
    asked = [
        _Asked(name, change.allocation.most, change, look) for name in policies for change in grid
    ]
    options = simulated(asked)
    dynamic = {
        name: options[len(grid) * place :][: len(grid)] for place, name in enumerate(policies)
    }
    candidates = {
        name: sorted(
            (row for row, option in enumerate(tried) if planned.excess(option.p95_s).mean <= 0),
            key=lambda row: float(tried[row].cost.mean()),
        )
        for name, tried in dynamic.items()
    }
    while places := [(name, row) for name, rows in candidates.items() for row in rows[:_AT_ONCE]]:
        asked = [
            _Asked(name, grid[row].allocation.most, grid[row], settings.draws)
            for name, row in places
        ]
        for (name, row), option in zip(places, simulated(asked), strict=True):
            dynamic[name][row] = option
        for name, rows in candidates.items():
            is_found = any(planned.keeps(dynamic[name][row].p95_s) for row in rows[:_AT_ONCE])
            candidates[name] = [] if is_found else rows[_AT_ONCE:]
    return replace(planned, dynamic=dynamic)


def _model(study: WhatIf) -> Allocation | None:
    """Dynamic allocation as it was recorded or is assumed; None where it is not simulated.

    It is not for a number of executors that was asked for, or where the model fails.
    """
    recording, settings = study.recording, study.settings
    if settings.allocation is not None:
        model = recording.allocation(0, settings.allocation)
        return None if model is None else model.scaled(settings.executors)
    is_fixed = load.varying_slots(recording) is not None and not settings.slots_vary
    if is_fixed or not is_allocation_trusted(study):
        return None
    return recording.allocation(0)


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
    """(D,) time from the first submission to the last end, of (D, J) JCTs.

    Jobs arrive as recorded; those of a waiting client arrive after its previous job.
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
    duration_s = span_s(workload, study.reference.jct_s)
    if not study.settings.slots_vary or (curve := load.varying_slots(study.recording)) is None:
        return duration_s * study.settings.executors
    end_ms = MS_PER_S * duration_s[:, None]
    until_ms = np.minimum(np.append(curve.time_ms[1:], np.inf), end_ms)
    slot_s: Float64 = np.maximum(until_ms - curve.time_ms, 0.0) @ curve.count / MS_PER_S
    return slot_s
