"""What a what-if takes from a recording: arrivals, clients that wait, load; and its settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decima.registry import HEURISTICS, Parameters
from decima.training.descent import descend, max_scores
from decima.whatif import ApplicationsSettings, WhatIfSettings, what_if
from decima.whatif.advice import findings
from decima.whatif.closed_loop import clients_of, predecessors
from decima.whatif.load import waiting_share
from decima.whatif.replay import DriverRecord, Recording, ReplaySettings
from decima.whatif.replay.recording import POOLS
from decima.whatif.replay.workload import Course, ReplayWorkload, far_apart, resampled
from spark_sim.tables import NONE
from tests.recordings import FAST, course, exact, never_meeting, recording, varied
from tests.stories import stage
from traces import Job
from traces.arrivals import Arrivals
from traces.numbers import Float64

SLOTS, PAUSE_MS = 4, 50.0
POLICIES = ("fifo", "spark_fair", "tuned_weighted_fair", "tuned_srw", "es_rule", "decima")


def sequential(count: int = 30, *, mode: str = "FIFO", clients: int = 1) -> Recording:
    """Jobs of 1 to 40 tasks; each client's next comes after its last.

    They were recorded as shorter than they are simulated, as happens to some of every log.
    """
    sizes = np.random.default_rng(7).choice([1, 3, 8, 40], count)
    free_ms = [10.0 * client for client in range(clients)]
    jobs, ends_ms, follows = [], [], []
    newest = [NONE] * clients
    for number, size in enumerate(sizes.tolist()):
        client = int(np.argmin(free_ms))
        at_ms, took_ms = free_ms[client], 450.0 * clients * -(-size // SLOTS)
        stage = varied("s", size, 600.0)
        jobs.append(Job(f"job {number}", (stage,), arrival_ms=at_ms))
        ends_ms.append(at_ms + took_ms)
        follows.append(newest[client])
        newest[client], free_ms[client] = number, at_ms + took_ms + PAUSE_MS
    turns = recording(*jobs, slots=SLOTS, mode=mode)
    recorded = turns.trace.metadata["recorded"]
    for job, end_ms in zip(jobs, ends_ms, strict=True):
        recorded[job.name]["end_ms"] = end_ms
    driver = tuple(replace(entry, pool="ab"[row % 2]) for row, entry in enumerate(turns.driver))
    return replace(turns, driver=driver, follows=tuple(follows))


@pytest.mark.parametrize("reference", ["fifo", POOLS])
def test_no_policy_differs_in_any_table(reference: str) -> None:
    mode = "FIFO" if reference == "fifo" else "FAIR"
    names = tuple(dict.fromkeys((reference, *POLICIES)))
    settings = WhatIfSettings(SLOTS, names, draws=2, sequences=6, training=1, held_back=1)
    study = what_if(sequential(mode=mode), settings)
    tables: dict[str, Mapping[str, Float64]] = {
        f"recorded, {size} slots": {name: of.jct_s for name, of in result.policies.items()}
        for size, result in study.sizes.items()
    }
    main = study.main.policies
    tables["resampled averages"] = {name: figures.resampled_avg_s for name, figures in main.items()}
    tables["resampled p95"] = {name: figures.resampled_p95_s for name, figures in main.items()}
    for table, values in tables.items():
        for name, figures in values.items():
            np.testing.assert_allclose(
                figures, values[reference], rtol=1e-9, err_msg=f"{table}: {name}"
            )
    np.testing.assert_allclose(study.alone.jct_s, study.main.policies["fifo"].jct_s)
    if study.pools is not None:
        base = study.main.policies[reference]
        np.testing.assert_allclose(study.pools[1].avg_s, base.avg_s)
        np.testing.assert_allclose(study.pools[1].resampled_avg_s, base.resampled_avg_s)
    assert (study.pools is None) == (reference == "fifo")
    assert next(findings(study, exact(study))).startswith("Next to nothing to gain")


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("clients", [1, 3])
def test_resampled_clients_stay_as_many(clients: int, seed: int) -> None:
    """Each waits for its own last job, also where a stretch begins; none has two jobs at once."""
    workload = ReplayWorkload.of(sequential(40, clients=clients))
    recorded = workload.recorded()
    drawn = resampled(recorded, np.random.default_rng(seed))
    # Of each arrival the recorded one that it repeats.
    place = {job: row for row, job in enumerate(recorded.arrivals.job.tolist())}
    client = clients_of(recorded.follows)[[place[job] for job in drawn.arrivals.job.tolist()]]
    assert (drawn.follows == NONE).sum() == len(set(client.tolist())) <= clients
    followed = np.flatnonzero(drawn.follows != NONE)
    assert (client[drawn.follows[followed]] == client[followed]).all()
    assert (drawn.follows[followed] < followed).all()


def test_jobs_that_come_by_themselves_do_so_in_every_stretch() -> None:
    """Beside a client of three jobs, in the middle."""
    follows = np.array([NONE, NONE, 1, 2, NONE, NONE])
    course = Course(Arrivals(np.arange(6.0), np.arange(6, dtype=np.int32)), follows, None)
    for seed in range(20):
        drawn = resampled(course, np.random.default_rng(seed))
        own = np.isin(drawn.arrivals.job, (0, 4, 5))
        assert (drawn.follows[own] == NONE).all()


def test_a_first_job_that_comes_later_thinks_as_long_as_the_others() -> None:
    """A client's pauses of 50 ms, and none of its own to measure."""
    workload = ReplayWorkload.of(sequential(12))
    assert workload.think_ms == pytest.approx(np.full(12, PAUSE_MS))


