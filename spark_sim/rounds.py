"""`Round`: decisions on tables that the caller maintains, such as those of a live Spark session.

The rules are those of the session protocol (`spark_sim.kernels.session`), by the same code: all
slots are on offer except those busy with the last tasks of a stage, and the result is a plan.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spark_sim.cluster import Cluster, Protocol
from spark_sim.errors import IllegalActionError
from spark_sim.kernels import session_rounds
from spark_sim.observation import PASS, Action, Observation, observe
from spark_sim.setup import build_state, typical_work_ms
from spark_sim.simulator import explain_illegal
from spark_sim.tables import DECIDE, ILLEGAL, NONE, RUNNING, State
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


_SEEN_OF_STAGES = (
    "num_tasks", "launched", "finished", "runnable", "order", "mean_ms", "critical_path_ms",
)  # fmt: skip
"""columns of the stages that an observation shows, and a simulation needs"""


def state_of(seen: Observation, trace: TraceArrays) -> State:
    """Build the state of a session from an observation, to simulate what may follow.

    A scheduler does not know how long running tasks have run: those of a stage are taken to have
    run for evenly spread parts of its mean duration. A round is open, without any choice yet.

    Args:
        seen: of a session.
        trace: the jobs that it points to.
    """
    busy = seen.stages["launched"] - seen.stages["finished"]
    slots = max(seen.num_executors, int(busy.sum()))
    cluster = Cluster(num_executors=slots, protocol=Protocol.SESSION)
    jobs = seen.jobs["template"]
    state = build_state(trace, cluster, seen.jobs["arrival_ms"], jobs, 0, timeline=False)
    for name in _SEEN_OF_STAGES:
        state.stages[name] = seen.stages[name]
    # Which slots the running tasks take is not seen: each counts as one.
    state.stages["slots"], state.stages["barrier"], state.clock["slots_each"] = 1, 0, 0
    state.jobs["remaining_ms"] = seen.jobs["remaining_ms"]
    clock = state.clock
    for name in ("time_ms", "num_executors", "last_arrival_ms", "mean_gap_ms", "typical_ms"):
        clock[name] = getattr(seen, name)
    clock["inflation"] = seen.inflation
    clock["next_arrival"] = 1 + int(seen.active.max(initial=-1))
    _run_tasks(state, busy)
    unlocked = _count_finished(state, seen)
    session_rounds.open_round(state)
    # What may start now, but has not been seen to: open in the next round, not in this one.
    state.stages["runnable"][unlocked] = 1
    clock["counted"] = 0
    return state


def _run_tasks(state: State, busy: NDArray[np.int32]) -> None:
    """Let slots run the tasks that are under way; the others are idle."""
    stage = np.repeat(np.arange(len(busy)), busy)
    number = np.arange(len(stage)) - np.repeat(np.cumsum(busy) - busy, busy)
    running = state.executors[: len(stage)]
    running["state"] = RUNNING
    running["stage"] = running["last_stage"] = stage
    running["task"] = state.stages["finished"][stage] + number
    age = (number + 0.5) / busy[stage]
    running["since_ms"] = state.clock["time_ms"] - age * state.stages["mean_ms"][stage]
    running["next"] = running["prev"] = NONE
    idle = len(state.executors) - len(stage)
    clock = state.clock[0]
    clock["unattached"] = idle
    state.idle[0, 0] = (len(stage), len(state.executors) - 1) if idle else (NONE, NONE)
    if idle:
        state.executors["prev"][len(stage)] = NONE
    np.add.at(state.jobs["attached"], state.stages["job"], busy)


def _count_finished(state: State, seen: Observation) -> NDArray[np.int64]:
    """Count complete stages and jobs. Returns the stages whose parents all are, though not seen
    to be runnable.
    """
    stages, trace = state.stages, state.trace
    is_done = stages["finished"] == stages["num_tasks"]
    stages["released"] = stages["launched"] == stages["num_tasks"]
    np.add.at(state.jobs["stages_done"], stages["job"], is_done)
    for stage in np.flatnonzero(is_done):
        template, first = stages["template"][stage], state.jobs["first_stage"][stages["job"][stage]]
        children = trace.children[trace.first_child[template] : trace.first_child[template + 1]]
        stages["parents_running"][first + children] -= 1
    is_over = state.jobs["stages_done"] == state.jobs["num_stages"]
    active = seen.active[~is_over[seen.active]]
    state.active[: len(active)] = active
    state.jobs["active"][active] = 1
    state.clock["num_active"] = len(active)
    state.clock["runnable_count"] = 1 + int(stages["order"].max(initial=0))
    is_active = state.jobs["active"][stages["job"]] == 1
    unlocked = (stages["parents_running"] == 0) & (stages["runnable"] == 0) & is_active
    return np.flatnonzero(unlocked)


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
        self.is_open = bool(session_rounds.open_round(state))
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
        status = session_rounds.assign(self._state, action.stage, action.limit)
        if status == ILLEGAL:
            raise IllegalActionError(explain_illegal(self.observation(), action))
        if action != PASS:
            self._chosen.append(action.stage)
        self.is_open = status == DECIDE

    def chosen(self) -> list[int]:
        """Rows of the stages in the plan, first come first served."""
        return list(self._chosen)
