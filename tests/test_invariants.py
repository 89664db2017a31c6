"""What holds in every run: any jobs, any cluster, any protocol, any policy."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from spark_sim import Action, Observation, Protocol, Simulator, Status
from spark_sim.kernels import dispatch
from spark_sim.metrics import measure
from spark_sim.tables import ANY, DECIDE, DONE, NONE, RUNNING, State, Table
from tests.recount import check_executors_protocol, check_session_protocol, promises_of
from tests.workloads import Arbitrary, Capped, Workload, most_at_once, workloads

PROPERTY = settings(
    max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
CHECKS = {Protocol.EXECUTORS: check_executors_protocol, Protocol.SESSION: check_session_protocol}


def played(workload: Workload, policy_seed: int = 0) -> Simulator:
    """The run at its end, under an arbitrary policy; time never goes back on the way."""
    simulator = workload.simulator()
    policy = Arbitrary(policy_seed)
    times_ms = [simulator.time_ms]
    while simulator.status is Status.DECIDE:
        simulator.step(policy.decide(simulator.observation()))
        times_ms.append(simulator.time_ms)
    assert times_ms == sorted(times_ms)
    assert (np.diff(simulator.timeline()["start_ms"]) >= 0).all()
    return simulator


def ended_whole(simulator: Simulator) -> bool:
    """decima-sim's rules may end in a deadlock under a policy that passes; others never do."""
    if simulator.cluster.protocol is not Protocol.DECIMA_SIM:
        assert simulator.status is Status.DONE
    return simulator.status is Status.DONE


@given(workloads(), st.integers(0, 9))
@PROPERTY
def test_a_run_keeps_the_rules(workload: Workload, seed: int) -> None:
    """Of tasks, stages, executors, durations and time."""
    simulator = played(workload, seed)
    check_tasks_run_once(workload, simulator)
    check_parents_come_first(workload, simulator)
    check_executors_run_one_task_and_move(workload, simulator)
    check_durations_are_samples_of_the_wave(workload, simulator)
    check_executor_time_adds_up(workload, simulator)
    check_tasks_fit_their_executors(workload, simulator)


def check_tasks_run_once(workload: Workload, simulator: Simulator) -> None:
    """No task is lost and none runs twice; the jobs complete with their last task."""
    record = simulator.timeline()
    started = sorted(zip(record["stage"].tolist(), record["task"].tolist(), strict=True))
    assert len(set(started)) == len(started)
    if not ended_whole(simulator):
        return
    tasks = simulator.state.stages["num_tasks"]
    assert started == [(stage, task) for stage, count in enumerate(tasks) for task in range(count)]
    for number, completion in enumerate(simulator.completion_ms()):
        assert completion == record["finish_ms"][record["job"] == number].max()
    assert measure(simulator.state).task_events == tasks.sum()


def check_parents_come_first(workload: Workload, simulator: Simulator) -> None:
    """And no task starts before its job has arrived."""
    record, jobs = simulator.timeline(), simulator.state.jobs
    assert (record["start_ms"] >= jobs["arrival_ms"][record["job"]]).all()
    for number, job in enumerate(workload.trace.jobs):
        first = int(jobs["first_stage"][number])
        for index, stage in enumerate(job.stages):
            starts = record["start_ms"][record["stage"] == first + index]
            for parent in stage.parents:
                ends = record["finish_ms"][record["stage"] == first + parent]
                assert len(starts) == 0 or starts.min() >= ends.max()


def check_executors_run_one_task_and_move(workload: Workload, simulator: Simulator) -> None:
    """Its tasks do not overlap, and a change of job costs the moving delay (not in a session)."""
    in_session = workload.cluster.protocol is Protocol.SESSION
    delay_ms = 0.0 if in_session else workload.cluster.moving_delay_ms
    before: dict[int, tuple[int, float]] = defaultdict(lambda: (NONE, 0.0))
    for row in simulator.timeline():
        job, free_ms = before[int(row["executor"])]
        assert row["start_ms"] >= free_ms + (delay_ms if row["job"] != job else 0.0)
        before[int(row["executor"])] = int(row["job"]), float(row["finish_ms"])
    assert all(0 <= number < workload.cluster.num_executors for number in before)


