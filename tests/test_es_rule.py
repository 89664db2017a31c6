"""The scoring rule: what its gate and score mean, and what holds whatever its weights are."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from decima import HEURISTICS, Heuristic, PolicyError
from decima.heuristics.es_rule import (
    HIDDEN,
    INPUTS,
    PARAMETERS,
    Features,
    describe,
    gate_and_score,
    surroundings,
)
from decima.training.tuning import read_tuned
from spark_sim import PASS, Cluster, Protocol, Status
from spark_sim.tables import NONE
from tests.stories import build, job, stage, tell
from tests.workloads import Workload, workloads
from traces import LevelDurations, Stage

ROOT = Path(__file__).parents[1]


def weights(**given_: float) -> dict[str, float]:
    """All zero but those given."""
    assert given_.keys() <= set(PARAMETERS)
    return {**dict.fromkeys(PARAMETERS, 0.0), **given_}


def rule(**given_: float) -> Heuristic:
    return Heuristic("es_rule", weights(**given_))


def random_rule(seed: int) -> Heuristic:
    drawn = np.random.default_rng(seed).normal(0.0, 1.5, len(PARAMETERS))
    return Heuristic("es_rule", dict(zip(PARAMETERS, drawn.tolist(), strict=True)))


OPEN, CLOSED = {"gate_bias": 1.0}, {"gate_bias": -1.0}


# --- whatever the weights ------------------------------------------------------------------------


@given(workload=workloads(), seed=st.integers(0, 2**32))
@settings(max_examples=60)
def test_any_weights_choose_legally_and_starve_nobody(workload: Workload, seed: int) -> None:
    """A round never ends while a job that could run holds nothing, so the run need not be forced.

    Under decima-sim's rules a round also ends when all that was on offer is given.
    """
    simulator = workload.simulator()
    policy = random_rule(seed)
    while simulator.status is Status.DECIDE:
        seen = simulator.observation()
        action = policy.decide(seen)
        if action == PASS:
            rows = seen.jobs[seen.active]
            assert not ((rows["open_stages"] > 0) & (rows["held"] == 0)).any()
        simulator.step(action)  # raises on an illegal choice
    assert simulator.status is Status.DONE
    assert simulator.state.clock[0]["forced"] == 0


def test_a_closed_gate_leaves_every_job_one_executor() -> None:
    """Three jobs with five tasks on eight executors: three run at a time, one of each job. No job
    that may have more is a pass.
    """
    jobs = [job(name, stage("x", 5, 1000)) for name in "abc"]
    story = tell(jobs, rule(**CLOSED).decide, executors=8)

    assert story.completed == {"a": 7000.0, "b": 7000.0, "c": 7000.0}
    two = tell(
        [job("a", stage("x", 1, 1000), stage("y", 1, 1000))], rule(**CLOSED).decide, executors=2
    )
    assert two.decisions[:2] == ["0: 2 for a.x a.y -> a.x 1", "0: 1 for a.y -> pass"]
    assert sorted(line.split()[1] for line in story.tasks[:3]) == ["a.x", "b.x", "c.x"]


# --- gate and score ------------------------------------------------------------------------------


def test_the_gate_limits_what_a_job_holds() -> None:
    """Gate tanh(5.5 - 10 (held + 1) / 8): open up to four of eight executors."""
    policy = rule(cluster_0=-10.0, bias_0=5.5, gate_0=1.0)
    story = tell([job("a", stage("x", 20, 1000))], policy.decide, executors=8)
    assert story.decisions[0] == "0: 8 for a.x -> a.x 4"
    assert len(story.tasks_of("e3")) == 5
    assert story.tasks_of("e4") == []


@pytest.mark.parametrize(("weight", "first"), [(-1.0, "short"), (1.0, "long")])
@pytest.mark.parametrize("feature", ["work", "rank"])
def test_the_best_score_goes_first(feature: str, weight: float, first: str) -> None:
    """With an open gate the job preferred takes all that it can use."""
    jobs = [job("long", stage("x", 4, 3000)), job("short", stage("x", 4, 1000))]
    policy = rule(**OPEN, **{f"{feature}_0": weight, "score_0": 1.0})
    story = tell(jobs, policy.decide, executors=4)
    assert story.decisions[0] == f"0: 4 for long.x short.x -> {first}.x 4"


def test_a_grant_ends_where_the_second_job_scores_better() -> None:
    """Score -(executors it would hold) / 6, and 2.5 / 6 more for the shorter: it gets three."""
    jobs = [job("long", stage("x", 6, 3000)), job("short", stage("x", 6, 1000))]
    # Of two jobs the longer has rank 0, the shorter -1. The weights keep tanh near its argument.
    policy = rule(**OPEN, cluster_0=-0.1, rank_0=-0.1 * 2.5 / 6, score_0=1.0)
    story = tell(jobs, policy.decide, executors=6)
    assert story.decisions[0] == "0: 6 for long.x short.x -> short.x 3"
    assert story.decisions[1].startswith("0: 3 for long.x -> long.x 3")


@pytest.mark.parametrize("seed", range(4))
def test_of_equal_jobs_the_first_goes_first_with_and_without_bounds(seed: int) -> None:
    """Played at once, jobs wait in a heap of bounds on their scores; choice by choice, all are
    evaluated. Jobs that are copies of each other have equal scores and unequal bounds.
    """
    copies = [job(f"j{number}", stage("x", 40, 500), stage("y", 30, 900)) for number in range(12)]
    cluster = Cluster(num_executors=150, protocol=Protocol.SESSION)
    played, stepped = (build(copies, cluster) for _ in range(2))
    policy = random_rule(seed)
    policy.play(played)
    while stepped.status is Status.DECIDE:
        stepped.step(policy.decide(stepped.observation()))
    assert played.timeline().tobytes() == stepped.timeline().tobytes()


# --- the numbers ---------------------------------------------------------------------------------


def test_features_of_a_crowded_cluster_by_hand() -> None:
    """Two jobs on eight executors; a (16 s of work) took three, b (4 s) asks for its second."""
    jobs = [job("a", stage("x", 8, 2000)), job("b", stage("x", 4, 500), stage("y", 2, 1000, [0]))]
    simulator = build(jobs, Cluster(num_executors=8))
    seen = simulator.observation()
    around = surroundings(seen)

    features = describe(seen, 1, around, 1)

    assert simulator.status is Status.DECIDE
    assert seen.source_job == NONE
    assert features == pytest.approx(
        Features(
            work=0.5 * np.log(4_000 / 10_000),
            rank=-1.0,  # nobody has less
            share=np.log(2 / 4),  # would hold two, the fair share is four
            cluster=2 / 8,
            local=0.0,
            source=0.0,
            tasks=0.5 * np.log(3 / 4),
            jobs=1 + 0.5 * np.log(2 / 8),
            width=0.5 * np.log(4_000 / 1_500 / 4),
            runnable=1.0,
            session=0.0,
            moving=0.5 * np.log(2_000 / 500),
            executors=0.5 * np.log(8 / 50),
            quiet=0.25 * np.log(0.01),  # both have arrived just now: the least that counts
            blocking=0.25 * np.log(500 * 8 / 8_000),  # the geometric mean of 16 s and 4 s
            inflation=0.0,
            wait=0.0,  # it can start
            free=6 / 8,  # one was given, this is the second
        )
    )
    assert describe(seen, 0, around, 0).rank == pytest.approx(2 * 1 / 2 - 1)


@pytest.mark.parametrize(
    ("delay_ms", "ratio"), [(2_000.0, 3_000 / 2_000), (10.0, 100.0), (0.0, 100.0)]
)
def test_a_stage_waits_for_those_before_it(delay_ms: float, ratio: float) -> None:
    """c waits for a (1 s a task) and b (3 s), both under way; d, of 9 s, is not before it."""
    jobs = [
        job(
            "one",
            stage("a", 1, 1000),
            stage("b", 2, 3000),
            stage("c", 3, 8000, [0, 1]),
            stage("d", 1, 7000),
        ),
        job("two", stage("x", 1, 1000)),
    ]
    simulator = build(jobs, Cluster(num_executors=8, moving_delay_ms=delay_ms))
    policy = rule(**OPEN, runnable_0=1.0, score_0=1.0)
    seen = simulator.observation()
    while not seen.stages[2]["open"]:
        simulator.step(policy.decide(seen))
        seen = simulator.observation()
    assert not seen.stages[2]["runnable"]

    features = describe(seen, 2, surroundings(seen), 0)

    assert features.wait == pytest.approx(0.5 * np.log(1 + ratio))
    assert describe(seen, 4, surroundings(seen), 0).wait == 0.0
    for other in (Protocol.SESSION, Protocol.DECIMA_SIM):
        elsewhere = seen._replace(protocol=other)
        assert describe(elsewhere, 2, surroundings(elsewhere), 0).wait == 0.0


def test_features_know_where_the_executors_come_from() -> None:
    """a's first stage frees both executors: they are local to a, and a is the source."""
    a = job("a", stage("x", 2, 1000), stage("y", 4, 1000, [0]))
    b = job("b", stage("z", 4, 9000))
    simulator = build([a, b], Cluster(num_executors=2), arrival_ms=[0, 1500])
    policy = rule(**OPEN)
    while simulator.time_ms < 2000:
        simulator.step(policy.decide(simulator.observation()))
    seen = simulator.observation()

    assert seen.source_job == 0
    around = surroundings(seen)
    own, other = describe(seen, 1, around, 0), describe(seen, 2, around, 0)
    assert (own.local, own.source) == (1.0, 1.0)
    assert (other.local, other.source) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("executors", "longer"), [(1, 1.0), (5, 1.0), (10, 1.2), (15, 1.3), (20, 1.4), (50, 1.4)]
)
def test_inflation_by_hand(executors: int, longer: float) -> None:
    """Three tasks of 1 s with 5 executors, 1.2 s with 10, 1.4 s with 20; one of 2 s always."""
    levels = [
        LevelDurations.of(level, rest_ms=[task_ms])
        for level, task_ms in ((5, 1000.0), (10, 1200.0), (20, 1400.0))
    ]
    inflating = Stage("x", 3, (), tuple(levels))
    seen = build(
        [job("a", inflating, stage("y", 1, 2000))], Cluster(num_executors=executors)
    ).observation()
    assert seen.inflation == pytest.approx(3 / 4 * np.log(longer))
    assert surroundings(seen).inflation == pytest.approx(2 * seen.inflation)


