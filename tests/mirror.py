"""Compiled policies on the tables that the JVM makes of a live session."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from decima.policy import Policy
from decima.registry import Heuristic
from decima.spark.loading import PolicyFor
from spark_sim import PASS, Cluster, Protocol, Simulator, Status
from spark_sim.rounds import Round, session_tables
from spark_sim.tables import State
from tests.live import Live, SimulatedSession
from traces import Job, Stage, Trace, load_trace, to_arrays

JOBS, SLOTS = 12, 24
STAGE_COLUMNS = (
    "num_tasks", "launched", "finished", "runnable", "mean_ms", "critical_path_ms",
)  # fmt: skip


# --- sessions ------------------------------------------------------------------------------------


def disordered(seed: int, name: str = "tpch") -> Iterator[dict[str, Any]]:
    """Reports of a session of recorded jobs, one for each decision that is due: late events, joined
    jobs, idle slots, tasks that nobody needs.
    """
    trace = load_trace(name)
    rng = np.random.default_rng(seed)
    row = rng.choice(len(trace.jobs), JOBS).astype(np.int32)
    arrival_ms = np.cumsum(rng.exponential(8_000.0, JOBS))
    cluster = Cluster(num_executors=SLOTS, protocol=Protocol.SESSION)
    simulator = Simulator(to_arrays(trace), cluster, arrival_ms, row)
    told = SimulatedSession(simulator, [trace.jobs[number] for number in row], _joined, rng)
    rule = Heuristic("spark_fair")
    while simulator.status is Status.DECIDE:
        yield told.report() | {"slots": SLOTS}
        simulator.step(rule.decide(simulator.observation()))


def _joined(number: int) -> dict[str, str]:
    """Two Spark jobs of one SQL execution, jobs of one group, and jobs by themselves."""
    if number % 3 == 0:
        return {"spark.sql.execution.id": str(number // 6)}
    return {"spark.jobGroup.id": "g"} if number % 3 == 1 else {}


# --- plans ---------------------------------------------------------------------------------------


class Mirror:
    """A compiled policy that is asked for the same plans as the one in the JVM."""

    def __init__(self, policy_for: PolicyFor) -> None:
        self._policy_for = policy_for
        self._graphs: int | None = None
        self._state: State | None = None
        self._policy: Policy | None = None

    def plan(
        self, told: dict[str, Any], lost: dict[str, int], stand_in: Policy | None
    ) -> tuple[list[int], dict[str, int]]:
        """Chosen stages, and the limits of jobs; slots that these hold for nothing count too.

        Args:
            told: the tables.
            lost: such slots by job.
            stand_in: decides in the policy's place.
        """
        round_, limits = self._round(told), {}
        while round_.is_open:
            policy = stand_in or self._current()
            action = policy.decide(round_.observation())
            round_.assign(action)
            if action != PASS:
                job = int(np.searchsorted(told["first_stage"], action.stage, side="right")) - 1
                key = told["keys"][job]
                limits[key] = action.limit + lost.get(key, 0)
        return [told["spark_stage"][row] for row in round_.chosen()], limits

    def _current(self) -> Policy:
        if self._policy is None:
            assert self._state is not None
            self._policy = self._policy_for(self._state.trace)
        return self._policy

    def _round(self, told: dict[str, Any]) -> Round:
        if self._state is None or told["graphs"] != self._graphs:
            arrays = to_arrays(Trace("live", tuple(_jobs(told))))
            arrival_ms = np.array(told["arrival_ms"])
            self._state = session_tables(arrays, told["num_executors"], arrival_ms)
            self._graphs, self._policy = told["graphs"], None
        state = self._state
        for name in STAGE_COLUMNS:
            state.stages[name] = told[name]
        for name in ("work_ms", "remaining_ms"):
            state.jobs[name] = told[name]
        is_done = (state.stages["finished"] == state.stages["num_tasks"]).astype(np.int32)
        state.jobs["stages_done"] = np.add.reduceat(is_done, told["first_stage"][:-1])
        for name in ("time_ms", "last_arrival_ms", "mean_gap_ms", "typical_ms", "inflation"):
            state.clock[name] = float(told[name])
        return Round(state)


def _jobs(told: dict[str, Any]) -> Iterator[Job]:
    parents: list[list[int]] = [[] for _ in told["num_tasks"]]
    for row, (begin, end) in enumerate(pairwise(told["first_child"])):
        for child in told["children"][begin:end]:
            parents[child].append(row)
    for number, (begin, end) in enumerate(pairwise(told["first_stage"])):
        stages = []
        for row in range(begin, end):
            above = [parent - begin for parent in parents[row]]
            tasks, mean_ms = told["num_tasks"][row], told["mean_ms"][row]
            stages.append(Stage.fixed(f"s{row}", tasks, mean_ms, above))
        yield Job(f"j{number}", tuple(stages))


def compared(live: Live, mirror: Mirror, reports: Iterator[dict[str, Any]]) -> Counter[str]:
    """Compare all plans, but for those that a starving job was served in, and count what they are.

    Returns:
        plans that were due, all plans, faults, starving jobs, chosen stages, slots of all limits.
    """
    counts, fair, starved = Counter[str](), Heuristic("strict_fair"), 0
    for number, told in enumerate(reports):
        answer = live.tell(told, "tables", "plan")
        plan, is_served, starved = answer["plan"], answer["starved"] > starved, answer["starved"]
        counts["due"] += answer["is_due"]
        if plan is None:
            continue
        counts["plans"] += 1
        counts["faults"] += plan["fault"] is not None
        counts["chosen"] += len(plan["chosen"])
        counts["slots"] += sum(plan["limits"].values())
        if not is_served:
            stand_in = None if plan["fault"] is None else fair
            expected = mirror.plan(answer["tables"], answer["lost"], stand_in)
            assert (plan["chosen"], plan["limits"]) == expected, number
    counts["starved"] = starved
    return counts
