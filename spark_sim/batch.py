"""`ObservationBatch`: observations of several simulations at due decisions, in one flat batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spark_sim.kernels import batch as kernels
from spark_sim.tables import CLASS, JOB, NONE, STAGE, State, Table
from traces.arrays import TraceArrays
from traces.numbers import Int32, Int64


class ObservationBatch(NamedTuple):
    """B simulations: J jobs in their systems, V stages of those jobs.

    Rows are numbered through the batch: simulation b owns the jobs ``job_ptr[b]:job_ptr[b + 1]`` in
    the order of arrival, and the stages likewise. One whose run is over owns none. The arrays are
    overwritten by the next batch of the same `BatchBuilder`: copy what you need later.
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
        found = first[:-1] < first[1:]
        chosen = np.full(len(self.alive), NONE, np.int32)
        chosen[found] = rows[first[:-1][found]]
        return chosen


class BatchBuilder:
    """Builder of batches of `num_simulations`; its arrays double when they are full."""

    def __init__(self, num_simulations: int, num_classes: int = 1) -> None:
        self._shape = num_simulations, num_classes
        self._room = _room(self._shape, 64, 512)

    @property
    def room(self) -> ObservationBatch:
        """The batch last built, with the unused ends of its arrays: the kernels' form of it."""
        return self._room

    def of(self, states: Sequence[State]) -> ObservationBatch:
        """Build the batch of `states`, as many as the builder is for, in their order."""
        for index, state in enumerate(states):
            kernels.count(state, self._room, index)
        if not kernels.has_room(self._room):
            self._grow()
        for index, state in enumerate(states):
            kernels.fill(state, self._room, index)
        return self._cut()

    def of_stacked(self, stacked: State) -> ObservationBatch:
        """The batch of simulations whose tables are stacked (`spark_sim.kernels.batch`)."""
        while not kernels.fill_all(stacked, self._room):
            self._grow()
        return self._cut()

    def _grow(self) -> None:
        """Make room for the counted rows, doubling arrays that are full."""
        room = self._room
        needed = int(room.job_ptr[-1]), int(room.stage_ptr[-1])
        present = len(room.jobs), len(room.stages)
        grown = (
            have if need <= have else max(2 * have, need)
            for need, have in zip(needed, present, strict=True)
        )
        self._room = _room(self._shape, *grown)._replace(
            job_ptr=room.job_ptr, stage_ptr=room.stage_ptr
        )

    def _cut(self) -> ObservationBatch:
        room = self._room
        jobs, stages = room.job_ptr[-1], room.stage_ptr[-1]
        return room._replace(
            jobs=room.jobs[:jobs],
            stages=room.stages[:stages],
            job_row=room.job_row[:jobs],
            stage_row=room.stage_row[:stages],
        )


def batch_of(states: Sequence[State]) -> ObservationBatch:
    """Build one batch of the observations of `states`, in arrays of its own.

    To step many simulations repeatedly, use `spark_sim.vector.VectorSimulator` or a `BatchBuilder`.
    """
    return BatchBuilder(len(states), len(states[0].classes) if states else 1).of(states)


def _room(shape: tuple[int, int], jobs: int, stages: int) -> ObservationBatch:
    """Allocate a batch for (simulations, classes), with that many rows in all."""
    size, _ = shape
    return ObservationBatch(
        classes=np.zeros(shape, CLASS),
        jobs=np.zeros(jobs, JOB),
        stages=np.zeros(stages, STAGE),
        job_ptr=np.zeros(size + 1, np.int64),
        stage_ptr=np.zeros(size + 1, np.int64),
        time_ms=np.zeros(size, np.float64),
        num_executors=np.zeros(size, np.int32),
        on_offer=np.zeros(size, np.int32),
        source_job=np.zeros(size, np.int32),
        protocol=np.zeros(size, np.int32),
        moving_delay_ms=np.zeros(size, np.float64),
        last_arrival_ms=np.zeros(size, np.float64),
        mean_gap_ms=np.zeros(size, np.float64),
        typical_ms=np.zeros(size, np.float64),
        inflation=np.zeros(size, np.float64),
        alive=np.zeros(size, np.bool_),
        job_row=np.zeros(jobs, np.int32),
        stage_row=np.zeros(stages, np.int32),
    )
