"""What-ifs of other demands: cores of each task, GPUs of each executor."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from decima.whatif import WhatIfSettings
from decima.whatif.replay import Recording, read_recording
from decima.whatif.replay.demands import Demands
from decima.whatif.task_slots import demands_effect
from tests.commands import decima, refused, succeeded
from tests.spark_events import (
    Event,
    closing,
    executor,
    profile,
    properties,
    simple_job,
    started,
    write,
)

TASKS = 8
GPU_AMOUNT = "spark.task.resource.gpu.amount"


def one_stage(
    folder: Path, *first: Event, cores: int = 4, slots: int = 4, of_profile: int = 0
) -> Path:
    """A job of eight tasks of 1 s on one executor that runs so many at once."""
    begins = [1000 * (row // slots) for row in range(TASKS)]
    job = simple_job(0, 0, [(begin, begin + 1000) for begin in begins], profile=of_profile)
    return write(
        folder / "log",
        [*started(), *first, executor(cores=cores), *job, closing(begins[-1] + 1000)],
    )


def makespans_s(log: Path, demands: Demands) -> tuple[float, float]:
    """Makespan as recorded and under other demands, simulated."""
    recording = read_recording([log], demands=demands)
    drawn = WhatIfSettings(1, ("fifo",), draws=1)
    effect = demands_effect(recording, demands, drawn, driver_times=True)
    return float(effect.before.makespan_s[0]), float(effect.after.makespan_s[0])


@pytest.mark.parametrize(("cpus", "makespan_s"), [(1, 2.0), (2, 4.0), (3, 8.0), (4, 8.0)])
def test_tasks_of_more_cores_run_fewer_at_once(
    cpus: int, makespan_s: float, tmp_path: Path
) -> None:
    """Three of four cores leave no room for a second task."""
    assert makespans_s(one_stage(tmp_path), Demands(cpus, None)) == (2.0, makespan_s)


def test_tasks_of_fewer_cores_run_more_at_once(tmp_path: Path) -> None:
    log = one_stage(tmp_path, properties(spark_task_cpus="2"), slots=2)
    assert makespans_s(log, Demands(1, None)) == (4.0, 2.0)


@pytest.mark.parametrize(
    ("amount", "slots", "gpus", "makespan_s"),
    [("1", 1, 2, 4.0), ("1", 1, 8, 2.0), ("0.5", 2, 2, 2.0), ("2", 1, 4, 4.0)],
)
def test_gpus_or_cores_bound_the_tasks_of_an_executor(
    amount: str, slots: int, gpus: int, makespan_s: float, tmp_path: Path
) -> None:
    """Of eight GPUs tasks on four cores use four."""
    has = str(2 if amount == "2" else 1)
    given = {"spark.executor.resource.gpu.amount": has, GPU_AMOUNT: amount}
    log = one_stage(tmp_path, properties(**given), slots=slots)
    assert makespans_s(log, Demands(None, gpus)) == (TASKS / slots, makespan_s)


def test_a_resource_profile_of_its_own_keeps_its_cores(tmp_path: Path) -> None:
    """Its tasks take three of four cores, whatever others take; those others take two now."""
    added = profile(1, {"cpus": 3.0})
    log = one_stage(tmp_path, added, slots=1, of_profile=1)
    recording = read_recording([log], demands=Demands(2, None))
    assert recording.slots_each([0]) == 2, "as many tasks of two cores fit"
    assert recording.trace.jobs[0].stages[0].slots == 2
    assert makespans_s(log, Demands(2, None)) == (8.0, 8.0)


def test_the_recording_itself_stays(tmp_path: Path) -> None:
    log = one_stage(tmp_path)
    changed = read_recording([log], demands=Demands(2, None))
    assert isinstance(changed.before, Recording)
    assert (changed.curve(0).most, changed.before.curve(0).most) == (2, 4)
    assert changed.recorded_ms.tolist() == changed.before.recorded_ms.tolist() == [2000.0]


def test_the_effect_comes_first_and_in_all_forms(tmp_path: Path) -> None:
    """The replay check is of the recording, not of what was asked."""
    log, output, page = one_stage(tmp_path), tmp_path / "a.json", tmp_path / "a.html"
    few = ("--draws", 2, "--sequences", 2, "--policies", "fifo")
    result = succeeded(
        decima("whatif", log, "--task-cpus", 2, *few, "--json", output, "--report", page)
    )
    words = " ".join(result.stdout.split())
    assert words.startswith(
        "With spark.task.cpus 2: 2 slots instead of 4, average JCT 2.00 s -> 4.00 s (+100 %), all "
    )
    assert "The replay is 0.0 % off" in words
    content = json.loads(output.read_text())
    assert content["demands"] == {
        "task_cpus": 2,
        "gpus": None,
        "before": {"slots": 4, "avg_jct_s": [2.0, 2.0], "makespan_s": [2.0, 2.0]},
        "after": {"slots": 2, "avg_jct_s": [4.0, 4.0], "makespan_s": [4.0, 4.0]},
    }
    assert list(content["sizes"]) == ["1", "2", "4"]
    assert "With spark.task.cpus 2: 2 slots instead of 4" in page.read_text()
    assert "recorded over 2.0 s on 4 slots" in page.read_text()


def test_impossible_questions_are_one_line(tmp_path: Path) -> None:
    log = one_stage(tmp_path)
    refused(
        decima("whatif", log, "--task-cpus", 5),
        "spark.task.cpus 5 is impossible: an executor of 4 cores has no room for a task",
    )
    refused(decima("whatif", log, "--gpus", 1), f"its tasks ask for no GPU ({GPU_AMOUNT})")
    given = {"spark.executor.resource.gpu.amount": "2", GPU_AMOUNT: "2"}
    log = one_stage(tmp_path, properties(**given), slots=1)
    refused(
        decima("whatif", log, "--gpus", 1),
        "spark.executor.resource.gpu.amount 1 is impossible: an executor of 4 cores has no room",
    )
    rows = [row for row in log.read_text().splitlines() if "Executor Info" not in row]
    log.write_text("\n".join(rows))
    refused(decima("whatif", log, "--task-cpus", 2), "the log lacks the cores of an executor")
