"""The replay check: how far simulated job durations are from recorded ones.

Each application is simulated by itself, on the slots that it had at each time, under the policy
that its own Spark used. Jobs are submitted when they were, but those whose client waited for
another job the recorded time after the end of that one. Every task takes the time that one of its
stage took.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from decima.policies import check_name, networks_of
from decima.rl.parallel.local import HERE
from decima.rl.parallel.pool import SentOnce, WorkerPool
from decima.whatif.replay.breakdown import PARTS
from decima.whatif.replay.recording import POOLS, Recording
from decima.whatif.replay.workload import ReplayWorkload
from spark_sim import Allocation, Cluster, Protocol, Slots, Streams
from traces.numbers import MS_PER_S, Float64

if TYPE_CHECKING:
    from decima.learned import Networks

FORMAT, VERSION = "decima-replay", 1
"""of the JSON form; a change that readers must know of is a new version"""
_SHORTEST_S = 1e-3
# A job that begins and ends in one millisecond; errors are relative.


@dataclass(frozen=True)
class ReplaySettings:
    """Settings of a replay."""

    slots: int | None = None
    """of each application; None takes what it had"""
    allocation: Mapping[str, str] | None = None
    """changes to the recorded settings of dynamic allocation, which is simulated then; None takes
    the slots as they came and went"""
    policy: str | None = None
    """by name; None takes the one that the log's settings name"""
    draws: int = 20
    """repetitions with other task durations"""
    seed: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.draws <= 100_000:
            raise ValueError(f"draws must lie in 1..100,000, got {self.draws}")
        if self.seed < 0:
            raise ValueError(f"seed must not be negative, got {self.seed}")
        if self.allocation is not None and self.slots is not None:
            raise ValueError("slots are fixed or follow the allocation, not both")
        if self.policy is not None and self.policy != POOLS:
            check_name(self.policy)


@dataclass(frozen=True)
class Fidelity:
    """Error of the replay for a group of jobs."""

    jobs: int
    median_error_percent: float  # median over jobs of |simulated - recorded| / recorded
    bias_percent: float  # mean over jobs of (simulated - recorded) / recorded

    @classmethod
    def of(cls, error: Float64) -> Fidelity | None:
        """Summarise (jobs,) relative errors; None without jobs."""
        if len(error) == 0:
            return None
        return cls(len(error), float(np.median(np.abs(error))) * 100, float(error.mean()) * 100)

    def above(self, bound_percent: float) -> list[str]:
        """Describe which of the two is further from 0 than `bound_percent`."""
        sizes = {"median error": self.median_error_percent, "mean bias": abs(self.bias_percent)}
        return [words for words, size in sizes.items() if size > bound_percent]


@dataclass(frozen=True, eq=False)
class ReplayReport:
    """J jobs, recorded and simulated; arrays are (J,) in the order of the trace."""

    recording: Recording
    policies: tuple[str, ...]  # of each application
    slots: tuple[int, ...]  # of each application, at most at once
    recorded_s: Float64
    simulated_s: Float64  # mean over the draws
    spread_s: Float64  # standard deviation over the draws
    tasks_only_s: Float64  # as `simulated_s` if the driver took no time
    overlapped: NDArray[np.bool_]  # whether another job of the application ran at the same time

    @property
    def error(self) -> Float64:
        return relative_error(self.simulated_s, self.recorded_s)

    def fidelity(self, group: str, *, driver_times: bool = True) -> Fidelity | None:
        """Return the error of "all" jobs, those "alone" or "overlapping"; None without any."""
        rows = {
            "all": np.ones(len(self.overlapped), np.bool_),
            "alone": ~self.overlapped,
            "overlapping": self.overlapped,
        }[group]
        simulated_s = self.simulated_s if driver_times else self.tasks_only_s
        return Fidelity.of(relative_error(simulated_s, self.recorded_s)[rows])

    def to_json(self) -> dict[str, Any]:
        names = [job.name for job in self.recording.trace.jobs]
        fidelity: dict[str, Any] = dict.fromkeys(GROUPS)
        for group in GROUPS:
            simulated, tasks_only = (
                self.fidelity(group, driver_times=is_) for is_ in (True, False)
            )
            if simulated is not None:
                fidelity[group] = {**vars(simulated), "tasks_only": vars(tasks_only)}
        return {
            "format": FORMAT,
            "version": VERSION,
            "applications": [
                {"name": facts["name"], "policy": policy, "slots": slots}
                for facts, policy, slots in zip(
                    self.recording.trace.metadata["applications"],
                    self.policies,
                    self.slots,
                    strict=True,
                )
            ],
            "fidelity": fidelity,
            "jobs": [
                {
                    "name": name,
                    "recorded_s": float(self.recorded_s[row]),
                    "simulated_s": float(self.simulated_s[row]),
                    "spread_s": float(self.spread_s[row]),
                    "tasks_only_s": float(self.tasks_only_s[row]),
                    "overlapped": bool(self.overlapped[row]),
                    "pool": self.recording.driver[row].pool,
                    "parts_s": parts_json(self.recording, row),
                }
                for row, name in enumerate(names)
            ],
        }


