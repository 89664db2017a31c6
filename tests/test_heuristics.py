"""The baselines: one contract over all of them, and a story for what each stands for."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.golden import load_jobs
from benchmarks.golden_policies import fair
from decima import HEURISTICS, Heuristic, PolicyError
from decima.heuristics import run as compiled
from spark_sim import Cluster, IllegalActionError, Protocol, Simulator, Status
from spark_sim.tables import ANY, ANY_LIMIT, ILLEGAL
from tests.stories import build, job, stage, tell
from tests.workloads import Workload, workloads
from traces import Job, Stage


def crowded(protocol: Protocol, executors: int, name: str = "fifo") -> Simulator:
    """Sixty small jobs that arrive faster than thirty executors serve them, then more slowly."""
    rng = np.random.default_rng(5)
    jobs = []
    for number in range(60):
        stages: list[Stage] = []
        for index in range(int(rng.integers(1, 6))):
            parents = [index - 1] if index and rng.random() < 0.7 else []
            tasks, task_ms = int(rng.integers(1, 30)), float(rng.integers(50, 3000))
            stages.append(Stage.fixed(f"s{index}", tasks, task_ms, parents))
        jobs.append(Job(f"j{number}", tuple(stages)))
    gaps_ms = np.concatenate([rng.exponential(200.0, 40), rng.exponential(4000.0, 20)])
    ask_while_idle = not HEURISTICS[name].idle_insensitive  # as it is played at once
    cluster = Cluster(num_executors=executors, protocol=protocol, ask_while_idle=ask_while_idle)
    return build(jobs, cluster, arrival_ms=gaps_ms.cumsum().tolist())


CROWDED = [
    *((name, protocol, 30) for name in HEURISTICS for protocol in Protocol),
    *(
        (name, Protocol.SESSION, 120)
        for name, spec in HEURISTICS.items()
        if spec.limits != ANY_LIMIT or name in ("es_rule", "es_makespan")
    ),
]


@pytest.mark.parametrize(("name", "protocol", "executors"), CROWDED)
def test_every_heuristic_keeps_the_contract(name: str, protocol: Protocol, executors: int) -> None:
    """Legal choices, every job complete, and the same whether it is asked choice by choice, about
    all jobs, or plays at once: with what a round stores and, in a session, asking only about jobs
    that changed, also with slots left over. Another key changes `random` alone.
    """
    stepped, played, other = (crowded(protocol, executors, name) for _ in range(3))
    policy = Heuristic(name, key=5, trace=stepped.state.trace)
    while stepped.status is Status.DECIDE:
        stepped.step(policy.decide(stepped.observation()))  # raises on an illegal choice
    Heuristic(name, key=5).play(played)
    Heuristic(name, key=2).play(other, timed=True)

    assert policy.name == name
    assert stepped.status is played.status is Status.DONE
    assert policy.play(stepped) == 0.0, "nothing is left to decide"
    assert not np.isnan(stepped.completion_ms()).any()
    assert stepped.timeline().tobytes() == played.timeline().tobytes()
    assert stepped.state.clock.tobytes() == played.state.clock.tobytes()
    assert (other.timeline().tobytes() != played.timeline().tobytes()) == (name == "random")


# --- what each stands for ------------------------------------------------------------------------


def test_fifo_serves_jobs_by_arrival_each_with_all_it_can_use() -> None:
    """Four executors: a takes its three, b the one that is left, c waits for both."""
    jobs = [job(name, stage("x", 3, 1000)) for name in "abc"]
    story = tell(jobs, "fifo", executors=4)

    assert story.tasks[:4] == [
        "e0 a.x 2000-3000",
        "e1 a.x 2000-3000",
        "e2 a.x 2000-3000",
        "e3 b.x 2000-3000",
    ]
    assert story.completed["a"] < story.completed["b"] < story.completed["c"]


def test_sjf_goes_by_total_and_srw_by_remaining_work() -> None:
    """When x ends at 4 s, a has 2 of its 6 s left; b, there since 3.5 s, takes 3 s."""
    jobs = [job("a", stage("x", 4, 1000), stage("y", 2, 1000, [0])), job("b", stage("z", 3, 1000))]
    by_total, by_remaining = (
        tell(jobs, name, arrival_ms=[0, 3500], moving_delay_ms=0)
        for name in ("sjf_cp", "tuned_srw")
    )
    assert by_total.completed == {"a": 9000.0, "b": 7000.0}
    assert by_remaining.completed == {"a": 6000.0, "b": 9000.0}


def test_sjf_follows_the_critical_path_inside_the_job() -> None:
    """Three roots: the one with the longest way to the end first, not the longest task."""
    a = job(
        "a",
        stage("short", 1, 100),
        stage("long", 1, 900),
        stage("head", 1, 300),
        stage("tail", 1, 800, [2]),
    )
    story = tell([a], "sjf_cp", moving_delay_ms=0)
    assert [line.split()[1] for line in story.tasks] == ["a.head", "a.long", "a.tail", "a.short"]


def test_strict_fair_caps_every_job_at_its_share() -> None:
    """Three jobs on eight executors: 3, 3 and the 2 left, never more while all are there."""
    jobs = [job(name, stage("x", 20, 1000)) for name in "abc"]
    story = tell(jobs, "strict_fair", executors=8, time_limit_ms=6000)

    record = story.simulator.timeline()
    for instant_ms in range(2500, 6000, 500):
        runs = (record["start_ms"] <= instant_ms) & (instant_ms < record["finish_ms"])
        assert np.bincount(record["job"][runs]).tolist() == [3, 3, 2]


def test_strict_fair_leaves_executors_idle_rather_than_exceed_the_share() -> None:
    """b can use one of its two; the fourth executor stays idle, unlike under `spark_fair`."""
    jobs = [job("a", stage("x", 9, 1000)), job("b", stage("z", 1, 5000))]
    strict, spark = (
        tell(jobs, name, executors=4, time_limit_ms=2500) for name in ("strict_fair", "spark_fair")
    )
    assert len(strict.tasks) == 3
    assert len(spark.tasks) == 4


def test_sticky_fair_keeps_what_a_stage_releases() -> None:
    """a had all four; when b comes and x ends, a keeps them for y, strict fair gives two away."""
    jobs = [job("a", stage("x", 4, 3000), stage("y", 4, 3000, [0])), job("b", stage("z", 4, 3000))]
    sticky, strict = (
        tell(jobs, name, executors=4, arrival_ms=[0, 3000])
        for name in ("sticky_fair", "strict_fair")
    )
    assert sum("a.y 5000-8000" in line for line in sticky.tasks) == 4
    assert sum("a.y 5000-8000" in line for line in strict.tasks) == 2
    assert sum("b.z 7000-10000" in line for line in strict.tasks) == 2


@given(
    executors=st.integers(1, 30),
    demands=st.lists(st.integers(1, 20), min_size=1, max_size=6),
    protocol=st.sampled_from([Protocol.EXECUTORS, Protocol.SESSION]),
)
@settings(max_examples=60)
def test_spark_fair_shares_are_max_min(
    executors: int, demands: list[int], protocol: Protocol
) -> None:
    """Each slot in turn to the job with the fewest that wants more: the same shares.

    Which of two equal jobs gets the odd one is left open.
    """
    jobs = [job(f"j{index}", stage("x", count, 5000)) for index, count in enumerate(demands)]
    story = tell(jobs, "spark_fair", executors=executors, time_limit_ms=2500, protocol=protocol)
    started = np.bincount(story.simulator.timeline()["job"], minlength=len(jobs)).tolist()
    assert sorted(started) == sorted(_water_filling(executors, demands))
    assert all(count <= want for count, want in zip(started, demands, strict=True))


def _water_filling(executors: int, demands: list[int]) -> list[int]:
    given_out = [0] * len(demands)
    for _ in range(min(executors, sum(demands))):
        wanting = [row for row, want in enumerate(demands) if given_out[row] < want]
        given_out[min(wanting, key=lambda row: given_out[row])] += 1
    return given_out


def test_spark_fair_evens_out_what_jobs_hold_already() -> None:
    """a holds four of six when b and c come; the two that are free go to b and c, one each."""
    jobs = [job("a", stage("x", 4, 9000))] + [job(name, stage("z", 6, 9000)) for name in "bc"]
    story = tell(jobs, "spark_fair", executors=6, arrival_ms=[0, 3000, 3000], time_limit_ms=9000)
    assert sorted(line.split()[1] for line in story.tasks[4:]) == ["b.z", "c.z"]


@pytest.mark.parametrize(
    ("policy", "parameters", "shares"),
    [
        # alpha = 1: 10 s against 30 s of work
        ("weighted_fair", {}, [3, 9]),
        ("weighted_fair", {"alpha": -1.0}, [9, 3]),
        ("weighted_fair", {"alpha": 0.0}, [6, 6]),
        ("weighted_fair", {"alpha": 1.0, "limit_factor": 2 / 3}, [2, 6]),
        # 1.2 and 10.8, rounded up; the first comes first
        ("weighted_fair", {"alpha": 2.0}, [2, 10]),
        # l_i = ceil(c N J^-q (R_i / mean R)^p) with N = 12, J = 2, R = 10 and 30, mean 20
        ("tuned_srw", {"factor": 1.0, "jobs_power": 1.0, "work_power": 0.0}, [6, 6]),
        ("tuned_srw", {"factor": 1.0, "jobs_power": 1.0, "work_power": 1.0}, [3, 9]),
        ("tuned_srw", {"factor": 0.5, "jobs_power": 1.0, "work_power": 0.0}, [3, 3]),
        ("tuned_srw", {"factor": 0.75, "jobs_power": 0.0, "work_power": 0.0}, [9, 3]),
        ("tuned_srw", {"factor": 1.0, "jobs_power": 1.0, "work_power": -1.0}, [12, 0]),
    ],
)
def test_limits_follow_the_formula_of_the_heuristic(
    policy: str, parameters: dict[str, float], shares: list[int]
) -> None:
    """Two jobs with 20 tasks each, of 0.5 s and of 1.5 s, on twelve executors."""
    jobs = [job("a", stage("x", 20, 500)), job("b", stage("x", 20, 1500))]
    simulator = build(jobs, Cluster(num_executors=12, time_limit_ms=2100))
    Heuristic(policy, parameters).play(simulator)
    assert np.bincount(simulator.timeline()["job"], minlength=2).tolist() == shares


def test_random_draws_every_stage_and_every_limit_alike() -> None:
    """Three open stages and limits 1 to 4, 3,000 draws: each within 20 % of its share."""
    jobs = [job("a", stage("x", 9, 1000), stage("w", 9, 1000)), job("b", stage("z", 9, 1000))]
    simulator = build(jobs, Cluster(num_executors=4))
    policy = Heuristic("random", key=3)
    drawn = [policy.decide(simulator.observation()) for _ in range(3000)]
    for values, kinds in (([a.stage for a in drawn], 3), ([a.limit - 1 for a in drawn], 4)):
        counts = np.bincount(values, minlength=kinds)
        assert len(counts) == kinds
        assert counts == pytest.approx(np.full(kinds, 3000 / kinds), rel=0.2)


# --- against the original ------------------------------------------------------------------------


def test_sticky_fair_decides_as_the_original_did(golden_file: Path) -> None:
    """Every recorded run of decima-sim's `fair`, and in each the same tasks in the same order."""
    content = json.loads(golden_file.read_text())
    trace, arrival_ms = load_jobs(content["jobs"])
    order = np.argsort(arrival_ms, kind="stable").astype(np.int32)
    runs = [run["settings"] for run in content["runs"] if run["settings"]["policy"] == "fair"]
    assert {run["num_executors"] for run in runs} == {5, 10, 50}
    for setting in runs:
        cluster = Cluster(
            num_executors=setting["num_executors"],
            moving_delay_ms=setting["moving_delay_ms"],
            warmup_delay_ms=setting["warmup_delay_ms"],
            protocol=Protocol.DECIMA_SIM,
        )
        ours, golden = (
            Simulator(trace, cluster, arrival_ms[order], order, timeline=True) for _ in range(2)
        )
        Heuristic("sticky_fair").play(ours)
        while golden.status is Status.DECIDE:
            golden.commit(*fair(golden.observation()))
        assert ours.timeline().tobytes() == golden.timeline().tobytes()


