"""Floors: an executor for each application that waits for its first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from decima.spark.coordinator.applications import Application
from decima.spark.coordinator.tables import Share


class Room(NamedTuple):
    """Room for J applications with work to hold executors together."""

    slots: int
    """executors, without those that others keep"""
    caps: Sequence[Mapping[str, int]]
    """(J,) caps by the group that shares each, without what others in it keep"""


def shares_with_floors(
    active: Sequence[Application],
    shares: Sequence[Share],
    room: Room,
    wait_ms: float,
    now_ms: float,
) -> list[Share]:
    """(J,) the shares, with an executor free for each application that waits for its first.

    If the cluster or a cap is full, the largest holder under it gives one. If all hold just
    one, an application that has waited beyond `wait_ms` replaces the one served longest.
    """
    shares = list(shares)
    # An application with work keeps one that is idle now.
    used = sum(
        max(share.busy + share.starting, min(1, share.idle, application.waiting_tasks))
        for share, application in zip(shares, active, strict=True)
    )
    free = room.slots - used
    waiting = [
        job
        for job, application in enumerate(active)
        if application.granted == 0 and application.waiting_tasks > 0
    ]
    totals = [share.total for share in shares]
    for job in sorted(waiting, key=lambda job: active[job].waited_ms(now_ms), reverse=True):
        holders = _full_groups(room.caps, totals, job)
        if holders is None and free > 0:
            free -= 1
            totals[job] += 1
            continue
        every = range(len(active)) if holders is None else holders
        victim = _victim(every, active, shares, job, wait_ms, now_ms)
        if victim is not None:
            shares[victim] = _with_one_less(shares[victim])
            totals[victim] -= 1
            totals[job] += 1
    return shares


def _victim(
    holders: Sequence[int],
    active: Sequence[Application],
    shares: Sequence[Share],
    waiting: int,
    wait_ms: float,
    now_ms: float,
) -> int | None:
    """The application, of `holders`, that gives an executor to one that waits."""
    rich = [job for job in holders if shares[job].total > 1]
    if rich:
        return max(rich, key=lambda job: shares[job].total / active[job].weight)
    if active[waiting].waited_ms(now_ms) < wait_ms:
        return None
    served = [
        job
        for job in holders
        if shares[job].total == 1 and now_ms - active[job].serves_since_ms >= wait_ms
    ]
    return min(served, key=lambda job: active[job].serves_since_ms, default=None)


def _full_groups(
    caps: Sequence[Mapping[str, int]], totals: Sequence[int], waiting: int
) -> list[int] | None:
    """Places of the applications that share a full cap with `waiting`; None if no cap is full."""
    for group, cap in caps[waiting].items():
        members = [job for job, groups in enumerate(caps) if group in groups]
        if sum(totals[job] for job in members) >= cap:
            return members
    return None


def _with_one_less(share: Share) -> Share:
    """Take an executor away: an idle one, one that has not come yet, or one that is busy."""
    if share.idle > 0:
        return share._replace(idle=share.idle - 1)
    if share.starting > 0:
        return share._replace(starting=share.starting - 1, ahead=share.ahead - 1)
    return share._replace(busy=share.busy - 1, ahead=max(0, share.ahead - 1))