def check_durations_are_samples_of_the_wave(workload: Workload, simulator: Simulator) -> None:
    """Rest only after the same stage, first only in the same job; a warm-up only where fresh."""
    stages = [stage for job in workload.trace.jobs for stage in job.stages]
    last: dict[int, tuple[int, int]] = {}
    for row in simulator.timeline():
        job, stage = last.get(int(row["executor"]), (NONE, NONE))
        same_stage = stage == row["stage"]
        warm = job == row["job"] or (workload.cluster.protocol is Protocol.SESSION and job != NONE)
        allowed = set()
        for level in stages[row["stage"]].durations:
            fresh, first, rest = (values.tolist() for values in level.waves)
            warmup = workload.cluster.warmup_delay_ms
            # A warm one may have left the job and come back, which the timeline does not show.
            allowed |= set(fresh) or {value + warmup for value in first}
            if warm and not same_stage:
                allowed |= set(first or fresh or rest)
            if same_stage:
                allowed |= set(rest or first or fresh)
        assert row["finish_ms"] - row["start_ms"] in allowed
        last[int(row["executor"])] = int(row["job"]), int(row["stage"])


def check_executor_time_adds_up(workload: Workload, simulator: Simulator) -> None:
    """Busy is the sum over the timeline; busy, moving and idle fill N x makespan; none is < 0."""
    record, metrics = simulator.timeline(), measure(simulator.state)
    # Little: the integral of the number of jobs is the sum of their times in the system.
    integral = metrics.mean_jobs_in_system * metrics.makespan_s
    assert integral == pytest.approx(metrics.jct_s.sum())
    if not ended_whole(simulator):
        return
    total_s = workload.cluster.num_executors * metrics.makespan_s
    spent = (metrics.busy_executor_s, metrics.moving_executor_s, metrics.idle_executor_s)
    assert sum(spent) == pytest.approx(total_s)
    assert min(spent) >= -1e-9
    assert spent[0] == pytest.approx((record["finish_ms"] - record["start_ms"]).sum() / 1000)
    assert 0 < metrics.utilisation <= 1
    # Executors still on their way to a job that has ended do not prolong the run.
    assert metrics.makespan_s == pytest.approx(simulator.completion_ms().max() / 1000)


def check_tasks_fit_their_executors(workload: Workload, simulator: Simulator) -> None:
    """And what executors of a class did adds up: time, and memory that their tasks left idle."""
    if workload.cluster.protocol is not Protocol.EXECUTORS:
        return
    record, state = simulator.timeline(), simulator.state
    stages = [stage for job in workload.trace.jobs for stage in job.stages]
    demand_mb = np.array([stage.memory_mb for stage in stages])[record["stage"]]
    kind = state.executors["kind"][record["executor"]]
    size_mb = state.classes["memory_mb"][kind]
    assert (size_mb >= demand_mb).all()
    if workload.cluster.classes is None or len(workload.cluster.classes) == 1:
        return
    spent_ms = record["finish_ms"] - record["start_ms"]
    for index, row in enumerate(state.classes):
        own = kind == index
        assert row["count"] == workload.cluster.classes[index].count
        assert row["busy_ms"] == pytest.approx(spent_ms[own].sum())
        assert row["idle_mb_ms"] == pytest.approx(((size_mb - demand_mb) * spent_ms)[own].sum())


@pytest.mark.parametrize("protocol", CHECKS, ids=lambda protocol: protocol.label)
@given(data=st.data(), seed=st.integers(0, 9))
@PROPERTY
def test_what_a_policy_sees_agrees_with_a_recount(
    protocol: Protocol, data: st.DataObject, seed: int
) -> None:
    """At every decision: held, covered, open, on offer; a choice gives what its limit allows."""
    simulator = data.draw(workloads(protocol)).simulator()
    policy = Arbitrary(seed)
    state, status = simulator.state, int(simulator.status)
    while status == DECIDE:
        CHECKS[protocol](state)
        seen = simulator.observation()
        assert seen.on_offer > 0
        assert len(seen.open_stages()) > 0
        stage, limit, only = policy.decide(seen)
        job = int(seen.stages["job"][stage])
        before, held = int(seen.stages["covered"][stage]), int(seen.jobs["held"][job])
        least, most = gets(seen, Action(stage, limit, only), leaving(state, job))
        left = seen.on_offer
        status = dispatch.assign(state, stage, limit, only)
        if stage != NONE:
            given_now = int(state.stages[stage]["covered"]) - before
            assert least <= given_now <= most
            left -= given_now
        if status == DECIDE:
            assert stage != NONE
            assert state.clock[0]["on_offer"] == left
            assert state.jobs[job]["held"] == held + given_now <= limit
            continue
        assert status == DONE
        if protocol is Protocol.EXECUTORS:
            check_executors_protocol_closed(state.clock)
        status = dispatch.advance(state)


def leaving(state: State, job: int) -> int:
    """Executors on offer that still run the last tasks of a stage of `job`."""
    clock = state.clock[0]
    return int(clock["releasing"]) if clock["source_job"] == job else 0


