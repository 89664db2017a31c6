"""Executors of several sizes: tiny clusters solved on paper, and what every policy keeps to."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from decima import EvaluationConfig, Heuristic, evaluate
from decima.errors import PolicyError
from decima.heuristics.graphene_plan import planned_places
from decima.registry import HEURISTICS
from spark_sim import (
    PASS,
    Action,
    Cluster,
    ExecutorClass,
    IllegalActionError,
    Protocol,
    Simulator,
    Status,
)
from spark_sim.metrics import measure
from spark_sim.tables import ANY
from spark_sim.vector import Run, VectorSimulator
from tests.stories import build, job, stage
from tests.workloads import Workload, workloads
from traces import Stage, Trace, to_arrays

SMALL, LARGE = 250.0, 1000.0
S, L = 0, 1
"""rows of the classes"""


def needing(memory_mb: float, made: Stage) -> Stage:
    return replace(made, memory_mb=memory_mb)


def cluster_of(small: int, large: int) -> Cluster:
    """Without delays, so that times are sums of durations."""
    classes = (ExecutorClass(small, memory_mb=SMALL), ExecutorClass(large, memory_mb=LARGE))
    return Cluster(
        num_executors=small + large, moving_delay_ms=0.0, warmup_delay_ms=0.0, classes=classes
    )


def jct_s(simulator: Simulator) -> list[float]:
    assert simulator.status is Status.DONE
    return [float(jct_s) for jct_s in measure(simulator.state).jct_s]


LITTLE = job("little", needing(SMALL, stage("a", 2, 10_000)))
BIG = job("big", needing(LARGE, stage("a", 1, 10_000)))


# --- solved on paper -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "little_s", "big_s"),
    [
        ("fifo", 10.0, 20.0),  # both executors go to the first; the big job waits for the large one
        ("tetris", 20.0, 10.0),  # the big task fills the large executor, so it goes there first
    ],
)
def test_who_gets_the_large_executor_decides(policy: str, little_s: float, big_s: float) -> None:
    """Two little tasks and a big one on one executor of each class: 30 s to share out."""
    simulator = build([LITTLE, BIG], cluster_of(1, 1))
    Heuristic(policy, {"work_weight": 0.0} if policy == "tetris" else None).play(simulator)
    assert jct_s(simulator) == [little_s, big_s]


def test_a_policy_may_name_the_class() -> None:
    """The large one, though the small one would do; then the small one for the rest."""
    simulator = build([LITTLE], cluster_of(1, 1))
    seen = simulator.observation()
    assert seen.classes["on_offer"].tolist() == [1, 1]
    assert seen.legal_kinds(0) == [S, L]
    assert simulator.step(Action(0, 2, L)) is Status.DECIDE, "the stage may be chosen again"
    seen = simulator.observation()
    assert seen.classes["on_offer"].tolist() == [1, 0]
    assert seen.legal_kinds(0) == [S]
    with pytest.raises(IllegalActionError, match=r"class 1 is not on offer .* classes are \[0\]"):
        simulator.step(Action(0, 2, L))
    simulator.step(Action(0, 2, S))
    assert simulator.timeline()["executor"].tolist() == [1, 0]


def test_promises_keep_the_class() -> None:
    """When the first of three tasks ends, the large executor, still busy, is promised to the big
    job; the second small one ends before it and must not go in its place.
    """
    three = job("three", needing(SMALL, stage("a", 3, 10_000)))
    simulator = build([three, BIG], cluster_of(2, 1), arrival_ms=[0.0, 1_000.0])
    Heuristic("fifo").play(simulator)
    assert jct_s(simulator) == [10.0, 19.0]
    assert simulator.timeline()["executor"].tolist() == [0, 1, 2, 2]


# The first stage runs three tasks on two small executors: at 10 s one of them is free, the other
# begins the last task, which ends at 20 s.
TWO_PARTS = job(
    "two parts", needing(SMALL, stage("a", 3, 10_000)), needing(LARGE, stage("b", 2, 30_000))
)


def test_last_tasks_count_against_a_limit_until_they_end() -> None:
    """Under a limit of 2 the other part gets one large executor at 10 s, the second at 20 s."""
    simulator = build([TWO_PARTS], cluster_of(2, 2))
    simulator.step(Action(0, 2))
    simulator.step(PASS)
    for time_ms, starts_ms in ((10_000.0, [10_000.0]), (20_000.0, [10_000.0, 20_000.0])):
        assert simulator.time_ms == time_ms
        assert simulator.observation().open_stages().tolist() == [1]
        simulator.step(Action(1, 2))
        timeline = simulator.timeline()
        assert timeline["start_ms"][timeline["stage"] == 1].tolist() == starts_ms
    assert jct_s(simulator) == [50.0]


def test_what_large_executors_waste_is_counted_by_class() -> None:
    """A task of 250 MB on an executor of 1,000 leaves 750 idle for its 10 s."""
    simulator = build([LITTLE], cluster_of(1, 1))
    Heuristic("fifo").play(simulator)
    metrics = measure(simulator.state)
    assert [kind.busy_s for kind in metrics.classes] == [10.0, 10.0]
    assert [figures.idle_memory_share for figures in metrics.classes] == [0.0, 0.75]
    assert measure(build([LITTLE], Cluster()).state).classes == ()


# --- a rule that chooses classes ----------------------------------------------------------------


@pytest.mark.parametrize(("large_first", "big_s"), [(0.0, 10.0), (0.9, 10.0), (1.1, 18.0)])
def test_small_executors_first_or_large_ones(large_first: float, big_s: float) -> None:
    """A task of 10 s that fits both, then at 2 s one that only the large executor can hold: it
    starts at once, or waits until that is free. The only job in the system has the work that is
    typical of a job: less than 1.1 times it.
    """
    either = job("either", needing(SMALL, stage("a", 1, 10_000)))
    simulator = build([either, BIG], cluster_of(1, 1), arrival_ms=[0.0, 2_000.0])
    Heuristic("es_classes", {**ES_CLASSES, "large_first": large_first}).play(simulator)
    assert jct_s(simulator)[1] == big_s


def test_the_makespan_has_a_rule_of_its_own() -> None:
    """Below strict fair and what is fitted to average JCT, with classes and without."""
    for classes in ("0.25x5,0.5x5,0.75x5,1x5", None):
        names = ("strict_fair", "es_classes", "es_makespan")
        config = EvaluationConfig(
            executors=20, arrivals="batch", jobs=10, sequences=4, policies=names, seed=3,
            classes=classes, demands="drawn" if classes else "trace",
        )  # fmt: skip
        policies = evaluate(config).policies
        makespan_s = {name: float(policies[name].makespan_s.mean()) for name in names}
        assert makespan_s["es_makespan"] < min(makespan_s["strict_fair"], makespan_s["es_classes"])


ES_CLASSES = HEURISTICS["es_classes"].defaults

# --- Graphene's plan -----------------------------------------------------------------------------

TROUBLED = job(
    "troubled",
    needing(SMALL, stage("wide", 3, 4_000)),
    needing(SMALL, stage("last", 1, 1_000, [0])),
    needing(LARGE, stage("hard", 2, 4_000)),
)
"""On two small executors and a large one. By critical path: wide takes all three, then hard has
the large one from 4 to 12 s. Hard first: it is done at 8 s, wide at 8, last at 9."""


def test_graphene_packs_around_the_stage_that_few_executors_hold() -> None:
    """9 s where the critical path first takes 12."""
    cluster = cluster_of(2, 1)
    by_path = build([TROUBLED], cluster)
    Heuristic("fifo").play(by_path)
    assert jct_s(by_path) == [12.0]
    planned = build([TROUBLED], cluster)
    places = planned_places(planned.state.trace, planned.state.classes)
    assert places[2] < places[0] < places[1]
    Heuristic("graphene", {"factor": 10.0}).play(planned)
    assert jct_s(planned) == [9.0]


def test_a_plan_follows_the_trace() -> None:
    """Another trace, another plan; without any it says so."""
    runs = [build(jobs, cluster_of(2, 1)) for jobs in ([TROUBLED], [LITTLE, TROUBLED])]
    policy = Heuristic("graphene")
    with pytest.raises(PolicyError, match="'graphene' plans jobs ahead and was given no trace"):
        policy.decide(runs[0].observation())
    for simulator in runs:
        fresh = Heuristic("graphene", trace=simulator.state.trace)
        plan = policy.on(simulator.state.trace).decide(simulator.observation())
        assert plan == fresh.decide(simulator.observation())
    assert Heuristic("fifo").on(runs[0].state.trace).name == "fifo"


# --- what holds for all --------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["fifo", "sjf_cp", "spark_fair", "tetris"])
@given(workload=workloads(Protocol.EXECUTORS))
@settings(max_examples=10)
def test_work_conserving_baselines_leave_no_fitting_executor_idle(
    policy: str, workload: Workload
) -> None:
    """They never pass while a stage may be chosen, and none may be that nothing on offer holds."""
    simulator = workload.simulator()
    heuristic = Heuristic(policy)
    while simulator.status is Status.DECIDE:
        seen = simulator.observation()
        action = heuristic.decide(seen)
        assert action.stage != ANY
        assert len(seen.legal_kinds(action.stage)) > 0
        simulator.step(action)


def test_an_illegal_class_is_named_by_the_vector_simulator() -> None:
    trace = Trace("t", (BIG,))
    run = Run(np.zeros(1), np.zeros(1, np.int32))
    together = VectorSimulator(to_arrays(trace), cluster_of(1, 1), [run])
    for kind in (S, 2, 7):
        with pytest.raises(IllegalActionError, match=f"executor class {kind} is not on offer"):
            together.step(*(np.array([part], np.int32) for part in (0, 1, kind)))
    together.step(*(np.array([part], np.int32) for part in (0, 1, L)))
    assert not together.alive.any()
