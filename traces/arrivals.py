"""Arrivals of jobs: generators, replay of a recording, and files.

Every generator takes a `numpy.random.Generator` and is a pure function of it. The clock starts at 0
and the first gap is counted from there, so only a batch has arrivals at exactly 0. Each arrival is
a job of the trace, drawn uniformly and with replacement.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from traces.errors import TraceError, located
from traces.files.names import clean
from traces.files.numbers import MAX_TIME_MS
from traces.files.rows import write_rows
from traces.model import LATEST, MAX_NAME
from traces.text import parse_number, read_table
from traces.trace import Trace

DECIMA_SIM_SIZES = ("2g", "5g", "10g", "20g", "50g", "80g", "100g")
DECIMA_SIM_QUERIES = 22


@dataclass(frozen=True, eq=False)
class Arrivals:
    """K job instances in order of arrival; one job of the trace may arrive any number of times."""

    arrival_ms: NDArray[np.float64]
    """(K,) non-decreasing, >= 0"""
    job: NDArray[np.int32]
    """(K,) index into `Trace.jobs`"""

    def __post_init__(self) -> None:
        times = np.array(self.arrival_ms, np.float64)
        jobs = np.array(self.job, np.int32)
        object.__setattr__(self, "arrival_ms", times)
        object.__setattr__(self, "job", jobs)
        if times.ndim != 1 or times.shape != jobs.shape or len(times) == 0:
            raise TraceError(
                f"arrivals of shape {times.shape} with jobs of shape {jobs.shape}: "
                "both must be one row of the same length, at least 1"
            )
        bad = times[~((times >= 0) & (times <= MAX_TIME_MS))]  # also of NaN
        if len(bad):
            rule = "not be negative" if bad[0] < 0 else f"be at most {LATEST}"
            raise TraceError(f"arrival {bad[0]:g} ms must {rule}")
        early = np.flatnonzero(np.diff(times) < 0)
        if len(early):
            k = int(early[0]) + 1
            raise TraceError(f"arrival {k}: {times[k]:g} ms comes before {times[k - 1]:g} ms")
        if jobs.min() < 0:
            raise TraceError(f"job index {jobs.min()} must not be negative")
        for array in (times, jobs):
            array.flags.writeable = False

    def __len__(self) -> int:
        return len(self.job)


def batch(trace: Trace, num_jobs: int, rng: np.random.Generator) -> Arrivals:
    """All jobs at time 0, in random order."""
    _check_positive(num_jobs=num_jobs)
    return _drawn(trace, np.zeros(num_jobs), rng)


def poisson(trace: Trace, num_jobs: int, mean_gap_ms: float, rng: np.random.Generator) -> Arrivals:
    """A Poisson process: independent exponential gaps."""
    _check_positive(num_jobs=num_jobs, mean_gap_ms=mean_gap_ms)
    return _drawn(trace, rng.exponential(mean_gap_ms, num_jobs).cumsum(), rng)


def bursty(
    trace: Trace,
    num_jobs: int,
    mean_gap_ms: float,
    rng: np.random.Generator,
    *,
    burst_factor: float = 4.0,
    burst_jobs: float = 20.0,
) -> Arrivals:
    r"""A Poisson process whose rate alternates between bursts and calm (two-state MMPP).

    With the mean rate :math:`\lambda` and the factor :math:`b`, bursts have rate
    :math:`b \lambda` and calm has :math:`\lambda / b`; bursts take the share :math:`1 / (b + 1)`
    of the time, which keeps the mean rate at :math:`\lambda`. Both last exponentially long, and
    the first state is drawn by that share.

    Args:
        trace: where jobs are drawn from.
        num_jobs: number of arrivals.
        mean_gap_ms: mean gap over bursts and calm together.
        rng: source of all randomness.
        burst_factor: b, above 1.
        burst_jobs: mean number of jobs in a burst.
    """
    _check_positive(num_jobs=num_jobs, mean_gap_ms=mean_gap_ms, burst_jobs=burst_jobs)
    if not 1 < burst_factor < float("inf"):
        raise TraceError(f"burst_factor {burst_factor} must be above 1 and finite")
    burst_ms = burst_jobs * mean_gap_ms / burst_factor
    # (mean gap between jobs, mean time in the state) of calm and of burst
    states = (
        (mean_gap_ms * burst_factor, burst_ms * burst_factor),
        (mean_gap_ms / burst_factor, burst_ms),
    )
    in_burst = bool(rng.random() < 1 / (burst_factor + 1))
    times: list[float] = []
    now = 0.0
    while len(times) < num_jobs:
        gap_ms, stay_ms = states[in_burst]
        end = now + rng.exponential(stay_ms)
        # Exponential gaps have no memory, so a gap cut off by the end of a state is drawn again.
        now += rng.exponential(gap_ms)
        while now < end and len(times) < num_jobs:
            times.append(now)
            now += rng.exponential(gap_ms)
        now, in_burst = end, not in_burst
    return _drawn(trace, np.array(times), rng)


def diurnal(
    trace: Trace,
    num_jobs: int,
    mean_gap_ms: float,
    rng: np.random.Generator,
    *,
    period_ms: float = 86_400_000.0,
    amplitude: float = 0.8,
) -> Arrivals:
    r"""A Poisson process with a daily rhythm.

    .. math:: \lambda(t) = \lambda \, (1 + a \sin(2 \pi t / period))

    Drawn by thinning: candidates at the largest rate :math:`\lambda (1 + a)` are accepted with
    probability :math:`\lambda(t) / (\lambda (1 + a))`. `mean_gap_ms` is the mean over whole
    periods; a sequence that ends in the busy half has a smaller one.
    """
    _check_positive(num_jobs=num_jobs, mean_gap_ms=mean_gap_ms, period_ms=period_ms)
    if not 0 <= amplitude <= 1:
        raise TraceError(f"amplitude {amplitude} must lie in [0, 1]")
    accepted = np.empty(0)
    now = 0.0
    while len(accepted) < num_jobs:
        times = now + rng.exponential(mean_gap_ms / (1 + amplitude), num_jobs).cumsum()
        rate = 1 + amplitude * np.sin(2 * np.pi * times / period_ms)
        accepted = np.concatenate([accepted, times[rng.random(num_jobs) * (1 + amplitude) < rate]])
        now = float(times[-1])
    return _drawn(trace, accepted[:num_jobs], rng)


ArrivalProcess = Callable[[Trace, int, float, np.random.Generator], Arrivals]

ARRIVALS: Mapping[str, ArrivalProcess] = {
    "batch": lambda trace, num_jobs, mean_gap_ms, rng: batch(trace, num_jobs, rng),
    "poisson": poisson,
    "bursty": bursty,
    "diurnal": diurnal,
}
"""processes by name, called as (trace, num_jobs, mean_gap_ms, rng); a batch ignores the gap"""


def recorded(trace: Trace) -> Arrivals:
    """Every job of `trace` once, when it was submitted; TraceError if that is not recorded."""
    arrival_ms = trace.columns.arrival_ms
    is_missing = np.isnan(arrival_ms)
    if is_missing.any():
        name = trace.job_names[int(np.argmax(is_missing))]
        raise TraceError(f"trace {trace.name!r}: job {name!r} has no recorded arrival")
    order = np.argsort(arrival_ms, kind="stable")
    return Arrivals(arrival_ms[order], order.astype(np.int32))


def decima_sim(trace: Trace, streaming_jobs: int, mean_gap_ms: float, seed: int) -> Arrivals:
    """The sequence that decima-sim draws from `seed`: one job at 0, then `streaming_jobs` more.

    The same calls of the same generator in the same order: for the first job the query before the
    size, for each later one the gap (whole milliseconds), the size, then the query.

    Raises:
        TraceError: `trace` lacks a job ``{size}/q{query}`` of decima-sim's 154.
    """
    if streaming_jobs < 0 or not 0 <= seed < 2**32:
        raise TraceError(
            f"streaming_jobs {streaming_jobs} must not be negative, seed {seed} in 0..2**32-1"
        )
    _check_positive(mean_gap_ms=mean_gap_ms)
    # The legacy generator is required: published sequences are defined by its stream.
    rng = np.random.RandomState(seed)
    row = [
        [
            trace.index_of[trace.job(f"{size}/q{query + 1}").name]
            for query in range(DECIMA_SIM_QUERIES)
        ]
        for size in DECIMA_SIM_SIZES
    ]
    first_query = rng.randint(DECIMA_SIM_QUERIES)
    jobs = [row[rng.randint(len(row))][first_query]]
    times = [0.0]
    for _ in range(streaming_jobs):
        times.append(times[-1] + int(rng.exponential(mean_gap_ms)))
        size = rng.randint(len(row))
        jobs.append(row[size][rng.randint(DECIMA_SIM_QUERIES)])
    return Arrivals(np.array(times), np.array(jobs, np.int32))


def read_arrivals(path: str | Path, trace: Trace) -> Arrivals:
    """Read a CSV file with the columns ``arrival_ms`` and ``job`` (a name in `trace`).

    Raises:
        TraceError: a cell is no time or names no job, or a line is earlier than the one before;
            the message begins with ``file:line:``.
    """
    times: list[float] = []
    jobs: list[int] = []
    for line, row in read_table(Path(path), ("arrival_ms", "job")):
        with located(f"{path}:{line}"):
            time_ms = parse_number(row["arrival_ms"], "arrival_ms")
            if time_ms < (times[-1] if times else 0.0):
                rule = "lines must be in order of time" if times else "must not be negative"
                raise TraceError(f"arrival_ms {row['arrival_ms']:.60}: {rule}")
            if time_ms > MAX_TIME_MS:
                rule = f"must be at most {LATEST}"
                raise TraceError(f"arrival_ms {row['arrival_ms']:.60}: {rule}")
            job = trace.job(clean(row["job"], MAX_NAME))
        times.append(time_ms)
        jobs.append(trace.index_of[job.name])
    if not times:
        raise TraceError(f"{path}: holds no arrival")
    return Arrivals(np.array(times), np.array(jobs, np.int32))


def write_arrivals(arrivals: Arrivals, trace: Trace, path: str | Path) -> None:
    """Write what `read_arrivals` reads, to the last bit; the file appears whole or not at all.

    Raises:
        TraceError: an index is beyond `trace`, or the file cannot be written.
    """
    if arrivals.job.max() >= len(trace.jobs):
        raise TraceError(
            f"job index {arrivals.job.max()}: trace {trace.name!r} has {len(trace.jobs)} jobs"
        )
    names = (trace.job_names[job] for job in arrivals.job)
    rows = zip(map(repr, arrivals.arrival_ms.tolist()), names, strict=True)
    write_rows(Path(path), [("arrival_ms", "job"), *rows], TraceError)


def _drawn(trace: Trace, arrival_ms: NDArray[np.float64], rng: np.random.Generator) -> Arrivals:
    jobs = rng.integers(len(trace.jobs), size=len(arrival_ms), dtype=np.int32)
    return Arrivals(arrival_ms, jobs)


def _check_positive(**settings: float) -> None:
    for name, value in settings.items():
        if not 0 < value < float("inf"):
            raise TraceError(f"{name} {value} must be positive and finite")
