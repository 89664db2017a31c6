"""Policies inside the JVM decide as the compiled Python ones do, decision by decision."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from decima.spark.due import Due
from decima.spark.jobs import LiveJobs
from decima.spark.planning import Guard, Planner
from decima.spark.reports import parse_report

from decima.registry import Heuristic
from decima.spark import jar
from decima.spark.loading import PolicyFor
from spark_sim import Cluster, Observation, Protocol, Simulator, Status
from tests.jvm import Classes
from traces import load_trace, to_arrays

POLICIES = ("fifo", "spark_fair", "strict_fair", "tuned_srw", "es_rule")
JOBS = 12
EPOCH_MS = 1_700_000_000_000
QUESTION = {"parameters": None, "starve_ms": 15_000, "idle_ms": 4_000}
"""about a session, as `planned` answers it"""


# --- rounds --------------------------------------------------------------------------------------


def tables_of(seen: Observation) -> tuple[dict[str, Any], dict[int, int]]:
    """A round as it begins, jobs that are over left out, and where its stages' rows have gone."""
    jobs = seen.jobs[seen.active]
    rows = [
        row
        for job in jobs
        for row in range(job["first_stage"], job["first_stage"] + job["num_stages"])
    ]
    stages = seen.stages[rows]
    told: dict[str, Any] = {
        "time_ms": float(seen.time_ms),
        "last_arrival_ms": float(seen.last_arrival_ms),
        "mean_gap_ms": min(float(seen.mean_gap_ms), 1e15),  # JSON has no infinity
        "typical_ms": float(seen.typical_ms),
        "inflation": float(seen.inflation),
        "slots": int(seen.num_executors),
        "first_stage": np.concatenate([[0], np.cumsum(jobs["num_stages"])]).tolist(),
    }
    told |= {name: jobs[name].tolist() for name in ("arrival_ms", "work_ms", "remaining_ms")}
    told |= {
        name: stages[name].tolist()
        for name in ("num_tasks", "launched", "finished", "runnable", "mean_ms", "critical_path_ms")
    }
    return told, {row: place for place, row in enumerate(rows)}


def recorded(policy: str, slots: int, gap_ms: float, seed: int) -> Iterator[tuple[Any, Any]]:
    """The rounds of a session of recorded jobs under the compiled policy: tables, and actions."""
    trace = load_trace("tpch")
    rng = np.random.default_rng(seed)
    row = rng.choice(len(trace.jobs), JOBS).astype(np.int32)
    arrival_ms = (
        np.concatenate([[0.0], np.cumsum(rng.exponential(gap_ms, JOBS - 1))])
        if gap_ms
        else np.zeros(JOBS)
    )
    cluster = Cluster(num_executors=slots, protocol=Protocol.SESSION)
    simulator = Simulator(to_arrays(trace), cluster, arrival_ms, row)
    rule = Heuristic(policy)
    number, tables = -1, None
    place: dict[int, int] = {}
    actions: list[list[int]] = []
    while simulator.status is Status.DECIDE:
        seen = simulator.observation()
        if seen.round_number != number:
            if tables is not None:
                yield tables, actions
            number, actions = seen.round_number, []
            tables, place = tables_of(seen)
        action = rule.decide(seen)
        actions.append([place.get(action.stage, -1), action.limit])
        simulator.step(action)


@pytest.mark.real_spark
@pytest.mark.parametrize("policy", POLICIES)
def test_every_decision_is_that_of_the_compiled_policy(classes: Classes, policy: str) -> None:
    """Few slots and many, jobs that came together and jobs that come one by one."""
    found = [
        one
        for number, (slots, gap_ms) in enumerate(
            [(8, 30_000.0), (50, 0.0), (50, 9_000.0), (200, 1_000.0)]
        )
        for one in recorded(policy, slots, gap_ms, number)
    ]
    expected = [actions for _, actions in found]
    answers = classes.ask(
        "decima.policy.Decide",
        [{"policy": policy, "parameters": None, "tables": tables} for tables, _ in found],
    )
    assert len(found) > 400
    assert sum(map(len, expected)) > 800
    assert answers == expected


# --- sessions ------------------------------------------------------------------------------------


