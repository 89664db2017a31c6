"""`Round`: decisions on tables that the caller maintains, such as those of a live Spark session.

The rules are those of the session protocol (`spark_sim.kernels.session`), by the same code: all
slots are on offer except those busy with the last tasks of a stage, and the result is a plan.
"""

from __future__ import annotations

import numpy as np

from spark_sim.cluster import Cluster, Protocol
from spark_sim.errors import IllegalActionError
from spark_sim.kernels import session
from spark_sim.observation import PASS, Action, Observation, observe
from spark_sim.setup import build_state, typical_work_ms
from spark_sim.simulator import explain_illegal
from spark_sim.tables import ANY, DECIDE, ILLEGAL, State
from traces.arrays import TraceArrays
from traces.numbers import Float64


def session_tables(trace: TraceArrays, slots: int, arrival_ms: Float64) -> State:
    """Build the tables of a session with each job of `trace` present once and nothing started.

    Args:
        trace: the jobs, in the order of arrival.
        slots: tasks that can run at once.
        arrival_ms: (J,) when each job was submitted.

    Raises:
        SimulationError: the times decrease or are negative.
    """
    jobs = np.arange(trace.num_jobs, dtype=np.int32)
    cluster = Cluster(num_executors=slots, protocol=Protocol.SESSION)
    state = build_state(trace, cluster, arrival_ms, jobs, 0, timeline=False)
    state.active[:] = jobs
    state.clock["num_active"] = state.clock["next_arrival"] = len(jobs)
    state.clock["last_arrival_ms"] = arrival_ms[-1]
    gaps = len(jobs) - 1
    state.clock["mean_gap_ms"] = (arrival_ms[-1] - arrival_ms[0]) / gaps if gaps else np.inf
    state.clock["typical_ms"] = typical_work_ms(state.jobs["work_ms"])
    state.clock["unattached"] = 0  # closing a round must not start anything here
    return state


class Round:
    """One plan in the making.

    >>> round_ = Round(state)
    >>> while round_.is_open:
    ...     round_.assign(policy.decide(round_.observation()))
    >>> round_.chosen()
    """

    def __init__(self, state: State) -> None:
        """Offer the slots that will come back, by the columns num_tasks, launched, finished and
        runnable of the stages of `state`. No other state of running tasks is read.
        """
        self._state = state
        state.clock["counted"] = 0
        self.is_open = bool(session.open_round(state))
        state.clock["counted"] = 2  # the caller maintains them, and may look at the plan
        self._chosen: list[int] = []

    def observation(self) -> Observation:
        """Return the observation of the due decision."""
        return observe(self._state)

    def assign(self, action: Action) -> None:
        """Put the action's stage next in the plan and set its job's limit; `PASS` ends the round.

        Raises:
            IllegalActionError: the action breaks a rule; nothing has changed.
        """
        status = session.assign(self._state, action.stage, action.limit, ANY)
        if status == ILLEGAL:
            raise IllegalActionError(explain_illegal(self.observation(), action))
        if action != PASS:
            self._chosen.append(action.stage)
        self.is_open = status == DECIDE

    def chosen(self) -> list[int]:
        """Rows of the stages in the plan, first come first served."""
        return list(self._chosen)
