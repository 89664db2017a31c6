"""Whether jobs come from clients that wait for their jobs."""

from __future__ import annotations

import heapq

import numpy as np
import pytest

from decima.whatif.closed_loop import MOSTLY, followers_share
from traces.numbers import Float64

JOBS = 400


def share(times: tuple[Float64, Float64]) -> float:
    """Of jobs that are all as large."""
    return followers_share(*times, np.ones(len(times[0])))


def by_clients(clients: int, think_ms: float, seed: int) -> tuple[Float64, Float64]:
    """Arrivals and ends of clients that submit their next job `think_ms` after the last ended."""
    rng = np.random.default_rng(seed)
    free = [(float(n), n) for n in range(clients)]
    arrival_ms, end_ms = [], []
    for took_ms in rng.exponential(5_000, JOBS):
        at_ms, client = heapq.heappop(free)
        arrival_ms.append(at_ms)
        end_ms.append(at_ms + took_ms)
        heapq.heappush(free, (end_ms[-1] + think_ms, client))
    return np.array(arrival_ms), np.array(end_ms)


def by_themselves(load: float, seed: int) -> tuple[Float64, Float64]:
    """Memoryless arrivals to one server, in order."""
    rng = np.random.default_rng(seed)
    arrival_ms = np.cumsum(rng.exponential(1_000 / load, JOBS))
    end_ms, free_ms = [], 0.0
    for at_ms, took_ms in zip(arrival_ms, rng.exponential(1_000, JOBS), strict=True):
        free_ms = max(free_ms, at_ms) + took_ms
        end_ms.append(free_ms)
    return arrival_ms, np.array(end_ms)


@pytest.mark.parametrize("clients", [1, 4, 16])
@pytest.mark.parametrize("think_ms", [0.0, 50.0])
def test_clients_that_wait_for_their_jobs_are_recognised(clients: int, think_ms: float) -> None:
    """But not those that think for long."""
    assert share(by_clients(clients, think_ms, 1)) > 0.8
    assert share(by_clients(clients, 60_000.0, 1)) < 0.15


@pytest.mark.parametrize("load", [0.3, 0.8, 1.2])
@pytest.mark.parametrize("seed", [1, 2])
def test_jobs_that_come_by_themselves_are_not_taken_for_such(load: float, seed: int) -> None:
    """However often one happens to follow an end."""
    assert share(by_themselves(load, seed)) < 0.15 < MOSTLY


def test_ends_that_nobody_knows_count_for_nothing() -> None:
    arrival_ms, end_ms = by_clients(2, 0.0, 1)
    unknown = np.where(np.arange(JOBS) < JOBS - 5, end_ms, np.nan)
    assert share((arrival_ms, unknown)) > 0.8
    assert share((arrival_ms, np.full(JOBS, np.nan))) == 0.0
    assert share((np.zeros(3), np.array([1.0, 1.0, 1.0]))) == 0.0


def test_a_stream_of_small_batches_beside_large_jobs_is_not_all_there_is() -> None:
    """Batches of one client, one right after the other, and large jobs that come by themselves."""
    batch_ms = 600.0 * np.arange(60)
    large_ms = 600.0 * np.array([10.5, 30.5, 45.5])
    times = np.append(batch_ms, large_ms), np.append(batch_ms + 595.0, large_ms + 5_000.0)
    assert share(times) > MOSTLY
    work_ms = np.append(np.full(60, 500.0), np.full(3, 30_000.0))
    assert followers_share(*times, work_ms) < MOSTLY
    large_first = np.append(np.full(60, 30_000.0), np.full(3, 500.0))
    assert followers_share(*times, large_first) > MOSTLY


def test_few_jobs_that_follow_frequent_ends_do_so_by_chance() -> None:
    """A job ends each 4 s; of eight, five come within a second of an end, or within 20 ms."""
    end_ms = np.arange(6_000.0, 50_000.0, 4_000.0)
    shares = []
    for pauses_ms in ([900.0, 300.0, 700.0, 500.0, 800.0], [20.0, 11.0, 15.0, 19.0, 12.0]):
        since_ms = np.array([2_000.0, *pauses_ms, 3_000.0, 1_900.0])
        arrival_ms = np.append(np.array([0.0, 1_000.0, 2_000.0]), end_ms[:8] + since_ms)
        shares.append(share((arrival_ms, end_ms)))
    assert shares[0] == 0.0
    assert shares[1] > MOSTLY


@pytest.mark.parametrize(("slots", "gap_ms"), [(4, 2_500.0), (8, 1_000.0)])
def test_a_dozen_jobs_at_random_under_load_are_not_taken_for_clients(
    slots: int, gap_ms: float
) -> None:
    """Jobs of 3 to 8 tasks of 2 to 6 s queue for the slots; none of 300 such recordings errs."""
    for seed in range(300):
        rng = np.random.default_rng(seed)
        arrival_ms = np.cumsum(rng.exponential(gap_ms, 12))
        free_ms = [0.0] * slots
        end_ms = np.zeros(12)
        for job, at_ms in enumerate(arrival_ms):
            for task_ms in rng.uniform(2_000, 6_000, rng.integers(3, 9)):
                ends_ms = max(at_ms, heapq.heappop(free_ms)) + task_ms
                heapq.heappush(free_ms, ends_ms)
                end_ms[job] = max(end_ms[job], ends_ms)
        assert share((arrival_ms, end_ms)) <= MOSTLY, seed
