"""`Simulator`: one run of a trace's jobs on a cluster, decision by decision."""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from spark_sim import tables
from spark_sim.cluster import Cluster, Protocol
from spark_sim.conditions import Conditions
from spark_sim.errors import IllegalActionError, SimulationError
from spark_sim.kernels import dispatch
from spark_sim.observation import Action, Observation, observe
from spark_sim.setup import build_state
from spark_sim.tables import ANY, NONE, State
from traces.arrays import TraceArrays
from traces.numbers import Float64, Int32


class Status(IntEnum):
    """State of a run."""

    DECIDE = tables.DECIDE
    """a decision is due: `Simulator.observation` shows it, `Simulator.step` takes it"""
    DONE = tables.DONE
    """every job is complete"""
    TRUNCATED = tables.TRUNCATED
    """the time limit of the cluster was reached"""
    DEADLOCK = tables.DEADLOCK
    """only under decima-sim's rules: the policy left everything idle and no event is pending"""


class Simulator:
    """Executors, jobs and the clock of one run.

    >>> simulator = Simulator(to_arrays(trace), Cluster(num_executors=10), arrival_ms, job)
    >>> while simulator.status is Status.DECIDE:
    ...     simulator.step(policy.decide(simulator.observation()))
    """

    def __init__(
        self,
        trace: TraceArrays,
        cluster: Cluster,
        arrival_ms: Float64,
        job: Int32,
        *,
        duration_key: int = 0,
        timeline: bool = False,
        conditions: Conditions | None = None,
    ) -> None:
        """Build the run and advance it to the first decision.

        Args:
            trace: the jobs as arrays (`traces.to_arrays`).
            cluster: what they run on.
            arrival_ms: (K,) when each job is submitted, not decreasing.
            job: (K,) which row of the trace it is.
            duration_key: decides every task's duration (`Streams.duration_key`).
            timeline: keep a record of each task (40 bytes a task).
            conditions: conditions of a recorded run; None: none.

        Raises:
            SimulationError: the arrivals break a rule of `setup.check_arrivals`.
        """
        self.cluster = cluster
        self._state = build_state(
            trace,
            cluster,
            arrival_ms,
            job,
            duration_key,
            timeline=timeline,
            conditions=conditions,
        )
        self._has_timeline = timeline
        self._status = Status(dispatch.advance(self._state))

    @property
    def status(self) -> Status:
        return self._status

    @property
    def state(self) -> State:
        """The live tables (`spark_sim.tables`), for compiled policies and metrics."""
        return self._state

    @property
    def time_ms(self) -> float:
        return float(self._state.clock[0]["time_ms"])

    def observation(self) -> Observation:
        """Return the observation of the due decision; it changes with the next step."""
        return observe(self._state)

    def step(self, action: Action) -> Status:
        """Apply `action`, then run to the next decision or the end.

        Raises:
            IllegalActionError: the action breaks a rule; the run stands where it stood.
        """
        self._require_decision()
        status = dispatch.step(self._state, *action)
        if status == tables.ILLEGAL:
            raise IllegalActionError(explain_illegal(self.observation(), action))
        self._status = Status(status)
        return self._status

    def commit(self, stage: int, count: int) -> Status:
        """decima-sim's own action: `count` more executors for `stage` (NONE: stay idle).

        Raises:
            SimulationError: the protocol is not decima-sim's.
            IllegalActionError: the stage may not be chosen or the count is not on offer.
        """
        self._require_decision()
        if self.cluster.protocol is not Protocol.DECIMA_SIM:
            raise SimulationError("commit() is the action of the decima-sim protocol; use step()")
        status = dispatch.step_commit(self._state, stage, count)
        if status == tables.ILLEGAL:
            raise IllegalActionError(
                f"stage {stage} for {count} executors: need an open stage (or {NONE}) and "
                f"1..{self.observation().on_offer} executors"
            )
        self._status = Status(status)
        return self._status

    def ask_less(self) -> None:
        """Turn `Cluster.ask_while_idle` off, for a policy whose results are equal without it."""
        self._state.clock[0]["ask_while_idle"] = False

    def keep_plans(self, limits: int) -> None:
        """Ask a session's policy only about jobs that changed, and reuse the plans of the others.

        Args:
            limits: limits of the policy (`spark_sim.tables.PLAN`). While slots are left over, its
                choices for a job, and their order, depend on nothing but these and that job.
        """
        self._state.plan[0]["limits"] = limits

    def finish(self, status: int) -> None:
        """Record how a compiled loop over `state` ended."""
        self._status = Status(status)

    def timeline(self) -> tables.Table:
        """(tasks started,) rows of `tables.TASK` in the order of starting.

        Raises:
            SimulationError: the run was built without `timeline=True`.
        """
        if not self._has_timeline:
            raise SimulationError("no timeline was recorded: build it with timeline=True")
        return self._state.timeline[: self._state.clock[0]["tasks_started"]]

    def completion_ms(self) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """(K,) when each job was complete; NaN for the unfinished."""
        return np.array(self._state.jobs["completion_ms"])

    def _require_decision(self) -> None:
        if self._status is not Status.DECIDE:
            raise SimulationError(f"no decision is due: the run is {self._status.name}")


def explain_illegal(observation: Observation, action: Action) -> str:
    """Explain which rule `action` breaks, with the values."""
    stage, limit, kind = action
    if not 0 <= stage < len(observation.stages):
        return f"stage {stage} is not one of 0..{len(observation.stages) - 1}"
    if stage not in observation.open_stages():
        return (
            f"stage {stage} may not be chosen now; open stages are "
            f"{observation.open_stages()[:10].tolist()}"
        )
    if kind != ANY and kind not in observation.legal_kinds(stage):
        return (
            f"stage {stage}: executor class {kind} is not on offer or cannot hold its tasks; "
            f"legal classes are {observation.legal_kinds(stage)}"
        )
    legal = observation.legal_limits(stage)
    return f"stage {stage}: limit {limit} must lie in {legal.start}..{legal.stop - 1}"
