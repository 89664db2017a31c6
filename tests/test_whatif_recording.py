"""What a what-if takes from a recording: arrivals, load, slots; and its settings."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decima.registry import HEURISTICS, Parameters
from decima.training.descent import descend, max_scores
from decima.whatif import WhatIfSettings
from decima.whatif.load import waiting_share
from decima.whatif.replay import DriverRecord
from decima.whatif.replay.workload import ReplayWorkload, far_apart, resampled
from decima.whatif.report import seconds
from tests.recordings import FAST, course, never_meeting, recording
from tests.stories import stage
from traces import Job


@given(gaps=st.lists(st.floats(0, 1e7), min_size=1, max_size=40), seed=st.integers(0, 2**32 - 1))
def test_a_resampled_sequence_is_made_of_the_recorded_one(gaps: list[float], seed: int) -> None:
    """As many arrivals, from time 0 on, with gaps that were recorded (or their mean)."""
    times = np.cumsum(gaps)
    times -= times[0]
    recorded = course(times, np.arange(len(gaps), dtype=np.int32))
    found = resampled(recorded, np.random.default_rng(seed)).arrivals
    assert len(found) == len(gaps)
    assert found.arrival_ms[0] == 0.0
    seen = np.diff(times)
    allowed = np.append(seen, seen.mean() if len(seen) else 0.0)
    for gap in np.diff(found.arrival_ms):
        assert np.abs(allowed - gap).min() <= 1e-6 * max(1.0, times[-1])


def test_jobs_far_apart_cannot_meet() -> None:
    """Each gap is longer than the work of the job before it."""
    recorded = course(np.array([0.0, 0.0, 1.0]), np.array([2, 0, 1], np.int32))
    work_ms = np.array([1e6, 5e9, 10.0])
    found = far_apart(recorded, work_ms).arrivals
    assert found.job.tolist() == [2, 0, 1]
    assert (np.diff(found.arrival_ms) > work_ms[found.job[:-1]]).all()


@pytest.mark.parametrize("policy", [name for name, spec in HEURISTICS.items() if spec.search])
def test_the_fit_finds_the_best_values_of_separate_parameters(policy: str) -> None:
    """A sum of distances to listed values has its least there, and few scores are needed."""
    search = HEURISTICS[policy].search
    goal = {label: values[len(values) // 3] for label, values in search.items()}
    whole = {**HEURISTICS[policy].defaults, **goal}  # what is not searched stays
    scored: list[Parameters] = []

    def scores(every: list[Parameters]) -> list[float]:
        scored.extend(every)
        return [sum(abs(one[label] - value) for label, value in goal.items()) for one in every]

    found = descend(policy, scores)
    assert (found.parameters, found.score, found.scores) == (whole, 0.0, len(scored))
    assert len(scored) <= max_scores(policy) <= 80


def test_a_driver_that_waits_for_its_jobs_is_recognised() -> None:
    """Jobs a second long, each submitted 100 ms after the last ended; a minute apart they are not.

    The same jobs submitted while others run do not count.
    """
    jobs = [Job(f"job {k}", (stage("s", 4, 1000.0),), arrival_ms=1100.0 * k) for k in range(5)]
    assert waiting_share(recording(*jobs)) == 1.0
    assert waiting_share(never_meeting()) == 0.0
    assert waiting_share(recording(*jobs, ends_ms=3000.0)) == 0.0


def test_sizes_are_half_as_many_and_twice() -> None:
    """One executor has no half."""
    assert WhatIfSettings(8).sizes == (4, 8, 16)
    assert WhatIfSettings(1).sizes == (1, 2)


@pytest.mark.parametrize(
    "wrong",
    [
        {"policies": ()},
        {"policies": ("fifo", "fifo")},
        {"policies": ("best",)},
        {"protocol": "decima-sim"},
        {"executors": 0},
        {"draws": 0},
        {"sequences": 10**9},
        {"seed": -1},
        {"estimates": "guessed"},
    ],
)
def test_impossible_settings_are_refused(wrong: dict[str, object]) -> None:
    """One line, before anything runs."""
    with pytest.raises(ValueError, match=r"slots|polic|protocol|draws|sequences|seed|estimates"):
        replace(FAST, **wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("value", "words"), [(0.1234, "0.12 s"), (12.34, "12.3 s"), (1234.5, "1,234 s")]
)
def test_seconds_have_three_digits(value: float, words: str) -> None:
    """Enough to compare, short enough for a table."""
    assert seconds(value) == words


@pytest.mark.parametrize(
    ("pools", "ends_s"),
    [((None, None), [4.0, 8.0]), (("p9", "p10"), [8.0, 5.0]), (("p1", "p9"), [4.0, 8.0])],
)
def test_of_jobs_with_as_many_slots_spark_takes_the_first_pool_by_name(
    pools: tuple[str | None, str | None], ends_s: list[float]
) -> None:
    """One slot, tasks of 1 s, the second job half a second later; "p10" is before "p9"."""
    jobs = [
        Job(name, (stage("s", 4, 1000.0),), arrival_ms=at) for name, at in (("a", 0), ("b", 500.0))
    ]
    made = recording(*jobs, slots=1, mode="FAIR")
    drivers = tuple(
        replace(DriverRecord.none(job), pool=pool) for job, pool in zip(jobs, pools, strict=True)
    )
    workload = ReplayWorkload.of(replace(made, driver=drivers))
    cluster = WhatIfSettings(1).cluster(1)
    found = workload.jct_s(cluster, "spark_fair", workload.recorded(), 0)
    assert (found + workload.arrivals.arrival_ms / 1000).tolist() == pytest.approx(ends_s)
    fifo = workload.jct_s(cluster, "fifo", workload.recorded(), 0)
    assert (fifo + workload.arrivals.arrival_ms / 1000).tolist() == pytest.approx([4.0, 8.0])
