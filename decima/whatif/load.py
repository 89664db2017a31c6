"""Facts about a recording that decide how far a what-if can be trusted."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from decima.whatif.closed_loop import followers_share, keep_a_timetable
from decima.whatif.replay import Recording
from decima.whatif.replay.recording import FIFO
from spark_sim import Slots
from traces.numbers import MS_PER_S, Float64
from traces.spark_log.names import query_in, shared_names


def recorded_slots(recording: Recording) -> int:
    """The largest number of slots that applications with jobs under way had at once."""
    changes: list[tuple[float, int]] = []
    for position, (begin_ms, end_ms) in enumerate(_spans_ms(recording)):
        slots = recording.curve(position).most
        changes += [(begin_ms, slots), (end_ms, -slots)]
    changes.sort()
    return max(1, int(np.cumsum([change for _, change in changes]).max()))


def _spans_ms(recording: Recording) -> list[tuple[float, float]]:
    """First submission and last end of the jobs of each application."""
    rows = [recording.application == position for position in range(len(recording.slots))]
    return [(recording.arrival_ms[row].min(), recording.end_ms[row].max()) for row in rows]


def varying_slots(recording: Recording) -> Slots | None:
    """The slots over time of the one application; None where they did not vary, or of several."""
    if len(recording.slots) > 1 or not recording.curve(0).varies:
        return None
    return recording.curve(0)


def are_pooled(recording: Recording) -> bool:
    """Return whether applications overlapped, so that one session pools their slots."""
    return any(begin < end for (_, end), (begin, _) in pairwise(sorted(_spans_ms(recording))))


def recorded_reference(recording: Recording) -> str:
    """The policy that most of the recorded jobs ran under."""
    policies = [recording.policy(position) for position in range(len(recording.slots))]
    counts = Counter(policies[position] for position in recording.application)
    policy, jobs = counts.most_common(1)[0]
    return policy if 2 * jobs > len(recording.application) else FIFO


def span_s(recording: Recording) -> float:
    return float(recording.end_ms.max() - recording.arrival_ms.min()) / MS_PER_S


def offered_load(recording: Recording, executors: int) -> float:
    """Work of all jobs divided by what `executors` could do while it was recorded."""
    work_s = sum(job.work_ms for job in recording.trace.jobs) / MS_PER_S
    return work_s / max(1e-9, span_s(recording) * executors)


def waiting_share(recording: Recording) -> float:
    """Share of the jobs that came right after another of their application had ended.

    None of an application whose jobs come by a timetable.
    """
    work_ms = np.array([job.work_ms for job in recording.trace.jobs])
    shares, counts = [], []
    for position in range(len(recording.slots)):
        rows = recording.application == position
        times = recording.arrival_ms[rows], recording.end_ms[rows]
        is_timed = keep_a_timetable(*times)
        shares.append(0.0 if is_timed else followers_share(*times, work_ms[rows]))
        counts.append(int(rows.sum()))
    return float(np.average(shares, weights=counts))


def recorded_avg_s(recording: Recording) -> float:
    return float(recording.recorded_ms.mean()) / MS_PER_S


def known_share(recording: Recording) -> float:
    """Share of the jobs that are a further run of a query that the recording has already."""
    trace = recording.trace
    shared = shared_names(trace)
    met = set()
    again = 0
    for row in np.argsort(recording.arrival_ms, kind="stable"):
        query = query_in(trace, trace.jobs[row])
        again += query in met
        if query is not None and query not in shared:
            met.add(query)
    return again / len(trace.jobs)


def by_length(alone_s: Float64) -> dict[str, NDArray[np.int64]]:
    """The jobs in three groups of about equal number, by how long they take alone."""
    order = np.argsort(alone_s, kind="stable")
    if len(order) < 3:
        return {"all": order}
    short, middle, long = np.array_split(order, 3)
    return {"short": short, "middle": middle, "long": long}
