"""Arrival sequences like a recorded one."""

from __future__ import annotations

import numpy as np

from decima.rl.statistics import stretches
from traces.arrivals import Arrivals


def resampled(recorded: Arrivals, rng: np.random.Generator) -> Arrivals:
    """Draw as many arrivals as recorded, joined from stretches of the recording.

    A circular block bootstrap (`stretches`) of arrivals, each with the gap after it. Bursts, pauses
    and jobs that come together so stay together, while the load and what meets what vary. The gap
    after a job goes with it, because it may be the job's own duration: a driver may have waited for
    its end.

    Args:
        recorded: K arrivals.
        rng: source of all randomness.
    """
    count = len(recorded)
    gap_ms = np.diff(recorded.arrival_ms, append=recorded.arrival_ms[-1])
    # What came after the last arrival is not recorded; a mean gap joins the end to the start.
    gap_ms[-1] = gap_ms[:-1].mean() if count > 1 else 0.0
    (rows,) = stretches(count, 1, rng)
    arrival_ms = np.concatenate([[0.0], gap_ms[rows[:-1]].cumsum()])
    return Arrivals(arrival_ms, recorded.job[rows])


def far_apart(
    recorded: Arrivals, work_ms: np.ndarray[tuple[int], np.dtype[np.float64]]
) -> Arrivals:
    """The recorded jobs in their order, but each long after the one before has ended.

    Args:
        recorded: K arrivals.
        work_ms: (J,) executor-time of each job, which bounds how long it runs.
    """
    slack_ms = 3_600_000.0
    gap_ms = 10.0 * work_ms[recorded.job] + slack_ms
    return Arrivals(np.concatenate([[0.0], gap_ms[:-1].cumsum()]), recorded.job)
