"""Which job arrives when: rates, shapes, replay, files, and decima-sim's own sequences."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from traces import ARRIVALS, Arrivals, Job, Stage, Trace, TraceError, read_arrivals, write_arrivals
from traces.arrivals import batch, bursty, decima_sim, diurnal, poisson, recorded
from traces.catalog import load_trace

EXAMPLES = Path(__file__).parents[1] / "docs" / "examples"


def trace_of(*names: str, arrivals: tuple[float | None, ...] = ()) -> Trace:
    times = arrivals or (None,) * len(names)
    jobs = (
        Job(name, (Stage.fixed("s", 1, 1.0),), time)
        for name, time in zip(names, times, strict=True)
    )
    return Trace("t", tuple(jobs))


ABC = trace_of("a", "b", "c")


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.mark.parametrize("name", ARRIVALS)
def test_every_process_keeps_the_contract(name: str) -> None:
    first, again, other = (ARRIVALS[name](ABC, 500, 25_000.0, rng(seed)) for seed in (1, 1, 2))
    assert len(first) == 500
    assert first.arrival_ms.dtype == np.float64
    assert first.job.dtype == np.int32
    assert np.all(np.diff(first.arrival_ms) >= 0)
    assert first.arrival_ms[0] >= 0
    assert set(first.job.tolist()) == {0, 1, 2}
    assert first.arrival_ms.tolist() == again.arrival_ms.tolist()
    assert first.job.tolist() == again.job.tolist()
    assert first.job.tolist() != other.job.tolist()


@pytest.mark.parametrize(
    ("draw", "tolerance"),
    [(poisson, 0.03), (bursty, 0.10), (lambda *a: diurnal(*a, period_ms=1e5), 0.03)],
    ids=["poisson", "bursty", "diurnal"],
)
def test_the_mean_gap_is_the_one_asked_for(
    draw: Callable[[Trace, int, float, np.random.Generator], Arrivals], tolerance: float
) -> None:
    """20,000 gaps of 25 ms: four standard errors of each process are inside the tolerance."""
    arrivals = draw(ABC, 20_000, 25.0, rng(3))
    assert arrivals.arrival_ms[-1] / len(arrivals) == pytest.approx(25.0, rel=tolerance)


def dispersion(arrivals: Arrivals, window_ms: float) -> float:
    """Variance over mean of the counts in windows: 1 for a Poisson process."""
    counts = np.bincount((arrivals.arrival_ms // window_ms).astype(int))[:-1]
    return float(counts.var() / counts.mean())


def test_poisson_gaps_are_exponential() -> None:
    """Standard deviation equals mean, and counts in windows are not over-dispersed."""
    arrivals = poisson(ABC, 20_000, 25.0, rng(4))
    gaps = np.diff(arrivals.arrival_ms, prepend=0.0)
    assert gaps.std() == pytest.approx(gaps.mean(), rel=0.05)
    assert np.median(gaps) == pytest.approx(25.0 * np.log(2), rel=0.05)
    assert dispersion(arrivals, 500.0) == pytest.approx(1.0, abs=0.15)


def test_bursts_are_denser_and_take_their_share_of_the_time() -> None:
    """With factor 4, counts are far from Poisson; with a factor near 1, they are Poisson."""
    arrivals = bursty(ABC, 20_000, 25.0, rng(5), burst_factor=4.0, burst_jobs=100.0)
    assert dispersion(arrivals, 500.0) > 10
    # In a burst 80 jobs fall into a window of 500 ms, in calm 5: a valley lies between.
    counts = np.bincount((arrivals.arrival_ms // 500.0).astype(int))
    share = np.mean(counts > 40)
    assert share == pytest.approx(1 / 5, abs=0.06)
    mild = bursty(ABC, 20_000, 25.0, rng(5), burst_factor=1.01)
    assert dispersion(mild, 500.0) == pytest.approx(1.0, abs=0.15)


def test_days_have_their_busy_half_first() -> None:
    """With amplitude 0.8 the first half of a period gets (1 + 1.6 / pi) / 2 = 75.5 % of it."""
    arrivals = diurnal(ABC, 20_000, 25.0, rng(6), period_ms=10_000.0)
    busy = np.mean((arrivals.arrival_ms % 10_000.0) < 5_000.0)
    assert busy == pytest.approx((1 + 1.6 / np.pi) / 2, abs=0.015)
    flat = diurnal(ABC, 20_000, 25.0, rng(6), period_ms=10_000.0, amplitude=0.0)
    assert np.mean((flat.arrival_ms % 10_000.0) < 5_000.0) == pytest.approx(0.5, abs=0.015)


def test_a_recording_is_replayed_in_order_of_time() -> None:
    arrivals = recorded(trace_of("a", "b", "c", "d", arrivals=(7.0, 0.0, 7.0, 3.0)))
    assert arrivals.arrival_ms.tolist() == [0.0, 3.0, 7.0, 7.0]
    assert arrivals.job.tolist() == [1, 3, 0, 2]


def test_decima_sim_sequences_never_change() -> None:
    """Frozen: numpy promises this stream for ever, and published runs depend on it."""
    trace = load_trace("tpch-like")
    arrivals = decima_sim(trace, streaming_jobs=3, mean_gap_ms=25_000.0, seed=7)
    shown = [
        (time, trace.jobs[job].name)
        for time, job in zip(arrivals.arrival_ms.tolist(), arrivals.job, strict=True)
    ]
    assert shown == [
        (0.0, "50g/q16"),
        (37_843.0, "20g/q20"),
        (69_978.0, "50g/q15"),
        (77_636.0, "5g/q15"),
    ]
    assert len(decima_sim(trace, 200, 25_000.0, 7)) == 201


@pytest.mark.parametrize(
    ("draw", "rule"),
    [
        (lambda: batch(ABC, 0, rng()), "num_jobs 0"),
        (lambda: poisson(ABC, 5, 0.0, rng()), r"mean_gap_ms 0\.0"),
        (lambda: poisson(ABC, 5, float("nan"), rng()), "mean_gap_ms nan"),
        (lambda: bursty(ABC, 5, 1.0, rng(), burst_factor=1.0), r"burst_factor 1\.0"),
        (lambda: bursty(ABC, 5, 1.0, rng(), burst_jobs=-1), "burst_jobs -1"),
        (lambda: diurnal(ABC, 5, 1.0, rng(), amplitude=1.5), r"amplitude 1\.5"),
        (lambda: diurnal(ABC, 5, 1.0, rng(), period_ms=0), "period_ms 0"),
        (lambda: decima_sim(ABC, -1, 1.0, 0), "streaming_jobs -1"),
        (lambda: decima_sim(ABC, 5, 1.0, -1), "seed -1"),
        (lambda: decima_sim(ABC, 5, 1.0, 0), "no job '2g/q1'"),  # it needs the 154 queries
        (lambda: recorded(trace_of("a", "b", arrivals=(1.0, None))), "'b' has no recorded arrival"),
        (lambda: Arrivals(np.array([2.0, 1.0]), np.zeros(2, np.int32)), "1 ms comes before 2 ms"),
        (lambda: Arrivals(np.array([np.inf]), np.zeros(1, np.int32)), "inf ms must be at most"),
        (lambda: Arrivals(np.array([-1.0]), np.zeros(1, np.int32)), "-1 ms must not be negative"),
        (lambda: Arrivals(np.array([1.0]), np.array([-1], np.int32)), "job index -1"),
        (lambda: Arrivals(np.array([1.0]), np.zeros(2, np.int32)), "same length"),
        (lambda: Arrivals(np.zeros(0), np.zeros(0, np.int32)), "at least 1"),
    ],
)
def test_impossible_settings_name_value_and_rule(draw: Callable[[], Arrivals], rule: str) -> None:
    with pytest.raises(TraceError, match=rule):
        draw()


def test_arrivals_cannot_be_changed_after_they_were_checked() -> None:
    mine = np.array([1.0, 2.0])
    arrivals = Arrivals(mine, np.zeros(2, np.int32))
    mine[0] = 9.0
    assert arrivals.arrival_ms.tolist() == [1.0, 2.0]
    with pytest.raises(ValueError, match="read-only"):
        arrivals.job[0] = 1


times = st.lists(st.floats(0, 1e15, allow_subnormal=False), min_size=1, max_size=20).map(sorted)


@settings(max_examples=40)
@given(times=times, data=st.data())
def test_a_list_survives_the_file_to_the_last_bit(
    times: list[float], data: st.DataObject, tmp_path: Path
) -> None:
    trace = trace_of("a", "b,c", 'd"e', "#f")
    jobs = data.draw(st.lists(st.integers(0, 3), min_size=len(times), max_size=len(times)))
    path = tmp_path / "arrivals.csv"
    write_arrivals(Arrivals(np.array(times), np.array(jobs, np.int32)), trace, str(path))
    arrivals = read_arrivals(str(path), trace)
    assert arrivals.arrival_ms.tolist() == times
    assert arrivals.job.tolist() == jobs


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", ": empty, expected a header with arrival_ms, job"),
        ("arrival_ms,job\n", ": holds no arrival"),
        ("arrival_ms\n1\n", ":1: column 'job' is missing"),
        ("arrival_ms,job\n5,a\n4,b\n", ":3: arrival_ms 4: lines must be in order of time"),
        ("arrival_ms,job\n-5,a\n", ":2: arrival_ms -5: must not be negative"),
        ("arrival_ms,job\ninf,a\n", ":2: arrival_ms 'inf' must be finite"),
        ("arrival_ms,job\nsoon,a\n", ":2: arrival_ms 'soon' is not a number"),
        ("arrival_ms,job\n0,a\n1e16,a\n", ":3: arrival_ms 1e16: must be at most 9.0"),
        ("arrival_ms,job\n5,z\n", ":2: trace 't' has no job 'z'"),
        ("arrival_ms,job\n5,a,b\n", ":2: 3 cells, the header has 2"),
    ],
)
def test_mistakes_in_a_list_name_file_and_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "arrivals.csv"
    path.write_text(text)
    with pytest.raises(TraceError) as caught:
        read_arrivals(path, ABC)
    assert str(caught.value).startswith(f"{path}{message}")


def test_a_list_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    arrivals = Arrivals(np.array([1.0]), np.array([7], np.int32))
    with pytest.raises(TraceError, match="job index 7: trace 't' has 3 jobs"):
        write_arrivals(arrivals, ABC, tmp_path / "a.csv")
    with pytest.raises(TraceError, match="cannot write"):
        write_arrivals(batch(ABC, 1, rng()), ABC, tmp_path / "none" / "a.csv")
    assert list(tmp_path.iterdir()) == []


def test_the_example_of_the_documentation_is_read() -> None:
    """It replays the jobs of the CSV example."""
    arrivals = read_arrivals(EXAMPLES / "arrivals.csv", load_trace(EXAMPLES / "jobs.csv"))
    assert arrivals.arrival_ms.tolist() == [0.0, 12_500.0, 12_500.0, 60_000.0]
    assert arrivals.job.tolist() == [0, 1, 1, 0]
