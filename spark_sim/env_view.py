"""The padded observation of `spark_sim.env`: its space, the jobs and stages in its slots, scales.

M job slots, S stage slots, E edge slots, N executors, B simulations. The table in the docstring of
`SparkEnv` defines each entry.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from spark_sim.cluster import Cluster
from spark_sim.needs import classes_of
from spark_sim.tables import NONE, State, Table, fits
from traces.model import MAX_TASKS_PER_STAGE, Job
from traces.numbers import MS_PER_S, Bool, Int32, Int64
from traces.trace import Trace

Padded = dict[str, Any]
"""arrays by name, with the same shapes in every step; typed like Gymnasium's `Dict` space"""

_JOB_COUNTS = ("held", "attached", "local", "limit")
_STAGE_COUNTS = ("launched", "finished")


class Sight(NamedTuple):
    """Jobs and stages of one simulation that an observation shows: J jobs with V stages."""

    state: State
    is_due: bool  # a decision is
    shown: Int32  # (J,) rows of `State.jobs`, by arrival
    jobs: Table  # (J,) JOB, a copy
    rows: Int64  # (V,) rows of `State.stages`: slot s holds the stage `rows[s]`
    stages: Table  # (V,) STAGE, a copy

    def lowest_limits(self, num_executors: int) -> Int64:
        """(V,) the lowest legal limit of each stage; 0 where it may not be chosen."""
        held: Int32 = np.repeat(self.jobs["held"], self.jobs["num_stages"])
        legal = (self.stages["open"] == 1) & (held < num_executors) & self.is_due
        return np.where(legal, held.astype(np.int64) + 1, 0)

    def legal_classes(self) -> Bool:
        """(V, C) whether executors of a class may be named for a stage."""
        classes = self.state.classes
        fitting = fits(self.stages[:, None], np.arange(len(classes)))
        on_offer = (classes["on_offer"] > 0) & self.is_due
        legal: Bool = fitting & on_offer & (self.stages["open"] == 1)[:, None]
        return legal


