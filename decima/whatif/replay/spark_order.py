"""Spark's own order of stages, which goes by Spark jobs and not by queries.

A query of several Spark jobs (a sampling before a sort, a broadcast) queues anew with each of them,
behind the Spark jobs of queries that came meanwhile. The heuristics of `decima.heuristics` go by
whole queries, and inside a query by the critical path.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from decima.heuristics.spark_fair import water_level
from decima.kernels import kernel
from decima.whatif.replay.driver import SHORTEST_WAIT_MS, DriverRecord
from spark_sim import Simulator, Status
from spark_sim.kernels.dispatch import step
from spark_sim.kernels.view import observed
from spark_sim.observation import Observation
from spark_sim.tables import ANY, DECIDE, NONE, State
from traces.numbers import Bool, Int64

FIFO, FAIR = "fifo", "spark_fair"
ORDERS = (FIFO, FAIR)
"""the policies that Spark itself has, by the names of their heuristics"""

_DEFAULT = "default"
"""where Spark puts jobs that name no pool"""
_NOT_SUBMITTED = np.iinfo(np.int64).max


@dataclass(frozen=True)
class SparkJobs:
    """Spark job of each stage of a recorded job."""

    of_stage: Int64
    """(stages,) counted from 0 in the order of Spark's numbers; waits belong to what waits"""
    is_wait: Bool
    """(stages,) whether it is no stage but a wait for the driver (`driver.with_waits`)"""
    pool: str | None
    """the pool that it was submitted to; None: not known"""

    @classmethod
    def of(cls, record: DriverRecord) -> SparkJobs:
        """Return the Spark jobs of the job that `driver.with_waits` makes with `record`."""
        _, of_stage = np.unique(np.array(record.spark_job), return_inverse=True)
        waits = np.flatnonzero(np.array(record.wait_ms) >= SHORTEST_WAIT_MS)
        is_wait = np.repeat([False, True], [len(of_stage), len(waits)])
        return cls(np.concatenate([of_stage, of_stage[waits]]), is_wait, record.pool)


def play_spark(simulator: Simulator, policy: str, jobs: Sequence[SparkJobs]) -> None:
    """Run `simulator`, a shared session, to its end as Spark's own scheduler would.

    Args:
        simulator: the run.
        policy: one of `ORDERS`. FIFO: stages by the submission of their Spark job, then by number.
            FAIR: a free slot goes to the job with the fewest running tasks (a pool for each job),
            inside it by FIFO. Of jobs that have as many, the one whose pool has the first name by
            the alphabet, as Spark has it; without names the one that came first.
        jobs: of every arriving job, in the order of arrival.
    """
    if simulator.status is not Status.DECIDE:
        return
    counts = [int(job.of_stage.max()) + 1 for job in jobs]
    offsets = np.concatenate([[0], np.cumsum(counts)])
    spark_job = np.concatenate(
        [job.of_stage + offset for job, offset in zip(jobs, offsets, strict=False)]
    )
    is_wait = np.concatenate([job.is_wait for job in jobs])
    submitted = np.full(offsets[-1], _NOT_SUBMITTED)
    status = _run(simulator.state, policy == FAIR, spark_job, is_wait, submitted, _by_name(jobs))
    simulator.finish(status)


def _by_name(jobs: Sequence[SparkJobs]) -> Int64:
    """(K,) places of the jobs' pools in the order of their names; all 0 where none is named."""
    names = [_DEFAULT if job.pool is None else job.pool for job in jobs]
    # Java compares strings by their UTF-16 units.
    places = {name: place for place, name in enumerate(sorted(set(names), key=_utf16))}
    return np.array([places[name] for name in names], np.int64)


def _utf16(name: str) -> bytes:
    return name.encode("utf-16-be", "surrogatepass")


@kernel
def _run(
    state: State, fair: bool, spark_job: Int64, is_wait: Bool, submitted: Int64, place: Int64
) -> int:
    status = DECIDE
    while status == DECIDE:
        seen = observed(state)
        stage = _submit(seen, spark_job, is_wait, submitted)
        limit = seen.num_executors
        if stage == NONE and fair:
            job = _poorest(seen, place)
            stage = _first_of(seen, job, spark_job, submitted)
            limit = _fair_limit(seen, job)
        elif stage == NONE:
            stage = _first(seen, spark_job, submitted)
        status = step(state, stage, limit, ANY)
    return status


@kernel
def _submit(seen: Observation, spark_job: Int64, is_wait: Bool, submitted: Int64) -> int:
    """Note when Spark jobs are submitted; returns an open wait, which queues nowhere, or NONE.

    A Spark job is submitted when the first of its stages may run: its rank is that stage's.
    """
    wait = NONE
    for job in seen.active:
        row = seen.jobs[job]
        if row["open_stages"] == 0:
            continue
        for stage in range(row["first_stage"], row["first_stage"] + row["num_stages"]):
            if seen.stages[stage]["open"] == 1:
                own = spark_job[stage]
                submitted[own] = min(submitted[own], seen.stages[stage]["order"])
                if is_wait[stage]:
                    wait = stage
    return wait


@kernel
def _first_of(seen: Observation, job: int, spark_job: Int64, submitted: Int64) -> int:
    """The open stage of `job` whose Spark job was submitted first, then by number; else NONE."""
    best = NONE
    row = seen.jobs[job]
    if row["open_stages"] == 0:
        return best
    for stage in range(row["first_stage"], row["first_stage"] + row["num_stages"]):
        if seen.stages[stage]["open"] == 1 and (
            best == NONE or submitted[spark_job[stage]] < submitted[spark_job[best]]
        ):
            best = stage
    return best


@kernel
def _first(seen: Observation, spark_job: Int64, submitted: Int64) -> int:
    """Return the first stage like `_first_of`, over all jobs."""
    best = NONE
    for job in seen.active:
        stage = _first_of(seen, job, spark_job, submitted)
        if stage != NONE and (
            best == NONE or submitted[spark_job[stage]] < submitted[spark_job[best]]
        ):
            best = stage
    return best


@kernel
def _poorest(seen: Observation, place: Int64) -> int:
    """The job with an open stage that has the fewest slots, then the first by pool, by arrival."""
    best, least = NONE, 0
    for job in seen.active:
        held = seen.jobs[job]["held"]
        if seen.jobs[job]["open_stages"] == 0:
            continue
        if best == NONE or held < least or (held == least and place[job] < place[best]):
            best, least = job, held
    return best


@kernel
def _fair_limit(seen: Observation, job: int) -> int:
    """The level to which all jobs can be raised, and one more while slots are left over."""
    level = water_level(seen)
    needed = 0
    for other in seen.active:
        row = seen.jobs[other]
        usable = 0
        for stage in range(row["first_stage"], row["first_stage"] + row["num_stages"]):
            if seen.stages[stage]["open"] == 1:
                usable += seen.stages[stage]["num_tasks"] - seen.stages[stage]["covered"]
        needed += min(usable, max(0, level - row["held"]))
    if needed < seen.on_offer:
        level += 1
    return int(min(seen.num_executors, max(level, seen.jobs[job]["held"] + 1)))
