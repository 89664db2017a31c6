"""A live session inside the JVM, and the reports that Spark would make of one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from decima.spark.priors import Priors
from spark_sim import Simulator
from tests.jvm import Talk
from traces import Job, Trace

SLOTS = 12
EPOCH_MS = 1_000_000
_KINDS = {
    "decima.job": "job",
    "spark.sql.execution.root.id": "sql",
    "spark.sql.execution.id": "sql",
    "spark.jobGroup.id": "group",
}


class Live:
    """The newest session of the class `Tell`."""

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
        jvm: of the class `Tell`.
        policy: by name, or the answers that one gives.
        priors: earlier runs.
        starve_s, idle_s: bounds of the planner.
        """
        self._jvm = jvm
        bounds = {"starve_ms": 1_000 * starve_s, "idle_ms": 1_000 * idle_s}
        jvm.ask({"begin": {"policy": policy, **bounds}})
        if priors is not None:
            self.learn(priors)

    def learn(self, priors: Trace) -> None:
        """Hand over earlier runs."""
        self._jvm.ask({"priors": Priors(priors).message()})

    def tell(self, told: dict[str, Any], *ask: str) -> dict[str, Any]:
        """Answer of the classes to a report; `ask` as `Tell` reads it."""
        found: dict[str, Any] = self._jvm.ask({"report": told, "ask": ask})
        return found

    def jobs(self, told: dict[str, Any]) -> list[dict[str, Any]]:
        """Jobs with something left to run after this report, with columns of their stages."""
        found = self.tell(told, "jobs")
        by_key = {job["job"]: job for job in found["jobs"]}
        return [by_key[key] for key in found["active"]]

    def plan(self, told: dict[str, Any]) -> dict[str, Any]:
        """The plan after this report, which there is."""
        found = self.tell(told, "plan")["plan"]
        assert found is not None
        return dict(found)


# --- reports -------------------------------------------------------------------------------------


def report(
    *events: list[Any],
    time_ms: int = 0,
    sets: list[list[Any]] | None = None,
    measured: list[list[Any]] | None = None,
    **others: Any,
) -> dict[str, Any]:
    """In the form of `decima.spark.Session.report`; times count from `EPOCH_MS`."""
    return {
        "time_ms": EPOCH_MS + time_ms, "plan": 0, "lapsed": False, "attached": True, "dropped": 0,
        "slots": SLOTS, "sets": sets or [], "events": events, "measured": measured or [],
        "idle_ms": 0, "idle_slots": 0, **others,
    }  # fmt: skip


def task_set(
    stage: int, tasks: int, done: int = 0, running: int = 0, job: str = "spark 0", *,
    attempt: int = 0, is_zombie: bool = False, pool: tuple[str, int, int] | None = None,
) -> list[Any]:  # fmt: skip
    """`pool`: name, weight and minShare."""
    return [stage, attempt, job, tasks, done, running, is_zombie, *(pool or (None, 0, 0))]


def info(
    stage: int, tasks: int, parents: tuple[int, ...] = (), rdd: int | None = None
) -> list[Any]:
    """A stage as its Spark job lists it; over an RDD of its own unless told otherwise."""
    return [stage, tasks, parents, [-stage if rdd is None else rdd]]


def started(spark_job: int, *stages: list[Any], time_ms: int = 0, **properties: Any) -> list[Any]:
    """The event of a Spark job that begins; properties with _ for each dot."""
    named = {name.replace("_", "."): value for name, value in properties.items()}
    return ["J", spark_job, EPOCH_MS + time_ms, stages, named, key_of(named, spark_job)]


def stage_done(*stages: int) -> list[list[Any]]:
    return [["S", stage, 0, True] for stage in stages]


def job_done(spark_job: int, time_ms: int = 0) -> list[Any]:
    return ["E", spark_job, EPOCH_MS + time_ms]


def measured(
    stage: int, tasks: int, total_ms: int, begin_ms: int = 0, end_ms: int = 0
) -> list[int]:
    return [stage, tasks, total_ms, EPOCH_MS + begin_ms, EPOCH_MS + end_ms]


def key_of(properties: Mapping[str, str], spark_job: int) -> str:
    """The job that a Spark job is part of, as the JVM reports it."""
    for name, kind in _KINDS.items():
        if name in properties:
            return f"{kind} {properties[name]}"
    return f"spark {spark_job}"


# --- simulated sessions --------------------------------------------------------------------------


class Told:
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

    def _stages(self, arrived: int) -> tuple[list[list[Any]], list[list[Any]]]:
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

    def _disorder(self, sets: list[list[Any]], time_ms: int) -> dict[str, Any]:
        if self._rng is None:
            return {}
        found = []
        for stage, row in enumerate(self.simulator.state.stages):
            new = int(row["finished"]) - self._measured.get(stage, 0)
            if new > 0 and row["job"] < self._announced:
                self._measured[stage] = int(row["finished"])
                took_ms = round(new * float(row["mean_ms"]))
                found.append(measured(stage, new, took_ms, time_ms - took_ms, time_ms))
        if sets and self._rng.random() < 0.1:  # a cancelled attempt whose tasks run on
            sets.append(task_set(sets[0][0], 2, 0, 2, sets[0][2], attempt=1, is_zombie=True))
        idle_ms = int(self._rng.choice([0, 0, 0, 3_000]))
        return {"measured": found, "idle_ms": idle_ms, "idle_slots": int(self._rng.integers(0, 12))}

    def _start(self, number: int) -> list[Any]:
        job = self.simulator.state.jobs[number]
        first, arrival_ms = int(job["first_stage"]), round(job["arrival_ms"])
        infos = [
            info(first + row, stage.num_tasks, tuple(first + parent for parent in stage.parents))
            for row, stage in enumerate(self._jobs[number].stages)
        ]
        return started(number, *infos, time_ms=arrival_ms, **self._properties(number))
