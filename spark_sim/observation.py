"""Observations and actions of a policy: the same in the simulator, in batches and live.

For policies of other authors there are read-only observations, and writable copies of them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spark_sim.tables import ANY, CLASS, DECIMA_SIM, JOB, NONE, SESSION, STAGE, State, Table, fits
from traces.arrays import TraceArrays
from traces.numbers import Int32, Int64


class Action(NamedTuple):
    """Give executors to `stage` until its job holds `limit` (Decima section 5.2).

    `stage` NONE (see `PASS`) leaves the executors on offer idle until the next scheduling event.
    `kind` is the class of executors to give (Decima 7.3), a row of `Observation.classes`; ANY
    gives whichever fit, the smallest first.
    """

    stage: int
    limit: int
    kind: int = ANY


PASS = Action(NONE, 0)
"""action that ends the decisions of this event"""


class Observation(NamedTuple):
    """The cluster at one decision. It shares memory with the simulator: copy what you need later.

    J jobs are in the system. `jobs` and `stages` may have further rows (jobs complete or to come),
    so start from `active`. Columns: the first group in `spark_sim.tables.JOB` and `STAGE`.
    """

    time_ms: float
    num_executors: int
    on_offer: int  # executors to give away now, >= 1
    local: int  # those of them that are in some job already
    source_job: int  # the job whose stage freed them, NONE if no single one
    protocol: int  # protocol of offers, a `spark_sim.Protocol`
    moving_delay_ms: float  # to start an executor in another job; 0 in a session
    last_arrival_ms: float  # when a job last arrived
    mean_gap_ms: float  # between the jobs that have arrived; infinity before the second
    typical_ms: float  # work of a job, geometric mean over all that have arrived
    inflation: float  # log of how much longer tasks take in a job that holds all executors
    round_number: int  # scheduling events so far that led to a decision; one may take several
    num_jobs: int  # in the system
    active: NDArray[np.int32]  # (J,) rows of `jobs`, in the order of arrival
    classes: Table  # (C,) CLASS, small ones first
    jobs: Table  # JOB
    stages: Table  # STAGE; the stages of job j are first_stage .. first_stage + num_stages - 1

    def as_batch(self) -> ObservationBatch:
        """Return the batch of this observation alone; it shares the tables."""
        return ObservationBatch(
            classes=self.classes[None],
            jobs=self.jobs,
            stages=self.stages,
            job_ptr=np.array([0, len(self.active)], np.int64),
            stage_ptr=np.array([0, len(self.stages)], np.int64),
            time_ms=np.array([self.time_ms]),
            num_executors=np.array([self.num_executors], np.int32),
            on_offer=np.array([self.on_offer], np.int32),
            source_job=np.array([self.source_job], np.int32),
            protocol=np.array([self.protocol], np.int32),
            moving_delay_ms=np.array([self.moving_delay_ms]),
            last_arrival_ms=np.array([self.last_arrival_ms]),
            mean_gap_ms=np.array([self.mean_gap_ms]),
            typical_ms=np.array([self.typical_ms]),
            inflation=np.array([self.inflation]),
            alive=np.ones(1, np.bool_),
            job_row=self.active,
            stage_row=np.arange(len(self.stages), dtype=np.int32),
            rows=self.active.astype(np.int64),
        )

    def open_stages(self) -> NDArray[np.int32]:
        """Stages that may be chosen: jobs by arrival, stages by index."""
        rows = [
            np.arange(job["first_stage"], job["first_stage"] + job["num_stages"])
            for job in self.jobs[self.active]
            if job["open_stages"] > 0
        ]
        every = np.concatenate(rows or [np.empty(0, np.int64)]).astype(np.int32)
        chosen: NDArray[np.int32] = every[self.stages["open"][every] == 1]
        return chosen

    def demand(self, stage: int) -> int:
        """Tasks of `stage` that no executor runs, moves to, waits for or is promised to."""
        row = self.stages[stage]
        return max(0, int(row["num_tasks"] - row["covered"]))

    def legal_kinds(self, stage: int) -> list[int]:
        """The classes on offer that can hold a task of `stage`; ANY is legal too."""
        if len(self.classes) == 1:
            return [0]
        row = self.stages[stage]
        kinds = np.flatnonzero(self.classes["on_offer"] > 0).tolist()
        return [kind for kind in kinds if fits(row, kind)]

    def legal_limits(self, stage: int) -> range:
        """The limits that `Action` accepts for `stage`: more than its job holds, at most all."""
        held = int(self.jobs[self.stages[stage]["job"]]["held"])
        return range(held + 1, self.num_executors + 1)


def observe(state: State) -> Observation:
    """The view of `state` for the decision that is due; kernels call it as `dispatch.observed`."""
    clock = state.clock[0]
    if clock["protocol"] == SESSION:
        local = int(clock["local"])
    elif clock["protocol"] == DECIMA_SIM:
        local = int(clock["on_offer"]) if clock["source_job"] != NONE else 0
    else:
        local = int(clock["idle_in_jobs"] + clock["releasing"])
    active = state.active[: clock["num_active"]]
    if state.plan[0]["changed_only"] == 1:
        active = state.asked[: state.plan[0]["num_asked"]]
    return Observation(
        time_ms=float(clock["time_ms"]),
        num_executors=int(clock["num_executors"]),
        on_offer=int(clock["on_offer"]),
        local=local,
        source_job=int(clock["source_job"]),
        protocol=int(clock["protocol"]),
        moving_delay_ms=float(clock["moving_delay_ms"]),
        last_arrival_ms=float(clock["last_arrival_ms"]),
        mean_gap_ms=float(clock["mean_gap_ms"]),
        typical_ms=float(clock["typical_ms"]),
        inflation=float(clock["inflation"]),
        round_number=int(clock["rounds"]),
        num_jobs=int(clock["num_active"]),
        active=active,
        classes=state.classes,
        jobs=state.jobs,
        stages=state.stages,
    )


class ObservationBatch(NamedTuple):
    """B simulations: J jobs in their systems, V stages of those jobs.

    Rows are numbered through the batch: simulation b owns the jobs ``job_ptr[b]:job_ptr[b + 1]`` in
    the order of arrival, and the stages likewise. One whose run is over owns none. The arrays are
    overwritten by the next batch of the same `BatchBuilder`: copy what you need later.
    `Observation.as_batch` is a batch of one, whose tables may have further rows.
    """

    classes: Table  # (B, C) CLASS, small ones first
    jobs: Table  # (J,) JOB; `first_stage` is a row of `stages` below
    stages: Table  # (V,) STAGE, a job's in one run of rows; `job` is a row of `jobs` above
    job_ptr: NDArray[np.int64]  # (B + 1,)
    stage_ptr: NDArray[np.int64]  # (B + 1,)
    time_ms: NDArray[np.float64]  # (B,)
    num_executors: Int32  # (B,)
    on_offer: Int32  # (B,) executors to give away now; 0 where no decision is due
    source_job: Int32  # (B,) row of the job whose stage freed them; NONE: no single one in sight
    protocol: Int32  # (B,) as in `Observation`, and so the next five
    moving_delay_ms: NDArray[np.float64]  # (B,)
    last_arrival_ms: NDArray[np.float64]  # (B,)
    mean_gap_ms: NDArray[np.float64]  # (B,)
    typical_ms: NDArray[np.float64]  # (B,)
    inflation: NDArray[np.float64]  # (B,)
    alive: NDArray[np.bool_]  # (B,) a decision is due
    job_row: Int32  # (J,) which row of the simulation's own `State.jobs` it is
    stage_row: Int32  # (V,) which row of the simulation's own `State.stages` it is
    rows: Int64  # (J,) rows of `jobs`, by simulation, then by arrival

    def edges(self, trace: TraceArrays) -> Int64:
        """(2, E) rows in `stages` of the parent and of the child, by parent.

        Computed on request, as a step does not need them.

        Args:
            trace: of the simulations.
        """
        template = self.stages["template"]
        first = trace.first_child[template].astype(np.int64)
        counts = trace.first_child[template + 1] - first
        parent = np.repeat(np.arange(len(template)), counts)
        within = np.arange(len(parent)) - np.repeat(np.cumsum(counts) - counts, counts)
        first_stage = self.jobs["first_stage"][self.stages["job"][parent]]
        child = first_stage + trace.children[np.repeat(first, counts) + within]
        return np.stack([parent, child])

    def open_stages(self) -> NDArray[np.intp]:
        """Rows of the stages that may be chosen, ascending."""
        return np.flatnonzero(self.stages["open"])

    def first_open_stages(self) -> Int32:
        """(B,) row of each simulation's first open stage; NONE where there is none."""
        rows = self.open_stages()
        first = np.searchsorted(rows, self.stage_ptr)
        has_open = first[:-1] < first[1:]
        chosen = np.full(len(self.alive), NONE, np.int32)
        chosen[has_open] = rows[first[:-1][has_open]]
        return chosen