def parts_json(recording: Recording, row: int) -> dict[str, float] | None:
    """The parts of a job's JCT in seconds, by name; None where they are not known."""
    if not recording.breakdowns:
        return None
    parts_ms = recording.breakdowns[row]
    return {name: ms / MS_PER_S for name, ms in zip(PARTS, parts_ms, strict=True)}


GROUPS = ("alone", "overlapping", "all")
CheckProgress = Callable[[int, int], None]  # called with (runs finished, runs in all)


def relative_error(simulated: Float64, recorded: Float64) -> Float64:
    error: Float64 = (simulated - recorded) / np.maximum(recorded, _SHORTEST_S)
    return error


class _Task(NamedTuple):
    """The simulations of one application."""

    application: int
    driver_times: bool
    policy: str
    slots: Slots | Allocation | None  # that come and go; None: a fixed number
    most: int


def replay(
    recording: Recording,
    settings: ReplaySettings,
    progress: CheckProgress | None = None,
    *,
    pool: WorkerPool = HERE,
) -> ReplayReport:
    """Simulate every application of `recording` as it ran; `pool` does not change the result."""
    policies, most_slots, jct_s = simulated(recording, settings, (True, False), progress, pool)
    with_driver, tasks_only = jct_s[True], jct_s[False]
    return ReplayReport(
        recording,
        policies,
        most_slots,
        recording.recorded_ms / MS_PER_S,
        with_driver.mean(axis=0),
        with_driver.std(axis=0),
        tasks_only.mean(axis=0),
        overlapping(recording),
    )


class Simulated(NamedTuple):
    """What the simulations of all applications give."""

    policies: tuple[str, ...]  # of each application
    slots: tuple[int, ...]  # of each application, at most at once
    jct_s: Mapping[bool, Float64]  # (draws, J) with and without the driver's times


def simulated(
    recording: Recording,
    settings: ReplaySettings,
    driver_times: Sequence[bool] = (True,),
    progress: CheckProgress | None = None,
    pool: WorkerPool = HERE,
) -> Simulated:
    """Simulate every application as it ran, with the driver's times or without them, or both."""
    total = len(driver_times) * settings.draws * len(recording.slots)
    done = 0
    jobs = len(recording.trace.jobs)
    all_s = {is_: np.empty((settings.draws, jobs)) for is_ in driver_times}
    policies = tuple(settings.policy or recording.policy(a) for a in range(len(recording.slots)))
    most_slots, tasks = [], {}
    for application, policy in enumerate(policies):
        curve = recording.curve(application)
        slots: Slots | Allocation | None = curve if curve.varies else None
        most = curve.most
        if settings.slots is not None:
            slots, most = None, settings.slots
        elif settings.allocation is not None:
            slots = recording.allocation(application, settings.allocation)
            most = curve.most if slots is None else slots.slots
        most_slots.append(most)
        for is_ in driver_times:
            tasks[application, is_] = _Task(application, is_, policy, slots, most)
    shared = (SentOnce(recording), SentOnce(networks_of(policies)), settings)
    for (application, is_), jct_s in pool.map(_simulated_s, shared, tasks, label="replay"):
        all_s[is_][:, recording.application == application] = jct_s
        done += settings.draws
        if progress is not None:
            progress(done, total)
    return Simulated(policies, tuple(most_slots), all_s)


def _simulated_s(
    shared: tuple[SentOnce[Recording], SentOnce[Networks], ReplaySettings], task: _Task
) -> Float64:
    """(draws, jobs of the application) how long each takes."""
    recording, networks, settings = shared[0].value, shared[1].value, shared[2]
    rows = np.flatnonzero(recording.application == task.application)
    workload = ReplayWorkload.of(recording, rows.tolist(), driver_times=task.driver_times)
    course, cluster = workload.recorded(task.slots), session_cluster(task.most)
    jct_s = np.empty((settings.draws, len(rows)))
    for draw in range(settings.draws):
        key = Streams(settings.seed, task.application, draw).duration_key()
        jct_s[draw, course.arrivals.job] = workload.jct_s(
            cluster, task.policy, course, key, networks=networks
        )
    return jct_s


def session_cluster(slots: int) -> Cluster:
    """A shared session; what is fresh in a log was measured, so nothing is added for warming up."""
    return Cluster(num_executors=slots, warmup_delay_ms=0.0, protocol=Protocol.SESSION)


def overlapping(recording: Recording) -> NDArray[np.bool_]:
    """(J,) whether another job of the same application ran at some moment of the job."""
    is_overlapping = np.zeros(len(recording.trace.jobs), np.bool_)
    for application in range(len(recording.slots)):
        rows = np.flatnonzero(recording.application == application)
        rows = rows[np.argsort(recording.arrival_ms[rows], kind="stable")]
        start, end = recording.arrival_ms[rows], recording.end_ms[rows]
        latest = np.maximum.accumulate(end)
        met_earlier = np.concatenate([[False], start[1:] < latest[:-1]])
        meets_later = np.concatenate([start[1:] < end[:-1], [False]])
        is_overlapping[rows] = met_earlier | meets_later
    return is_overlapping
