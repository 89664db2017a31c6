"""Dynamic allocation: executors that follow the load, by hand and from logs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from decima.report.whatif import whatif_section
from decima.whatif import WhatIfSettings, what_if
from decima.whatif.advice import advised, allocation_fidelity, findings
from decima.whatif.changes import allocation_changes
from decima.whatif.replay import Recording, ReplaySettings, read_recording, replay
from decima.whatif.report import allocation_table
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
from spark_sim.observation import Action
from spark_sim.tables import ANY
from tests.commands import cells_of, decima
from tests.conftest import SHARED
from tests.recordings import exact, read_events
from tests.spark_events import executor, gone, properties, simple_job
from tests.stories import job, stage
from tests.test_whatif_by_hand import checked
from traces import Job, Trace, TraceError, to_arrays

ENABLED = {"spark.dynamicAllocation.enabled": "true"}
RULES: dict[str, Any] = {"backlog_ms": 1000.0, "sustained_ms": 1000.0, "start_ms": 500.0}


def run(allocation: Allocation, *jobs: Job, arrivals: list[float]) -> Simulator:
    cluster = Cluster(allocation.slots, warmup_delay_ms=0.0, protocol=Protocol.SESSION)
    simulator = Simulator(
        to_arrays(Trace("made", jobs)),
        cluster,
        np.array(arrivals),
        np.arange(len(jobs), dtype=np.int32),
        conditions=Conditions(allocation=allocation),
    )
    while simulator.status is Status.DECIDE:
        seen = simulator.observation()
        simulator.step(Action(int(seen.open_stages()[0]), seen.num_executors, ANY))
    assert simulator.status is Status.DONE
    return simulator


def test_requests_double() -> None:
    """Executors come at 1.5 s (1), 2.5 s (2), 3.5 s (4) and 4.5 s (the eighth).

    Of 12 tasks of 2 s the last starts at 5.5 s. All executors are gone when the second job comes:
    of its 4 tasks of 1 s one starts at 21.5 s, three at 22.5 s.
    """
    allocation = Allocation(1, 0, 8, 0, 0, idle_ms=5000.0, **RULES)
    jobs = job("a", stage("s", 12, 2000)), job("b", stage("s", 4, 1000))
    simulator = run(allocation, *jobs, arrivals=[0.0, 20_000.0])
    assert simulator.completion_ms().tolist() == [7500.0, 23_500.0]


@pytest.mark.parametrize(
    ("least", "idle_ms", "end_ms"), [(0, 5e3, 22.5e3), (2, 5e3, 21e3), (0, 1e6, 21e3)]
)
def test_executors_are_kept_or_go(least: int, idle_ms: float, end_ms: float) -> None:
    """Two executors are there at first; the second job has them where two are kept, or for long."""
    allocation = Allocation(1, least, 2, 2, 2, idle_ms=idle_ms, **RULES)
    jobs = [job(name, stage("s", 2, 1000)) for name in "ab"]
    simulator = run(allocation, *jobs, arrivals=[0.0, 20_000.0])
    assert simulator.completion_ms().tolist() == [1000.0, end_ms + (end_ms > 21e3) * 1000.0]


def test_an_executor_has_all_its_slots_or_none() -> None:
    """Three tasks need two executors of two slots: both are requested, one after the other.

    The first comes at 1.5 s and runs two tasks until 3.5 s, the second at 2.5 s. While a task runs
    on it, it stays; slots are held from each request to the end.
    """
    allocation = Allocation(2, 0, 4, 0, 0, idle_ms=100.0, **RULES)
    simulator = run(allocation, job("a", stage("s", 3, 2000)), arrivals=[0.0])
    assert simulator.completion_ms().tolist() == [4500.0]
    held_ms = simulator.state.allocation[0]["held_ms"]
    # The first from 1 s to 3.6 s, the second from 2 s to the end.
    assert held_ms == 2 * 2600.0 + 2 * 2500.0


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ((0, 0, 4, 0, 0), "1 slot or more, got 0"),
        ((1, 5, 4, 0, 0), "of 5 to 4 executors"),
        ((1, 0, 4, 5, 0), "at first must lie in 0..4, got 5"),
        ((1, 0, 4, 0, 5), "present must lie in 0..4, got 5"),
        ((1, 0, 4, 0, 0, 1.0, 0.0), "sustained_ms must be above 0"),
        ((1, 0, 4, 0, 0, -1.0), "backlog_ms must lie in"),
    ],
)
def test_impossible_allocations_are_refused(values: tuple[Any, ...], words: str) -> None:
    with pytest.raises(SimulationError, match=words):
        Allocation(*values)
    allocation = Allocation(1, 0, 4, 0, 0)
    slots = Slots(np.zeros(1), np.ones(1, np.int64))
    for conditions, refusal in (
        (Conditions(allocation=allocation), "up to 4 slots needs a session of as many"),
        (Conditions(allocation=allocation, slots=slots), "not both"),
    ):
        with pytest.raises(SimulationError, match=refusal):
            conditions.check(1, 1, Cluster(2, protocol=Protocol.SESSION))


LOG = Path(__file__).parent / "data" / "spark_logs" / "spark-3.5-plain"

# --- from logs -----------------------------------------------------------------------------------


TASKS = [6 + number % 3 for number in range(10)]


def recorded(folder: Path, **settings: str) -> Recording:
    """Ten jobs of `TASKS` of 1 s; for each an executor comes after 4 s, goes 60 s later."""
    named = {f"spark.dynamicAllocation.{name}": value for name, value in settings.items()}
    most = {"spark.dynamicAllocation.maxExecutors": "1"}
    events = [properties(**{**ENABLED, **most, **named})]
    for number in range(10):
        at = 200_000 * number
        own = str(number + 1)
        first = at + 4000
        tasks = [(first + 1000 * k, first + 1000 * k + 1000) for k in range(TASKS[number])]
        end = tasks[-1][1]
        events.append(executor(own, 1, at=first))
        events += simple_job(number, at, tasks, end, on=own)
        events.append(gone(own, end + 60_000))
    return read_events(folder, *events)


def test_a_recording_is_repeated_and_settings_matter(tmp_path: Path) -> None:
    """4 s and the tasks as recorded; the tasks alone where an executor is kept after the first."""
    recording = recorded(tmp_path)
    report = replay(recording, ReplaySettings(draws=1, allocation={}))
    assert report.simulated_s == pytest.approx(report.recorded_s)
    kept = replay(recording, ReplaySettings(draws=1, allocation={"executorIdleTimeout": "1h"}))
    assert kept.simulated_s == pytest.approx([10.0, *TASKS[1:]])
    slow = {"schedulerBacklogTimeout": "4s", "executorStart": "500ms"}
    slower = replay(recording, ReplaySettings(draws=1, allocation=slow))
    assert slower.simulated_s == pytest.approx([4.5 + tasks for tasks in TASKS])


def test_the_first_executors_are_there_at_the_first_job(tmp_path: Path) -> None:
    """If all that the settings ask for were there, so are those of other settings."""
    environment = properties(**ENABLED, **{"spark.dynamicAllocation.minExecutors": "1"})
    job_of_one = simple_job(0, 10, [(10, 900)], 900)
    recording = read_events(tmp_path, environment, executor(cores=1), *job_of_one)
    allocation = recording.allocation(0, {"minExecutors": "3"})
    assert allocation is not None
    assert (allocation.first, allocation.present) == (3, 3)


def test_other_settings_are_tried_and_priced(tmp_path: Path) -> None:
    """An executor that is kept saves 4 s of 11 and is held for longer."""
    settings = WhatIfSettings(1, ("fifo", "spark_fair"), draws=2, sequences=6, slots_vary=True)
    study = what_if(recorded(tmp_path), settings)
    assert [change.setting for change, _ in study.allocations] == [
        "",
        "schedulerBacklogTimeout=4s, sustainedSchedulerBacklogTimeout=4s",
        "executorIdleTimeout=15s",
        "executorIdleTimeout=240s",
        "minExecutors=1",
    ]
    averages = [float(result.avg_s.mean()) for _, result in study.allocations]
    assert averages[:3] == pytest.approx([10.9, 13.9, 10.9])
    error = allocation_fidelity(study)
    assert error is not None
    assert error.median_error_percent == pytest.approx(0.0, abs=1e-9)
    check = checked(record=study.recording)
    _, words = findings(study, check)
    assert "an executor comes 3.00 s after its request" in words
    faster, cheaper = (change.words for change in advised(study, check))
    assert faster.startswith("Allocation, faster: ")
    assert "executors held for +" in faster
    assert cheaper.startswith("Allocation, cheaper: executorIdleTimeout=15s")
    rows = whatif_section(study, check).content["allocations"]
    assert [list(row) for row in rows] == cells_of(allocation_table(study))[1:]
    assert rows[1][1:3] == ("13.9 s", "+28 %")


def test_a_model_that_fails_gives_no_advice(tmp_path: Path) -> None:
    """Executors that take a minute, where the recorded ones took 3 s."""
    settings = WhatIfSettings(
        1, ("fifo",), draws=2, sequences=2, allocation={"executorStart": "60s"}
    )
    study = what_if(recorded(tmp_path), settings)
    _, words = findings(study, exact(study))
    assert "no advice on its settings" in words


def test_a_fixed_cluster_has_no_such_advice(tmp_path: Path) -> None:
    recording = read_events(tmp_path, executor(cores=1), *simple_job(0, 0, [(0, 900)], 900))
    assert recording.allocation(0) is None
    # Spark starts an application with the first executors only.
    for least in (0, 2):
        allocation = recording.allocation(0, {"minExecutors": f"{least}", "maxExecutors": "3"})
        assert allocation is not None
        assert allocation.present == least
    study = what_if(recording, WhatIfSettings(1, ("fifo",), draws=2, sequences=2))
    assert study.allocations == ()
    assert len(list(findings(study, exact(study)))) == 1


def test_a_log_whose_settings_cannot_be_read_is_answered_without_them(tmp_path: Path) -> None:
    """Nobody asked for the model, which is all that needs them."""
    settings = WhatIfSettings(1, ("fifo",), draws=2, sequences=2)
    study = what_if(recorded(tmp_path, executorIdleTimeout="soon"), settings)
    assert study.allocations == ()


def test_changes_that_change_nothing_are_left_out(tmp_path: Path) -> None:
    """The only executor is kept: requests and idle time can only be longer."""
    recording = recorded(tmp_path, minExecutors="1", executorIdleTimeout="2s")
    settings = [
        allocation_change.setting
        for allocation_change in allocation_changes(recording, {"executorIdleTimeout": "1s"})
    ]
    assert settings == [
        "",
        "schedulerBacklogTimeout=4s, sustainedSchedulerBacklogTimeout=4s",
        "executorIdleTimeout=4s",
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("fast", "write log, or NAME=VALUE"),
        ("idle=3s", "with NAME one of minExecutors"),
        ("executorIdleTimeout=soon", "must be a time such as 60s"),
        ("executorIdleTimeout=900ms", "must be 1s or more: Spark takes whole seconds"),
        ("minExecutors=-1", "must be a whole number, 0 or more"),
        ("maxExecutors=0", "must be a whole number, 1 or more"),
        ("executorAllocationRatio=2", "above 0 and at most 1"),
    ],
)
def test_other_values_are_refused(text: str, words: str) -> None:
    for command in ("replay", "whatif"):
        result = decima(command, LOG, "--allocation", text)
        assert result.exit_code != 0
        assert isinstance(result.exception, TraceError | SystemExit)
        assert words in " ".join(f"{result.output} {result.exception}".split())


def test_the_field_log_is_repeated_by_the_model() -> None:
    """24 slots at most, of executors of 4: within 10 % without the recorded curve."""
    log = SHARED / "data" / "field-logs" / "8-dynamic-allocation.log"
    if not log.is_file():
        pytest.skip(f"field logs are not at {log.parent}")
    fidelity = replay(read_recording([log]), ReplaySettings(allocation={})).fidelity("all")
    assert fidelity is not None
    assert fidelity.above(10.0) == []


def test_waiting_for_executors_is_told_from_waiting_for_jobs(tmp_path: Path) -> None:
    """Jobs that never meet wait 4 s of 11 for an executor; with fixed slots there is no word."""
    recording = recorded(tmp_path)
    settings = WhatIfSettings(1, ("fifo",), draws=2, sequences=2)
    study = what_if(recording, replace(settings, slots_vary=True))
    verdict = next(findings(study, exact(study)))
    assert verdict.startswith("Next to nothing to gain")
    assert "-37 %" in verdict
    assert study.all_slots is not None
    assert study.all_slots.avg_s.mean() == pytest.approx(6.9)
    assert what_if(recording, settings).all_slots is None