class View:
    """Observations of simulations in M + S slots each."""

    def __init__(self, trace: Trace, cluster: Cluster, max_jobs: int, max_stages: int) -> None:
        self._num_executors = cluster.num_executors
        self._num_classes = len(cluster.classes or (None,))
        self._max_jobs = max_jobs
        self._max_stages = max_stages
        self._edges_of = [_edges(job) for job in trace.jobs]
        # No job has more edges per stage than this, so no choice of S stages has more edges.
        density = max(job.num_edges / len(job.stages) for job in trace.jobs)
        self._max_edges = max(1, math.ceil(density * max_stages))

    def space(self) -> spaces.Dict:
        """The space of what `show` returns for one simulation."""
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
        """Spaces that are added where executors are of several classes."""
        classes, stages = self._num_classes, self._max_stages
        return {
            "class_memory_mb": _seconds(classes),
            "class_count": _whole(0, self._num_executors, classes),
            "class_on_offer": _whole(0, self._num_executors, classes),
            "class_mask": spaces.MultiBinary([stages, classes + 1]),
            "stage_memory_mb": _seconds(stages),
        }

    def sight(self, state: State, is_due: bool) -> Sight:
        """Choose the jobs and stages that get a slot, at a decision or at the end."""
        shown = self._choose(state)
        jobs = state.jobs.take(shown)
        sizes = jobs["num_stages"]
        first_slot = np.cumsum(sizes) - sizes
        rows = np.repeat(jobs["first_stage"] - first_slot, sizes) + np.arange(sizes.sum())
        return Sight(state, is_due, shown, jobs, rows, state.stages.take(rows))

    def show(self, sights: Sequence[Sight]) -> Padded:
        """The observations of B simulations, in new arrays with an axis for them in front."""
        jobs = _Slots.of([len(sight.jobs) for sight in sights], self._max_jobs)
        stages = _Slots.of([len(sight.stages) for sight in sights], self._max_stages)
        edges = np.full((len(sights), 2, self._max_edges), NONE, np.int32)
        for index, sight in enumerate(sights):
            offset = end = 0
            for template, size in zip(
                sight.jobs["template"], sight.jobs["num_stages"], strict=True
            ):
                edges_of_job = self._edges_of[template]
                edges[index, :, end : end + edges_of_job.shape[1]] = edges_of_job + offset
                end += edges_of_job.shape[1]
                offset += int(size)
        return (
            _show_clusters(sights)
            | self._show_jobs(sights, jobs)
            | self._show_stages(sights, stages)
            | {"edges": edges}
            | (self._show_classes(sights, stages) if self._num_classes > 1 else {})
        )

    def _choose(self, state: State) -> Int32:
        """Rows of the jobs that get a slot, in the order of arrival.

        All if they fit; else those with open stages first, then by arrival, skipping those that do
        not fit. So an open stage is always visible if there is one.
        """
        active: Int32 = state.active[: state.clock[0]["num_active"]]
        sizes = state.jobs["num_stages"][active]
        if len(active) <= self._max_jobs and sizes.sum() <= self._max_stages:
            return active.copy()
        taken: list[int] = []
        room = self._max_stages
        for place in np.argsort(state.jobs["open_stages"][active] == 0, kind="stable"):
            if len(taken) < self._max_jobs and sizes[place] <= room:
                taken.append(place)
                room -= sizes[place]
        chosen: Int32 = active[np.sort(taken)]
        return chosen

    def _show_jobs(self, sights: Sequence[Sight], slots: _Slots) -> Padded:
        jobs = _joined([sight.jobs for sight in sights])
        now_ms = np.array([sight.state.clock[0]["time_ms"] for sight in sights])[slots.lane]
        return {
            "job_mask": slots.pad(np.ones(len(jobs)), np.int8),
            "job_age_s": slots.pad((now_ms - jobs["arrival_ms"]) / MS_PER_S, np.float32),
            "job_work_s": slots.pad(jobs["work_ms"] / MS_PER_S, np.float32),
            # Subtracting task by task may leave a tiny negative rounding error.
            "job_remaining_s": slots.pad(
                np.maximum(jobs["remaining_ms"], 0) / MS_PER_S, np.float32
            ),
            **{f"job_{name}": slots.pad(jobs[name], np.int32) for name in _JOB_COUNTS},
        }

    def _show_stages(self, sights: Sequence[Sight], slots: _Slots) -> Padded:
        stages = _joined([sight.stages for sight in sights])
        lowest = _joined([sight.lowest_limits(self._num_executors) for sight in sights])
        owner = [np.repeat(np.arange(len(s.jobs)), s.jobs["num_stages"]) for s in sights]
        demand = np.maximum(stages["num_tasks"] - stages["covered"], 0)
        may_pass = np.ones((len(sights), 1), np.int8)
        return {
            "stage_mask": slots.pad(np.ones(len(stages)), np.int8),
            "stage_job": slots.pad(_joined(owner), np.int32, NONE),
            "stage_tasks": slots.pad(stages["num_tasks"], np.int32),
            **{f"stage_{name}": slots.pad(stages[name], np.int32) for name in _STAGE_COUNTS},
            "stage_demand": slots.pad(demand, np.int32),
            "stage_runnable": slots.pad(stages["runnable"], np.int8),
            "stage_task_s": slots.pad(stages["mean_ms"] / MS_PER_S, np.float32),
            "stage_critical_path_s": slots.pad(stages["critical_path_ms"] / MS_PER_S, np.float32),
            "lowest_limit": slots.pad(lowest, np.int32),
            "action_mask": np.concatenate([slots.pad(lowest > 0, np.int8), may_pass], axis=1),
        }

    def _show_classes(self, sights: Sequence[Sight], slots: _Slots) -> Padded:
        classes = np.stack([sight.state.classes for sight in sights])
        due = np.array([[sight.is_due] for sight in sights])
        legal = _joined([sight.legal_classes() for sight in sights])
        mask = np.zeros((len(sights), self._max_stages, self._num_classes + 1), np.int8)
        mask[slots.lane, slots.slot, :-1] = legal
        mask[slots.lane, slots.slot, -1] = legal.any(axis=1)
        memory_mb = _joined([sight.stages["memory_mb"] for sight in sights])
        most = np.finfo(np.float32).max
        return {
            "class_memory_mb": np.minimum(classes["memory_mb"], most).astype(np.float32),
            "class_count": classes["count"].astype(np.int32),
            "class_on_offer": (classes["on_offer"] * due).astype(np.int32),
            "class_mask": mask,
            "stage_memory_mb": slots.pad(memory_mb, np.float32),
        }


class _Slots(NamedTuple):
    """Destinations of the rows of B simulations in arrays of (B, size)."""

    shape: tuple[int, int]
    lane: Int64  # (rows,) simulation
    slot: Int64  # (rows,)

    @classmethod
    def of(cls, counts: Sequence[int], size: int) -> _Slots:
        """Return the slots of `counts` rows of each simulation."""
        if len(counts) == 1:
            return cls((1, size), np.zeros(counts[0], np.int64), np.arange(counts[0]))
        lane = np.repeat(np.arange(len(counts)), counts)
        first: Int64 = np.cumsum(counts, dtype=np.int64) - np.asarray(counts, np.int64)
        slot: Int64 = np.arange(len(lane), dtype=np.int64) - first[lane]
        return cls((len(counts), size), lane, slot)

    def pad(self, values: NDArray[Any], dtype: type[np.generic], absent: int = 0) -> NDArray[Any]:
        """(B, size) `values` first, then `absent`."""
        out = np.full(self.shape, absent, dtype) if absent else np.zeros(self.shape, dtype)
        if self.shape[0] == 1:
            out[0, : len(values)] = values
        else:
            out[self.lane, self.slot] = values
        return out


