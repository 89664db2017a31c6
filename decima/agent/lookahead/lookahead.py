"""`Lookahead`: comparison of plans in simulated futures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from decima.agent.forward_kernels import Found
from decima.agent.lookahead.candidates import Width, candidates
from decima.agent.lookahead.future_kernels import cost_ms, forget
from decima.agent.lookahead.heuristic_plans import HeuristicPlans
from decima.agent.plans import Plans, copied_plans, picked, preferences
from decima.agent.tables import Legal
from decima.registry import HEURISTICS, Heuristic
from spark_sim.kernels.choices import Preferences
from spark_sim.setup import copied
from spark_sim.tables import State, Table
from traces.arrays import TraceArrays
from traces.numbers import MS_PER_S, Float64, Int64


@dataclass(frozen=True)
class Futures:
    """Settings of the futures in which plans are compared."""

    draws: int = 16  # largest number of futures: durations drawn again, the same for all plans
    followed_by: str = "es_rule"  # the heuristic that decides after the plan's round
    tasks: int = 500_000  # tasks simulated for one decision at most, all plans and futures together
    margin: float = 1.0  # standard errors by which another plan must beat the likeliest one

    def __post_init__(self) -> None:
        if self.draws < 2:
            raise ValueError(f"draws: {self.draws} is not at least 2")
        if self.followed_by not in HEURISTICS:
            raise ValueError(f"followed_by: there is no heuristic {self.followed_by!r}")
        if self.tasks < 1:
            raise ValueError(f"tasks: {self.tasks} is not at least 1")
        if self.margin < 0:
            raise ValueError(f"margin: {self.margin} is negative")


class Proposal(NamedTuple):
    """Scores and likeliest plan of a network for one decision."""

    scores: Found  # scores of all choices
    legal: Legal  # stages, limits and classes of the scores
    likeliest: Plans  # one plan, all its entries in their order
    own: Int64  # (O,) the stages of `legal` as rows of the simulation


class Verdict(NamedTuple):
    """Outcome of a look ahead."""

    plan: Plans
    """the best one"""
    is_likeliest: bool
    cost_s: Float64
    """(Q, draws) total time of the present jobs in the system, for Q plans, the likeliest first and
    the heuristic's last. No columns if nothing was compared, or the jobs have too many tasks"""

    @property
    def was_compared(self) -> bool:
        """True if plans were compared; else the plan is the likeliest."""
        return self.cost_s.size > 0


class Lookahead:
    """Comparison of plans at one decision, each simulated until all present jobs are complete.

    A scheduler's observation is known, with the recorded distribution of each stage's durations;
    the durations themselves and later arrivals are not. All plans meet the same draws (common
    random numbers), so their differences have little noise. The plan of the heuristic that decides
    afterwards is among them: without it the best plan may be to wait for that heuristic, again and
    again.
    """

    def __init__(self, width: Width, futures: Futures, trace: TraceArrays, classes: Table) -> None:
        self._width = width
        self._futures = futures
        self._heuristic = HeuristicPlans(futures.followed_by, trace, classes)
        self._followed_by = Heuristic(futures.followed_by).compiled(trace, classes)

    def best(self, state: State, proposal: Proposal, key: int) -> Verdict:
        """Choose among the plans of the decision that is due in `state`, which is not changed."""
        every = self._plans(state, proposal)
        count = len(every.decision)
        draws = min(self._futures.draws, self._futures.tasks // max(1, count * _left(state)))
        if count < 2 or draws < 2:
            return Verdict(proposal.likeliest, True, np.empty((count, 0)))
        wanted = preferences(every, proposal.legal._replace(open_stage=proposal.own))
        keys = np.random.SeedSequence(key).generate_state(draws, np.uint64)
        cost = self._cost(state, wanted, keys.astype(np.uint64))
        best = _lowest(cost, self._futures.margin)
        return Verdict(picked(every, np.array([best])), best == 0, cost / MS_PER_S)

    def _plans(self, state: State, proposal: Proposal) -> Plans:
        scores, legal, likeliest, own = proposal
        heuristic = copied_plans(likeliest)
        used = self._heuristic.write(state, legal, own, heuristic, 0)
        return candidates(scores, legal, likeliest, self._width, heuristic if used else None)

    def _cost(self, state: State, wanted: Preferences, keys: NDArray[np.uint64]) -> Float64:
        """(Q, draws) in ms."""
        known = state._replace(timeline=state.timeline[:0])
        cost = np.empty((len(wanted.ptr) - 1, len(keys)))
        for draw, key in enumerate(keys):
            future = copied(known)
            forget(future, key)
            for plan in range(len(cost)):
                cost[plan, draw] = cost_ms(copied(future), wanted, plan, *self._followed_by)
        return cost


def _lowest(cost: Float64, margin: float) -> int:
    """Return the plan with the lowest mean if the difference exceeds the noise, else the first."""
    best = int(np.argmin(cost.mean(1)))
    if best == 0 or not np.isfinite(cost[0].sum()):
        return best
    gain = cost[0] - cost[best]
    error = float(gain.std(ddof=1)) / np.sqrt(len(gain))
    return best if gain.mean() > margin * error else 0


def _left(state: State) -> int:
    """Tasks of the jobs in the system that are not finished."""
    active: Int64 = state.active[: state.clock[0]["num_active"]].astype(np.int64)
    first, count = state.jobs["first_stage"][active], state.jobs["num_stages"][active]
    ends = np.concatenate([[0], np.cumsum(state.stages["num_tasks"] - state.stages["finished"])])
    return int((ends[first + count] - ends[first]).sum())
