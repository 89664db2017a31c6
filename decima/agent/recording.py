"""`Recording`: the decisions of a batch of rollouts, kept so that an update can score them again.

K decisions, S snapshots. A *snapshot* is a job as it was after one of its changes; decisions refer
to the snapshots that they saw, so a job is embedded once per change in the update, too.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from decima.agent.acting import Choices
from decima.agent.kernels import SceneFeatures
from decima.agent.memory import Seen
from traces.numbers import Float32, Float64, Int64


class Decisions(NamedTuple):
    """Per decision. A step of many simulations is one such record, with a row for each."""

    lane: Int64  # (K,) the rollout
    time_s: Float64  # (K,)
    cluster_x: Float32  # (K, len(CLUSTER))
    num_jobs: Int64  # (K,)
    num_open: Int64  # (K,)
    executors: Int64  # (K,)
    may_pass: NDArray[np.bool_]  # (K,)
    picked: Int64  # (K,) `Choices.picked`
    added: Int64  # (K,)
    held: Int64  # (K,)
    local: Int64  # (K,)
    room: Int64  # (K,) limits between which the chosen stage chose; 0 to pass
    log_prob: Float64  # (K,)
    value: Float64  # (K,) the critic's, in its own unit


class Rows(NamedTuple):
    """Per job and per open stage of the decisions, in their order."""

    job_x: Float32  # (jobs, len(JOB))
    snapshot: Int64  # (jobs,)
    stage_x: Float32  # (stages, len(STAGE))
    job_of_stage: Int64  # (stages,) index among the decision's jobs
    local_stage: Int64  # (stages,) index among the job's stages


class Snapshots(NamedTuple):
    """Jobs after their changes."""

    template: Int64  # (S,) row of the trace
    first_node: Int64  # (S,)
    node_x: Float32  # (nodes, len(NODE)) graph by graph, stage by stage


class Recording(NamedTuple):
    """All that an update needs of a batch of rollouts."""

    decisions: Decisions
    rows: Rows
    snapshots: Snapshots


class Recorder:
    """Collects the steps of simulations in lockstep."""

    def __init__(self, memory_jobs: int) -> None:
        """Args:
        memory_jobs: rows of jobs in the memory (`Scene.memory_job`).
        """
        self._latest = np.zeros(memory_jobs, np.int64)
        self._count = 0
        self._decisions: list[Decisions] = []
        self._rows: list[Rows] = []
        self._templates: list[Int64] = []
        self._sizes: list[Int64] = []
        self._node_x: list[Float32] = []

    def take_snapshots(self, seen: Seen, node_x: Float32) -> None:
        """Keep the jobs that have changed; `node_x` are the memory's features."""
        scene, changed = seen.scene, seen.features.changed
        if not len(changed):
            return
        table = scene.jobs[scene.rows[changed]]
        sizes = table["num_stages"].astype(np.int64)
        starts = np.repeat(scene.memory_stage[changed] - (np.cumsum(sizes) - sizes), sizes)
        self._node_x.append(node_x[starts + np.arange(len(starts))])
        self._sizes.append(sizes)
        self._templates.append(table["template"].astype(np.int64))
        self._latest[scene.memory_job[changed]] = self._count + np.arange(len(changed))
        self._count += len(changed)

    def take(self, seen: Seen, choices: Choices, values: Float32) -> None:
        """Keep one step of the lanes that had a choice."""
        scene, features = seen.scene, seen.features
        num_open = np.diff(features.open_ptr)
        lane = np.flatnonzero(num_open > 0)
        room = _room_of(features, choices, num_open)
        self._decisions.append(
            Decisions(
                lane=lane,
                time_s=scene.time_ms[lane] / 1000.0,
                cluster_x=features.cluster_x[lane],
                num_jobs=np.diff(scene.job_ptr)[lane],
                num_open=num_open[lane],
                executors=scene.num_executors[lane].astype(np.int64),
                may_pass=features.may_pass[lane],
                picked=choices.picked[lane],
                added=choices.added[lane],
                held=choices.held[lane],
                local=choices.local[lane],
                room=room[lane],
                log_prob=choices.log_prob[lane],
                value=values[lane].astype(np.float64),
            )
        )
        job = features.open_job
        busy = np.repeat(num_open > 0, np.diff(scene.job_ptr))
        self._rows.append(
            Rows(
                job_x=features.job_x[busy],
                snapshot=self._latest[scene.memory_job[busy]],
                stage_x=features.stage_x,
                job_of_stage=job - scene.job_ptr[seen.decision_of_stage],
                local_stage=features.open_node - scene.memory_stage[job],
            )
        )

    def finish(self) -> Recording:
        """Everything, step by step."""
        sizes = np.concatenate(self._sizes)
        return Recording(
            Decisions(*(np.concatenate(parts) for parts in zip(*self._decisions, strict=True))),
            Rows(*(np.concatenate(parts) for parts in zip(*self._rows, strict=True))),
            Snapshots(
                np.concatenate(self._templates),
                np.cumsum(sizes) - sizes,
                np.concatenate(self._node_x),
            ),
        )


def _room_of(features: SceneFeatures, choices: Choices, num_open: Int64) -> Int64:
    room = np.zeros(len(num_open), np.int64)
    chosen = np.flatnonzero(choices.picked < num_open)
    room[chosen] = features.room[features.open_ptr[chosen] + choices.picked[chosen]]
    return room