# --- scaled --------------------------------------------------------------------------------------

MOST = 1e7
"""seconds, executor-seconds, jobs or tasks that are scaled to 1, the maximum"""

_EXECUTORS = {
    *("on_offer", "job_held", "job_attached", "job_local", "job_limit", "lowest_limit"),
    *("class_count", "class_on_offer"),
}
_AMOUNTS = {
    *("time_s", "jobs_in_system", "job_age_s", "job_work_s", "job_remaining_s", "stage_tasks"),
    *("stage_launched", "stage_finished", "stage_demand", "stage_task_s", "stage_critical_path_s"),
}
_SLOTS = {"source_job": "jobs", "stage_job": "jobs", "edges": "stages"}


class Scale:
    """Scaling of an observation's entries by their upper bounds, as float32.

    | entries | scaled |
    |---|---|
    | seconds, executor-seconds, jobs in the system, tasks | log(1 + x) / log(1 + 10^7), at most 1 |
    | executors, limits | x / N |
    | slots: `source_job`, `stage_job`, `edges` | (slot + 1) / slots, 0 for none |
    | memory | x / that of the largest class |
    | masks and `stage_runnable` | as they are, 0 or 1 |
    """

    def __init__(self, cluster: Cluster, max_jobs: int, max_stages: int) -> None:
        self._executors = cluster.num_executors
        self._slots = {"jobs": max_jobs, "stages": max_stages}
        self._memory_mb = min(classes_of(cluster)[-1].memory_mb, float(np.finfo(np.float32).max))

    def space(self, plain: spaces.Dict) -> spaces.Dict:
        """The space of scaled observations."""
        return spaces.Dict(
            {
                name: part
                if isinstance(part, spaces.MultiBinary)
                else spaces.Box(0.0, 1.0, part.shape, np.float32)
                for name, part in plain.spaces.items()
            }
        )

    def apply(self, shown: Padded) -> Padded:
        """The observation of one simulation, or of several at once, scaled."""
        return {name: self._scaled(name, values) for name, values in shown.items()}

    def _scaled(self, name: str, values: NDArray[np.generic]) -> NDArray[np.generic]:
        numbers = values.astype(np.float64)
        if name in _AMOUNTS:
            numbers = np.log1p(numbers) / math.log1p(MOST)
        elif name in _EXECUTORS:
            numbers = numbers / self._executors
        elif name in _SLOTS:
            numbers = (numbers + 1) / self._slots[_SLOTS[name]]
        elif name.endswith("memory_mb"):
            numbers = numbers / self._memory_mb
        else:
            return values
        return np.minimum(numbers, 1.0).astype(np.float32)


# --- parts ---------------------------------------------------------------------------------------


def _show_clusters(sights: Sequence[Sight]) -> Padded:
    def column(values: list[Any], dtype: type[np.generic]) -> NDArray[Any]:
        return np.array(values, dtype)[:, None]

    clocks = [sight.state.clock[0] for sight in sights]
    sources = [
        np.flatnonzero(sight.shown == clock["source_job"])
        for sight, clock in zip(sights, clocks, strict=True)
    ]
    offers = [clock["on_offer"] * s.is_due for s, clock in zip(sights, clocks, strict=True)]
    return {
        "time_s": column([clock["time_ms"] / MS_PER_S for clock in clocks], np.float32),
        "on_offer": column(offers, np.int32),
        "jobs_in_system": column([clock["num_active"] for clock in clocks], np.int32),
        "source_job": column([rows[0] if len(rows) else NONE for rows in sources], np.int32),
    }


def _joined(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _edges(job: Job) -> Int32:
    """(2, edges of the job) parent and child, as stage indices."""
    pairs = [(parent, child) for child, stage in enumerate(job.stages) for parent in stage.parents]
    return np.array(pairs, np.int32).reshape(-1, 2).T


def _seconds(size: int) -> spaces.Box:
    """Times and executor-seconds: any size that float32 holds."""
    return spaces.Box(0.0, float(np.finfo(np.float32).max), (size,), np.float32)


def _whole(low: int, high: int, *shape: int) -> spaces.Box:
    return spaces.Box(low, high, shape, np.int32)
