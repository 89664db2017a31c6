"""`Recording`: decisions of a batch of rollouts, stored for scoring in an update.

K decisions, Q plans, S snapshots. A *snapshot* is a job as it was after one of its changes;
decisions refer to the snapshots that they saw, so an update also embeds a job once per change.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch

from decima.agent import feature_kernels
from decima.agent.columns import Choices
from decima.agent.graph import Graph, GraphSorter
from decima.agent.plans import Plans, asked_of, picked, pointers, rows_of
from decima.agent.scorer import Scored
from traces.numbers import Float32, Float64, Int64


class Decisions(NamedTuple):
    """Arrays with one row for each decision. A step of many simulations is one such record."""

    lane: Int64  # (K,) the rollout
    time_s: Float64  # (K,)
    value: Float64  # (K,) the critic's, in its own unit
    cluster_x: Float32  # (K, len(CLUSTER))
    num_jobs: Int64  # (K,)
    num_open: Int64  # (K,)
    num_limits: Int64  # (K,)
    num_kinds: Int64  # (K,)


class Rows(NamedTuple):
    """Rows for each job, open stage, limit and class; numbers begin at each decision."""

    job_x: Float32  # (jobs, len(JOB))
    snapshot: Int64  # (jobs,)
    stage_x: Float32  # (stages, len(STAGE))
    job_of_stage: Int64  # (stages,)
    local_stage: Int64  # (stages,) index among the job's stages
    limit_x: Float32  # (limits, len(LIMIT))
    job_of_limit: Int64  # (limits,)
    class_x: Float32  # (classes, len(CLASS))
    stage_of_class: Int64  # (classes,)


class Snapshots(NamedTuple):
    """Jobs after their changes."""

    template: Int64  # (S,) row of the trace
    first_node: Int64  # (S,)
    node_x: Float32  # (nodes, len(NODE)) graph by graph, stage by stage


class Recording:
    """Inputs that an update needs from a batch of rollouts."""

    def __init__(
        self, decisions: Decisions, rows: Rows, snapshots: Snapshots, plans: Plans
    ) -> None:
        self.decisions = decisions
        self.plans = plans
        self.log_prob: Float64 = np.zeros(len(plans.decision))
        """(Q,) of the plans, under the network that drew them; 0 until it is computed"""
        self._rows = rows
        self._snapshots = snapshots
        self._job_ptr = pointers(decisions.num_jobs)
        self._open_ptr = pointers(decisions.num_open)
        self._limit_ptr = pointers(decisions.num_limits)
        self._kind_ptr = pointers(decisions.num_kinds)
        self._plan_ptr = np.searchsorted(plans.decision, np.arange(len(decisions.lane) + 1))

    def graph(self, index: Int64, sorter: GraphSorter) -> Graph:
        """The decisions `index`; neighbours in time share embeddings."""
        decisions, rows, store = self.decisions, self._rows, self._snapshots
        jobs = rows_of(self._job_ptr, index)
        stages = rows_of(self._open_ptr, index)
        limits = rows_of(self._limit_ptr, index)
        kinds = rows_of(self._kind_ptr, index)
        num_jobs, num_open = decisions.num_jobs[index], decisions.num_open[index]
        first_job = np.cumsum(num_jobs) - num_jobs
        of_stage = np.repeat(first_job, num_open) + rows.job_of_stage[stages]
        of_limit = np.repeat(first_job, decisions.num_limits[index]) + rows.job_of_limit[limits]
        first_open = np.cumsum(num_open) - num_open
        of_kind = np.repeat(first_open, decisions.num_kinds[index]) + rows.stage_of_class[kinds]
        used, graph_of_job = np.unique(rows.snapshot[jobs], return_inverse=True)
        nodes = sorter.nodes(
            store.template[used],
            store.first_node[used],
            store.node_x,
            graph_of_job,
            (of_stage, rows.local_stage[stages]),
        )
        return Graph(
            torch.from_numpy(rows.stage_x[stages]),
            torch.from_numpy(rows.job_x[jobs]),
            torch.from_numpy(decisions.cluster_x[index]),
            torch.from_numpy(rows.limit_x[limits]),
            torch.from_numpy(rows.class_x[kinds]),
            torch.from_numpy(of_stage),
            torch.from_numpy(of_limit),
            torch.from_numpy(of_kind),
            torch.from_numpy(np.repeat(np.arange(len(index)), num_jobs)),
            nodes,
        )

    def plans_of(self, index: Int64) -> tuple[Plans, Int64]:
        """Return the plans for the decisions `index`, renumbered from 0, and their rows."""
        rows = rows_of(self._plan_ptr, index)
        decision = np.repeat(np.arange(len(index)), np.diff(self._plan_ptr)[index])
        return picked(self.plans, rows)._replace(decision=decision), rows


class Recorder:
    """Recorder of simulations that advance in lockstep."""

    def __init__(self) -> None:
        self._latest: Int64 = np.zeros(0, np.int64)  # snapshot of each row of jobs in the memory
        self._count = 0
        self._num_decisions = 0
        self._decisions: list[Decisions] = []
        self._rows: list[Rows] = []
        self._plans: list[Plans] = []
        self._templates: list[Int64] = []
        self._sizes: list[Int64] = []
        self._node_x: list[Float32] = []

    def take_snapshots(self, scored: Scored) -> None:
        """Store the jobs that have changed."""
        observation, memory, changed = scored.observation, scored.memory, scored.changed
        if not len(changed):
            return
        table = observation.jobs[observation.rows[changed]]
        sizes = table["num_stages"].astype(np.int64)
        starts = np.repeat(memory.first_stage[changed] - (np.cumsum(sizes) - sizes), sizes)
        self._node_x.append(memory.x[starts + np.arange(len(starts))])
        self._sizes.append(sizes)
        self._templates.append(table["template"].astype(np.int64))
        if not len(self._latest):
            self._latest = np.zeros(len(memory.y), np.int64)
        self._latest[memory.job[changed]] = self._count + np.arange(len(changed))
        self._count += len(changed)

    def take(self, scored: Scored, lane: Int64, plans: Plans) -> None:
        """Store the decisions of some lanes (L,), ascending, with their plans: all stages, used
        limits. No probability depends on the other limits, which are most.
        """
        observation, choices = scored.observation, scored.choices
        jobs = rows_of(choices.job_ptr, lane)
        stages = rows_of(choices.open_ptr, lane)
        # (J,) the number of limits of each job that a plan used; 0 for the others.
        asked = asked_of(plans)
        job = choices.open_job[choices.open_ptr[plans.decision[asked.plan]] + asked.stage]
        of_job = np.zeros(len(choices.limit_ptr) - 1, np.int64)
        of_job[job] = np.diff(choices.limit_ptr)[job]
        # A teacher's plan may have used limits that the network's own could not reach.
        feature_kernels.describe_limits(observation, choices, of_job > 0)
        limits = rows_of(choices.limit_ptr, jobs[of_job[jobs] > 0])
        kind_ptr = choices.kind_ptr[choices.open_ptr]
        kinds = rows_of(kind_ptr, lane)
        num_open = np.diff(choices.open_ptr)[lane]
        num_limits = np.diff(pointers(of_job)[choices.job_ptr])[lane]
        num_kinds = np.diff(kind_ptr)[lane]
        self._decisions.append(
            Decisions(
                lane=lane,
                time_s=observation.time_ms[lane] / 1000.0,
                value=scored.scores.value[lane].astype(np.float64),
                cluster_x=choices.cluster_x[lane],
                num_jobs=np.diff(choices.job_ptr)[lane],
                num_open=num_open,
                num_limits=num_limits,
                num_kinds=num_kinds,
            )
        )
        first_job = choices.job_ptr[lane]
        job = choices.open_job[stages]
        first_stage = observation.jobs["first_stage"][observation.rows[job]]
        first_open = np.repeat(choices.open_ptr[lane], num_kinds)
        self._rows.append(
            Rows(
                job_x=choices.job_x[jobs],
                snapshot=self._latest[scored.memory.job[jobs]],
                stage_x=choices.stage_x[stages],
                job_of_stage=job - np.repeat(first_job, num_open),
                local_stage=choices.open_stage[stages] - first_stage,
                limit_x=choices.limit_x[limits],
                job_of_limit=choices.limit_job[limits] - np.repeat(first_job, num_limits),
                class_x=choices.class_x[kinds],
                stage_of_class=choices.kind_stage[kinds] - first_open,
            )
        )
        number = self._num_decisions + np.searchsorted(lane, plans.decision)
        limit = _renumbered(plans, choices, of_job)
        self._plans.append(plans._replace(decision=number, limit=limit))
        self._num_decisions += len(lane)

    def finish(self) -> Recording | None:
        """Return all recorded steps, or None if there was no decision."""
        if not self._plans:
            return None
        sizes = np.concatenate(self._sizes)
        return Recording(
            Decisions(*(np.concatenate(parts) for parts in zip(*self._decisions, strict=True))),
            Rows(*(np.concatenate(parts) for parts in zip(*self._rows, strict=True))),
            Snapshots(
                np.concatenate(self._templates),
                np.cumsum(sizes) - sizes,
                np.concatenate(self._node_x),
            ),
            joined(self._plans),
        )


def _renumbered(plans: Plans, choices: Choices, of_job: Int64) -> Int64:
    """The limits of plans where each job has `of_job` (J,) of them; -1: the job has none."""
    job = rows_of(choices.job_ptr, plans.decision)
    first = np.repeat(choices.job_ptr[plans.decision], np.diff(plans.job_ptr))
    ptr = pointers(of_job)
    moved = (ptr[job] - ptr[first]) - (choices.limit_ptr[job] - choices.limit_ptr[first])
    return np.where(of_job[job] > 0, plans.limit + moved, -1)


def joined(parts: list[Plans]) -> Plans:
    """Join several records, numbering their decisions through."""
    return Plans(
        np.concatenate([part.decision for part in parts]),
        pointers(np.concatenate([np.diff(part.ptr) for part in parts])),
        np.concatenate([part.order for part in parts]),
        np.concatenate([part.used for part in parts]),
        pointers(np.concatenate([np.diff(part.job_ptr) for part in parts])),
        np.concatenate([part.limit for part in parts]),
        np.concatenate([part.kind for part in parts]),
    )