# --- parameters ----------------------------------------------------------------------------------


def test_unknown_policies_and_parameters_are_refused() -> None:
    """One line that names the value and what there is."""
    with pytest.raises(PolicyError, match=r"unknown policy 'fastest'; there are fifo, sjf_cp"):
        Heuristic("fastest")
    with pytest.raises(PolicyError, match=r"'fifo' has no parameter 'alpha' \(it has none\)"):
        Heuristic("fifo", {"alpha": 1.0})
    with pytest.raises(PolicyError, match=r"'weighted_fair': alpha must be finite, got nan"):
        Heuristic("weighted_fair", {"alpha": float("nan")})


def test_an_illegal_choice_of_a_compiled_heuristic_names_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Should a heuristic ever break a rule, the error says which one, and which rule."""

    monkeypatch.setattr(compiled, "run", lambda *_arguments: (ILLEGAL, 0))
    monkeypatch.setattr(compiled, "decide", lambda *_arguments: (0, 99, ANY))
    simulator = build([job("a", stage("x", 1, 1000))], Cluster(num_executors=2))

    with pytest.raises(IllegalActionError, match=r"^policy 'fifo': stage 0: limit 99 must lie in"):
        Heuristic("fifo").play(simulator)


@pytest.mark.parametrize(
    "name", [name for name, spec in HEURISTICS.items() if spec.idle_insensitive]
)
@given(workload=workloads(Protocol.SESSION))
@settings(max_examples=10)
def test_asking_less_often_changes_no_task_where_that_is_said(
    name: str, workload: Workload
) -> None:
    """Choice by choice each is asked at every task end beside an idle slot, played at once seldom:
    the tasks are the same, bit for bit."""
    often, seldom = workload.simulator(), workload.simulator()
    policy = Heuristic(name)
    while often.status is Status.DECIDE:
        often.step(policy.decide(often.observation()))
    policy.play(seldom)

    assert often.timeline().tobytes() == seldom.timeline().tobytes()
    assert seldom.state.clock[0]["rounds"] <= often.state.clock[0]["rounds"]
