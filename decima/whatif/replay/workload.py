"""A recording made ready to be simulated: its runs, also with other arrivals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from decima.evaluation.runner import play
from decima.policies import policy_named
from decima.registry import Parameters
from decima.rl.statistics import stretches
from decima.whatif.closed_loop import clients_of
from decima.whatif.replay.pools import Pools
from decima.whatif.replay.recording import ORDERS, Recording
from decima.whatif.replay.spark_order import SparkJobs, play_spark
from spark_sim import (
    Allocation,
    Cluster,
    Conditions,
    Protocol,
    SimulationError,
    Simulator,
    Slots,
)
from spark_sim.needs import first_misfit, neediest_stage
from spark_sim.tables import NONE, State
from spark_sim.vector import Run
from traces import Trace, to_arrays
from traces.arrays import TraceArrays
from traces.arrivals import Arrivals
from traces.estimates import Estimates, with_estimates
from traces.numbers import MS_PER_S, Float64, Int64

if TYPE_CHECKING:
    from decima.learned import Networks


@dataclass(frozen=True, eq=False)
class Course:
    """Input of one run: K arrivals, which waits for which, and the number of slots."""

    arrivals: Arrivals
    follows: Int64
    """(K,) the arrival whose end the client of each job waits for; NONE: it comes by itself"""
    slots: Slots | Allocation | None
    """over time, or by the load; None: as many as the cluster has, always"""


@dataclass(frozen=True, eq=False)
class ReplayWorkload:
    """J recorded jobs as the simulator takes them."""

    trace: Trace
    arrays: TraceArrays
    arrivals: Arrivals
    """each job once, when it was submitted"""
    follows: Int64
    """(J,) for each of these arrivals the one that its client waited for, NONE where it did not"""
    think_ms: Float64
    """(J,) of each job from the end of that one to its own submission; of a client's first job the
    mean of its others, for sequences in which it comes later
    """
    wait_ms: Float64
    """(stages,) that the driver needs before each"""
    after_ms: Float64
    """(J,) from a job's last task to its end"""
    spark_jobs: tuple[SparkJobs, ...]
    """for each job"""
    pools: Pools
    slots_each: int = 1
    """slots of each executor, where tasks take several of one"""
    named_pools: tuple[str | None, ...] = ()
    """for each job the pool that it names; None: it names none, and no cap of a pool holds"""

    @classmethod
    def of(
        cls,
        recording: Recording,
        jobs: Sequence[int] | None = None,
        *,
        driver_times: bool = True,
        estimates: Estimates = "exact",
        seed: int = 0,
    ) -> ReplayWorkload:
        """Prepare the jobs of a recording, or some of whole applications, for the simulator."""
        wanted = list(range(len(recording.trace.jobs)) if jobs is None else jobs)
        records = [recording.driver[index] for index in wanted]
        if not driver_times:
            records = [record.without_times() for record in records]
        trace = Trace(recording.trace.name, tuple(recording.trace.jobs[row] for row in wanted))
        arrival_ms, end_ms = recording.arrival_ms, recording.end_ms
        order = np.argsort(arrival_ms[wanted], kind="stable")
        leader = recording.followed[wanted]
        # Who moves submissions to before the end of the job before has clients that do not wait.
        leader = np.where(arrival_ms[wanted] < end_ms[leader], NONE, leader)
        think_ms = np.where(leader == NONE, 0.0, arrival_ms[wanted] - end_ms[leader])
        place = np.full(len(arrival_ms), NONE)
        place[np.array(wanted)[order]] = np.arange(len(wanted))
        follows = np.where(leader == NONE, NONE, place[leader])[order]
        clients = clients_of(follows)
        for first in np.unique(clients[follows != NONE]).tolist():
            others = order[(clients == first) & (follows != NONE)]
            think_ms[order[first]] = think_ms[others].mean()
        return cls(
            trace,
            with_estimates(trace, to_arrays(trace), estimates, np.random.default_rng(seed)),
            Arrivals(arrival_ms[wanted][order], order.astype(np.int32)),
            follows,
            think_ms,
            np.concatenate([record.wait_ms for record in records]),
            np.array([record.after_ms for record in records]),
            tuple(SparkJobs.of(record) for record in records),
            recording.pools(int(recording.application[wanted[0]])),
            recording.slots_each(wanted),
            tuple(record.pool for record in records),
        )

    def recorded(self, slots: Slots | Allocation | None = None) -> Course:
        return Course(self.arrivals, self.follows, slots)

    def jct_s(
        self,
        cluster: Cluster,
        policy: str,
        course: Course,
        duration_key: int,
        networks: Networks | None = None,
    ) -> Float64:
        """(K,) completion times of one run, in the order of its arrivals; arguments as `played`."""
        simulator = self.played(cluster, policy, course, duration_key, networks=networks)
        return self.jct_of(course, simulator.state)

    def played(
        self,
        cluster: Cluster,
        policy: str,
        course: Course,
        duration_key: int,
        parameters: Parameters | None = None,
        networks: Networks | None = None,
        *,
        pools: Pools | None = None,
        max_slots: Mapping[str, int] | None = None,
        timeline: bool = False,
    ) -> Simulator:
        """The simulator at the end of one run; `ORDERS` in a shared session are Spark's own.

        `parameters` and `pools` replace those of the policy and of the recording. `max_slots` caps
        pools.
        """
        run = self._run(cluster, course, duration_key, max_slots)
        simulator = Simulator(
            self.arrays,
            cluster,
            run.arrival_ms,
            run.job,
            duration_key=duration_key,
            conditions=run.conditions,
            timeline=timeline,
        )
        if policy in ORDERS and cluster.protocol is Protocol.SESSION:
            jobs = [self.spark_jobs[row] for row in run.job]
            play_spark(simulator, policy, jobs, self.pools if pools is None else pools)
        else:
            named = policy_named(
                policy, self.arrays, parameters=parameters, key=duration_key, networks=networks
            )
            play(simulator, named)
        return simulator

    def learned_states(
        self,
        cluster: Cluster,
        policy: str,
        runs: Sequence[tuple[Course, int]],
        networks: Networks | None = None,
        *,
        max_slots: Mapping[str, int] | None = None,
    ) -> list[State]:
        """Ends of several runs of a learned policy, in a tenth of the time of one by one."""
        # The agent takes a second to load, which heuristics need not wait for.
        from decima.learned import play_in_lockstep

        lanes = [self._run(cluster, *run, max_slots) for run in runs]
        keys = [key for _, key in runs]
        return play_in_lockstep(policy, self.arrays, cluster, lanes, keys, networks).states

    def least_slots(self) -> int:
        """Fewest slots on which every stage can run, on executors of the recorded size."""
        need = neediest_stage(self.arrays, self.slots_each)
        return 1 if need is None or need.slots is None else need.slots

    def _run(
        self,
        cluster: Cluster,
        course: Course,
        duration_key: int,
        max_slots: Mapping[str, int] | None = None,
    ) -> Run:
        job, follows = course.arrivals.job, course.follows
        # The end of a job is some time after its last task.
        lag_ms = np.where(follows == NONE, 0.0, self.after_ms[job[follows]] + self.think_ms[job])
        slots, allocation = course.slots, None
        if isinstance(slots, Allocation):
            slots, allocation = None, slots
        each = self.slots_each if allocation is None else allocation.slots_each
        least = self.least_slots()
        if slots is not None and slots.count[-1] < least <= slots.most:
            # Else a stage that comes later than it was recorded would wait for ever.
            slots = slots.ending_with(least, float(course.arrivals.arrival_ms[-1]))
        caps = max_slots or {}
        rows = {pool: row for row, pool in enumerate(caps)}
        conditions = Conditions(
            self.wait_ms,
            follows,
            lag_ms,
            slots,
            allocation,
            each,
            np.array(list(caps.values()), np.int64),
            np.array([rows.get(self.named_pools[row], NONE) for row in job if caps], np.int64),
            each_once=True,
        )
        misfit = first_misfit(self.arrays, cluster, conditions)
        if misfit is not None:
            recorded = self.trace.jobs[misfit.job]
            name = recorded.stages[misfit.stage].name
            raise SimulationError(f"job {recorded.name!r:.60}, {name}: {misfit.why}")
        return Run(course.arrivals.arrival_ms, job, duration_key, conditions=conditions)

    @staticmethod
    def makespan_s(state: State, jct_s: Float64) -> float:
        """Time from the first submission to the last end, of jobs that took (J,) `jct_s`."""
        arrival_s = state.jobs["arrival_ms"] / MS_PER_S
        return float((arrival_s + jct_s).max() - arrival_s.min())

    def jct_of(self, course: Course, state: State) -> Float64:
        """(K,) from submission to end in a run that was `played`, in the order of its arrivals."""
        jobs = state.jobs
        last_ms = np.array(jobs["completion_ms"]) + self.after_ms[course.arrivals.job]
        jct_ms: Float64 = last_ms - np.array(jobs["arrival_ms"])
        return jct_ms / MS_PER_S