_NUMBERS = (float, int, int, int, int, int, float, float, float, float, float, int, int)
_TABLES = (np.dtype(np.int32), CLASS, JOB, STAGE)
# The types of an observation's fields, in their order.


def read_only(observation: Observation) -> Observation:
    """Return the observation with read-only arrays."""
    tables = [table.view() for table in _tables(observation)]
    for table in tables:
        table.flags.writeable = False
    return Observation._make([*observation[: len(_NUMBERS)], *tables])


def copied(observation: Observation) -> Observation:
    """Return a copy that later steps do not change."""
    tables = [table.copy() for table in _tables(observation)]
    return Observation._make([*observation[: len(_NUMBERS)], *tables])


def for_kernels(observation: Observation) -> Observation:
    """Return the observation with the types that kernels are compiled for.

    These are plain numbers, and tables that are contiguous and writable. Others are copied.
    """
    numbers, tables = observation[: len(_NUMBERS)], _tables(observation)
    if tuple(map(type, numbers)) == _NUMBERS and all(
        table.flags.carray and table.dtype == kind
        for table, kind in zip(tables, _TABLES, strict=True)
    ):
        return observation
    return Observation._make(
        [
            *(kind(value) for kind, value in zip(_NUMBERS, numbers, strict=True)),
            *(
                np.require(table, kind, ["C", "W"])
                for table, kind in zip(tables, _TABLES, strict=True)
            ),
        ]
    )


def _tables(observation: Observation) -> list[NDArray[Any]]:
    return [observation.active, observation.classes, observation.jobs, observation.stages]
