"""Spark's own schedulers: which stage a free slot goes to.

They go by Spark jobs and not by queries: a query of several Spark jobs (a sampling before a sort, a
broadcast) queues anew with each of them, behind the Spark jobs of queries that came meanwhile. The
heuristics of `decima.heuristics` go by whole queries, and inside a query by the critical path.

A slot that has become free goes to a pool, and in the pool to a stage. Of two pools that goes first
which runs fewer tasks than its minShare; of two such pools the one with fewer tasks for its
minShare; of two others the one with fewer tasks for its weight; then the one with the first name.
Inside a FIFO pool stages go by their Spark job's submission, then by number. Inside a FAIR pool
the stage with the fewest running tasks goes first, then the one with the first name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from decima.kernels import kernel
from decima.whatif.replay.driver import DriverRecord
from decima.whatif.replay.pools import DEFAULT_POOL, Pool, Pools
from decima.whatif.replay.recording import FIFO, POOLS
from spark_sim import Simulator, Status
from spark_sim.kernels.room import has_room
from spark_sim.kernels.session import admit, count_waiting, happen, start, start_with_room
from spark_sim.tables import DECIDE, NONE, QUIET, State
from traces.numbers import Bool, Float64, Int64

_NOT_SUBMITTED = np.iinfo(np.int64).max


@dataclass(frozen=True)
class SparkJobs:
    """Data of a recorded job that Spark's schedulers use."""

    of_stage: Int64
    """(stages,) the Spark job of each, counted from 0 in the order of Spark's numbers"""
    number: Int64
    """(stages,) Spark's number of each"""
    pool: str
    """the pool that it was submitted to"""

    @classmethod
    def of(cls, record: DriverRecord) -> SparkJobs:
        """Make those of a job from the record of its driver."""
        _, of_stage = np.unique(np.array(record.spark_job), return_inverse=True)
        pool = DEFAULT_POOL if record.pool is None else record.pool
        return cls(of_stage, np.array(record.number, np.int64), pool)


class _Order(NamedTuple):
    """The order of S stages of K jobs in P pools."""

    spark_job: Int64  # (S,)
    name_rank: Int64  # (S,) place of the stage's name by the alphabet
    pool: Int64  # (K,)
    is_fair: Bool  # (P,) inside
    weight: Float64  # (P,)
    min_share: Int64  # (P,)
    pool_rank: Int64  # (P,) place of the pool's name by the alphabet


class _Queue(NamedTuple):
    """State of the scheduler, which changes while it runs."""

    stages: Int64  # (S,) the first are those with tasks to start
    submitted: Int64  # (Spark jobs,) rank by the time of submission
    running: Int64  # (P,) tasks


def play_spark(
    simulator: Simulator, policy: str, jobs: Sequence[SparkJobs], pools: Pools | None = None
) -> None:
    """Run `simulator`, a shared session, to its end as Spark's own scheduler would.

    Args:
        simulator: the run.
        policy: one of `recording.ORDERS`.
        jobs: of every job of the run, by row.
        pools: the settings of pools, which `POOLS` needs; None: the defaults.
    """
    if simulator.status is not Status.DECIDE:
        return
    counts = [int(job.of_stage.max()) + 1 for job in jobs]
    offsets = np.concatenate([[0], np.cumsum(counts)])
    spark_job = np.concatenate(
        [job.of_stage + offset for job, offset in zip(jobs, offsets, strict=False)]
    )
    numbers = np.concatenate([job.number for job in jobs])
    names = [job.pool for job in jobs]  # of the P pools
    pool = np.arange(len(jobs))  # (K,) of each job
    if policy == FIFO:
        names, pool = [DEFAULT_POOL], np.zeros(len(jobs), np.int64)
    elif policy == POOLS:
        rows = {name: row for row, name in enumerate(sorted(set(names)))}
        names, pool = list(rows), np.array([rows[name] for name in names], np.int64)
    settings = [
        pools.named(name) if policy == POOLS and pools is not None else Pool() for name in names
    ]
    order = _Order(
        spark_job,
        _ranks([str(number) for number in numbers.tolist()]),
        pool,
        np.array([setting.fair for setting in settings]),
        np.array([setting.weight for setting in settings], np.float64),
        np.array([setting.min_share for setting in settings], np.int64),
        _ranks(names),
    )
    queue = _Queue(
        np.zeros(len(spark_job), np.int64),
        np.full(offsets[-1], _NOT_SUBMITTED),
        np.zeros(len(names), np.int64),
    )
    simulator.finish(_run(simulator.state, order, queue))


def _ranks(names: Sequence[str]) -> Int64:
    """Place of each name by the alphabet; the same for the same name."""
    # Java compares strings by their UTF-16 units.
    ordered = sorted(set(names), key=lambda name: name.encode("utf-16-be", "surrogatepass"))
    places = {name: place for place, name in enumerate(ordered)}
    return np.array([places[name] for name in names], np.int64)


