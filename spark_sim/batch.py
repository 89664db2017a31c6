"""`BatchBuilder`: observations of several simulations at due decisions, in one flat batch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from spark_sim.kernels import batch as kernels
from spark_sim.observation import ObservationBatch
from spark_sim.tables import CLASS, JOB, STAGE, State


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
            rows=room.rows[:jobs],
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
        rows=np.arange(jobs),
    )
