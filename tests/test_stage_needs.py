"""What tasks need by Spark's event logs: GPUs, resource profiles of stages, barrier stages."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from decima.whatif.replay import Recording, ReplaySettings, ReplayWorkload, read_recording, replay
from decima.whatif.replay.check import session_cluster
from decima.whatif.replay.report import verdict
from spark_sim import Streams
from tests.commands import decima, refused
from tests.conftest import SHARED
from tests.recordings import read_events
from tests.spark_events import Event, end, executor, profile, properties, simple_job, task
from traces import Stage

FIELD = SHARED / "data" / "field-logs-2"
ONCE = ReplaySettings(draws=1)
GPU = {"spark.executor.resource.gpu.amount": "1", "spark.task.resource.gpu.amount": "1"}


def with_gpus(added: Event, *gpus: str, profile: int = 0) -> Event:
    """An executor with GPUs that was requested for a profile."""
    resources = {"gpu": {"name": "gpu", "addresses": list(gpus)}}
    added["Executor Info"] |= {"Resources": resources, "Resource Profile Id": profile}
    return added


def stages_of(recording: Recording) -> list[Stage]:
    return [stage for job in recording.trace.jobs for stage in job.stages]


def avg_s(recording: Recording, slots: int, policy: str = "fifo") -> float:
    """Average JCT of the recorded arrivals on so many slots, over five draws."""
    workload = ReplayWorkload.of(recording)
    cluster, course = session_cluster(slots), workload.recorded()
    keys = [Streams(0, 0, draw).duration_key() for draw in range(5)]
    return float(np.mean([workload.jct_s(cluster, policy, course, key) for key in keys]))


# --- what the importer reads ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "slots"),
    [
        ({}, 8),
        ({"spark.task.cpus": "2"}, 4),
        (GPU, 1),
        (GPU | {"spark.executor.resource.gpu.amount": "4"}, 4),
        # A fraction: tasks share a GPU.
        (GPU | {"spark.task.resource.gpu.amount": "0.5"}, 2),
        (GPU | {"spark.task.resource.gpu.amount": "0.3"}, 3),
        # The cores are fewer.
        (GPU | {"spark.executor.resource.gpu.amount": "16"}, 8),
        # How many an executor has is not known, or the amount is none.
        ({"spark.task.resource.gpu.amount": "1"}, 8),
        *(
            (GPU | {"spark.task.resource.gpu.amount": amount}, 8)
            for amount in ("none", "nan", "0", "1e-310", "5e-324")
        ),
        ({"spark.executor.resource.x.amount": "1", "spark.task.resource.x.amount": "1"}, 1),
    ],
)
def test_slots_follow_from_what_a_task_takes(
    tmp_path: Path, given: dict[str, str], slots: int
) -> None:
    job = simple_job(0, 10, [(10, 20)])
    recording = read_events(tmp_path, properties(**given), executor(cores=8), *job)
    assert recording.slots == (slots,)
    assert [(stage.slots, stage.barrier) for stage in stages_of(recording)] == [(1, False)]


def test_an_executor_lists_its_gpus_itself(tmp_path: Path) -> None:
    """Whatever the settings say: two addresses are two GPUs."""
    added = with_gpus(executor(cores=8), "0", "1")
    job = simple_job(0, 10, [(10, 20, "1")])
    assert read_events(tmp_path, properties(**GPU), added, *job).slots == (2,)


@pytest.mark.parametrize(
    ("given", "requests", "slots"),
    [
        ({}, {"cpus": 4.0}, (4, 4)),
        ({}, {"cpus": 2.0}, (4, 2)),
        ({}, {"cpus": 3.0}, (4, 3)),
        ({"spark.executor.resource.gpu.amount": "2"}, {"cpus": 1.0, "gpu": 1.0}, (4, 2)),
        ({"spark.executor.resource.gpu.amount": "2"}, {"gpu": 0.5}, (4, 1)),
        # Most tasks take the GPU, those of the stage only a core: a slot is a core.
        (GPU, {"cpus": 1.0}, (4, 1)),
    ],
)
def test_tasks_of_a_profile_take_several_slots(
    tmp_path: Path, given: dict[str, str], requests: dict[str, float], slots: tuple[int, int]
) -> None:
    recording = read_events(
        tmp_path,
        properties(**given),
        executor(cores=4),
        profile(0, {"cpus": 1.0}, {"cores": 4}),
        profile(1, requests),
        *simple_job(0, 10, [(10, 20, "1")], profile=1),
    )
    assert (recording.slots[0], stages_of(recording)[0].slots) == slots


def test_tasks_of_the_default_profile_take_several_slots_beside_narrower_ones(
    tmp_path: Path,
) -> None:
    """A task that takes the only GPU leaves none of the four slots to another such task."""
    recording = read_events(
        tmp_path,
        properties(**GPU),
        executor(cores=4),
        profile(1, {"cpus": 1.0}),
        *simple_job(0, 10, [(10, 20, "1")]),
        *simple_job(1, 30, [(30, 40, "1")], profile=1),
    )
    assert [stage.slots for stage in stages_of(recording)] == [4, 1]


def test_a_barrier_stage_is_one(tmp_path: Path) -> None:
    recording = read_events(
        tmp_path,
        executor(),
        *simple_job(0, 10, [(10, 20, "1"), (10, 20, "1")], barrier=True),
        *simple_job(1, 30, [(30, 40, "1")]),
    )
    assert [stage.barrier for stage in stages_of(recording)] == [True, False]
    assert recording.summary.stages_barrier == 1
    assert "barrier stages, whose tasks start at once: 1" in list(recording.summary.lines())


def test_attempts_of_a_barrier_stage_are_no_further_tasks(tmp_path: Path) -> None:
    """The stage ran twice, and a task of the first attempt ended late: two start at once."""
    job = simple_job(0, 10, [(10, 20, "1"), (10, 30, "1")], barrier=True)
    again = [task(0, part, 25, 40, on="1", attempt=1) for part in range(2)]
    failed = task(0, 1, 10, 30, on="1", reason="TaskKilled")
    recording = read_events(tmp_path, executor(cores=4), *job[:3], failed, *again, end(0, 40))
    assert [stage.num_tasks for stage in stages_of(recording)] == [2]


# --- replays -------------------------------------------------------------------------------------


def wide_behind_narrow(folder: Path) -> Recording:
    """Two executors of four cores. Narrow tasks hold two cores of each until 10 s: a task of four
    cores starts then, a narrow one passes over it.
    """
    return read_events(
        folder,
        executor("1", cores=4),
        executor("2", cores=4),
        profile(1, {"cpus": 4.0}),
        *simple_job(0, 0, [(0, 10_000, on) for on in "1122"]),
        *simple_job(1, 1000, [(10_000, 13_000, "1")], profile=1),
        *simple_job(2, 2000, [(2000, 5000, "1")]),
    )


def test_the_wait_for_a_whole_executor_is_no_time_of_the_driver(tmp_path: Path) -> None:
    """Four slots were free all the time."""
    recording = wide_behind_narrow(tmp_path)
    assert [record.wait_ms for record in recording.driver] == [(0.0,), (0.0,), (0.0,)]


def test_tasks_of_several_slots_are_replayed(tmp_path: Path) -> None:
    """As recorded; on one executor the last job takes the first slot that is free, at 10 s."""
    recording = wide_behind_narrow(tmp_path)
    assert replay(recording, ONCE).simulated_s.tolist() == [10.0, 12.0, 3.0]
    workload = ReplayWorkload.of(recording)
    jct_s = workload.jct_s(session_cluster(4), "fifo", workload.recorded(), 0)
    assert jct_s.tolist() == [10.0, 15.0, 11.0]


def barrier_behind_others(folder: Path) -> Recording:
    """Four cores, three in use until 10 s: a barrier stage of two tasks waits, another passes."""
    return read_events(
        folder,
        executor(cores=4),
        *simple_job(0, 0, [(0, 10_000, "1")] * 3),
        *simple_job(1, 1000, [(10_000, 12_000, "1")] * 2, barrier=True),
        *simple_job(2, 2000, [(2000, 5000, "1")]),
    )


def test_barrier_stages_are_replayed(tmp_path: Path) -> None:
    report = replay(barrier_behind_others(tmp_path), ONCE)
    assert report.simulated_s.tolist() == report.recorded_s.tolist() == [10.0, 11.0, 3.0]


def test_a_profile_with_executors_of_its_own_is_named_as_the_cause(tmp_path: Path) -> None:
    """Its task waits for the executor that has GPUs, while four slots of the other are free."""
    gpu = with_gpus(executor("2", cores=1), "0", profile=1)
    begins = enumerate([(0, 0), (10, 5000), (20, 10_000), (30, 15_000)])
    jobs = [
        row
        for number, (at, begin) in begins
        for row in simple_job(number, at, [(begin, begin + 5000, "2")], profile=1)
    ]
    requests = profile(1, {"cpus": 1.0, "gpu": 1.0}, {"cores": 1, "gpu": 1})
    recording = read_events(tmp_path, executor("1", cores=4), gpu, requests, *jobs)
    assert recording.slots == (5,)
    assert recording.summary.stages_own_executors == 4
    words = verdict(replay(recording, ONCE))
    assert "4 stages with executors of their own" in words
    assert "--pools" not in words


def test_a_profile_whose_executors_the_log_lacks_is_replayed(tmp_path: Path) -> None:
    """No executor was added for it: the log has lost the event, or the field."""
    added = [executor("1", cores=4), executor("2", cores=4)]
    asked = profile(1, {"cpus": 2.0}, {"cores": 4.0})
    jobs = [simple_job(k, 1_000 * k, [(1_000 * k, 1_000 * k + 500, "1")], profile=1)
            for k in range(4)]  # fmt: skip
    recording = read_events(tmp_path, *added, asked, *(event for job in jobs for event in job))
    assert replay(recording, ONCE).fidelity("all") is not None


def test_impossible_numbers_of_slots_are_named(tmp_path: Path) -> None:
    barrier_behind_others(tmp_path)
    log = str(tmp_path / "log")
    for arguments in (
        ["whatif", log, "--executors", "1"],
        ["whatif", log, "--protocol", "executors"],
        ["whatif", log, "--allocation", "log"],
        ["replay", log, "--slots", "1"],
        ["replay", log, "--allocation", "maxExecutors=2"],
    ):
        refused(decima(*arguments), "stage 1", "'shop/unnamed job 1'")


# --- logs of the field ---------------------------------------------------------------------------


@pytest.fixture(name="field")
def given_field() -> Path:
    if not FIELD.is_dir():
        pytest.skip(f"field logs are not at {FIELD}")
    return FIELD


@pytest.mark.parametrize(
    ("name", "slots", "recorded_s", "half_s"),
    [
        ("8-gpu-amount/light", 4, 2.32, 6.07),
        ("8-gpu-amount/busy", 4, None, None),
        ("9-stage-profile/log", 8, 3.03, 19.2),
        ("10-barrier/log", 4, None, None),
    ],
)
def test_field_logs_are_met(
    field: Path, name: str, slots: int, recorded_s: float | None, half_s: float | None
) -> None:
    recording = read_recording([field / name])
    assert recording.slots == (slots,)
    report = replay(recording, ReplaySettings(draws=5))
    fidelity = report.fidelity("all")
    assert fidelity is not None
    assert not fidelity.above(5.0)
    if recorded_s is not None:
        assert avg_s(recording, slots) == pytest.approx(recorded_s, rel=0.02)
        assert avg_s(recording, slots // 2) == pytest.approx(half_s, rel=0.05)
