"""Arrival sequences like a recorded one."""

from __future__ import annotations

import numpy as np

from decima.rl.statistics import stretches
from decima.whatif.closed_loop import clients_of
from decima.whatif.replay.workload import Course
from spark_sim import Allocation, Slots
from spark_sim.tables import NONE
from traces.arrivals import Arrivals
from traces.numbers import Float64, Int64

_SLACK_MS = 3_600_000.0


def resampled(recorded: Course, rng: np.random.Generator) -> Course:
    """Draw as many arrivals as recorded, joined from stretches of the recording.

    A circular block bootstrap (`stretches`) of arrivals, each with the gap after it. Bursts, pauses
    and jobs that come together so stay together, while the load and what meets what vary. A job
    whose client waited for another still does where that one is in its stretch; else it waits for
    the last job of its client in the stretches before. Slots are the cluster's, or follow the load.
    """
    arrivals = recorded.arrivals
    count = len(arrivals)
    gap_ms = np.diff(arrivals.arrival_ms, append=arrivals.arrival_ms[-1])
    # What came after the last arrival is not recorded; a mean gap joins the end to the start.
    gap_ms[-1] = gap_ms[:-1].mean() if count > 1 else 0.0
    (rows,) = stretches(count, 1, rng)
    arrival_ms = np.concatenate([[0.0], gap_ms[rows[:-1]].cumsum()])
    follows = _follows(recorded.follows, rows)
    slots = recorded.slots if isinstance(recorded.slots, Allocation) else None
    return Course(Arrivals(arrival_ms, arrivals.job[rows]), follows, slots)


def _follows(recorded: Int64, rows: Int64) -> Int64:
    """(K,) whom each arrival, a recorded one in `rows`, follows."""
    leaders = np.full(len(rows), NONE)
    clients = clients_of(recorded)
    waits = np.isin(clients, clients[recorded != NONE])
    latest: dict[int, int] = {}  # the place of each client's last job before the stretch
    begin = 0
    for place, row in enumerate(rows.tolist()):
        if place > 0 and row != rows[place - 1] + 1:
            latest.update(
                zip(clients[rows[begin:place]].tolist(), range(begin, place), strict=True)
            )
            begin = place
        before = place - (row - recorded[row])
        if recorded[row] != NONE and before >= begin:
            leaders[place] = before
        elif waits[row]:
            leaders[place] = latest.get(int(clients[row]), NONE)
    return leaders


def far_apart(recorded: Course, work_ms: Float64) -> Course:
    """The recorded jobs in their order, but each long after the one before has ended.

    Each finds the slots from its recorded arrival on, or all where they follow the load. `work_ms`
    (J,) bounds how long a job runs.
    """
    arrivals = recorded.arrivals
    gap_ms = 10.0 * work_ms[arrivals.job] + _SLACK_MS
    arrival_ms = np.concatenate([[0.0], gap_ms[:-1].cumsum()])
    slots = None
    if isinstance(recorded.slots, Slots):
        slots = _each_alone(recorded.slots, arrivals.arrival_ms, arrival_ms)
    follows = np.full(len(arrivals), NONE)
    return Course(Arrivals(arrival_ms, arrivals.job), follows, slots)


def _each_alone(slots: Slots, was_ms: Float64, is_ms: Float64) -> Slots:
    """Return the slots from each recorded time `was_ms` on, moved to `is_ms`."""
    times, counts = [], []
    for was, now, following in zip(was_ms, is_ms, np.append(is_ms[1:], np.inf), strict=True):
        moved = slots.time_ms - was + now
        later = (moved > now) & (moved < following)
        times += [[now], moved[later]]
        counts += [slots.at(np.array([was])), slots.count[later]]
    return Slots(np.concatenate(times), np.concatenate(counts))
