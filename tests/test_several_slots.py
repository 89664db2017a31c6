"""Tasks that take several slots of one executor, and barrier stages, in the simulator."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from decima.evaluation.runner import play
from decima.policies import policy_named
from spark_sim import (
    Allocation,
    Cluster,
    Conditions,
    Protocol,
    SimulationError,
    Simulator,
    Slots,
    Status,
)
from spark_sim.needs import neediest_stage
from tests.commands import Command, refused
from tests.stories import build, job, stage
from traces import Job, Stage, Trace, TraceError, to_arrays
from traces.parquet import write_trace
from traces.plain import read_csv, read_json

EACH = 4
"""slots of each executor"""


def wide(name: str, tasks: int, task_ms: float, slots: int) -> Stage:
    return replace(stage(name, tasks, task_ms), slots=slots)


def barrier(name: str, tasks: int, task_ms: float, slots: int = 1) -> Stage:
    return replace(stage(name, tasks, task_ms), slots=slots, barrier=True)


def played(
    jobs: list[Job],
    arrivals: list[float],
    slots: int,
    policy: str = "fifo",
    *,
    curve: Slots | None = None,
    allocation: Allocation | None = None,
    each: int = EACH,
) -> Simulator:
    conditions = Conditions(slots=curve, allocation=allocation, slots_each=each)
    cluster = Cluster(num_executors=slots, warmup_delay_ms=0.0, protocol=Protocol.SESSION)
    simulator = build(jobs, cluster, arrival_ms=arrivals, conditions=conditions)
    play(simulator, policy_named(policy, simulator.state.trace, key=3))
    assert simulator.status is Status.DONE
    return simulator


def ends_ms(jobs: list[Job], arrivals: list[float]) -> list[float]:
    ends: list[float] = played(jobs, arrivals, 8).completion_ms().tolist()
    return ends


def test_a_task_takes_slots_of_one_executor() -> None:
    """Tasks spread over both executors. Each has one free slot at 1 ms, two at 4 ms, all at 10 ms:
    a task of four slots waits until then, one of two until 4 ms.
    """
    narrow = [job("a", stage("s", 2, 10)), job("b", stage("s", 2, 4)), job("c", stage("s", 2, 10))]
    jobs = [*narrow, job("wide", wide("s", 1, 3, slots=4))]
    assert ends_ms(jobs, [0, 0, 0, 1]) == [10, 4, 10, 13]
    jobs[3] = job("wide", wide("s", 1, 3, slots=2))
    assert ends_ms(jobs, [0, 0, 0, 1]) == [10, 4, 10, 7]


def test_tasks_of_several_slots_run_as_many_as_fit() -> None:
    """Three of four slots: one fits on each executor, and leaves a slot for others."""
    jobs = [job("wide", wide("s", 4, 10, slots=3)), job("narrow", stage("s", 2, 5))]
    assert ends_ms(jobs, [0, 1]) == [20, 6]


def test_a_barrier_stage_waits_for_all_of_its_slots() -> None:
    """One slot is free at 1 ms; what comes later passes over the stage, as in Spark."""
    jobs = [job("a", stage("s", 3, 10)), job("b", barrier("s", 2, 1)), job("c", stage("s", 1, 1))]
    simulator = played(jobs, [0, 1, 2], slots=4)
    assert simulator.completion_ms().tolist() == [10, 11, 3]
    tasks = simulator.timeline()
    assert tasks["start_ms"][tasks["job"] == 1].tolist() == [10, 10]


def test_slots_that_come_and_go_leave_executors_whole() -> None:
    """From 5 ms on there is one executor, from 20 ms on two: the second task waits till 10 ms."""
    slots = Slots(np.array([0.0, 5.0, 20.0]), np.array([8, 4, 8]))
    jobs = [job("a", wide("s", 2, 10, slots=4)), job("b", wide("s", 3, 10, slots=4))]
    ends = played(jobs, [0, 6], 8, curve=slots).completion_ms().tolist()
    assert ends == [10, 30]


POLICIES = ("fifo", "strict_fair", "spark_fair", "tuned_srw", "es_rule", "random", "decima")


def test_dynamic_allocation_requests_executors_for_what_fits_on_one() -> None:
    """Tasks of 5 slots run one on each executor of 8: eight of them need eight executors at once.

    By slots alone, 40 of them, five executors would be requested, and three tasks would wait.
    """
    rules = Allocation(slots_each=8, least=0, most=8, first=0, present=0)
    jobs = [job("j", wide("w", 8, 100_000.0, 5))]
    assert played(jobs, [0.0], 64, allocation=rules, each=8).completion_ms()[0] < 150_000.0


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("seed", range(2))
def test_no_executor_runs_more_than_fits(policy: str, seed: int) -> None:
    """Twenty random jobs: every task runs once, those of a barrier at once, no slot has two."""
    rng = np.random.default_rng(seed)
    jobs = []
    for number in range(20):
        stages = [
            replace(
                stage(f"s{place}", int(rng.integers(1, 7)), float(rng.integers(1, 9)), parents),
                slots=int(rng.integers(1, EACH + 1)),
                barrier=False,
            )
            for place, parents in enumerate(([], [0], [0]))
        ]
        tight = replace(stages[2], slots=int(rng.integers(1, 3)), barrier=True)
        jobs.append(job(f"j{number}", stages[0], stages[1], tight))
    simulator = played(jobs, np.sort(rng.integers(0, 200, 20)).tolist(), 16, policy)
    tasks, stages_of_run = simulator.timeline(), simulator.state.stages
    assert len(tasks) == sum(needed.num_tasks for needed in jobs)
    slots = stages_of_run["slots"][tasks["stage"]].astype(np.int64)
    for executor in range(16 // EACH):
        rows = tasks["executor"] // EACH == executor
        times = np.concatenate([tasks["start_ms"][rows], tasks["finish_ms"][rows]])
        change = np.concatenate([slots[rows], -slots[rows]])
        order = np.lexsort((change, times))  # ends before starts
        assert change[order].cumsum().max() <= EACH
    for row in np.flatnonzero(stages_of_run["barrier"]):
        assert len(set(tasks["start_ms"][tasks["stage"] == row])) == 1
    spent_ms = (slots * (tasks["finish_ms"] - tasks["start_ms"])).sum()
    assert simulator.state.clock["busy_ms"][0] == pytest.approx(spent_ms)
    idle = simulator.state.executors["idle"]
    assert not idle.any()


@pytest.mark.parametrize(
    ("special", "words"),
    [
        (wide("s", 2, 1, slots=5), "5 slots"),
        (barrier("s", 9, 1), "9 tasks"),
        (barrier("s", 3, 1, slots=3), "3 tasks"),
    ],
)
def test_what_has_no_room_is_impossible(special: Stage, words: str) -> None:
    with pytest.raises(SimulationError, match=f"impossible on 8 slots.*{words}"):
        played([job("a", special)], [0], 8)


def test_the_number_of_slots_that_the_neediest_stage_needs() -> None:
    jobs = (job("a", stage("s", 50, 1)), job("b", barrier("s", 5, 1, slots=2), wide("t", 9, 1, 3)))
    neediest = neediest_stage(to_arrays(Trace("made", jobs)), EACH)
    assert neediest is not None
    # Two fit on each executor, and the fifth takes half a third one.
    assert (neediest.stage, neediest.tasks, neediest.slots) == (1, 5, 10)
    assert neediest_stage(to_arrays(Trace("plain", jobs[:1])), EACH) is None


def test_spark_runs_no_barrier_stage_under_dynamic_allocation() -> None:
    rules = Allocation(EACH, least=0, most=2, first=2, present=2)
    with pytest.raises(SimulationError, match="dynamic allocation"):
        played([job("a", barrier("s", 2, 1))], [0], 8, allocation=rules)


SPECIAL = Trace(
    "special", (job("a", stage("s", 1, 5)), job("b", wide("t", 2, 5, 4), barrier("u", 3, 1)))
)


@pytest.mark.parametrize("protocol", ["executors", "decima-sim"])
def test_other_protocols_refuse_them(run: Command, tmp_path: Path, protocol: str) -> None:
    write_trace(SPECIAL, tmp_path / "special.parquet")
    arguments = ("--trace", str(tmp_path / "special.parquet"), "--protocol", protocol)
    refused(run(*arguments, "--policies", "fifo"), "'b'", "'t'", "4 slots", protocol)
    session = (*arguments[:-1], "session", "--policies", "fifo,strict_fair")
    assert run(*session).exit_code == 0


def needs(trace: Trace) -> list[tuple[int, bool]]:
    return [(stage.slots, stage.barrier) for job in trace.jobs for stage in job.stages]


def test_hand_written_traces_may_name_them(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(
        "job,stage,num_tasks,task_ms,slots,barrier\na,s,2,5,4,\na,t,2,5,,true\n"
    )
    assert needs(read_csv(tmp_path / "a.csv")) == [(4, False), (1, True)]
    (tmp_path / "a.json").write_text(
        '{"jobs": [{"name": "a", "stages": ['
        '{"name": "s", "num_tasks": 2, "task_ms": 5, "slots": 4, "barrier": true}]}]}'
    )
    assert needs(read_json(tmp_path / "a.json")) == [(4, True)]


@pytest.mark.parametrize(
    ("slots", "barrier", "words"),
    [("0", "true", "0 slots"), ("1.5", "", "slots '1.5'"), ("1", "yes", "barrier 'yes'")],
)
def test_needs_that_are_none_are_refused(
    tmp_path: Path, slots: str, barrier: str, words: str
) -> None:
    (tmp_path / "a.csv").write_text(
        f"job,stage,num_tasks,task_ms,slots,barrier\na,s,2,5,{slots},{barrier}\n"
    )
    with pytest.raises(TraceError, match=words):
        read_csv(tmp_path / "a.csv")
