"""A live session inside the JVM, and the reports that Spark would make of one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from decima.spark.priors import Priors
from spark_sim import Simulator
from tests.jvm import Talk
from traces import Job, Trace

Row = dict[str, Any]
SLOTS = 12
EPOCH_MS = 1_000_000
_KINDS = {
    "decima.job": "job",
    "spark.sql.execution.root.id": "sql",
    "spark.sql.execution.id": "sql",
    "spark.jobGroup.id": "group",
}


class Live:
    """The newest session of the class `DriveSession`."""

    def __init__(
        self,
        jvm: Talk,
        policy: str | list[Any] = "strict_fair",
        *,
        priors: Trace | None = None,
        starve_s: float = 3_600.0,
        idle_s: float = 3_600.0,
    ) -> None:
        """Args:
        jvm: of the class `DriveSession`.
        policy: by name, or the answers that one gives.
        priors: earlier runs.
        starve_s, idle_s: bounds of the planner.
        """
        self._jvm = jvm
        jvm.ask({"begin": policy, "starve_ms": 1_000 * starve_s, "idle_ms": 1_000 * idle_s})
        if priors is not None:
            self.learn(priors)

    def learn(self, priors: Trace) -> None:
        """Hand over earlier runs."""
        self._jvm.ask({"priors": Priors(priors).message()})

    def tell(self, told: dict[str, Any], *ask: str) -> dict[str, Any]:
        """Answer of the classes to a report; `ask` as `DriveSession` reads it."""
        answer: dict[str, Any] = self._jvm.ask({"report": told, "ask": ask})
        return answer

    def jobs(self, told: dict[str, Any]) -> list[dict[str, Any]]:
        """Jobs with something left to run after this report, with columns of their stages."""
        answer = self.tell(told, "jobs")
        by_key = {job["job"]: job for job in answer["jobs"]}
        return [by_key[key] for key in answer["active"]]

    def plan(self, told: dict[str, Any]) -> dict[str, Any]:
        """The plan after this report, which there is."""
        answer = self.tell(told, "plan")["plan"]
        assert answer is not None
        return dict(answer)


# --- reports -------------------------------------------------------------------------------------


def report(
    *events: Row,
    time_ms: int = 0,
    sets: list[Row] | None = None,
    measured: list[Row] | None = None,
    **others: Any,
) -> dict[str, Any]:
    """Fields of `Report.java`; times count from `EPOCH_MS`."""
    return {
        "time_ms": EPOCH_MS + time_ms, "slots": SLOTS, "sets": sets or [], "events": events,
        "measured": measured or [], **others,
    }  # fmt: skip


def task_set(
    stage: int, tasks: int, done: int = 0, running: int = 0, job: str = "spark 0", *,
    attempt: int = 0, is_zombie: bool = False, pool: tuple[str, int, int] | None = None,
) -> Row:  # fmt: skip
    """`pool`: name, weight and minShare."""
    record = {
        "stage": stage, "attempt": attempt, "job": job, "num_tasks": tasks, "successful": done,
        "running": running, "is_zombie": is_zombie,
    }  # fmt: skip
    if pool is not None:
        record["pool"] = dict(zip(("name", "weight", "min_share"), pool, strict=True))
    return record


def info(stage: int, tasks: int, parents: tuple[int, ...] = (), rdd: int | None = None) -> Row:
    """A stage as its Spark job lists it; by default over an RDD of its own."""
    rdds = [-stage if rdd is None else rdd]
    return {"stage": stage, "num_tasks": tasks, "parents": parents, "rdds": rdds}


def started(spark_job: int, *stages: Row, time_ms: int = 0, **properties: Any) -> Row:
    """The event of a Spark job that begins; properties with _ for each dot."""
    named = {name.replace("_", "."): value for name, value in properties.items()}
    return {
        "kind": "JOB_START", "id": spark_job, "time_ms": EPOCH_MS + time_ms, "stages": stages,
        "properties": named, "job": key_of(named, spark_job),
    }  # fmt: skip


def stage_done(*stages: int) -> list[Row]:
    return [{"kind": "STAGE_END", "id": stage, "succeeded": True} for stage in stages]


def job_done(spark_job: int, time_ms: int = 0) -> Row:
    return {"kind": "JOB_END", "id": spark_job, "time_ms": EPOCH_MS + time_ms}


def measured(stage: int, tasks: int, total_ms: int, begin_ms: int = 0, end_ms: int = 0) -> Row:
    times = {"first_launch_ms": EPOCH_MS + begin_ms, "last_finish_ms": EPOCH_MS + end_ms}
    return {"stage": stage, "tasks": tasks, "total_ms": total_ms, **times}


def key_of(properties: Mapping[str, str], spark_job: int) -> str:
    """The job that a Spark job is part of, as the JVM reports it."""
    for name, kind in _KINDS.items():
        if name in properties:
            return f"{kind} {properties[name]}"
    return f"spark {spark_job}"


# --- simulated sessions --------------------------------------------------------------------------


class SimulatedSession:
    """A simulated session as the plugin's listener reports it."""

    def __init__(
        self,
        simulator: Simulator,
        jobs: list[Job],
        properties: Callable[[int], dict[str, str]],
        disorder: np.random.Generator | None = None,
    ) -> None:
        """Args:
        simulator: of the session protocol.
        jobs: by arrival.
        properties: of the Spark job that each of them is.
        disorder: late events, measured durations, tasks that nobody needs, idle slots; None: none.
        """
        self.simulator = simulator
        self._jobs = jobs
        self._properties = properties
        self._rng = disorder
        self._announced = 0
        self._done: set[int] = set()
        self._measured: dict[int, int] = {}

    def report(self) -> dict[str, Any]:
        """All that there is at this time, and what has happened since the last report."""
        state, time_ms = self.simulator.state, round(self.simulator.time_ms)
        arrived = int((state.jobs["arrival_ms"] <= self.simulator.time_ms).sum())
        events = []
        # The event of a job may come after its first task set.
        while self._announced < arrived - (self._rng is not None and self._rng.random() < 0.2):
            events.append(self._start(self._announced))
            self._announced += 1
        sets, done = self._stages(arrived)
        events += done
        for number in np.flatnonzero(~np.isnan(state.jobs["completion_ms"][: self._announced])):
            if -number - 1 not in self._done:
                self._done.add(-int(number) - 1)
                events.append(job_done(int(number), time_ms))
        return report(*events, time_ms=time_ms, sets=sets, **self._disorder(sets, time_ms))

    def _stages(self, arrived: int) -> tuple[list[Row], list[Row]]:
        """Task sets, and the events of stages that have ended."""
        sets, events = [], []
        for stage in map(int, np.flatnonzero(self.simulator.state.stages["runnable"])):
            row = self.simulator.state.stages[stage]
            number, tasks, done = int(row["job"]), int(row["num_tasks"]), int(row["finished"])
            if number < arrived and done < tasks:
                key = key_of(self._properties(number), number)
                sets.append(task_set(stage, tasks, done, int(row["launched"]) - done, key))
            elif number < arrived and stage not in self._done:
                self._done.add(stage)
                events += stage_done(stage)
        return sets, events

    def _disorder(self, sets: list[Row], time_ms: int) -> dict[str, Any]:
        if self._rng is None:
            return {}
        disorders = []
        for stage, row in enumerate(self.simulator.state.stages):
            new = int(row["finished"]) - self._measured.get(stage, 0)
            if new > 0 and row["job"] < self._announced:
                self._measured[stage] = int(row["finished"])
                took_ms = round(new * float(row["mean_ms"]))
                disorders.append(measured(stage, new, took_ms, time_ms - took_ms, time_ms))
        if sets and self._rng.random() < 0.1:  # a cancelled attempt whose tasks run on
            first = sets[0]
            sets.append(task_set(first["stage"], 2, 0, 2, first["job"], attempt=1, is_zombie=True))
        idle_ms = int(self._rng.choice([0, 0, 0, 3_000]))
        return {
            "measured": disorders,
            "idle_ms": idle_ms,
            "idle_slots": int(self._rng.integers(0, 12)),
        }

    def _start(self, number: int) -> Row:
        job = self.simulator.state.jobs[number]
        first, arrival_ms = int(job["first_stage"]), round(job["arrival_ms"])
        infos = [
            info(first + row, stage.num_tasks, tuple(first + parent for parent in stage.parents))
            for row, stage in enumerate(self._jobs[number].stages)
        ]
        return started(number, *infos, time_ms=arrival_ms, **self._properties(number))