def test_a_timetable_is_no_client_that_waits() -> None:
    """Every 10 s, with short pauses or long; in several times; with breaks; one of two groups."""
    rng = np.random.default_rng(3)
    every_10_s = 10_000.0 * np.arange(24, dtype=np.float64)
    for took_ms in (2_000.0, 9_600.0):
        end_ms = every_10_s + took_ms + rng.uniform(-300, 300, 24)
        assert (predecessors(every_10_s, end_ms, np.ones(24)) == NONE).all()
    several = np.array([60_000.0 * k + at for k in range(8) for at in (0.0, 9e3, 25e3)], float)
    end_ms = (
        several + np.array([8_000.0, 14_000.0, 33_000.0] * 8, float) + rng.uniform(-700, 700, 24)
    )
    assert (predecessors(several, end_ms, np.ones(24)) == NONE).all()
    broken = every_10_s + np.repeat([0.0, 1e6, 5e6], 8)
    assert (predecessors(broken, broken + rng.uniform(7e3, 9e3, 24), np.ones(24)) == NONE).all()
    busy_ms = rng.uniform(1_000, 9_000, 24)
    begun_ms = np.cumsum(busy_ms + 100.0) - busy_ms
    times = np.concatenate([every_10_s, begun_ms])
    ends_ms = np.concatenate([every_10_s + rng.uniform(5e3, 9e3, 24), begun_ms + busy_ms])
    leaders = predecessors(times, ends_ms, np.ones(48), [["cron"] * 24 + ["etl"] * 24])
    assert (leaders[:24] == NONE).all()
    assert leaders[25:].tolist() == list(range(24, 47))


def test_clients_that_wait_are_no_timetable() -> None:
    """They sleep as long after each job, or as they like."""
    rng = np.random.default_rng(5)
    took_ms = rng.uniform(1_000, 4_000, 40)
    for think_ms in (np.zeros(40), np.full(40, 900.0), rng.exponential(1_500, 40)):
        begin_ms = np.concatenate([[0.0], np.cumsum(took_ms + think_ms)[:-1]])
        leaders = predecessors(begin_ms, begin_ms + took_ms, np.ones(40))
        assert leaders.tolist() == list(range(-1, 39))


def test_a_tight_timetable_is_not_called_clients_that_wait() -> None:
    """Each job comes 0.1 s after the end of the one before, about."""
    jobs = [Job(f"job {k}", (varied("s", 1, 600.0),), arrival_ms=10_000.0 * k) for k in range(20)]
    timetable = recording(*jobs, slots=SLOTS)
    took_ms = np.random.default_rng(2).uniform(9_700.0, 9_990.0, 20)
    for job, own_ms in zip(jobs, took_ms.tolist(), strict=True):
        timetable.trace.metadata["recorded"][job.name]["end_ms"] = (job.arrival_ms or 0.0) + own_ms
    assert waiting_share(timetable) == 0.0
    assert waiting_share(sequential()) > 0.9


