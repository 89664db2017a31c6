"""The padded observation of `spark_sim.env`: its space, whom it shows, what its slots stand for.

M job slots, S stage slots, E edge slots, N executors. The table in the docstring of `SparkEnv` says
what each entry means.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from spark_sim.cluster import Cluster
from spark_sim.errors import IllegalActionError
from spark_sim.observation import PASS, Action
from spark_sim.simulator import Simulator, Status
from spark_sim.tables import ANY, NONE, State, Table
from traces.model import MAX_TASKS_PER_STAGE, Job, Trace
from traces.numbers import MS_PER_S

Padded = dict[str, Any]
"""arrays by name, of the same shapes in every step; typed as Gymnasium types its `Dict` space"""

_JOB_COUNTS = ("held", "attached", "local", "limit")
_STAGE_COUNTS = ("launched", "finished")


class View:
    """Shows a simulator in M + S slots, and takes actions on what it has shown last."""

    def __init__(self, trace: Trace, cluster: Cluster, max_jobs: int, max_stages: int) -> None:
        self._num_executors = cluster.num_executors
        self._num_classes = len(cluster.classes or (None,))
        self._max_jobs = max_jobs
        self._max_stages = max_stages
        self._edges_of = [_edges(job) for job in trace.jobs]
        # No job has more edges per stage than this, so no choice of S stages has more edges.
        density = max(job.num_edges / len(job.stages) for job in trace.jobs)
        self._max_edges = max(1, math.ceil(density * max_stages))
        self._stages: NDArray[np.int64] = np.empty(0, np.int64)

    def space(self) -> spaces.Dict:
        """The space of what `show` returns."""
        jobs, stages, executors = self._max_jobs, self._max_stages, self._num_executors
        tasks = _whole(0, MAX_TASKS_PER_STAGE, stages)
        return spaces.Dict(
            {
                "time_s": _seconds(1),
                "on_offer": _whole(0, executors, 1),
                "jobs_in_system": _whole(0, np.iinfo(np.int32).max, 1),
                "source_job": _whole(NONE, jobs - 1, 1),
                "job_mask": spaces.MultiBinary(jobs),
                "job_age_s": _seconds(jobs),
                "job_work_s": _seconds(jobs),
                "job_remaining_s": _seconds(jobs),
                **{f"job_{name}": _whole(0, executors, jobs) for name in _JOB_COUNTS},
                "stage_mask": spaces.MultiBinary(stages),
                "stage_job": _whole(NONE, jobs - 1, stages),
                "stage_tasks": tasks,
                **{f"stage_{name}": tasks for name in _STAGE_COUNTS},
                "stage_demand": tasks,
                "stage_runnable": spaces.MultiBinary(stages),
                "stage_task_s": _seconds(stages),
                "stage_critical_path_s": _seconds(stages),
                "lowest_limit": _whole(0, executors, stages),
                "action_mask": spaces.MultiBinary(stages + 1),
                "edges": _whole(NONE, stages - 1, 2, self._max_edges),
                **(self._class_spaces() if self._num_classes > 1 else {}),
            }
        )

    def _class_spaces(self) -> dict[str, spaces.Space[Any]]:
        """What is shown besides where executors are of several classes."""
        classes, stages = self._num_classes, self._max_stages
        return {
            "class_memory_mb": _seconds(classes),
            "class_count": _whole(0, self._num_executors, classes),
            "class_on_offer": _whole(0, self._num_executors, classes),
            "class_mask": spaces.MultiBinary([stages, classes + 1]),
            "stage_memory_mb": _seconds(stages),
        }

    def action(self, slot: int, limit: int, kind: int = ANY) -> Action:
        """The simulator's form of an action on what was last shown.

        Raises:
            IllegalActionError: the slot holds no stage.
        """
        if slot == self._max_stages:
            return PASS
        if slot >= len(self._stages):
            raise IllegalActionError(f"only slots 0..{len(self._stages) - 1} hold a stage")
        return Action(int(self._stages[slot]), limit, kind)

    def show(self, simulator: Simulator) -> Padded:
        """The observation of where `simulator` stands, in new arrays."""
        state = simulator.state
        shown = self._choose(state)
        jobs = state.jobs[shown]
        sizes = jobs["num_stages"]
        first_slot = np.cumsum(sizes) - sizes
        self._stages = np.repeat(jobs["first_stage"] - first_slot, sizes) + np.arange(sizes.sum())
        due = simulator.status is Status.DECIDE
        return (
            self._show_cluster(state, shown, due)
            | self._show_jobs(jobs, float(state.clock[0]["time_ms"]))
            | self._show_stages(jobs, state.stages[self._stages], due)
            | {"edges": self._show_edges(jobs["template"], first_slot)}
            | (self._show_classes(state, due) if self._num_classes > 1 else {})
        )

    def _show_classes(self, state: State, due: bool) -> Padded:
        classes, stages = state.classes, state.stages[self._stages]
        on_offer = classes["on_offer"] * due
        fits = (stages["fits"][:, None] >> np.arange(len(classes))) & 1
        mask = np.zeros((self._max_stages, len(classes) + 1), np.int8)
        mask[: len(stages), :-1] = fits & (on_offer > 0)
        mask[: len(stages), -1] = mask[: len(stages), :-1].any(axis=1)
        mask[: len(stages)] *= stages["open"][:, None]
        return {
            "class_memory_mb": classes["memory_mb"].astype(np.float32),
            "class_count": classes["count"].astype(np.int32),
            "class_on_offer": on_offer.astype(np.int32),
            "class_mask": mask,
            "stage_memory_mb": _padded(stages["memory_mb"], self._max_stages, np.float32),
        }

    def _choose(self, state: State) -> NDArray[np.int32]:
        """Rows of the jobs that get a slot, in the order of arrival.

        All if they fit; else those with open stages first, and by arrival among equals, each that
        still fits. So a stage that may be chosen is in sight whenever there is one.
        """
        active: NDArray[np.int32] = state.active[: state.clock[0]["num_active"]]
        sizes = state.jobs["num_stages"][active]
        if len(active) <= self._max_jobs and sizes.sum() <= self._max_stages:
            return active
        taken: list[int] = []
        room = self._max_stages
        for place in np.argsort(state.jobs["open_stages"][active] == 0, kind="stable"):
            if len(taken) < self._max_jobs and sizes[place] <= room:
                taken.append(place)
                room -= sizes[place]
        chosen: NDArray[np.int32] = active[np.sort(taken)]
        return chosen

    def _show_cluster(self, state: State, shown: NDArray[np.int32], due: bool) -> Padded:
        clock = state.clock[0]
        source = np.flatnonzero(shown == clock["source_job"])
        return {
            "time_s": np.array([clock["time_ms"] / MS_PER_S], np.float32),
            "on_offer": np.array([clock["on_offer"] if due else 0], np.int32),
            "jobs_in_system": np.array([clock["num_active"]], np.int32),
            "source_job": np.array([source[0] if len(source) else NONE], np.int32),
        }

    def _show_jobs(self, jobs: Table, time_ms: float) -> Padded:
        size = self._max_jobs
        return {
            "job_mask": _padded(np.ones(len(jobs)), size, np.int8),
            "job_age_s": _padded((time_ms - jobs["arrival_ms"]) / MS_PER_S, size, np.float32),
            "job_work_s": _padded(jobs["work_ms"] / MS_PER_S, size, np.float32),
            # Subtracting task by task may end a rounding error below zero.
            "job_remaining_s": _padded(
                np.maximum(jobs["remaining_ms"], 0) / MS_PER_S, size, np.float32
            ),
            **{f"job_{name}": _padded(jobs[name], size, np.int32) for name in _JOB_COUNTS},
        }

    def _show_stages(self, jobs: Table, stages: Table, due: bool) -> Padded:
        size = self._max_stages
        lowest = np.repeat(jobs["held"], jobs["num_stages"]) + 1
        legal = (stages["open"] == 1) & (lowest <= self._num_executors) & due
        mask = _padded(legal, size + 1, np.int8)
        mask[size] = 1
        slot = np.repeat(np.arange(len(jobs)), jobs["num_stages"])
        demand = np.maximum(stages["num_tasks"] - stages["covered"], 0)
        return {
            "stage_mask": _padded(np.ones(len(stages)), size, np.int8),
            "stage_job": _padded(slot, size, np.int32, NONE),
            "stage_tasks": _padded(stages["num_tasks"], size, np.int32),
            **{f"stage_{name}": _padded(stages[name], size, np.int32) for name in _STAGE_COUNTS},
            "stage_demand": _padded(demand, size, np.int32),
            "stage_runnable": _padded(stages["runnable"], size, np.int8),
            "stage_task_s": _padded(stages["mean_ms"] / MS_PER_S, size, np.float32),
            "stage_critical_path_s": _padded(
                stages["critical_path_ms"] / MS_PER_S, size, np.float32
            ),
            "lowest_limit": _padded(np.where(legal, lowest, 0), size, np.int32),
            "action_mask": mask,
        }

    def _show_edges(
        self, templates: NDArray[np.int32], first_slot: NDArray[np.int64]
    ) -> NDArray[np.int32]:
        edges = np.full((2, self._max_edges), NONE, np.int32)
        end = 0
        for template, offset in zip(templates, first_slot, strict=True):
            found = self._edges_of[template]
            edges[:, end : end + found.shape[1]] = found + offset
            end += found.shape[1]
        return edges


def _edges(job: Job) -> NDArray[np.int32]:
    """(2, edges of the job) parent and child, as stage indices."""
    pairs = [(parent, child) for child, stage in enumerate(job.stages) for parent in stage.parents]
    return np.array(pairs, np.int32).reshape(-1, 2).T


def _padded(
    values: NDArray[Any], size: int, dtype: type[np.generic], absent: int = 0
) -> NDArray[Any]:
    """`values` in front, `absent` behind them."""
    out = np.full(size, absent, dtype)
    out[: len(values)] = values
    return out


def _seconds(size: int) -> spaces.Box:
    """Times and executor-seconds: any size that float32 holds."""
    return spaces.Box(0.0, float(np.finfo(np.float32).max), (size,), np.float32)


def _whole(low: int, high: int, *shape: int) -> spaces.Box:
    return spaces.Box(low, high, shape, np.int32)