class Told:
    """A simulated session as the plugin's listener tells it, with some disorder."""

    def __init__(self, seed: int, trace: str = "tpch") -> None:
        self._trace = load_trace(trace)
        self._rng = np.random.default_rng(seed)
        row = self._rng.choice(len(self._trace.jobs), JOBS).astype(np.int32)
        arrival_ms = np.cumsum(self._rng.exponential(8_000.0, JOBS))
        self._jobs = [self._trace.jobs[number] for number in row]
        cluster = Cluster(num_executors=24, protocol=Protocol.SESSION)
        self.simulator = Simulator(to_arrays(self._trace), cluster, arrival_ms, row)
        self._announced = 0
        self._done: set[int] = set()
        self._measured: dict[int, int] = {}

    def reports(self) -> Iterator[dict[str, Any]]:
        """One for each decision that is due."""
        rule = Heuristic("spark_fair")
        while self.simulator.status is Status.DECIDE:
            yield self._report()
            self.simulator.step(rule.decide(self.simulator.observation()))

    def _report(self) -> dict[str, Any]:
        state, time_ms = self.simulator.state, EPOCH_MS + round(self.simulator.time_ms)
        events: list[list[Any]] = []
        # The event of a job may come after its first task set.
        arrived = int((state.jobs["arrival_ms"] <= self.simulator.time_ms).sum())
        late = self._rng.random() < 0.2
        while self._announced < arrived - late:
            events.append(self._start(self._announced, time_ms))
            self._announced += 1
        sets, measured = [], []
        for stage in np.flatnonzero(state.stages["runnable"]):
            row = state.stages[stage]
            number = int(row["job"])
            if number >= arrived:
                continue
            done, count = int(row["finished"]), int(row["num_tasks"])
            new = done - self._measured.get(int(stage), 0)
            if new > 0 and number < self._announced:
                self._measured[int(stage)] = done
                took_ms = round(new * float(row["mean_ms"]))
                measured.append([int(stage), new, took_ms, time_ms - took_ms, time_ms])
            if done < count:
                running = int(row["launched"]) - done
                sets.append([int(stage), 0, self._key(number), count, done, running, False])
            elif int(stage) not in self._done:
                self._done.add(int(stage))
                events.append(["S", int(stage), 0, True])
        for number in range(self._announced):
            if not np.isnan(state.jobs["completion_ms"][number]) and -number - 1 not in self._done:
                self._done.add(-number - 1)
                events.append(["E", number, time_ms])
        if sets and self._rng.random() < 0.1:  # a cancelled attempt whose tasks run on
            sets.append([sets[0][0], 1, sets[0][2], 2, 0, 2, True])
        idle = int(self._rng.choice([0, 0, 0, 3_000])), int(self._rng.integers(0, 12))
        return {
            "time_ms": time_ms, "plan": 0, "lapsed": False, "attached": True, "dropped": 0,
            "slots": 24, "sets": sets, "events": events, "measured": measured,
            "idle_ms": idle[0], "idle_slots": idle[1],
        }  # fmt: skip

    def _properties(self, number: int) -> dict[str, str]:
        """Two Spark jobs of one SQL execution, jobs of one group, and jobs by themselves."""
        if number % 3 == 0:
            return {"spark.sql.execution.id": str(number // 6)}
        return {"spark.jobGroup.id": "g"} if number % 3 == 1 else {}

    def _key(self, number: int) -> str:
        return (f"sql {number // 6}", "group g", f"spark {number}")[number % 3]

    def _start(self, number: int, time_ms: int) -> list[Any]:
        first = int(self.simulator.state.jobs["first_stage"][number])
        infos = [
            [first + row, stage.num_tasks, [first + one for one in stage.parents], [first + row]]
            for row, stage in enumerate(self._jobs[number].stages)
        ]
        return ["J", number, time_ms, infos, self._properties(number), self._key(number)]


def planned(policy: PolicyFor, reports: list[dict[str, Any]]) -> list[Any]:
    """As `Decide` answers, by the classes of `attach`."""
    planner = Planner(policy, Guard(starve_s=15.0, idle_s=4.0, decision_s=60.0))
    live, due, last, found = LiveJobs(), Due(), None, []
    for told in reports:
        report = parse_report(told)
        live.update(report)
        is_due = due.is_due(report, last, report.time_ms / 1000)
        plan = planner.plan(live, idle_ms=report.idle_ms, idle_slots=report.idle_slots)
        last = plan or last
        found.append(
            [is_due]
            if plan is None
            else [is_due, [*plan.chosen], plan.limits, [*plan.considered], plan.fault is not None]
        )
    planner.close()
    return found


@pytest.mark.real_spark
@pytest.mark.parametrize("policy", POLICIES)
def test_every_plan_is_that_of_an_attached_driver(classes: Classes, policy: str) -> None:
    """From what Spark tells to the plan: joined jobs, guessed durations, starving jobs, slots that
    stand idle, tasks that nobody needs.
    """
    reports = list(Told(POLICIES.index(policy)).reports())
    question = QUESTION | {"policy": policy}
    (answers,) = classes.ask("decima.policy.Decide", [question | {"reports": reports}])
    expected = planned(Heuristic(policy).on, reports)
    assert len(expected) > 200
    assert answers == expected
    plans = [one for one in expected if len(one) > 1]
    # Strict fair is what it is measured by: it never leaves more slots idle than itself.
    assert {one[4] for one in plans} == ({False} if policy == "strict_fair" else {False, True})
    assert len({tuple(one[1]) for one in plans}) > 50


def long_session(waves: int = 23, stages: int = 1_000) -> list[dict[str, Any]]:
    """Reports of one job that goes on: `waves` Spark jobs of as many stages, the last of each runs.

    More finished stages than are remembered: they are dropped while a task set is running.
    """
    reports, before = [], -1
    for wave in range(waves):
        time_ms, first = EPOCH_MS + 1_000 * wave, wave * stages
        last = first + stages - 1
        infos = [[stage, 1, [], [stage]] for stage in range(first, last)] + [[last, 8, [], [last]]]
        events: list[list[Any]] = [
            ["J", wave, time_ms, infos, {"spark.jobGroup.id": "g"}, "group g"]
        ]
        events += [["S", stage, 0, True] for stage in range(first, last)]
        if before >= 0:
            events.append(["S", before, 0, True])
        reports.append(
            {"time_ms": time_ms, "plan": 0, "lapsed": False, "attached": True, "dropped": 0,
             "slots": 4, "sets": [[last, 0, "group g", 8, wave % 4, 2, False]], "events": events,
             "measured": [], "idle_ms": 0, "idle_slots": 0}
        )  # fmt: skip
        before = last
    return reports


@pytest.mark.real_spark
def test_finished_stages_are_dropped_while_others_run(classes: Classes) -> None:
    reports = long_session()
    question = QUESTION | {"policy": "strict_fair"}
    (answers,) = classes.ask("decima.policy.Decide", [question | {"reports": reports}])
    assert answers == planned(Heuristic("strict_fair").on, reports)
    assert [len(one) > 1 for one in answers] == [True] * len(reports)


# --- caps ----------------------------------------------------------------------------------------


def test_caps_are_kept_in_rounds_and_what_they_leave_goes_to_others(classes: Classes) -> None:
    """Two jobs of a user with six slots for both, one with four for itself, and a free one."""
    tables = {
        "time_ms": 0, "last_arrival_ms": 0, "mean_gap_ms": 1, "typical_ms": 1e5,
        "inflation": 0.1, "slots": 20, "first_stage": [0, 1, 2, 3, 4],
        "arrival_ms": [0, 1, 2, 3], "remaining_ms": [4e5] * 4, "work_ms": [4e5] * 4,
        "num_tasks": [40] * 4, "launched": [0] * 4, "finished": [0] * 4, "runnable": [1] * 4,
        "mean_ms": [1e4] * 4, "critical_path_ms": [1e4] * 4,
    }  # fmt: skip
    question = {"parameters": None, "tables": tables, "caps": [[0], [0], [1], []],
                "capacity": [6, 4]}  # fmt: skip
    (fair,) = classes.ask("decima.policy.Decide", [question | {"policy": "strict_fair"}])
    assert fair == [[0, 5], [1, 5], [2, 5], [3, 5]]
    (fifo,) = classes.ask("decima.policy.Decide", [question | {"policy": "fifo"}])
    assert [stage for stage, _ in fifo] == [0, 2, 3]  # the first has taken all of the user's


def test_a_release_brings_its_jar(
    classes: Classes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What `make wheel` has put into the package is found without a JDK; an older one is gone."""
    monkeypatch.setattr(jar, "_SHIPPED", tmp_path / "data")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "decima-spark-old.jar").touch()
    shipped = jar.ship_jar()
    assert jar.plugin_jar({}) == shipped
    assert [*shipped.parent.iterdir()] == [shipped]
    assert shipped.read_bytes() == classes.jar.read_bytes()


def test_a_rule_of_other_features_is_refused(classes: Classes, tmp_path: Path) -> None:
    """In one line that names the file."""
    path = tmp_path / "rule.json"
    path.write_text(json.dumps({"policy": "es_rule", "parameters": {"size_0": 1.0}}))
    question = {"policy": "es_rule", "parameters": str(path), "tables": {}}
    with pytest.raises(AssertionError, match=r"rule\.json: its features are not those"):
        classes.ask("decima.policy.Decide", [question])
