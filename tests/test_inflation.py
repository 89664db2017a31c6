"""The model of many executors: what it adds to measured durations, and what it leaves alone."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.record_tpch.calibration import PUBLIC_FRESH_RATIO, PUBLIC_WORK_MS, calibrated
from tests.commands import raises_one_line
from traces import Job, LevelDurations, Stage, Trace, TraceError
from traces.inflation import PUBLIC_INFLATION, ExecutorModel, with_model

PUBLISHED = {5: 1.0, 10: 1.08, 20: 1.25, 40: 1.65, 50: 1.83, 80: 2.39, 100: 2.88}
"""typed again from the measured public data, not taken from the module"""


def trace_of(*stages: Stage, arrival_ms: float | None = None) -> Trace:
    return Trace("recorded", (Job("j", stages, arrival_ms),), {"note": "kept"})


def measured(name: str = "scan", *, executors: int = 2, parents: tuple[int, ...] = ()) -> Stage:
    level = LevelDurations.of(executors, first_ms=[60.0], rest_ms=[40.0, 50.0, 60.0])
    return Stage(name, 12, parents, (level,), cpu=1.0, memory_mb=512.0)


def test_work_grows_with_executors_as_published() -> None:
    """Every level's first and rest waves are the measured ones times the published median."""
    (job,) = ExecutorModel(start_ms=30.0).apply(trace_of(measured())).jobs
    levels = {level.executors: level for level in job.stages[0].durations}
    assert list(levels) == [2, *PUBLISHED]
    for level in levels.values():  # a start is not inflated
        assert level.fresh_ms.tolist() == pytest.approx([level.rest_ms.mean() + 30.0])
    assert replace(measured(), durations=job.stages[0].durations) == job.stages[0]
    for executors, factor in {2: 1.0, **PUBLISHED}.items():
        np.testing.assert_allclose(levels[executors].first_ms, [60.0 * factor], rtol=1e-6)
        np.testing.assert_allclose(
            levels[executors].rest_ms, np.array([40.0, 50.0, 60.0]) * factor, rtol=1e-6
        )


def test_the_start_hardly_counts_as_work_of_a_large_stage() -> None:
    """64 tasks of 50 ms: two fresh samples of 10,050 ms beside them, not 64."""
    level = LevelDurations.of(2, rest_ms=[40.0, 60.0] * 32)
    stage = Stage("scan", 64, (), (level,))
    (job,) = ExecutorModel(start_ms=10_000.0).apply(trace_of(stage)).jobs
    assert job.stages[0].durations[0].fresh_ms.tolist() == [10_040.0, 10_060.0]


def test_a_fresh_wave_that_was_measured_is_kept() -> None:
    """The model fills a gap; it does not replace a measurement."""
    level = LevelDurations.of(2, fresh_ms=[500.0], rest_ms=[50.0])
    model = ExecutorModel(start_ms=30.0, time_scale=2.0)
    (job,) = model.apply(trace_of(Stage("scan", 3, (), (level,)))).jobs
    assert job.stages[0].durations[0].fresh_ms.tolist() == [1000.0]


def test_time_scale_is_a_change_of_unit() -> None:
    """Durations and arrivals grow alike, so the recorded pattern stays the same."""
    trace = trace_of(measured(), arrival_ms=7.0)
    (job,) = ExecutorModel(start_ms=0.0, time_scale=20.0).apply(trace).jobs
    assert job.arrival_ms == 140.0
    assert job.stages[0].durations[0].rest_ms.tolist() == [800.0, 1000.0, 1200.0]
    assert job.work_ms == pytest.approx(20.0 * trace.jobs[0].work_ms, rel=0.02)


def test_a_recording_on_many_slots_is_extended_upwards_only() -> None:
    """Measured at 20: below it nothing is invented, at 50 the factor is 1.83 / 1.25."""
    (job,) = ExecutorModel(start_ms=0.0).apply(trace_of(measured(executors=20))).jobs
    levels = {level.executors: level for level in job.stages[0].durations}
    assert list(levels) == [20, 40, 50, 80, 100]
    assert levels[50].rest_ms[0] == pytest.approx(40.0 * 1.83 / 1.25)


