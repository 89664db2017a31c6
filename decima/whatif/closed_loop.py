"""Detection of closed loops: jobs that come when other jobs end, as their clients wait.

Recorded arrivals are then no basis to compare policies: had a job ended sooner, its client's next
one would have come sooner, too. So a replay submits a job that followed another the recorded time
after the end of that one (the client's think time). With a fixed number of clients and slots that
are always busy, no order changes the average JCT (Little's law).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

import numpy as np

from traces.numbers import Float64, Int64

NONE = -1  # no job

MOSTLY = 0.5  # share from which jobs count as coming from clients that wait for them
_FEWEST = 3  # least number of jobs after the first end for a finding
_SOON_MS = 1000.0
_SOON = 0.25
# "Right after" is within a second and within a quarter of the mean time between two ends.
_RARELY = 0.001
# Jobs come right after ends since their clients wait, unless so many do by chance so often.
_BY_CHANCE = 0.1
# Jobs that never overlap come from a client that waits, unless that happens by chance so often.
_EXACT = 0.01
_FAR_MORE = 4.0
# Of a timetable, times between arrivals differ by less than 1 %, and a quarter of what pauses do.


def predecessors(
    arrival_ms: Float64,
    end_ms: Float64,
    work_ms: Float64,
    lanes: Sequence[Sequence[Hashable | None]] = (),
    shapes: Sequence[Hashable] = (),
) -> Int64:
    """Return for each job the one that its client waited for; NONE where it came by itself.

    Jobs come from one client if none of them came before the one before it had ended, and that is
    no chance: first all jobs are tried, then those of one lane, then those of one shape, whose
    pauses after ends must vary less than the times between arrivals. Jobs that come by a timetable
    follow none. Where most of the others came right after some job had ended,
    those that did follow that one.

    Args:
        arrival_ms: (K,) of the jobs of one application, in any order.
        end_ms: (K,) of the same jobs.
        work_ms: (K,) of the same jobs, above 0.
        lanes: ways to distinguish clients, each with (K,) labels; None belongs to no lane.
        shapes: (K,) the same label for jobs that look alike, or nothing.
    """
    leaders = np.full(len(arrival_ms), NONE)
    is_timed = np.zeros(len(arrival_ms), np.bool_)
    order = np.argsort(arrival_ms, kind="stable")
    for labels, by_chance, is_shape in (
        ([0] * len(order), _BY_CHANCE, False),
        *((labels, _BY_CHANCE, False) for labels in lanes),
        (shapes, _BY_CHANCE / max(1, len(set(shapes))), True),
    ):
        for label in dict.fromkeys(labels):
            rows = order[[labels[row] == label for row in order.tolist()]]
            if label is None or (leaders[rows[1:]] != NONE).any() or is_timed[rows].any():
                continue
            arrivals_ms, ends_ms = arrival_ms[rows], end_ms[rows]
            if keep_a_timetable(arrivals_ms, ends_ms):
                is_timed[rows] = True
            elif _are_in_turn(arrivals_ms, ends_ms, by_chance):
                pauses_ms, gaps_ms = arrivals_ms[1:] - ends_ms[:-1], np.diff(arrivals_ms)
                if not is_shape or pauses_ms.std() < gaps_ms.std():
                    leaders[rows[1:]] = rows[:-1]
    rest = order[(leaders[order] == NONE) & ~is_timed[order]]
    if followers_share(arrival_ms[rest], end_ms[rest], work_ms[rest]) > MOSTLY:
        pauses_ms, ended = _pauses_right_after(arrival_ms[rest], end_ms[rest])
        soon = np.isfinite(pauses_ms) & (arrival_ms[rest[ended]] < arrival_ms[rest])
        leaders[rest[soon]] = rest[ended[soon]]
    return leaders


def clients_of(follows: Int64) -> Int64:
    """(K,) the first job of each job's client, by `follows` (K,): an earlier one, or NONE."""
    clients = np.arange(len(follows))
    for row in np.flatnonzero(follows != NONE).tolist():
        clients[row] = clients[follows[row]]
    return clients


def _are_in_turn(arrival_ms: Float64, end_ms: Float64, by_chance: float) -> bool:
    """Return whether jobs, by arrival, never overlap, though random ones would.

    K points at random in a time T are all followed by gaps of at least d_1 ... d_(K-1) with
    probability (1 - sum(d) / T)^(K-2), where T is from the first to the last.
    """
    if len(arrival_ms) < _FEWEST or (arrival_ms[1:] < end_ms[:-1]).any():
        return False
    span_ms = max(float(arrival_ms[-1] - arrival_ms[0]), 1.0)
    busy = float((end_ms - arrival_ms)[:-1].sum()) / span_ms
    return bool(max(0.0, 1.0 - busy) ** (len(arrival_ms) - 2) < by_chance)


