"""The arrays that hold the columns of `decima.agent.columns`, for kernels to fill."""

from __future__ import annotations

from typing import NamedTuple

from traces.numbers import Float32, Float64, Int64


class ClassColumns(NamedTuple):
    """Arrays to fill: K classes of executors that O stages may be given; none with one class."""

    x: Float32  # (K, len(CLASS))
    kind: Int64  # (K,) row of the scene's classes
    stage: Int64  # (K,) index among the O stages
    ptr: Int64  # (O + 1,)


class Columns(NamedTuple):
    """Arrays to fill for B decisions with J jobs; O open stages and M limits at most."""

    job_x: Float32  # (J, len(JOB))
    cluster_x: Float32  # (B, len(CLUSTER))
    stage_x: Float32  # (O, len(STAGE))
    limit_x: Float32  # (M, len(LIMIT))
    open_stage: Int64  # (O,) row of `Scene.stages`
    open_job: Int64  # (O,) index among the J jobs
    open_ptr: Int64  # (B + 1,)
    first_open: Int64  # (J + 1,) scratch: the first open stage of each job of a decision
    limit: Int64  # (M,) the parallelism limits
    limit_job: Int64  # (M,) index among the J jobs
    limit_ptr: Int64  # (J + 1,)
    classes: ClassColumns
    path_ms: Float64  # (J,) scratch: the longest critical path of a job's open stages
    height: Float64  # (J,) scratch
    order: Int64  # (2, J) scratch
    less: Int64  # (J,) scratch: jobs of the same decision with less work left
    decision_of_job: Int64  # (J,)


class Legal(NamedTuple):
    """Stages and limits that the rows of a graph stand for. Arrays as in `Columns`."""

    open_stage: Int64  # (O,) row of `Scene.stages`
    open_ptr: Int64  # (B + 1,)
    open_job: Int64  # (O,)
    limit: Int64  # (M,) the parallelism limits
    limit_ptr: Int64  # (J + 1,)
    job_ptr: Int64  # (B + 1,)
    kind: Int64  # (K,) the classes, rows of `Scene.classes`
    kind_ptr: Int64  # (O + 1,)