def test_factors_between_levels_are_interpolated() -> None:
    """Halfway between 20 and 40 lies halfway between 1.25 and 1.65; outside it is constant."""
    model = ExecutorModel(start_ms=0.0)
    assert [model.factor(n) for n in (1, 30, 500)] == pytest.approx([1.0, 1.45, 2.88])


def test_calibration_meets_the_public_figures() -> None:
    """Mean work of a job and cost of a start, both to the three digits that are kept."""
    trace = trace_of(measured("scan"), measured("join", parents=(0,)))
    model = calibrated(trace)
    scaled_work_ms = model.time_scale * trace.jobs[0].work_ms
    assert scaled_work_ms == pytest.approx(PUBLIC_WORK_MS, rel=5e-3)
    scan = model.apply(trace).jobs[0].stages[0].durations[0]
    assert scan.fresh_ms.mean() / scan.rest_ms.mean() == pytest.approx(2.3, rel=5e-3)
    assert PUBLIC_FRESH_RATIO == 2.3
    assert dict(PUBLIC_INFLATION) == PUBLISHED


def test_calibration_meets_the_public_total_work() -> None:
    """Three jobs; the middle one's total work, a start for each executor included, is published."""
    jobs = tuple(
        Job(f"j{count}", (replace(measured(), num_tasks=count),)) for count in (200, 1_000, 9_000)
    )
    model = calibrated(Trace("recorded", jobs))
    work_ms = model.time_scale * jobs[1].work_ms
    for executors, target in PUBLISHED.items():
        total_ms = model.inflation[executors] * work_ms + executors * model.start_ms
        assert total_ms / (work_ms + 5 * model.start_ms) == pytest.approx(target, rel=5e-3)


def test_calibration_never_makes_tasks_faster() -> None:
    """Where starts alone exceed the public work of tiny jobs, the factor is 1."""
    level = LevelDurations.of(2, rest_ms=[1.0])
    tiny = Stage("s", 100, (), (level,))
    jobs = (Job("a", (tiny,)), Job("b", (tiny,)), Job("c", (replace(tiny, num_tasks=10**6),)))
    model = calibrated(Trace("recorded", jobs))
    factors = [model.inflation[level] for level in sorted(model.inflation)]
    assert factors[0] == 1.0
    assert all(low <= high for low, high in itertools.pairwise(factors))


def test_metadata_switch_the_model_on_once() -> None:
    """Absent: off. Present: applied, said so, and not applied again to what it made."""
    plain = trace_of(measured())
    assert with_model(plain) is plain
    asking = replace(plain, metadata={"model": ExecutorModel(30.0, 2.0).as_metadata()})
    applied = with_model(asking)
    assert applied.metadata["model"]["applied"] is True
    assert "not measured" in applied.metadata["model"]["note"]
    assert len(applied.jobs[0].stages[0].durations) == 8
    assert with_model(applied) is applied


@pytest.mark.parametrize(
    ("stored", "message"),
    [
        ([], "trace 'recorded': metadata of the executor model are damaged: is list"),
        ({"inflation": [[5, 1.0]], "start_ms": -1.0, "time_scale": 1.0}, "start -1.0 ms"),
        ({"inflation": [[5, 1.0]], "start_ms": 1.0, "time_scale": 0.0}, "time scale 0.0"),
        ({"inflation": [[5, 0.0]], "start_ms": 1.0, "time_scale": 1.0}, "factor 0.0 at level 5"),
        ({"inflation": [[0, 1.0]], "start_ms": 1.0, "time_scale": 1.0}, "factor 1.0 at level 0"),
        ({"inflation": [], "start_ms": 1.0, "time_scale": 1.0}, "0 levels"),
        ({"inflation": [[5, 1.0]], "start_ms": "x", "time_scale": 1.0}, "executor model"),
    ],
)
def test_damaged_parameters_are_refused_in_one_line(stored: object, message: str) -> None:
    trace = replace(trace_of(measured()), metadata={"model": stored})
    with raises_one_line(TraceError, match=re.escape(message)):
        with_model(trace)


def test_a_trace_of_several_levels_is_refused() -> None:
    levels = tuple(LevelDurations.of(n, rest_ms=[50.0]) for n in (2, 10))
    with pytest.raises(TraceError, match="stage 'scan' was measured at 2 levels"):
        ExecutorModel(0.0).apply(trace_of(Stage("scan", 3, (), levels)))
