"""Types of GPU: which servers have which, and how fast it is.

A cluster names them in its order of servers, each as `NAME:SERVERS:SPEED`, such as `V100:3:2`.
Speeds are relative: those that are measured, and the minutes of jobs, are of a type with speed 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from decima.rl.errors import StudyError

MOST_TYPES = 16
_SLOWEST, _FASTEST = 0.01, 100.0
_LONGEST_NAME = 40


class GpuType(NamedTuple):
    """One type of GPU."""

    name: str
    servers: int
    """that have GPUs of this type alone"""
    speed: float
    """of a job whose slowest worker has one, over its speed on a type of speed 1"""


def parse_gpu_types(texts: Sequence[str], servers: int) -> tuple[GpuType, ...]:
    """Return the types of a cluster's GPUs, in its order of servers; without any, one nameless.

    Raises:
        StudyError: a text is no type, or the types are not those of so many servers.
    """
    if not texts:
        return (GpuType("", servers, 1.0),)
    if len(texts) > MOST_TYPES:
        raise StudyError(f"{len(texts)} types of GPU: at most {MOST_TYPES} are possible")
    found = tuple(_parsed(text) for text in texts)
    names = [one.name for one in found]
    if len(set(names)) < len(names):
        raise StudyError(f"gpu_types names a type twice: {', '.join(names)}")
    total = sum(one.servers for one in found)
    if total != servers:
        raise StudyError(f"gpu_types has {total} servers, where the cluster has {servers}")
    return found


def servers_of(texts: Sequence[str]) -> int:
    """Return how many servers the types of a cluster have.

    Raises:
        StudyError: a text is no type.
    """
    return sum(_parsed(text).servers for text in texts)


def number_of(types: Sequence[GpuType], name: str) -> int:
    """Return the number of a type by its name.

    Raises:
        StudyError: there is no such type.
    """
    names = [one.name for one in types]
    if name not in names:
        there = f"there are {', '.join(names)}" if names != [""] else "the cluster names none"
        raise StudyError(f"GPU is {name!r:.40}; {there}")
    return names.index(name)


def _parsed(text: str) -> GpuType:
    name, *numbers = text.split(":")
    rule = f"gpu_types has {text!r:.60}: NAME:SERVERS:SPEED is needed, such as V100:3:2"
    if len(numbers) != 2 or not 0 < len(name) <= _LONGEST_NAME:
        raise StudyError(rule)
    servers, speed = numbers
    try:
        found = GpuType(name, int(servers), float(speed))
    except ValueError as fault:
        raise StudyError(rule) from fault
    if found.servers < 0:
        raise StudyError(f"gpu_types has {text!r:.60}: servers must not be negative")
    if not _SLOWEST <= found.speed <= _FASTEST:
        raise StudyError(f"gpu_types has {text!r:.60}: a speed from {_SLOWEST:g} to {_FASTEST:g}")
    return found
