"""`Tables`: the columns of all choices of a batch of decisions, as arrays.

Letters as in `decima.agent.graph`, which makes the network's input of them for training.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from decima.agent import columns, feature_kernels, graph_kernels
from decima.agent.column_arrays import ClassColumns, Columns
from decima.agent.column_arrays import Legal as Legal
from decima.agent.graph_kernels import Graphs
from decima.agent.scales import Scales
from decima.agent.scene import Scene
from traces.arrays import TraceArrays


class Tables(NamedTuple):
    """A graph without its nodes, as arrays, and the stages and limits of its rows."""

    columns: Columns
    legal: Legal


def describe(scene: Scene, units: Scales) -> Tables:
    """All columns of the heads."""
    out = _room(scene)
    stages, limits, kinds = feature_kernels.describe(scene, units, out)
    of_class = out.classes
    out = out._replace(
        stage_x=out.stage_x[:stages],
        open_stage=out.open_stage[:stages],
        open_job=out.open_job[:stages],
        limit_x=out.limit_x[:limits],
        limit=out.limit[:limits],
        limit_job=out.limit_job[:limits],
        classes=ClassColumns(
            of_class.x[:kinds],
            of_class.kind[:kinds],
            of_class.stage[:kinds],
            of_class.ptr[: stages + 1],
        ),
    )
    legal = Legal(
        out.open_stage,
        out.open_ptr,
        out.open_job,
        out.limit,
        out.limit_ptr,
        scene.job_ptr,
        out.classes.kind,
        out.classes.ptr,
    )
    return Tables(out, legal)


def _room(scene: Scene) -> Columns:
    """Arrays that are large enough for all columns of a scene."""
    decisions, jobs = len(scene.time_ms), len(scene.rows)
    open_stages = scene.jobs["open_stages"][scene.rows]
    stages = int(open_stages.sum())
    limits = int(feature_kernels.most_limits(scene))
    classes = scene.classes.shape[1]
    kinds = stages * classes if classes > 1 else 0
    return Columns(
        job_x=np.zeros((jobs, len(columns.JOB)), np.float32),
        cluster_x=np.zeros((decisions, len(columns.CLUSTER)), np.float32),
        stage_x=np.empty((stages, len(columns.STAGE)), np.float32),
        limit_x=np.empty((limits, len(columns.LIMIT)), np.float32),
        open_stage=np.empty(stages, np.int64),
        open_job=np.empty(stages, np.int64),
        open_ptr=np.empty(decisions + 1, np.int64),
        first_open=np.zeros(jobs + 1, np.int64),
        limit=np.empty(limits, np.int64),
        limit_job=np.empty(limits, np.int64),
        limit_ptr=np.empty(jobs + 1, np.int64),
        classes=ClassColumns(
            np.empty((kinds, len(columns.CLASS)), np.float32),
            np.empty(kinds, np.int64),
            np.empty(kinds, np.int64),
            np.empty(stages + 1, np.int64),
        ),
        path_ms=np.empty(jobs),
        height=np.empty(jobs),
        order=np.empty((2, jobs), np.int64),
        less=np.empty(jobs, np.int64),
        decision_of_job=np.empty(jobs, np.int64),
    )


def graphs_of(trace: TraceArrays) -> Graphs:
    """Return the stages of all jobs with their children and heights."""
    graphs = Graphs(
        trace.first_stage,
        trace.first_child,
        trace.children,
        np.zeros(len(trace.num_tasks), np.int32),
        np.zeros(len(trace.num_tasks), np.int32),
    )
    graph_kernels.heights(graphs)
    return graphs