def gets(seen: Observation, action: Action, leaving: int) -> tuple[int, int]:
    """The fewest and the most executors that a choice may give.

    With classes those that end their last tasks for the job count until they leave it: as many
    fewer may come, unless they are given to the stage themselves.
    """
    stage, limit, only = action
    held = int(seen.jobs["held"][seen.stages["job"][stage]])
    most = min(seen.demand(stage), limit - held, fitting(seen, stage, only))
    if len(seen.classes) == 1 or leaving == 0:
        return most, most
    return min(most, max(0, limit - held - leaving)), most


def fitting(seen: Observation, stage: int, only: int) -> int:
    """Executors on offer that the stage may be given, of the class `only` or of ANY."""
    if len(seen.classes) == 1:
        return seen.on_offer
    kinds = seen.legal_kinds(stage) if only == ANY else [only]
    return int(seen.classes["on_offer"][kinds].sum())


def check_executors_protocol_closed(clock: Table) -> None:
    """Nothing of a round is left when it is over."""
    for column in ("on_offer", "releasing", "num_chosen"):
        assert clock[0][column] == 0
    assert clock[0]["source_stage"] == NONE


@given(
    workloads(Protocol.EXECUTORS) | workloads(Protocol.SESSION),
    st.integers(1, 4),
    st.integers(0, 9),
)
@PROPERTY
def test_a_fixed_limit_is_a_limit(workload: Workload, limit: int, seed: int) -> None:
    """No job runs more tasks at once, but for those that end on executors promised elsewhere.

    With classes those count, too. decima-sim's own rules are kept, which send executors that lost
    their destination to other jobs without a look at any limit.
    """
    limit = min(limit, workload.cluster.num_executors)
    simulator = workload.simulator()
    policy = Capped(limit, seed)
    while simulator.status is Status.DECIDE:
        state = simulator.state
        assert (tasks_under_limits(state)[state.jobs["active"] == 1] <= limit).all()
        simulator.step(policy.decide(simulator.observation()))
    is_strict = len(simulator.state.classes) > 1 or workload.cluster.protocol is Protocol.SESSION
    if is_strict:
        assert most_at_once(simulator.timeline()) <= limit


def tasks_under_limits(state: State) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """(jobs,) tasks that run; without classes less those on executors promised to other jobs."""
    busy = state.executors[state.executors["state"] == RUNNING]
    count = np.bincount(state.stages["job"][busy["stage"]], minlength=len(state.jobs))
    if len(state.classes) == 1:
        for stage in state.stages:
            for target, _, promised in promises_of(state, stage):
                if state.stages["job"][target] != stage["job"]:
                    count[stage["job"]] -= promised
    return count


@given(workloads(), st.integers(0, 9), st.floats(0.05, 0.95))
@PROPERTY
def test_a_truncated_run_is_the_beginning_of_the_whole_one(
    workload: Workload, seed: int, share: float
) -> None:
    """Same tasks up to the limit; accounts and ages run exactly to it. At the end it is none."""
    whole = played(workload, seed)
    assume(whole.status is Status.DONE)
    end_ms = float(whole.completion_ms().max())

    def cut(limit_ms: float) -> Simulator:
        cluster = replace(workload.cluster, time_limit_ms=limit_ms)
        return played(replace(workload, cluster=cluster), seed)

    assert cut(end_ms).status is Status.DONE
    limit_ms = share * end_ms
    simulator = cut(limit_ms)
    record, every = simulator.timeline(), whole.timeline()
    metrics = measure(simulator.state)

    assert simulator.status is Status.TRUNCATED
    assert simulator.time_ms == limit_ms
    assert record.tobytes() == every[: len(record)].tobytes()
    assert len(record) == np.count_nonzero(every["start_ms"] <= limit_ms)
    busy_ms = np.minimum(record["finish_ms"], limit_ms) - record["start_ms"]
    assert metrics.busy_executor_s == pytest.approx(busy_ms.sum() / 1000)
    assert metrics.moving_executor_s >= 0
    assert metrics.idle_executor_s >= -1e-9
    completion, arrival_ms = whole.completion_ms(), np.array(workload.arrival_ms)
    arrived = arrival_ms <= limit_ms
    ends_ms = np.minimum(completion, limit_ms)
    assert metrics.jct_s == pytest.approx((ends_ms - arrival_ms)[arrived] / 1000)
    assert metrics.unfinished == np.count_nonzero(arrived & (completion > limit_ms))
    assert metrics.not_arrived == np.count_nonzero(~arrived)
