"""`VectorSimulator`: many simulations in lockstep, one compiled call a step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spark_sim import tables
from spark_sim.batch import BatchBuilder
from spark_sim.cluster import Cluster
from spark_sim.conditions import Conditions
from spark_sim.errors import IllegalActionError, SimulationError
from spark_sim.kernels import batch as kernels
from spark_sim.kernels import dispatch
from spark_sim.kernels.batch import Actions, LaneProgress
from spark_sim.kernels.dispatch import Preferences
from spark_sim.observation import Action, ObservationBatch, observe
from spark_sim.setup import build_state
from spark_sim.simulator import explain_illegal
from spark_sim.tables import NONE, State, Table
from traces.arrays import TraceArrays
from traces.numbers import Float64, Int32, Int64


@dataclass(frozen=True, eq=False)
class Run:
    """Inputs of one simulation of a `VectorSimulator`."""

    arrival_ms: Float64
    """(K,) when each job is submitted, not decreasing"""
    job: Int32
    """(K,) which row of the trace it is"""
    duration_key: int = 0
    """decides every task's duration (`Streams.duration_key`)"""
    time_limit_ms: float | None = None
    """truncate there instead of at the cluster's limit; None leaves that one"""
    conditions: Conditions | None = None
    """conditions of a recorded run; None: none"""

    def __post_init__(self) -> None:
        if self.time_limit_ms is not None and not self.time_limit_ms > 0:
            raise SimulationError(f"time limit must be positive, got {self.time_limit_ms} ms")


class StepResult(NamedTuple):
    """Results of a step of B simulations. An ended one keeps its flag until it is reset."""

    reward_s: NDArray[np.float64]  # (B,) minus the job-seconds spent in the system since the last
    done: NDArray[np.bool_]  # (B,) every job is complete
    truncated: NDArray[np.bool_]  # (B,) stopped before that: a time limit, or a deadlock


