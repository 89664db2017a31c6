"""Conditions of a recorded run: clients that wait, caps, slots that vary, dynamic allocation."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields, replace

import numpy as np
from numpy.typing import NDArray

from spark_sim.cluster import Cluster, Protocol
from spark_sim.errors import SimulationError
from spark_sim.tables import IDLE, NONE, State
from traces.arrays import TraceArrays
from traces.files.names import counted
from traces.numbers import Float64, Int32, Int64

_NO_TIMES = np.zeros(0)
_NO_ROWS = np.zeros(0, np.int64)


@dataclass(frozen=True, eq=False)
class Slots:
    """Number of slots over time: a step function of C steps."""

    time_ms: Float64
    """(C,) from when on, ascending; before the first there are as many as from it on"""
    count: Int64
    """(C,) how many, >= 0; the last >= 1, or jobs could wait for ever"""

    def __post_init__(self) -> None:
        if len(self.time_ms) != len(self.count) or len(self.count) == 0:
            raise SimulationError(f"{len(self.time_ms)} times for {len(self.count)} slot counts")
        if (np.diff(self.time_ms) < 0).any() or not np.isfinite(self.time_ms).all():
            raise SimulationError("times of a slot curve must be finite and must not decrease")
        if self.count.min() < 0 or self.count[-1] < 1:
            raise SimulationError(
                f"slots must be >= 0 and >= 1 at the end, got {self.count.min()} and "
                f"{self.count[-1]}"
            )

    @property
    def most(self) -> int:
        """Largest number of slots, >= 1."""
        return int(self.count.max())

    @property
    def varies(self) -> bool:
        """Return whether the number ever changes."""
        return len(self.count) > 1

    def scaled(self, most: int) -> Slots:
        """Return the slots scaled to another largest number; positive numbers stay so."""
        count = np.round(self.count * (most / self.most)).astype(np.int64)
        return Slots(self.time_ms, np.maximum(count, np.minimum(self.count, 1)))

    def ending_with(self, count: int, time_ms: float) -> Slots:
        """Return the slots with another number from `time_ms` on, or from the last change on."""
        at_ms = max(time_ms, float(self.time_ms[-1]))
        return Slots(np.append(self.time_ms, at_ms), np.append(self.count, count))

    def at(self, time_ms: Float64) -> Int64:
        """Number of slots at each time."""
        row = np.searchsorted(self.time_ms, time_ms, side="right") - 1
        count: Int64 = self.count[np.maximum(row, 0)]
        return count


MAX_TIME_MS = 1e12  # 30 years: an executor that is idle for so long never goes


@dataclass(frozen=True)
class Allocation:
    """Rules of Spark's `spark.dynamicAllocation`, and what the cluster adds. Times are ms."""

    slots_each: int
    """slots of each executor"""
    least: int
    """fewest executors"""
    most: int
    """executors at most"""
    first: int
    """executors that are requested at the start"""
    present: int
    """executors that are there at the start"""
    backlog_ms: float = 1000.0
    """tasks wait so long before the first request"""
    sustained_ms: float = 1000.0
    """and so long before each further one, of twice as many"""
    idle_ms: float = 60_000.0
    """an executor that is idle for so long goes"""
    start_ms: float = 2000.0
    """from a request until the executor can run tasks"""
    ratio: float = 1.0
    """of the executors that would run all waiting tasks at once"""

    def __post_init__(self) -> None:
        if self.slots_each < 1:
            raise SimulationError(f"an executor needs 1 slot or more, got {self.slots_each}")
        if not 0 <= self.least <= self.most or self.most < 1:
            raise SimulationError(
                f"allocation of {self.least} to {self.most} executors: the first must "
                "lie between 0 and the second, which is 1 or more"
            )
        for label, count in (("at first", self.first), ("present", self.present)):
            if not 0 <= count <= self.most:
                raise SimulationError(f"executors {label} must lie in 0..{self.most}, got {count}")
        for label in ("backlog_ms", "sustained_ms", "idle_ms", "start_ms"):
            time_ms = getattr(self, label)
            if not (math.isfinite(time_ms) and 0 <= time_ms <= MAX_TIME_MS):
                raise SimulationError(f"{label} must lie in 0..{MAX_TIME_MS:g}, got {time_ms}")
        if self.sustained_ms == 0 or not 0 < self.ratio <= 1:
            raise SimulationError(
                f"sustained_ms must be above 0 and ratio in 0..1, got {self.sustained_ms:g} and "
                f"{self.ratio:g}"
            )

    @property
    def slots(self) -> int:
        """The largest number of slots."""
        return self.most * self.slots_each

    def scaled(self, slots: int) -> Allocation:
        """Return the allocation with about so many slots at most."""
        most = max(1, round(slots / self.slots_each))
        counts = {label: min(getattr(self, label), most) for label in ("least", "first", "present")}
        return replace(self, most=most, **counts)

    def apply(self, state: State) -> None:
        """Write the rules into a session's tables, before the first event."""
        rules, clock = state.allocation[0], state.clock[0]
        for rule in fields(self):
            if rule.name != "first":
                rules[rule.name] = getattr(self, rule.name)
        rules["target"] = max(self.first, self.least)
        rules["step"] = 1
        rules["add_ms"] = np.inf
        # The slots behind those that are there leave the list of idle ones: they are absent.
        slots = self.present * self.slots_each
        executors = state.executors
        executors["state"] = IDLE
        executors["prev"][slots:] = NONE
        clock["present"] = clock["unattached"] = clock["num_executors"] = slots
        clock["absent_head"] = NONE if slots == self.slots else slots
        state.idle[0, 0] = (NONE if slots == 0 else 0, slots - 1)  # NONE is -1
        if slots > 0:
            executors["next"][slots - 1] = NONE


