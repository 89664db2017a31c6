"""`LiveSearchPolicy`: a look ahead from what a session's scheduler observes, where jobs arrive."""

from __future__ import annotations

import math

import numpy as np

from decima.agent.lookahead.candidates import Width
from decima.agent.lookahead.lookahead import Futures, Lookahead, Proposal
from decima.agent.plans import Plans
from decima.agent.policy import LearnedPolicy
from decima.agent.scales import Scales
from decima.agent.scorer import Seen
from decima.agent.weights import Network
from decima.errors import PolicyError
from spark_sim import Observation, Protocol
from spark_sim.rounds import state_of
from traces.arrays import TraceArrays

LIVE_TASKS = 100_000
"""tasks simulated at one arrival at most: about 0.1 s (`benchmarks/live_search.py`)"""
_SPREAD, _QUANTILES = 0.35, 16
"""standard deviation of the log of a task's duration, where only the mean is known; near that of
`tpch`"""


class ArrivalWatch:
    """Detector of arrivals, for the policies that one session makes one after the other."""

    def __init__(self) -> None:
        self.count = 0  # arrivals that were noticed so far
        self._mean_gap_ms: float | None = None
        self._quiet_ms = 0.0

    def are_new(self, seen: Observation) -> bool:
        """Return whether a job has arrived since the last call.

        The mean gap of all jobs has changed, or the time since the last arrival has fallen; times
        themselves are no sign, as a session counts them from the oldest job that is left.
        """
        quiet_ms = seen.time_ms - seen.last_arrival_ms
        is_new = seen.mean_gap_ms != self._mean_gap_ms or quiet_ms < self._quiet_ms
        self._mean_gap_ms, self._quiet_ms = seen.mean_gap_ms, quiet_ms
        self.count += int(is_new)
        return is_new


class LiveSearchPolicy(LearnedPolicy):
    """Policy that compares plans whenever a job has arrived; else it takes the likeliest plan."""

    def __init__(
        self,
        network: Network,
        trace: TraceArrays,
        *,
        scales: Scales | None = None,
        futures: Futures | None = None,
        arrivals: ArrivalWatch | None = None,
        name: str = "decima:search",
    ) -> None:
        """Build it; `arrivals` are those that policies for earlier graphs of the session saw."""
        super().__init__(network, trace, scales=scales, name=name)
        self._trace = with_spread(trace)
        self._futures = Futures(tasks=LIVE_TASKS) if futures is None else futures
        self._arrivals = ArrivalWatch() if arrivals is None else arrivals
        self.searches = 0
        self.changed = 0  # number of searches that found a better plan than the likeliest

    def _choose(self, observation: Observation, seen: Seen) -> Plans:
        likeliest = super()._choose(observation, seen)
        if observation.protocol != Protocol.SESSION:
            raise PolicyError(
                f"policy {self.name!r} looks ahead from the observations of a session alone"
            )
        is_begun = (observation.jobs["limit"][observation.active] > 0).any()
        if not self._arrivals.are_new(observation) or is_begun:
            return likeliest  # of a round with choices already, only the rest could be compared
        self.searches += 1
        state = state_of(observation, self._trace)
        lookahead = Lookahead(Width(), self._futures, self._trace, state.classes)
        legal = seen.tables.legal
        proposal = Proposal(seen.scores, legal, likeliest, legal.open_stage)
        verdict = lookahead.best(state, proposal, self._arrivals.count)
        self.changed += int(not verdict.is_likeliest)
        return verdict.plan


def with_spread(trace: TraceArrays) -> TraceArrays:
    """Return the trace with log-normal durations where it has one duration for a whole stage."""
    if int(trace.wave_count.max(initial=1)) > 1:
        return trace
    # Equally likely values with mean 1; the normal quantiles by their logistic approximation.
    share = (np.arange(_QUANTILES) + 0.5) / _QUANTILES
    factor = np.exp(_SPREAD * np.log(share / (1.0 - share)) * math.sqrt(3.0) / math.pi)
    factor /= factor.mean()
    flat_ms = trace.wave_mean_ms.reshape(-1)
    return trace._replace(
        wave_start=(np.arange(len(flat_ms)) * _QUANTILES).reshape(trace.wave_start.shape),
        wave_count=np.full_like(trace.wave_count, _QUANTILES),
        samples_ms=(flat_ms[:, None] * factor).astype(np.float32).reshape(-1),
    )
