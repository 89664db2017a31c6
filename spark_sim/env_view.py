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
from numpy.typing import DTypeLike, NDArray

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
    """Jobs and stages of B simulations that get a slot: J jobs with V stages, by simulation."""

    states: State  # stacked: its tables have an axis for the simulations in front
    is_due: Bool  # (B,) a decision is
    jobs: Table  # (J,) JOB, a copy
    job_row: Int32  # (J,) row of the simulation's `State.jobs`
    job_slot: Slots  # of the jobs
    stages: Table  # (V,) STAGE, a copy
    stage_row: Int64  # (V,) row of the simulation's `State.stages`
    stage_slot: Slots  # of the stages
    owner: Int64  # (V,) slot of the stage's job
    lowest: Int64  # (V,) the lowest legal limit of the stage; 0 where it may not be chosen
    classes: Bool  # (V, C) whether executors of a class may be named for the stage


class Slots(NamedTuple):
    """Destinations of rows of B simulations in arrays of (B, size), each simulation's first."""

    shape: tuple[int, int]
    lane: Int64  # (rows,) simulation
    slot: Int64  # (rows,)
    first: Int64  # (B + 1,) rows of simulation b: first[b] .. first[b + 1] - 1

    @classmethod
    def of(cls, counts: Int64, size: int) -> Slots:
        """Return the slots of `counts` rows of each simulation."""
        first = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
        lane = np.repeat(np.arange(len(counts)), counts)
        return cls((len(counts), size), lane, np.arange(len(lane)) - first[lane], first)

    def pad(self, values: NDArray[Any], dtype: DTypeLike, absent: int = 0) -> NDArray[Any]:
        """(B, size, ...) `values` first, then `absent`."""
        out = np.full(self.shape + values.shape[1:], absent, dtype)
        out[self.lane, self.slot] = values
        return out