class VectorSimulator:
    """B independent simulations of one trace on equal clusters, each at a decision of its own.

    Each gives exactly the results of a `Simulator`.

    >>> simulators = VectorSimulator(to_arrays(trace), Cluster(), runs)
    >>> while simulators.alive.any():
    ...     batch = simulators.observation()
    ...     result = simulators.step(batch.first_open_stages(), batch.num_executors)

    The reward of a step is minus the integral of the number of jobs in the system since the
    previous decision (Decima section 5.3), so an episode's sum is minus the jobs' total time in
    the system, unfinished jobs included up to the end.
    """

    def __init__(self, trace: TraceArrays, cluster: Cluster, runs: Sequence[Run]) -> None:
        """Build every run and advance it to its first decision.

        Raises:
            SimulationError: there is no run, or one breaks a rule of `setup.check_arrivals`; the
                message names it.
        """
        if not runs:
            raise SimulationError("no run; a VectorSimulator needs at least one")
        self._trace = trace
        self._cluster = cluster
        states = [self._build(index, run) for index, run in enumerate(runs)]
        self._stacked = _room_for(states)
        self._progress = LaneProgress(
            status=np.zeros(len(runs), np.int64),
            charged_ms=np.zeros(len(runs)),
            reward_s=np.zeros(len(runs)),
        )
        self._builder = BatchBuilder(len(runs), self._stacked.classes.shape[1])
        self._seen: ObservationBatch | None = None
        for index, state in enumerate(states):
            self._start(index, state)

    def __len__(self) -> int:
        return len(self._progress.status)

    @property
    def status(self) -> NDArray[np.int64]:
        """(B,) `Status` of each simulation; a copy."""
        return self._progress.status.copy()

    @property
    def alive(self) -> NDArray[np.bool_]:
        """(B,) a decision is due."""
        alive: NDArray[np.bool_] = self._progress.status == tables.DECIDE
        return alive

    def state(self, index: int) -> State:
        """The live tables of one simulation, for metrics; they move when a reset makes room."""
        padded = member(self._stacked, index)
        jobs = int(padded.clock[0]["num_jobs"])
        last = padded.jobs[jobs - 1]
        stages = int(last["first_stage"] + last["num_stages"])
        return padded._replace(
            jobs=padded.jobs[:jobs],
            stages=padded.stages[:stages],
            running=padded.running[:stages],
            idle=padded.idle[: jobs + 1],
            active=padded.active[:jobs],
            chosen=padded.chosen[:stages],
            queue=padded.queue[:jobs],
            asked=padded.asked[:jobs],
        )

    @property
    def stacked(self) -> State:
        """The live tables of all simulations: an axis for them in front, padded to the largest."""
        return self._stacked

    @property
    def capacity(self) -> tuple[int, int]:
        """Rows of jobs and of stages that each simulation has room for; a reset may add some."""
        return self._stacked.jobs.shape[1], self._stacked.stages.shape[1]

    def observation(self) -> ObservationBatch:
        """All due decisions; the arrays change with the next step or reset."""
        if self._seen is None:
            self._seen = self._builder.of_stacked(self._stacked)
        return self._seen

    def step(
        self,
        stages: Int32 | Int64,
        limits: Int32 | Int64,
        kinds: Int32 | Int64 | None = None,
    ) -> StepResult:
        """Apply an action to each simulation and run each to its next decision or its end.

        Args:
            stages: (B,) rows of the batch that `observation` returned, NONE to pass; NONE for the
                simulations that are over.
            limits: (B,) the limits of the stages' jobs; no matter where the stage is NONE.
            kinds: (B,) the classes of the executors to give, or ANY; None is ANY for all.

        Raises:
            IllegalActionError: an action breaks a rule; no simulation has moved.
        """
        every = np.full(len(self), tables.ANY) if kinds is None else kinds
        actions = Actions(*(np.asarray(part, np.int64) for part in (stages, limits, every)))
        if any(part.shape != (len(self),) for part in actions):
            raise SimulationError(
                f"stages of shape {actions.stage.shape}, limits of shape {actions.limit.shape} "
                f"and kinds of shape {actions.kind.shape}: all must be ({len(self)},), one for "
                "each simulation"
            )
        self.observation()
        bad = kernels.step_all(self._stacked, self._builder.room, actions, self._progress)
        if bad != NONE:
            raise IllegalActionError(self._explain(bad, actions))
        self._seen = None
        status = self._progress.status
        return StepResult(
            reward_s=self._progress.reward_s.copy(),
            done=status == tables.DONE,
            truncated=(status == tables.TRUNCATED) | (status == tables.DEADLOCK),
        )

    def follow(self, wanted: Preferences) -> Int64:
        """Let each simulation choose by preferences until its round ends, and run on.

        Args:
            wanted: stages as rows of the batch that `observation` returned; none for the
                simulations that are over.

        Returns:
            (B,) number of entries that each used.

        Raises:
            IllegalActionError: a limit is larger than the cluster; the simulation has stopped.
        """
        used = np.zeros(len(self), np.int64)
        kernels.follow_all(self._stacked, self.own_numbers(wanted), used, self._progress)
        self._seen = None
        wrong = np.flatnonzero(self._progress.status == tables.ILLEGAL)
        if len(wrong):
            raise IllegalActionError(f"simulation {wrong[0]}: a limit beyond the cluster's size")
        return used

    def own_numbers(self, wanted: Preferences) -> Preferences:
        """Preferences among the stages of the present batch, by the simulations' own rows."""
        return wanted._replace(stage=self.own_rows(wanted.stage))

    def own_rows(self, stage: Int64) -> Int64:
        """Rows of the present batch, or `NONE`, as rows of the simulations' own stages."""
        rows = np.full(len(stage), NONE, np.int64)
        named = stage != NONE
        rows[named] = self.observation().stage_row[stage[named]]
        return rows

    def reset(self, index: int, run: Run) -> None:
        """Begin `run` in place of what simulation `index` played.

        Raises:
            SimulationError: the run breaks a rule of `setup.check_arrivals`.
        """
        state = self._build(index, run)
        rooms = ((getattr(state, name), getattr(self._stacked, name)) for name in _TABLES)
        if any(len(table) > room.shape[1] for table, room in rooms):
            present = [member(self._stacked, number) for number in range(len(self))]
            self._stacked = _room_for([*present[:index], state, *present[index + 1 :]])
            for number, other in enumerate(present):
                _place(other, self._stacked, number)
        self._start(index, state)

    def _build(self, index: int, run: Run) -> State:
        """The tables of `run`, before its first event."""
        try:
            state = build_state(
                self._trace,
                self._cluster,
                run.arrival_ms,
                run.job,
                run.duration_key,
                timeline=False,
                conditions=run.conditions,
            )
        except SimulationError as error:
            raise SimulationError(f"run {index}: {error}") from error
        if run.time_limit_ms is not None:
            state.clock["time_limit_ms"] = run.time_limit_ms
        return state

    def _start(self, index: int, state: State) -> None:
        """Put `state` in place of simulation `index` and advance it to its first decision."""
        _place(state, self._stacked, index)
        self._progress.status[index] = dispatch.advance(member(self._stacked, index))
        self._progress.charged_ms[index] = 0.0
        self._seen = None

    def _explain(self, index: int, actions: Actions) -> str:
        """Explain which rule the action of simulation `index` breaks, with the values."""
        batch = self.observation()
        row, limit, kind = (int(part[index]) for part in actions)
        where = f"simulation {index}, batch row {row}, limit {limit}"
        first, last = int(batch.stage_ptr[index]), int(batch.stage_ptr[index + 1])
        if first == last:
            return f"{where}: no stage is in its system, so only {NONE} is legal"
        if not first <= row < last:
            return f"{where}: its rows of the batch are {first}..{last - 1}"
        action = Action(int(batch.stage_row[row]), limit, kind)
        rule = explain_illegal(observe(self.state(index)), action)
        return f"{where}, in its own numbers: {rule}"


_TABLES = State._fields[:-1]
"""all but the trace, which simulations share"""


def member(stacked: State, index: int) -> State:
    """Views of one simulation's tables, padding included."""
    return State._make([*(getattr(stacked, name)[index] for name in _TABLES), stacked.trace])


def _room_for(states: Sequence[State]) -> State:
    """Empty stacked tables, each as long as the longest of `states`."""
    rooms: list[Table] = []
    for name in _TABLES:
        members = [getattr(state, name) for state in states]
        longest = max(len(member) for member in members)
        shape = (len(states), longest, *members[0].shape[1:])
        rooms.append(np.zeros(shape, members[0].dtype))
    return State._make([*rooms, states[0].trace])


def _place(state: State, stacked: State, index: int) -> None:
    """Copy the tables of `state` into row `index`; kernels never read the padding."""
    for name in _TABLES:
        table = getattr(state, name)
        getattr(stacked, name)[index][: len(table)] = table