@dataclass(frozen=True, eq=False)
class Conditions:
    """Conditions of one run of K jobs of a trace with S stages; empty arrays mean there are none.

    A follower is submitted some time after the completion of another job, as by a client that
    waits for its jobs; its own time of arrival is not used.
    """

    wait_ms: Float64 = field(default_factory=lambda: _NO_TIMES)
    """(S,) of each stage of the trace, from the end of its last parent (or the arrival of its job)
    until it may start; no slot is held meanwhile"""
    follows: Int64 = field(default_factory=lambda: _NO_ROWS)
    """(K,) the arrival that each job follows; NONE: it arrives by itself"""
    lag_ms: Float64 = field(default_factory=lambda: _NO_TIMES)
    """(K,) from the completion of that job to the arrival, >= 0"""
    slots: Slots | None = None
    """of a session; None: always the cluster's"""
    allocation: Allocation | None = None
    """of a session whose slots follow its load, in place of `slots`"""
    slots_each: int | None = None
    """of a session: slots of each executor, for tasks that take several of one; None: all slots are
    of one executor"""
    cap_slots: Int64 = field(default_factory=lambda: _NO_ROWS)
    """(G,) of each cap of a session, the most slots that its jobs may hold together, >= 1"""
    cap: Int64 = field(default_factory=lambda: _NO_ROWS)
    """(K,) the cap that holds for each arrival; NONE: none"""
    each_once: bool = False
    """whether the tasks of a stage share out its durations instead of drawing with replacement"""

    def check(self, num_stages: int, num_jobs: int, cluster: Cluster) -> None:
        """Check the rules that the event loop relies on.

        Raises:
            SimulationError: a length is wrong, a time is negative or not finite, jobs follow each
                other in a ring, or the protocol has no such condition.
        """
        for label, times, length in (
            ("waits", self.wait_ms, num_stages),
            ("lags", self.lag_ms, num_jobs),
            ("followed jobs", self.follows, num_jobs),
            ("jobs under caps", self.cap, num_jobs),
        ):
            if len(times) not in (0, length):
                raise SimulationError(f"{len(times)} {label} for {length} rows")
            if label in ("waits", "lags") and not (np.isfinite(times) & (times >= 0)).all():
                raise SimulationError(f"{label} must be finite and >= 0 ms")
        if len(self.follows) != len(self.lag_ms):
            raise SimulationError(f"{len(self.lag_ms)} lags for {len(self.follows)} followed jobs")
        _check_followed(self.follows)
        if self.slots_each is not None and self.slots_each < 1:
            raise SimulationError(f"an executor needs 1 slot or more, got {self.slots_each}")
        if len(self.cap) and not ((self.cap >= NONE) & (self.cap < len(self.cap_slots))).all():
            raise SimulationError(f"a job is under a cap that is not among {len(self.cap_slots)}")
        if len(self.cap) and cluster.protocol is not Protocol.SESSION:
            raise SimulationError(
                f"caps of slots need the protocol {Protocol.SESSION.label!r}, got "
                f"{cluster.protocol.label!r}"
            )
        if cluster.protocol is Protocol.DECIMA_SIM:
            raise SimulationError("the decima-sim protocol has no conditions")
        if self.slots is not None and self.allocation is not None:
            raise SimulationError("slots follow given times or the load, not both")
        for what, most in (
            ("slots that vary up to {} need", None if self.slots is None else self.slots.most),
            (
                "an allocation of up to {} slots needs",
                None if self.allocation is None else self.allocation.slots,
            ),
        ):
            is_possible = cluster.protocol is Protocol.SESSION and most == cluster.num_executors
            if most is not None and not is_possible:
                raise SimulationError(
                    f"{what.format(most)} a session of as many, got {cluster.protocol.label!r} "
                    f"with {cluster.num_executors}"
                )

    def check_caps(self, trace: TraceArrays, job: Int32) -> None:
        """Refuse (SimulationError) a cap under which a stage could never start.

        `job` (K,) is the row of the trace of each arrival.
        """
        if len(self.cap) == 0:
            return
        tasks = np.where(trace.barrier, trace.num_tasks, 1)
        most = np.maximum.reduceat(tasks * trace.slots, trace.first_stage[:-1])[job]
        room = np.where(self.cap == NONE, np.iinfo(np.int64).max, self.cap_slots[self.cap])
        if (most > room).any():
            worst = int(np.argmax(most - room))
            raise SimulationError(
                f"job {job[worst]} of the trace needs {counted(int(most[worst]), 'slot')} at once, "
                f"and its cap is {room[worst]:,}"
            )

    def apply(self, state: State, template: NDArray[np.int64]) -> None:
        """Write the conditions into tables that have `timer_rows` rows of timers.

        Args:
            state: the tables, before the first event.
            template: (stages,) row of the trace of each stage.
        """
        clock = state.clock[0]
        clock["each_once"] = self.each_once
        if len(self.cap):
            state.jobs["cap"] = self.cap
            # No more than there are: the table has 32 bits.
            state.caps["slots"] = np.minimum(self.cap_slots, len(state.executors))
        is_capped = bool((state.jobs["cap"] != NONE).any())
        if is_capped or (state.stages["slots"] > 1).any() or state.stages["barrier"].any():
            clock["slots_each"] = self.slots_each or len(state.executors)
        if len(self.wait_ms):
            state.stages["wait_ms"] = self.wait_ms[template]
        if len(self.follows):
            state.jobs["lag_ms"] = self.lag_ms
            # Lists of followers, in the order of the rows.
            for job in np.flatnonzero(self.follows != NONE)[::-1].tolist():
                leader = self.follows[job]
                state.jobs["next_follower"][job] = state.jobs["first_follower"][leader]
                state.jobs["first_follower"][leader] = job
            alone = np.flatnonzero(self.follows == NONE)
            state.queue[: len(alone)] = alone
            clock["num_queued"] = len(alone)
        if self.slots is not None:
            count = len(self.slots.count)
            state.timers["time_ms"][:count] = np.maximum(self.slots.time_ms, 0.0)
            state.timers["time_ms"][0] = 0.0
            state.timers["executors"][:count] = self.slots.count
            state.timers["stage"][:count] = NONE
            clock["num_timers"] = count
        if self.allocation is not None:
            self.allocation.apply(state)

    def timer_rows(self, template: NDArray[np.int64]) -> int:
        """Number of timers that a run of stages of these rows of the trace can set."""
        waits = int((self.wait_ms[template] > 0).sum()) if len(self.wait_ms) else 0
        return waits + (0 if self.slots is None else len(self.slots.count))


def _check_followed(follows: Int64) -> None:
    """Refuse jobs that follow none of the run, or each other in a ring."""
    count = len(follows)
    if count and not ((follows >= NONE) & (follows < count)).all():
        raise SimulationError(f"a job follows one that is not among the {count} of the run")
    leader = follows.copy()
    for _ in range(count.bit_length()):
        leader = np.where(leader == NONE, NONE, leader[leader])  # one jump of twice the length
    if (leader != NONE).any():
        raise SimulationError("jobs follow each other in a ring")
