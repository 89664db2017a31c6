"""Recordings of made jobs, and checks of them, for the tests of what-ifs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from decima.whatif import WhatIf, WhatIfSettings
from decima.whatif.replay import (
    DriverRecord,
    Recording,
    ReplayReport,
    ReplaySettings,
    read_recording,
    replay,
)
from decima.whatif.replay.pools import Pools
from decima.whatif.replay.workload import Course
from spark_sim.tables import NONE
from tests.spark_events import Event, closing, started, write
from tests.stories import job, stage
from traces import Job, LevelDurations, Stage, Trace
from traces.arrivals import Arrivals
from traces.numbers import Float64, Int32
from traces.spark_log import ImportSummary

FAST = WhatIfSettings(4, draws=3, sequences=8, training=2)


def recording(*jobs: Job, slots: int = 4, ends_ms: float = 0.0, mode: str = "FIFO") -> Recording:
    """Jobs as if they had been read from one log, each recorded as `ends_ms` long."""
    recorded = {
        job.name: {
            "application": 0,
            "start_ms": job.arrival_ms,
            "end_ms": (job.arrival_ms or 0.0) + (ends_ms or job.work_ms / slots),
        }
        for job in jobs
    }
    settings = {"spark.scheduler.mode": mode}
    application = {"name": "app", "slots": slots, "settings": settings, "spark_version": "4.0.0"}
    trace = Trace("made", jobs, {"recorded": recorded, "applications": [application]})
    return Recording(trace, ImportSummary(), tuple(DriverRecord.none(job) for job in jobs))


def course(arrival_ms: Float64, job: Int32) -> Course:
    """Jobs that all come by themselves."""
    return Course(Arrivals(arrival_ms, job), np.full(len(job), NONE), None)


def short_behind_long(count: int = 24, *, is_varied: bool = False) -> Recording:
    """Every fourth job has 40 tasks of 1 s, the others have 4 of 0.2 s; one each 3 s.

    Varied ones are up to a fifth off.
    """
    made = varied if is_varied else stage
    jobs = [
        job(f"long {k}", made("s", 40, 1000.0))
        if k % 4 == 0
        else job(f"short {k}", made("s", 4, 200.0))
        for k in range(count)
    ]
    return recording(*(replace(short, arrival_ms=3000.0 * k) for k, short in enumerate(jobs)))


def varied(name: str, tasks: int, task_ms: float) -> Stage:
    """Tasks of five durations around the mean."""
    samples = [task_ms * share for share in (0.8, 0.9, 1.0, 1.1, 1.2)]
    level = LevelDurations.of(1, fresh_ms=samples, first_ms=samples, rest_ms=samples)
    return Stage(name, tasks, (), (level,))


def never_meeting(count: int = 6) -> Recording:
    """Jobs of one second, a minute apart."""
    jobs = [
        Job(f"job {k}", (stage("s", 4, 1000.0),), arrival_ms=60_000.0 * k) for k in range(count)
    ]
    return recording(*jobs)


def exact(study: WhatIf) -> ReplayReport:
    """A check in which the simulator repeats the recording to the letter."""
    check = replay(study.recording, ReplaySettings(draws=1))
    return replace(check, simulated_s=check.recorded_s)


def read_events(folder: Path, *events: Event, pools: Pools | None = None) -> Recording:
    """What is read of the log of one application."""
    return read_recording([write(folder / "log", [*started(), *events, closing()])], pools=pools)