def resampled(recorded: Course, rng: np.random.Generator) -> Course:
    """Draw as many arrivals as recorded, joined from stretches of the recording.

    A circular block bootstrap (`stretches`) of arrivals, each with the gap after it. Bursts, pauses
    and jobs that come together so stay together, while the load and what meets what vary. A job
    whose client waited for another still does where that one is in its stretch; else it waits for
    the last job of its client in the stretches before. Slots are the cluster's, or follow the load.
    """
    arrivals = recorded.arrivals
    count = len(arrivals)
    gap_ms = np.diff(arrivals.arrival_ms, append=arrivals.arrival_ms[-1])
    # What came after the last arrival is not recorded; a mean gap joins the end to the start.
    gap_ms[-1] = gap_ms[:-1].mean() if count > 1 else 0.0
    (rows,) = stretches(count, 1, rng)
    arrival_ms = np.concatenate([[0.0], gap_ms[rows[:-1]].cumsum()])
    follows = np.full(count, NONE)
    clients = clients_of(recorded.follows)
    waits = np.isin(clients, clients[recorded.follows != NONE])
    latest: dict[int, int] = {}  # the place of each client's last job before the stretch
    begin = 0
    for place, row in enumerate(rows.tolist()):
        if place > 0 and row != rows[place - 1] + 1:
            latest |= zip(clients[rows[begin:place]].tolist(), range(begin, place), strict=True)
            begin = place
        before = place - (row - recorded.follows[row])
        if recorded.follows[row] != NONE and before >= begin:
            follows[place] = before
        elif waits[row]:
            follows[place] = latest.get(int(clients[row]), NONE)
    slots = recorded.slots if isinstance(recorded.slots, Allocation) else None
    return Course(Arrivals(arrival_ms, arrivals.job[rows]), follows, slots)


def far_apart(recorded: Course, work_ms: Float64) -> Course:
    """The recorded jobs in their order, but each long after the one before has ended.

    Each finds the slots from its recorded arrival on, or all where they follow the load. `work_ms`
    (J,) bounds how long a job runs.
    """
    arrivals = recorded.arrivals
    gap_ms = 10.0 * work_ms[arrivals.job] + 3_600_000.0
    arrival_ms = np.concatenate([[0.0], gap_ms[:-1].cumsum()])
    slots = None
    if isinstance(recorded.slots, Slots):
        times, counts = [], []
        next_ms = np.append(arrival_ms[1:], np.inf)
        for was, now, following in zip(arrivals.arrival_ms, arrival_ms, next_ms, strict=True):
            moved = recorded.slots.time_ms - was + now
            later = (moved > now) & (moved < following)
            times += [[now], moved[later]]
            counts += [recorded.slots.at(np.array([was])), recorded.slots.count[later]]
        slots = Slots(np.concatenate(times), np.concatenate(counts))
    follows = np.full(len(arrivals), NONE)
    return Course(Arrivals(arrival_ms, arrivals.job), follows, slots)
