"""The arrays that hold the columns of `decima.agent.columns`, for kernels to fill."""

from __future__ import annotations

from typing import NamedTuple

from decima.heuristics.compiled import Numbers
from spark_sim.tables import Table
from traces.numbers import Float32, Float64, Int64


class Units(NamedTuple):
    """What columns are relative to, and the weights of the rule."""

    task_ms: float
    work_ms: float
    rule: Numbers  # `es_classes.ALL_PARAMETERS`


class ClassColumns(NamedTuple):
    """Arrays to fill: K classes of executors that O stages may be given; none with one class."""

    x: Float32  # (K, len(CLASS))
    kind: Int64  # (K,) row of the scene's classes
    stage: Int64  # (K,) index among the O stages
    ptr: Int64  # (O + 1,)


class RuleColumns(NamedTuple):
    """Arrays to fill: how the rule prefers the choices (`graph.Rule`)."""

    stage: Float32  # (O,)
    end: Float32  # (B,)
    limit: Float32  # (M,)
    kind: Float32  # (K,)


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
    planned: Int64  # (B,) choices that the rule would make
    rank: Int64  # (O,) which of them the stage is, NONE if none
    kind: Int64  # (O,) the class that it would get executors of, ANY where there is one
    taken: Int64  # (J,) executors that the rule would give
    classes: ClassColumns
    scratch: Float64  # (3, J)
    candidate: Int64  # (2, J) scratch
    less: Int64  # (J,) scratch: jobs of the same decision with less work left
    decision_of_job: Int64  # (J,)
    rule: RuleColumns
    left: Table  # (B, C) CLASS, scratch: as the scene's, less what the rule has given
