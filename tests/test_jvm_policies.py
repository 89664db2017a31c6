"""Policies inside the JVM decide as the compiled Python ones do, decision by decision."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from decima.policy_names import IN_JVM
from decima.registry import Heuristic
from decima.spark import jar
from spark_sim import Cluster, Observation, Protocol, Simulator, Status
from tests.jvm import Classes, Talk
from tests.live import Live
from tests.mirror import STAGE_COLUMNS, Mirror, compared, disordered
from traces import load_trace, to_arrays

POLICIES = ("fifo", "spark_fair", "strict_fair", "tuned_srw", "es_rule")
JOBS = 12
FACTS = ("due", "plans", "faults", "starved", "chosen", "slots")
SESSIONS = {
    "fifo": (501, 546, 0, 0, 579, 13_300),
    "spark_fair": (974, 1_023, 4, 4, 3_883, 23_678),
    "strict_fair": (1_180, 1_218, 0, 0, 3_447, 24_488),
    "tuned_srw": (1_140, 1_186, 1, 3, 3_340, 30_925),
    "es_rule": (1_196, 1_256, 3, 3, 3_489, 28_299),
}
"""`FACTS` of a session in disorder, by policy"""


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
    told |= {name: stages[name].tolist() for name in STAGE_COLUMNS}
    return told, {row: place for place, row in enumerate(rows)}


def recorded(
    policy: str, slots: int, gap_ms: float, seed: int, max_jobs: int | None = None
) -> Iterator[tuple[Any, Any]]:
    """The rounds of a session of recorded jobs under the compiled policy: tables, and actions. With
    `max_jobs` only those about jobs that wait for a place.
    """
    trace = load_trace("tpch")
    rng = np.random.default_rng(seed)
    row = rng.choice(len(trace.jobs), JOBS).astype(np.int32)
    arrival_ms = (
        np.concatenate([[0.0], np.cumsum(rng.exponential(gap_ms, JOBS - 1))])
        if gap_ms
        else np.zeros(JOBS)
    )
    cluster = Cluster(num_executors=slots, protocol=Protocol.SESSION, max_jobs=max_jobs)
    simulator = Simulator(to_arrays(trace), cluster, arrival_ms, row)
    rule = Heuristic(policy)
    number, tables = -1, None
    place: dict[int, int] = {}
    actions: list[list[int]] = []
    while simulator.status is Status.DECIDE:
        seen = simulator.observation()
        if max_jobs is not None and simulator.state.clock[0]["is_admission"] == 0:
            simulator.step(rule.decide(seen))
            continue
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
    choices = [
        recorded_round
        for number, (slots, gap_ms) in enumerate(
            [(8, 30_000.0), (50, 0.0), (50, 9_000.0), (200, 1_000.0)]
        )
        for recorded_round in recorded(policy, slots, gap_ms, number)
    ]
    expected = [actions for _, actions in choices]
    answers = classes.ask(
        "decima.policy.Decide",
        [{"policy": policy, "parameters": None, "tables": tables} for tables, _ in choices],
    )
    assert len(choices) > 400
    assert sum(map(len, expected)) > 800
    assert answers == expected


@pytest.mark.real_spark
@pytest.mark.parametrize("policy", POLICIES)
def test_the_first_choice_among_waiting_jobs_is_that_of_the_compiled_policy(
    classes: Classes, policy: str
) -> None:
    """The JVM goes on to plan for all of them; the first choice is what gets the place."""
    recordings = [
        one for seed in range(6) for one in recorded(policy, 50, 1_000.0, seed, max_jobs=2)
    ]
    answers = classes.ask(
        "decima.policy.Decide",
        [{"policy": policy, "parameters": None, "tables": tables} for tables, _ in recordings],
    )
    assert len(recordings) > 40
    assert [answer[:1] for answer in answers] == [actions for _, actions in recordings]


# --- sessions ------------------------------------------------------------------------------------


@pytest.mark.real_spark
@pytest.mark.parametrize(("policy", "facts"), SESSIONS.items())
def test_plans_of_a_session_are_those_of_the_compiled_policy(
    jvm: Talk, policy: str, facts: tuple[int, ...]
) -> None:
    """On the tables of a session in disorder; where slots stand idle, those of strict fair. Facts
    are those of two implementations that agreed on every plan.
    """
    reports = disordered(POLICIES.index(policy))
    live = Live(jvm, policy, starve_s=15, idle_s=4)
    counts = compared(live, Mirror(Heuristic(policy).on), reports)
    assert tuple(counts[name] for name in FACTS) == facts


def test_python_names_the_policies_of_the_jvm(jvm: Talk) -> None:
    """`attach` starts no Python for these."""
    assert tuple(jvm.ask({"policies": None})) == IN_JVM


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
    (answer,) = classes.ask("decima.policy.Decide", [question])
    assert answer["refused"].startswith(f"{path}: its features are not those")
