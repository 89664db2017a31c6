"""Conditions of a run beside its arrivals: a driver, clients that wait, slots that vary."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from spark_sim import Cluster, Conditions, Protocol, SimulationError, Slots, Status
from spark_sim.observation import Action
from spark_sim.tables import ANY, NONE
from tests.stories import build, job, stage
from traces import Job, LevelDurations, Stage

SESSION = Cluster(num_executors=2, warmup_delay_ms=0.0, protocol=Protocol.SESSION)
APART = Cluster(num_executors=2, warmup_delay_ms=0.0, moving_delay_ms=0.0)


def slots(times_ms: list[float], counts: list[int]) -> Conditions:
    return Conditions(slots=Slots(np.array(times_ms), np.array(counts, np.int64)))


def ends_ms(
    conditions: Conditions, *jobs: Job, arrivals: list[float], cluster: Cluster = SESSION
) -> list[float]:
    """Completion of each job, first come first served."""
    simulator = build(jobs, cluster, arrival_ms=arrivals, conditions=conditions)
    while simulator.status is Status.DECIDE:
        seen = simulator.observation()
        first = int(seen.open_stages()[0])
        simulator.step(Action(first, seen.num_executors, ANY))
    assert simulator.status is Status.DONE
    ends: list[float] = simulator.completion_ms().tolist()
    return ends


@pytest.mark.parametrize("cluster", [SESSION, APART])
def test_a_wait_holds_no_executor(cluster: Cluster) -> None:
    """Job a waits 100 ms before and 50 ms between its stages; b has both executors meanwhile."""
    a = job("a", stage("one", 2, 10), stage("two", 1, 10, parents=[0]))
    b = job("b", stage("only", 4, 40))
    waits = Conditions(wait_ms=np.array([100.0, 50.0, 0.0]))
    assert ends_ms(waits, a, b, arrivals=[0.0, 0.0], cluster=SESSION) == [170.0, 80.0]
    alone = Conditions(wait_ms=np.array([100.0, 50.0]))
    assert ends_ms(alone, a, arrivals=[0.0], cluster=cluster) == [170.0]


@pytest.mark.parametrize("cluster", [SESSION, APART])
def test_a_follower_comes_after_the_end_of_another(cluster: Cluster) -> None:
    """Ten ms after it, whenever that is; two may follow one."""
    jobs = [job(name, stage("s", 2, 30)) for name in "abc"]
    follows = Conditions(follows=np.array([NONE, 0, 0]), lag_ms=np.array([0.0, 10.0, 100.0]))
    assert ends_ms(follows, *jobs, arrivals=[5.0, 6.0, 7.0], cluster=cluster) == [35.0, 75.0, 165.0]


def test_slots_come_and_go() -> None:
    """None until 10 ms, then one, two from 30 ms, one from 45 ms: a busy one goes with its task."""
    varied = slots([0.0, 10.0, 30.0, 45.0], [0, 1, 2, 1])
    tasks = job("a", stage("s", 5, 20))
    # 10-30, then 30-50 twice, then one after the other.
    assert ends_ms(varied, tasks, arrivals=[0.0]) == [90.0]


def test_durations_come_once_each() -> None:
    """However they are drawn, all tasks together take the time of all durations."""
    level = LevelDurations.of(1, rest_ms=[1.0, 2.0, 4.0, 8.0, 16.0])
    jobs = (Job("a", (Stage("s", 5, (), (level,)),)),)
    one = Cluster(num_executors=1, warmup_delay_ms=0.0, protocol=Protocol.SESSION)
    assert ends_ms(Conditions(each_once=True), *jobs, arrivals=[0.0], cluster=one) == [31.0]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Conditions(wait_ms=np.array([1.0])), "1 waits for 2 rows"),
        (lambda: Conditions(wait_ms=np.array([1.0, -1.0])), "waits must be finite and >= 0"),
        (lambda: Conditions(follows=np.array([1, 0]), lag_ms=np.zeros(2)), "in a ring"),
        (lambda: Conditions(follows=np.array([NONE, 7]), lag_ms=np.zeros(2)), "not among the 2"),
        (lambda: Conditions(follows=np.array([NONE, 0])), "0 lags for 2 followed jobs"),
        (lambda: slots([0.0], [1]), "need a session of as many"),
        # A session whose last slots are none would never end.
        (lambda: slots([0.0], [0]), ">= 1 at the end"),
        (lambda: slots([0.0, 1.0], [-1, 1]), "slots must be >= 0"),
        (lambda: slots([1.0, 0.0], [1, 1]), "must not decrease"),
        (lambda: slots([], []), "0 times for 0 slot counts"),
    ],
)
def test_impossible_conditions_are_refused(make: Callable[[], Conditions], words: str) -> None:
    jobs = [job(name, stage("s", 1, 10)) for name in "ab"]
    with pytest.raises(SimulationError, match=words):
        ends_ms(make(), *jobs, arrivals=[0.0, 0.0])