@kernel
def _run(state: State, order: _Order, queue: _Queue) -> int:
    clock = state.clock[0]
    status = DECIDE
    count = 0
    while status in (DECIDE, QUIET):
        if status == DECIDE:
            if clock["place_free"] == 1:
                _admit(state, order, queue)
            count = _collect(state, order, queue)
        if clock["unattached"] > 0 and count > 0:
            count = _offer(state, order, queue, count)
        status = happen(state)
    return int(status)


@kernel
def _admit(state: State, order: _Order, queue: _Queue) -> None:
    """Give the free place to the job that waits and that a free slot would go to."""
    clock = state.clock[0]
    _count_running(state, order, queue)
    best = NONE
    for place in range(clock["next_arrival"], clock["next_arrival"] + count_waiting(state)):
        job = state.jobs[state.queue[place]]
        for stage in range(job["first_stage"], job["first_stage"] + job["num_stages"]):
            if state.stages[stage]["parents_running"] > 0:
                continue
            if best == NONE:
                best = stage
                continue
            # None of their Spark jobs has a rank yet: inside a FIFO pool the queue has the order.
            pool, rival_pool = order.pool[state.queue[place]], order.pool[state.stages[best]["job"]]
            is_fifo = pool == rival_pool and not order.is_fair[pool]
            if not is_fifo and _goes_first(state, order, queue, stage, best):
                best = stage
    admit(state, state.stages[best]["job"])


@kernel
def _collect(state: State, order: _Order, queue: _Queue) -> int:
    """List the stages with tasks to start, and note when Spark jobs are submitted.

    A Spark job is submitted when the first of its stages may run: its rank is that stage's.
    """
    count = 0
    for index in range(state.clock[0]["num_active"]):
        job = state.jobs[state.active[index]]
        for stage in range(job["first_stage"], job["first_stage"] + job["num_stages"]):
            row = state.stages[stage]
            if row["runnable"] == 1 and row["launched"] < row["num_tasks"]:
                spark_job = order.spark_job[stage]
                queue.submitted[spark_job] = min(queue.submitted[spark_job], row["order"])
                queue.stages[count] = stage
                count += 1
    return count


@kernel
def _offer(state: State, order: _Order, queue: _Queue, count: int) -> int:
    """Start tasks while slots are free; returns how many stages have tasks left."""
    clock = state.clock[0]
    _count_running(state, order, queue)
    while clock["unattached"] > 0 and count > 0:
        best = NONE
        for index in range(count):
            if clock["slots_each"] > 0 and not has_room(state, queue.stages[index]):
                continue
            if best == NONE or _goes_first(
                state, order, queue, queue.stages[index], queue.stages[best]
            ):
                best = index
        if best == NONE:
            break
        stage = queue.stages[best]
        row = state.stages[stage]
        before = row["launched"]
        if clock["slots_each"] > 0:
            start_with_room(state, stage)
        else:
            start(state, stage)
        queue.running[order.pool[row["job"]]] += row["launched"] - before
        if row["launched"] == row["num_tasks"]:
            count -= 1
            for index in range(best, count):
                queue.stages[index] = queue.stages[index + 1]
    return count


@kernel
def _count_running(state: State, order: _Order, queue: _Queue) -> None:
    """Count the tasks that run in each pool."""
    clock = state.clock[0]
    queue.running[:] = 0
    for index in range(clock["num_active"]):
        job = state.active[index]
        if clock["slots_each"] > 0:
            queue.running[order.pool[job]] += _running_tasks(state, job)
        else:
            queue.running[order.pool[job]] += state.jobs[job]["attached"]


@kernel
def _running_tasks(state: State, number: int) -> int:
    """Return how many tasks of a job run, whatever the slots that they take."""
    job = state.jobs[number]
    running = 0
    for stage in range(job["first_stage"], job["first_stage"] + job["num_stages"]):
        running += state.stages[stage]["launched"] - state.stages[stage]["finished"]
    return running


@kernel
def _goes_first(state: State, order: _Order, queue: _Queue, stage: int, rival: int) -> bool:
    """Return whether a free slot goes to `stage` rather than to `rival`."""
    pool = order.pool[state.stages[stage]["job"]]
    rival_pool = order.pool[state.stages[rival]["job"]]
    if pool != rival_pool:
        claim, rival_claim = _claim(order, queue, pool), _claim(order, queue, rival_pool)
        if claim != rival_claim:
            return bool(claim < rival_claim)
        return bool(order.pool_rank[pool] < order.pool_rank[rival_pool])
    if order.is_fair[pool]:
        running = state.stages[stage]["launched"] - state.stages[stage]["finished"]
        rival_running = state.stages[rival]["launched"] - state.stages[rival]["finished"]
        if running != rival_running:
            return bool(running < rival_running)
        return bool(order.name_rank[stage] < order.name_rank[rival])
    submitted = queue.submitted[order.spark_job[stage]]
    rival_submitted = queue.submitted[order.spark_job[rival]]
    if submitted != rival_submitted:
        return bool(submitted < rival_submitted)
    return bool(stage < rival)


@kernel
def _claim(order: _Order, queue: _Queue, pool: int) -> tuple[int, float]:
    """Return the sort key of a pool: the smaller goes first."""
    running = queue.running[pool]
    if running < order.min_share[pool]:
        return 0, running / order.min_share[pool]
    return 1, running / order.weight[pool]
