"""`Scene`: observations of one or many simulations, or of a live cluster, for the features."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spark_sim.observation import Observation, ObservationBatch
from spark_sim.tables import Table
from traces.numbers import Int64


class Scene(NamedTuple):
    """B decisions that are due, with J jobs in their systems.

    `memory_job` and `memory_stage` are the rows of a job and its first stage in the memory between
    decisions (`decima.agent.scorer`).
    """

    classes: Table  # (B, C) CLASS
    jobs: Table  # JOB
    stages: Table  # STAGE
    rows: Int64  # (J,) rows of `jobs`, by decision, then by arrival
    job_ptr: Int64  # (B + 1,) decision b owns rows[job_ptr[b]:job_ptr[b + 1]]
    time_ms: NDArray[np.float64]  # (B,)
    num_executors: NDArray[np.int32]  # (B,)
    on_offer: NDArray[np.int32]  # (B,)
    source: NDArray[np.int32]  # (B,) row of `jobs`, NONE if no single one
    protocol: NDArray[np.int32]  # (B,) as in `Observation`, and so the next five
    moving_delay_ms: NDArray[np.float64]  # (B,)
    last_arrival_ms: NDArray[np.float64]  # (B,)
    mean_gap_ms: NDArray[np.float64]  # (B,)
    typical_ms: NDArray[np.float64]  # (B,)
    inflation: NDArray[np.float64]  # (B,)
    memory_job: Int64  # (J,)
    memory_stage: Int64  # (J,)


def scene_of(seen: Observation) -> Scene:
    """Return the scene of one decision; its memory rows are those of the simulator's own tables."""
    rows = seen.active.astype(np.int64)
    return Scene(
        classes=seen.classes[None],
        jobs=seen.jobs,
        stages=seen.stages,
        rows=rows,
        job_ptr=np.array([0, len(rows)], np.int64),
        time_ms=np.array([seen.time_ms]),
        num_executors=np.array([seen.num_executors], np.int32),
        on_offer=np.array([seen.on_offer], np.int32),
        source=np.array([seen.source_job], np.int32),
        protocol=np.array([seen.protocol], np.int32),
        moving_delay_ms=np.array([seen.moving_delay_ms]),
        last_arrival_ms=np.array([seen.last_arrival_ms]),
        mean_gap_ms=np.array([seen.mean_gap_ms]),
        typical_ms=np.array([seen.typical_ms]),
        inflation=np.array([seen.inflation]),
        memory_job=rows,
        memory_stage=seen.jobs["first_stage"][rows].astype(np.int64),
    )


def scene_of_batch(seen: ObservationBatch, jobs_each: int, stages_each: int) -> Scene:
    """The scene of B simulations, each with so many rows of memory."""
    simulation = np.repeat(np.arange(len(seen.alive)), np.diff(seen.job_ptr))
    first = seen.jobs["first_stage"]
    return Scene(
        classes=seen.classes,
        jobs=seen.jobs,
        stages=seen.stages,
        rows=np.arange(len(seen.jobs)),
        job_ptr=seen.job_ptr,
        time_ms=seen.time_ms,
        num_executors=seen.num_executors,
        on_offer=seen.on_offer,
        source=seen.source_job,
        protocol=seen.protocol,
        moving_delay_ms=seen.moving_delay_ms,
        last_arrival_ms=seen.last_arrival_ms,
        mean_gap_ms=seen.mean_gap_ms,
        typical_ms=seen.typical_ms,
        inflation=seen.inflation,
        memory_job=simulation * jobs_each + seen.job_row,
        memory_stage=simulation * stages_each + seen.stage_row[first],
    )
