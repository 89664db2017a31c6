"""Running a small simulation and telling what happened in words, for tests that compare logs.

Stages are called ``job.stage``, executors ``e0``, ``e1``, ...; times are whole milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from decima import Heuristic
from spark_sim import PASS, Action, Cluster, Conditions, Observation, Simulator, Status
from spark_sim.metrics import RunMetrics, measure
from spark_sim.tables import NONE
from traces import Job, LevelDurations, Stage, Trace, to_arrays

Chooser = Callable[[Observation], Action]
"""a policy, reduced to its decision"""


@dataclass(frozen=True)
class Story:
    """What happened in one run."""

    simulator: Simulator
    tasks: list[str]
    """``e0 a.x 2000-3000``, by start, then in the order of starting"""
    decisions: list[str]
    """``0: 2 for a.x a.y -> a.x 1``: time, executors on offer, open stages, choice and limit"""
    completed: dict[str, float]
    """completion of each job in ms; NaN where it is not complete"""

    @property
    def metrics(self) -> RunMetrics:
        return measure(self.simulator.state)

    def tasks_of(self, prefix: str) -> list[str]:
        """The lines about one executor (``e0``)."""
        return [line for line in self.tasks if line.startswith(f"{prefix} ")]


def job(name: str, *stages: Stage) -> Job:
    return Job(name, stages)


def stage(name: str, tasks: int, task_ms: float, parents: Sequence[int] = ()) -> Stage:
    """Tasks of one duration, whatever their wave."""
    return Stage.fixed(name, tasks, task_ms, parents)


def waves(
    name: str,
    tasks: int,
    *,
    fresh: float | None,
    first: float,
    rest: float,
    parents: Sequence[int] = (),
) -> Stage:
    """Tasks whose duration tells their wave; `fresh` None: not measured."""
    level = LevelDurations.of(
        1, fresh_ms=[] if fresh is None else [fresh], first_ms=[first], rest_ms=[rest]
    )
    return Stage(name, tasks, tuple(parents), (level,))


def build(
    jobs: Sequence[Job],
    cluster: Cluster,
    *,
    arrival_ms: Sequence[float] | None = None,
    duration_key: int = 0,
    conditions: Conditions | None = None,
) -> Simulator:
    """Every job once, all at time 0 if not said otherwise, with a timeline."""
    times = [0.0] * len(jobs) if arrival_ms is None else arrival_ms
    return Simulator(
        to_arrays(Trace("story", tuple(jobs))),
        cluster,
        np.array(times, np.float64),
        np.arange(len(jobs), dtype=np.int32),
        duration_key=duration_key,
        timeline=True,
        conditions=conditions,
    )


def tell(
    jobs: Sequence[Job],
    policy: str | Mapping[int, Sequence[str]] | Chooser,
    *,
    arrival_ms: Sequence[float] | None = None,
    executors: int = 1,
    **settings: Any,
) -> Story:
    """Run `jobs` to the end and tell the story.

    Args:
        jobs: arrive in this order, each once.
        policy: a heuristic's name; or what to do when, as ``{0: ["a.x 2", "b.y 1"]}``: the choices
            (stage and limit) at that time in ms one after the other, and a pass otherwise; or a
            function.
        arrival_ms: of each job; None: all at 0.
        executors: size of the cluster.
        settings: other fields of `Cluster`.
    """
    cluster = replace(Cluster(num_executors=executors), **settings)
    simulator = build(jobs, cluster, arrival_ms=arrival_ms)
    names = [f"{job.name}.{stage.name}" for job in jobs for stage in job.stages]
    if isinstance(policy, str):
        choose: Chooser = Heuristic(policy, trace=simulator.state.trace).decide
    else:
        choose = _chooser(policy, names)
    decisions = []
    while simulator.status is Status.DECIDE:
        seen = simulator.observation()
        action = choose(seen)
        decisions.append(_words(seen, action, names))
        simulator.step(action)
    tasks = [
        f"e{row['executor']} {names[row['stage']]} {row['start_ms']:g}-{row['finish_ms']:g}"
        for row in simulator.timeline()
    ]
    ends = {job.name: float(end) for job, end in zip(jobs, simulator.completion_ms(), strict=True)}
    return Story(simulator, tasks, decisions, ends)


def greedy(seen: Observation) -> Action:
    """All executors to the first open stage."""
    open_stages = seen.open_stages()
    return Action(int(open_stages[0]), seen.num_executors) if len(open_stages) else PASS


def runnable_first(seen: Observation) -> Action:
    """All executors to the first open stage that is runnable; no early executors."""
    ready = [row for row in seen.open_stages() if seen.stages["runnable"][row] == 1]
    return Action(int(ready[0]), seen.num_executors) if ready else PASS


def always_pass(_seen: Observation) -> Action:
    return PASS


def _chooser(policy: Mapping[int, Sequence[str]] | Chooser, names: list[str]) -> Chooser:
    if not isinstance(policy, Mapping):
        return policy
    plan = {time_ms: list(choices) for time_ms, choices in policy.items()}

    def choose(seen: Observation) -> Action:
        due = plan.get(int(seen.time_ms), [])
        if not due:
            return PASS
        where, limit = due.pop(0).split()
        return Action(names.index(where), int(limit))

    return choose


def _words(seen: Observation, action: Action, names: list[str]) -> str:
    wanted = " ".join(names[row] for row in seen.open_stages()) or "nothing"
    choice = "pass" if action.stage == NONE else f"{names[action.stage]} {action.limit}"
    return f"{seen.time_ms:g}: {seen.on_offer} for {wanted} -> {choice}"