def test_alike_jobs_of_a_stream_are_no_client_that_waits() -> None:
    """Every fourth job looks alike: they never overlap, but keep their distance from each other's
    arrivals, not from ends.
    """
    rng = np.random.default_rng(13)
    gaps_ms = rng.uniform(1_100, 1_900, 40)
    took_ms = np.tile([4_300.0, 3_000.0, 2_400.0, 1_500.0], 10) + rng.uniform(-700, 700, 40)
    arrival_ms = np.cumsum(gaps_ms)
    shapes = [(k % 4,) for k in range(40)]
    leaders = predecessors(arrival_ms, arrival_ms + took_ms, np.ones(40), shapes=shapes)
    assert (leaders == NONE).all()


# --- arrivals and settings ----------------------------------------------------------------------


@given(gaps=st.lists(st.floats(0, 1e7), min_size=1, max_size=40), seed=st.integers(0, 2**32 - 1))
def test_a_resampled_sequence_is_made_of_the_recorded_one(gaps: list[float], seed: int) -> None:
    """As many arrivals, from time 0 on, with gaps that were recorded (or their mean)."""
    times = np.cumsum(gaps)
    times -= times[0]
    recorded = course(times, np.arange(len(gaps), dtype=np.int32))
    drawn = resampled(recorded, np.random.default_rng(seed)).arrivals
    assert len(drawn) == len(gaps)
    assert drawn.arrival_ms[0] == 0.0
    seen = np.diff(times)
    allowed = np.append(seen, seen.mean() if len(seen) else 0.0)
    for gap in np.diff(drawn.arrival_ms):
        assert np.abs(allowed - gap).min() <= 1e-6 * max(1.0, times[-1])


def test_jobs_far_apart_cannot_meet() -> None:
    recorded = course(np.array([0.0, 0.0, 1.0]), np.array([2, 0, 1], np.int32))
    work_ms = np.array([1e6, 5e9, 10.0])
    apart = far_apart(recorded, work_ms).arrivals
    assert apart.job.tolist() == [2, 0, 1]
    assert (np.diff(apart.arrival_ms) > work_ms[apart.job[:-1]]).all()


@pytest.mark.parametrize("policy", [name for name, spec in HEURISTICS.items() if spec.search])
def test_the_fit_finds_the_best_values_of_separate_parameters(policy: str) -> None:
    """A sum of distances to listed values has its least there, and few scores are needed."""
    search = HEURISTICS[policy].search
    goal = {label: values[len(values) // 3] for label, values in search.items()}
    whole = {**HEURISTICS[policy].defaults, **goal}  # what is not searched stays
    scored: list[Parameters] = []

    def scores(every: list[Parameters]) -> list[float]:
        scored.extend(every)
        return [
            sum(abs(parameters[label] - value) for label, value in goal.items())
            for parameters in every
        ]

    best = descend(policy, scores)
    assert (best.parameters, best.score, best.scores) == (whole, 0.0, len(scored))
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
    assert WhatIfSettings(8).sizes == (4, 8, 16)
    assert WhatIfSettings(1).sizes == (1, 2)


@pytest.mark.parametrize(
    ("settings", "change", "words"),
    [
        (FAST, {"policies": ()}, "polic"),
        (FAST, {"policies": ("fifo", "fifo")}, "polic"),
        (FAST, {"policies": ("best",)}, "best"),
        (FAST, {"protocol": "decima-sim"}, "decima-sim"),
        (FAST, {"executors": 0}, "slots"),
        (FAST, {"draws": 0}, "draws"),
        (FAST, {"sequences": 10**9}, "sequences"),
        (FAST, {"seed": -1}, "seed"),
        (FAST, {"estimates": "guessed"}, "guessed"),
        (ApplicationsSettings(4), {"slots": 0}, "executors"),
        (ApplicationsSettings(4), {"policies": ()}, "polic"),
        (ApplicationsSettings(4), {"policies": ("best",)}, "best"),
        (ApplicationsSettings(4), {"moving_delay_s": -1.0}, "delay"),
        (ApplicationsSettings(4), {"estimates": "guessed"}, "guessed"),
        (ReplaySettings(), {"draws": 0}, "draws"),
        (ReplaySettings(), {"seed": -1}, "seed"),
    ],
)
def test_impossible_settings_are_refused(settings: Any, change: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        replace(settings, **change)


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
    jct_s = workload.jct_s(cluster, "spark_fair", workload.recorded(), 0)
    assert (jct_s + workload.arrivals.arrival_ms / 1000).tolist() == pytest.approx(ends_s)
    fifo = workload.jct_s(cluster, "fifo", workload.recorded(), 0)
    assert (fifo + workload.arrivals.arrival_ms / 1000).tolist() == pytest.approx([4.0, 8.0])