@given(seed=st.integers(0, 2**32))
@settings(max_examples=40)
def test_the_layer_is_what_its_formula_says(seed: int) -> None:
    """Gate and score as matrix products; its tanh is within 0.024 of the true one."""
    rng = np.random.default_rng(seed)
    numbers = rng.normal(0, 0.7, len(PARAMETERS))
    inputs = rng.normal(0, 1, INPUTS)
    rows = numbers[:-1].reshape(HIDDEN, INPUTS + 3)
    active = np.tanh(rows[:, :INPUTS] @ inputs + rows[:, INPUTS])
    margin = 0.024 * np.abs(rows[:, -2:]).sum(axis=0)

    gate, score = gate_and_score(numbers, Features(*inputs.tolist()))

    assert abs(gate - (rows[:, -2] @ active + numbers[-1])) <= margin[0]
    assert abs(score - rows[:, -1] @ active) <= margin[1]


# --- files ---------------------------------------------------------------------------------------


def test_the_shipped_weights_are_a_file_of_the_fit() -> None:
    """They can be read as any fitted file, and say what they were fitted to."""
    path = ROOT / "decima" / "heuristics" / "data" / "es_rule.json"
    policy, parameters = read_tuned(path)
    assert policy == "es_rule"
    assert parameters == HEURISTICS["es_rule"].defaults
    content = json.loads(path.read_text())
    assert {setting["protocol"] for setting in content["config"]["settings"]} == {
        "executors",
        "session",
    }
    assert content["training"]["avg_jct_ratio"] < 0.95


def test_weights_of_another_fit_are_not_mixed_with_those_that_ship() -> None:
    """A missing weight is refused; so is one that the rule does not have, without a list of 295."""
    with pytest.raises(PolicyError, match=r"parameter 'rank_0' is missing; its 295 parameters"):
        Heuristic("es_rule", {"work_0": 1.0})
    with pytest.raises(PolicyError, match=r"no parameter 'x' \(it has 295, from 'work_0' to "):
        Heuristic("es_rule", {"x": 1.0})
