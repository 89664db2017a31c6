"""Compiled policies on the tables that the JVM makes of a live session."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from decima.policy import Policy
from decima.registry import Heuristic
from decima.spark.loading import PolicyFor
from decima.spark.tables import LiveTables
from spark_sim import PASS, Cluster, Protocol, Simulator, Status
from tests.live import Live, SimulatedSession
from traces import load_trace, to_arrays

JOBS, SLOTS = 12, 24


def disordered(
    seed: int, name: str = "tpch", slots: int = SLOTS, gap_ms: float = 8_000.0
) -> Iterator[dict[str, Any]]:
    """Reports of a session of recorded jobs, one for each decision that is due: late events, joined
    jobs, idle slots, tasks that nobody needs.
    """
    trace = load_trace(name)
    rng = np.random.default_rng(seed)
    row = rng.choice(len(trace.jobs), JOBS).astype(np.int32)
    arrival_ms = np.cumsum(rng.exponential(gap_ms, JOBS))
    cluster = Cluster(num_executors=slots, protocol=Protocol.SESSION)
    simulator = Simulator(to_arrays(trace), cluster, arrival_ms, row)
    told = SimulatedSession(simulator, [trace.jobs[number] for number in row], _joined, rng)
    rule = Heuristic("spark_fair")
    while simulator.status is Status.DECIDE:
        yield told.report() | {"slots": slots}
        simulator.step(rule.decide(simulator.observation()))


def _joined(number: int) -> dict[str, str]:
    """Two Spark jobs of one SQL execution, jobs of one group, and jobs by themselves."""
    if number % 3 == 0:
        return {"spark.sql.execution.id": str(number // 6)}
    return {"spark.jobGroup.id": "g"} if number % 3 == 1 else {}


class Mirror:
    """A compiled policy that is asked for the same plans as the one in the JVM."""

    def __init__(self, policy_for: PolicyFor) -> None:
        self._policy_for = policy_for
        self._tables = LiveTables()
        self._graphs: int | None = None
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
        if told["graphs"] != self._graphs:
            self._graphs, self._tables, self._policy = told["graphs"], LiveTables(), None
        round_, limits = self._tables.fill(told), {}
        if stand_in is None and self._policy is None:
            assert self._tables.trace is not None
            self._policy = self._policy_for(self._tables.trace)
        policy = stand_in or self._policy
        while round_.is_open:
            assert policy is not None
            action = policy.decide(round_.observation())
            round_.assign(action)
            if action != PASS:
                job = int(np.searchsorted(told["first_stage"], action.stage, side="right")) - 1
                key = told["keys"][job]
                limits[key] = action.limit + lost.get(key, 0)
        return [told["spark_stage"][row] for row in round_.chosen()], limits


def compared(live: Live, policy_for: PolicyFor, reports: Iterator[dict[str, Any]]) -> Counter[str]:
    """Compare all plans, but for those that a starving job was served in, and count what they are.

    Returns:
        plans that were due, all plans, faults, starving jobs, chosen stages, slots of all limits.
    """
    mirror, fair = Mirror(policy_for), Heuristic("strict_fair")
    counts, starved = Counter[str](), 0
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