def keep_a_timetable(arrival_ms: Float64, end_ms: Float64) -> bool:
    """Return whether times between arrivals come again, though the pauses after ends do not.

    Compared is the distance of each to the one nearest to it, so that a timetable may have several
    times, and breaks. Where jobs all take as long, both come again: it is a timetable if the pauses
    are longer than the jobs. The (K,) times are in the order of arrival.
    """
    if len(arrival_ms) < _FEWEST:
        return False
    gaps_ms, pauses_ms = np.diff(arrival_ms), arrival_ms[1:] - end_ms[:-1]
    exact_ms = _EXACT * float(np.median(gaps_ms))
    gap_ms, pause_ms = _nearest_ms(gaps_ms), _nearest_ms(pauses_ms)
    if pause_ms > _FAR_MORE * gap_ms:
        return gap_ms <= exact_ms
    took_ms = (end_ms - arrival_ms)[:-1]
    both = (np.ptp(np.percentile(values_ms, (25, 75))) for values_ms in (gaps_ms, took_ms))
    is_unclear = gap_ms <= _FAR_MORE * pause_ms and max(both) <= exact_ms
    return bool(is_unclear and np.median(pauses_ms) > np.median(took_ms))


def _nearest_ms(values_ms: Float64) -> float:
    """Median over the values of the distance to the nearest other."""
    steps_ms = np.diff(np.sort(values_ms))
    nearest_ms = np.minimum(np.append(steps_ms, np.inf), np.concatenate([[np.inf], steps_ms]))
    return float(np.median(nearest_ms))


def followers_share(arrival_ms: Float64, end_ms: Float64, work_ms: Float64) -> float:
    r"""Share of the jobs that came right after another had ended, less what is chance: 0 to 1.

    Of the jobs after the first end, or of their work, whichever is less: neither a stream of small
    batches beside large jobs nor one large job makes it many. The (K,) times are of jobs in any
    order, `end_ms` NaN where one has not ended.

    A job that comes by itself does so right after an end with the probability p: the part of the
    time, from the first end to the last arrival, that is no longer after an end than the longest of
    the pauses in question. That a share s or more of n such jobs do has at most the probability
    (Chernoff)

    .. math:: e^{-n \left(s \ln\frac{s}{p} + (1 - s) \ln\frac{1 - s}{1 - p}\right)}, \quad s > p

    Where it is not rare, the share is 0: few jobs under load follow frequent ends.
    """
    ends_ms = np.sort(end_ms[~np.isnan(end_ms)])
    if len(ends_ms) < 2:
        return 0.0
    is_later = arrival_ms > ends_ms[0]
    if is_later.sum() < _FEWEST or ends_ms[-1] == ends_ms[0]:
        return 0.0
    pauses_ms = _pauses_right_after(arrival_ms, end_ms)[0][is_later]
    follows = np.isfinite(pauses_ms)
    last_ms = float(arrival_ms.max())
    gaps_ms = np.diff(np.append(ends_ms[ends_ms < last_ms], last_ms))
    longest_ms = max(1.0, float(pauses_ms[follows].max(initial=0.0)))  # clocks have milliseconds
    by_chance = float(np.minimum(gaps_ms, longest_ms).sum() / gaps_ms.sum())
    counted = float(follows.mean())
    share = min(counted, float(np.average(follows, weights=work_ms[is_later])))
    if share <= by_chance:
        return 0.0
    exponent = counted * math.log(counted / by_chance)
    if counted < 1.0:
        exponent += (1.0 - counted) * math.log((1.0 - counted) / (1.0 - by_chance))
    if math.exp(-len(follows) * exponent) > _RARELY:
        return 0.0
    return (share - by_chance) / (1.0 - by_chance)


def _pauses_right_after(arrival_ms: Float64, end_ms: Float64) -> tuple[Float64, Int64]:
    """(K,) time from the end before each arrival, infinity if not right after, and (K,) whose end.

    Of the jobs that ended before it is the one that ended last.
    """
    by_end = np.argsort(end_ms, kind="stable")  # NaN last
    ends_ms = end_ms[by_end][: int((~np.isnan(end_ms)).sum())]
    soon_ms = min(_SOON_MS, _SOON * float(ends_ms[-1] - ends_ms[0]) / (len(ends_ms) - 1))
    place = np.searchsorted(ends_ms, arrival_ms, side="right") - 1
    since_ms = np.where(place >= 0, arrival_ms - ends_ms[place], np.inf)
    return np.where(since_ms <= soon_ms, since_ms, np.inf), by_end[place]
