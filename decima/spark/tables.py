"""`LiveTables`: a live session in the simulator's tables, so that policies see no difference."""

from __future__ import annotations

import numpy as np

from decima.spark.jobs import LiveJobs
from decima.spark.live_job import LiveJob
from spark_sim.rounds import Round, session_tables
from spark_sim.tables import State
from traces.arrays import TraceArrays
from traces.paths import longest_paths

_INFLATION_A_SLOT, _MOST_INFLATION = 0.01, 0.94
"""near that of `tpch`: 0.14 on 16 slots, 0.52 on 50, 0.94 on 100 and more"""


class Shown:
    """The stages of one job that policies see, by place in the tables instead of row of the job."""

    def __init__(self, job: LiveJob) -> None:
        self.key = job.key
        self.arrival_ms = job.arrival_ms
        self.rows = job.shown_rows()
        self.stages = [job.stages[row] for row in self.rows]
        place = {row: number for number, row in enumerate(self.rows)}
        self.num_parents = [0] * len(self.rows)
        self.children: list[list[int]] = [[] for _ in self.rows]
        for number, stage in enumerate(self.stages):
            for parent in sorted(place[row] for row in stage.parents if row in place):
                self.num_parents[number] += 1
                self.children[parent].append(number)


def graph_arrays(jobs: list[Shown], mean_ms: list[list[float]]) -> TraceArrays:
    """The jobs' graphs as a trace whose tasks all take their stage's expected duration.

    Args:
        jobs: J jobs with at least one stage each.
        mean_ms: for each job, of each of its stages.
    """
    sizes = [len(job.stages) for job in jobs]
    flat_ms = np.array([value for row in mean_ms for value in row])
    count = len(flat_ms)
    flat_children = [child for job in jobs for row in job.children for child in row]
    return TraceArrays(
        first_stage=_offsets(sizes),
        num_tasks=np.array([one.num_tasks for job in jobs for one in job.stages], np.int32),
        mean_ms=flat_ms,
        critical_path_ms=np.concatenate(
            [longest_paths(job.children, own) for job, own in zip(jobs, mean_ms, strict=True)]
        ),
        num_parents=np.array([count for job in jobs for count in job.num_parents], np.int32),
        cpu=np.full(count, np.nan),
        memory_mb=np.full(count, np.nan),
        first_child=_offsets([len(row) for job in jobs for row in job.children]),
        children=np.array(flat_children, np.int32),
        first_level=np.arange(count + 1, dtype=np.int32),
        level_executors=np.ones(count, np.int32),
        wave_start=np.repeat(np.arange(count, dtype=np.int64)[:, None], 3, axis=1),
        wave_count=np.ones((count, 3), np.int32),
        wave_mean_ms=np.repeat(flat_ms[:, None], 3, axis=1),
        fresh_is_measured=np.ones(count, np.bool_),
        samples_ms=flat_ms.astype(np.float32),
    )


def _offsets(lengths: list[int]) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)


def usual_inflation(slots: int) -> float:
    """`inflation` of an observation, not measured here: about that of `tpch`."""
    return min(_INFLATION_A_SLOT * slots, _MOST_INFLATION)


class LiveTables:
    """Tables of the active jobs; made anew when their graphs change, else only refilled.

    Of a job that goes on and on only the newest finished stages are shown (`LiveJob.shown_rows`),
    so that a plan costs what there is to plan, whatever has gone before.
    """

    def __init__(self) -> None:
        self.trace: TraceArrays | None = None
        """the graphs that the tables point to; another object whenever they have changed"""
        self.jobs: list[LiveJob] = []
        self._shown: list[Shown] = []
        self._state: State | None = None
        self._lost_slots: dict[str, int] = {}
        self._key: tuple[int, int, tuple[tuple[str, list[int]], ...]] | None = None

    @property
    def state(self) -> State:
        """The tables themselves; `fill` comes first."""
        assert self._state is not None  # noqa: S101 - see above
        return self._state

    def fill(self, live: LiveJobs) -> Round | None:
        """Begin a round on what is running now; None if there is no job or no slot at all.

        Slots of tasks whose results are not needed are unavailable until these end.
        """
        self.jobs = live.active()
        self._lost_slots = live.lost_slots
        slots = live.slots - sum(live.lost_slots.values())
        if not self.jobs or slots < 1:
            return None
        key = (live.version, slots, tuple((job.key, job.shown_rows()) for job in self.jobs))
        is_new = self._state is None or key != self._key
        if is_new:
            self._shown = [Shown(job) for job in self.jobs]
        mean_ms = [
            [live.mean_ms(job, one) for one in shown.stages]
            for job, shown in zip(self.jobs, self._shown, strict=True)
        ]
        if self._state is None or is_new:
            self.trace = graph_arrays(self._shown, mean_ms)
            origin_ms = self.jobs[0].arrival_ms
            arrival_ms = np.array([float(job.arrival_ms - origin_ms) for job in self.jobs])
            self._state = session_tables(self.trace, slots, arrival_ms)
            self._key = key
        self._refill(self._state, live, mean_ms)
        return Round(self._state)

    def leave(self) -> None:
        """Make the next `fill` use new memory: a late policy may still read the old one."""
        self._key = None

    def _refill(self, state: State, live: LiveJobs, mean_ms: list[list[float]]) -> None:
        every = [stage for shown in self._shown for stage in shown.stages]
        stages, jobs = state.stages, state.jobs
        stages["num_tasks"] = [one.num_tasks for one in every]
        stages["launched"] = [one.launched for one in every]
        stages["finished"] = [one.finished for one in every]
        stages["runnable"] = [one.is_submitted or one.is_done for one in every]
        stages["mean_ms"] = [value for row in mean_ms for value in row]
        stages["critical_path_ms"] = np.concatenate(
            [
                longest_paths(shown.children, own)
                for shown, own in zip(self._shown, mean_ms, strict=True)
            ]
        )
        first = jobs["first_stage"]
        left = stages["num_tasks"] - stages["launched"]
        jobs["work_ms"] = np.add.reduceat(stages["num_tasks"] * stages["mean_ms"], first)
        jobs["remaining_ms"] = np.add.reduceat(left * stages["mean_ms"], first)
        done = (stages["finished"] == stages["num_tasks"]).astype(np.int32)
        jobs["stages_done"] = np.add.reduceat(done, first)
        jobs["attached"] = np.add.reduceat(stages["launched"] - stages["finished"], first)
        origin_ms = self.jobs[0].arrival_ms
        state.clock["time_ms"] = live.time_ms - origin_ms
        state.clock["last_arrival_ms"] = live.last_arrival_ms - origin_ms
        state.clock["mean_gap_ms"] = live.mean_gap_ms()
        state.clock["typical_ms"] = live.typical_ms()
        state.clock["inflation"] = usual_inflation(int(state.clock["num_executors"][0]))

    def limits(self) -> dict[str, int]:
        """Limits of jobs in this round; slots that a job holds outside the round count too."""
        found = self.state.jobs["limit"]
        return {
            job.key: int(found[row]) + self._lost_slots.get(job.key, 0)
            for row, job in enumerate(self.jobs)
            if found[row] > 0
        }

    def spark_stages(self, rows: list[int]) -> list[int]:
        """Spark's ids of the stages in these rows."""
        every = [stage.spark_stage for shown in self._shown for stage in shown.stages]
        return [every[row] for row in rows]

    def waiting_stages(self) -> list[int]:
        """Spark's ids of all stages that have a task to start."""
        return [
            stage.spark_stage
            for shown in self._shown
            for stage in shown.stages
            if stage.is_submitted and stage.launched < stage.num_tasks
        ]