class View:
    """Observations of simulations in M + S slots each."""

    space: spaces.Dict
    """of what `show` returns for one simulation"""

    def __init__(
        self, trace: Trace, cluster: Cluster, max_jobs: int, max_stages: int, scaled: bool
    ) -> None:
        self._num_executors = cluster.num_executors
        self._num_classes = len(cluster.classes or (None,))
        self._max_jobs = max_jobs
        self._max_stages = max_stages
        edges = [_edges(job) for job in trace.jobs]
        self._edges = np.concatenate(edges, axis=1)
        self._num_edges = np.array([part.shape[1] for part in edges])
        self._first_edge = np.cumsum(self._num_edges) - self._num_edges
        # No job has more edges per stage than this, so no choice of S stages has more edges.
        density = max(job.num_edges / len(job.stages) for job in trace.jobs)
        self._max_edges = max(1, math.ceil(density * max_stages))
        self._scale = Scale(trace, cluster, max_jobs, max_stages) if scaled else None
        plain = self._plain_space()
        self.space = plain if self._scale is None else self._scale.space(plain)

    def _plain_space(self) -> spaces.Dict:
        jobs, stages, executors = self._max_jobs, self._max_stages, self._num_executors
        tasks = _whole(0, MAX_TASKS_PER_STAGE, stages)
        return spaces.Dict(
            {
                "time_s": _seconds(1),
                "on_offer": _whole(0, executors, 1),
                "jobs_in_system": _whole(0, np.iinfo(np.int32).max, 1),
                "fair_share": spaces.Box(0.0, executors, (1,), np.float32),
                "source_job": _whole(NONE, jobs - 1, 1),
                "job_mask": spaces.MultiBinary(jobs),
                "job_age_s": _seconds(jobs),
                "job_work_s": _seconds(jobs),
                "job_remaining_s": _seconds(jobs),
                **{f"job_{name}": _whole(0, executors, jobs) for name in _JOB_COUNTS},
                "job_share": _seconds(jobs),
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

    def sight(self, states: State, is_due: Bool) -> Sight:
        """Choose the jobs and stages of stacked simulations that get a slot."""
        counts = states.clock["num_active"][:, 0]
        lane = np.repeat(np.arange(len(counts)), counts)
        place = np.arange(len(lane)) - np.repeat(np.cumsum(counts) - counts, counts)
        row = states.active[lane, place]
        jobs = _rows(states.jobs, lane, row)
        sizes = np.bincount(lane, jobs["num_stages"], len(counts))
        crowded = (counts > self._max_jobs) | (sizes > self._max_stages)
        if crowded.any():
            chosen = np.ones(len(jobs), np.bool_)
            for crowd in np.flatnonzero(crowded):
                chosen[lane == crowd] = self._choose(jobs[lane == crowd])
            lane, row, jobs = lane[chosen], row[chosen], jobs[chosen]
        job_slot = Slots.of(np.bincount(lane, minlength=len(counts)), self._max_jobs)
        sizes = jobs["num_stages"].astype(np.int64)
        job = np.repeat(np.arange(len(jobs)), sizes)
        stage_row = np.arange(len(job)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        stage_row += jobs["first_stage"][job]
        stage_lane = lane[job]
        stages = _rows(states.stages, stage_lane, stage_row)
        is_open = (stages["open"] == 1) & is_due[stage_lane]
        held = jobs["held"][job].astype(np.int64)
        classes = states.classes[stage_lane]
        fitting = fits(stages[:, None], np.arange(classes.shape[1]))
        return Sight(
            states=states,
            is_due=is_due,
            jobs=jobs,
            job_row=row,
            job_slot=job_slot,
            stages=stages,
            stage_row=stage_row,
            stage_slot=Slots.of(np.bincount(stage_lane, minlength=len(counts)), self._max_stages),
            owner=job_slot.slot[job],
            lowest=np.where(is_open & (held < self._num_executors), held + 1, 0),
            classes=fitting & (classes["on_offer"] > 0) & is_open[:, None],
        )

    def _choose(self, jobs: Table) -> Bool:
        """Which of these jobs get a slot where not all fit.

        Those with open stages go first, then earlier arrivals; one that does not fit is skipped. So
        an open stage is always visible if there is one.
        """
        chosen = np.zeros(len(jobs), np.bool_)
        room = self._max_stages
        for place in np.argsort(jobs["open_stages"] == 0, kind="stable"):
            if chosen.sum() < self._max_jobs and jobs["num_stages"][place] <= room:
                chosen[place] = True
                room -= jobs["num_stages"][place]
        return chosen

    def show(self, sight: Sight) -> Padded:
        """The observations of B simulations, in new arrays with an axis for them in front."""
        clock = sight.states.clock[:, 0]
        jobs, stages = sight.jobs, sight.stages
        lane = sight.job_slot.lane
        source = np.full(len(clock), NONE)
        is_source = sight.job_row == clock["source_job"][lane]
        source[lane[is_source]] = sight.job_slot.slot[is_source]
        share = self._num_executors / np.maximum(clock["num_active"], 1)
        of_clusters = {
            "time_s": clock["time_ms"] / MS_PER_S,
            "on_offer": clock["on_offer"] * sight.is_due,
            "jobs_in_system": clock["num_active"],
            "fair_share": share * (clock["num_active"] > 0),
            "source_job": source,
        }
        of_jobs = {
            "job_mask": np.ones(len(jobs)),
            "job_age_s": (clock["time_ms"][lane] - jobs["arrival_ms"]) / MS_PER_S,
            "job_work_s": jobs["work_ms"] / MS_PER_S,
            # Subtracting task by task may leave a tiny negative rounding error.
            "job_remaining_s": np.maximum(jobs["remaining_ms"], 0) / MS_PER_S,
            **{f"job_{name}": jobs[name] for name in _JOB_COUNTS},
            "job_share": jobs["held"] / share[lane],
        }
        of_stages = {
            "stage_mask": np.ones(len(stages)),
            "stage_job": sight.owner,
            "stage_tasks": stages["num_tasks"],
            **{f"stage_{name}": stages[name] for name in _STAGE_COUNTS},
            "stage_demand": np.maximum(stages["num_tasks"] - stages["covered"], 0),
            "stage_runnable": stages["runnable"],
            "stage_task_s": stages["mean_ms"] / MS_PER_S,
            "stage_critical_path_s": stages["critical_path_ms"] / MS_PER_S,
            "lowest_limit": sight.lowest,
        }
        may_pass = np.ones((len(clock), 1), np.int8)
        legal = sight.stage_slot.pad(sight.lowest > 0, np.int8)
        shown = {
            **{name: self._typed(name, part)[:, None] for name, part in of_clusters.items()},
            **{name: self._padded(name, part, sight.job_slot) for name, part in of_jobs.items()},
            **{
                name: self._padded(name, part, sight.stage_slot) for name, part in of_stages.items()
            },
            "action_mask": np.concatenate([legal, may_pass], axis=1),
            "edges": self._typed("edges", self._edges_of(sight)),
        }
        if self._num_classes > 1:
            classes = sight.states.classes
            any_class = sight.classes.any(axis=1, keepdims=True)
            mask = np.concatenate([sight.classes, any_class], axis=1)
            memory_mb = np.minimum(classes["memory_mb"], np.finfo(np.float32).max)
            on_offer = classes["on_offer"] * sight.is_due[:, None]
            shown |= {
                "class_memory_mb": self._typed("class_memory_mb", memory_mb),
                "class_count": self._typed("class_count", classes["count"]),
                "class_on_offer": self._typed("class_on_offer", on_offer),
                "class_mask": sight.stage_slot.pad(mask, np.int8),
                "stage_memory_mb": self._padded(
                    "stage_memory_mb", stages["memory_mb"], sight.stage_slot
                ),
            }
        return shown

    def _typed(self, name: str, values: NDArray[Any]) -> NDArray[Any]:
        """Values of an entry as its space has them, scaled if the view is."""
        if self._scale is not None:
            values = self._scale.apply(name, values)
        return values.astype(self.space[name].dtype)

    def _padded(self, name: str, values: NDArray[Any], slots: Slots) -> NDArray[Any]:
        """(B, size) values of an entry; 0 where there is no row, or -1 for a slot."""
        absent = NONE if name == "stage_job" and self._scale is None else 0
        typed = self._typed(name, values)
        return slots.pad(typed, typed.dtype, absent)

    def _edges_of(self, sight: Sight) -> Int32:
        """(B, 2, E) slots of parent and child."""
        jobs, lane = sight.jobs, sight.job_slot.lane
        counts = self._num_edges[jobs["template"]]
        edge_slot = Slots.of(
            np.bincount(lane, counts, len(sight.is_due)).astype(np.int64), self._max_edges
        )
        job = np.repeat(np.arange(len(jobs)), counts)
        within = np.arange(len(job)) - np.repeat(np.cumsum(counts) - counts, counts)
        first_slot = np.cumsum(jobs["num_stages"]) - jobs["num_stages"]
        first_slot -= sight.stage_slot.first[lane]
        ends = self._edges[:, self._first_edge[jobs["template"][job]] + within] + first_slot[job]
        shown = np.full((len(sight.is_due), 2, self._max_edges), NONE, np.int32)
        shown[edge_slot.lane, :, edge_slot.slot] = ends.T
        return shown


# --- scaled --------------------------------------------------------------------------------------

_EXECUTORS = {
    *("on_offer", "fair_share", "job_held", "job_attached", "job_local", "job_limit"),
    *("lowest_limit", "class_count", "class_on_offer"),
}
_SLOTS = {"source_job": "jobs", "stage_job": "jobs", "edges": "stages"}
LONGEST = 1e4
"""times are scaled to at most 1, which is this many times as long as an average job alone takes"""


class Scale:
    """Scaling of an observation's entries to 0 .. 1, as float32, by the sizes in the trace.

    | entries | scaled |
    |---|---|
    | seconds, executor-seconds, tasks, jobs in the system | log(1 + 16 x / u) / log(1 + 16 m / u) |
    | executors, limits, `fair_share` | x / N |
    | `job_share` | x / (1 + x) |
    | slots: `source_job`, `stage_job`, `edges` | (slot + 1) / slots, 0 for none |
    | memory | x / that of the largest class |
    | masks and `stage_runnable` | as they are, 0 or 1 |

    u is the mean and m the largest value in the trace: of the tasks of a stage, of their duration,
    of a job's work, of its critical path. For times since an event u is a mean job's work over N
    executors and m `LONGEST` times that; for jobs in the system they are 16 and `LONGEST`.
    """

    def __init__(self, trace: Trace, cluster: Cluster, max_jobs: int, max_stages: int) -> None:
        self._executors = cluster.num_executors
        self._slots = {"jobs": max_jobs, "stages": max_stages}
        self._memory_mb = min(classes_of(cluster)[-1].memory_mb, float(np.finfo(np.float32).max))
        stages = [stage for job in trace.jobs for stage in job.stages]
        tasks = _mean_and_most([stage.num_tasks for stage in stages])
        work_s = _mean_and_most(
            [
                sum(s.num_tasks * s.mean_ms * s.slots for s in job.stages) / MS_PER_S
                for job in trace.jobs
            ]
        )
        alone_s = work_s[0] / cluster.num_executors
        self._amounts = {
            "time_s": (alone_s, LONGEST * alone_s),
            "jobs_in_system": (16.0, LONGEST),
            "job_age_s": (alone_s, LONGEST * alone_s),
            "job_work_s": work_s,
            "job_remaining_s": work_s,
            "stage_tasks": tasks,
            **{f"stage_{name}": tasks for name in (*_STAGE_COUNTS, "demand")},
            "stage_task_s": _mean_and_most([stage.mean_ms / MS_PER_S for stage in stages]),
            "stage_critical_path_s": _mean_and_most(
                [max(job.critical_path_ms) / MS_PER_S for job in trace.jobs]
            ),
        }
        """u and m by entry"""

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

    def apply(self, name: str, values: NDArray[Any]) -> NDArray[Any]:
        """Values of an entry, scaled."""
        if name in self._amounts:
            mean, most = self._amounts[name]
            numbers = np.log1p(16 / mean * values) / math.log1p(16 * most / mean)
        elif name in _EXECUTORS:
            numbers = values / self._executors
        elif name == "job_share":
            numbers = values / (1.0 + values)
        elif name in _SLOTS:
            numbers = (values + 1) / self._slots[_SLOTS[name]]
        elif name.endswith("memory_mb"):
            numbers = values / self._memory_mb
        else:
            return values
        return np.minimum(numbers, 1.0)


# --- parts ---------------------------------------------------------------------------------------


def _rows(stacked: Table, lane: Int64, row: Int64 | Int32) -> Table:
    """Copy rows of stacked tables: `take` copies records as they are, an index part by part."""
    rows: Table = stacked.reshape(-1).take(lane * stacked.shape[1] + row)
    return rows


def _mean_and_most(values: Sequence[float]) -> tuple[float, float]:
    return float(np.mean(values)), float(max(values))


def _edges(job: Job) -> Int32:
    """(2, edges of the job) parent and child, as stage indices."""
    pairs = [(parent, child) for child, stage in enumerate(job.stages) for parent in stage.parents]
    return np.array(pairs, np.int32).reshape(-1, 2).T


def _seconds(size: int) -> spaces.Box:
    """Times and executor-seconds: any size that float32 holds."""
    return spaces.Box(0.0, float(np.finfo(np.float32).max), (size,), np.float32)


def _whole(low: int, high: int, *shape: int) -> spaces.Box:
    return spaces.Box(low, high, shape, np.int32)
