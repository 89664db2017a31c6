"""Tasks for the tests of pools: importable by name, since processes look them up."""

from __future__ import annotations

import gc
import os
import signal
import time
from pathlib import Path
from typing import NamedTuple

from decima.rl.parallel.pool import SentOnce

EXECUTORS_KNOW_US = {"spark.executorEnv.PYTHONPATH": str(Path(__file__).parents[1])}
"""settings of a Spark whose tasks are functions of these tests, which nobody installs"""


class Shared(NamedTuple):
    """Something large, and something small that changes."""

    large: SentOnce[Counted]
    factor: int


class Counted:
    """A value that knows how often it was taken out of a parcel, by leaving a file each time."""

    def __init__(self, folder: Path, value: int) -> None:
        self.folder = folder
        self.value = value

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        (self.folder / f"{os.getpid()}.{time.monotonic_ns()}").touch()


def product(factor: int, number: int) -> int:
    return factor * number


def naps(naps_s: tuple[float, ...], number: int) -> int:
    """The answer takes a while."""
    time.sleep(naps_s[number])  # so that answers come in another order, or not in time
    return number


def with_large(shared: Shared, number: int) -> tuple[int, int]:
    """The answer and the process."""
    time.sleep(0.05)  # so that no process does all
    return shared.large.value.value + shared.factor * number, os.getpid()


def fails(kind: str, number: int) -> int:
    """At 2, as asked."""
    if number == 2:
        if kind == "refused":
            raise ValueError("2 is not odd")
        raise OddError(kind, number)
    return number


class OddError(Exception):
    """One that cannot be pickled: its arguments are not those of its base class."""

    def __init__(self, kind: str, number: int) -> None:
        super().__init__(f"{kind} at {number}")


def unsendable(_: None, number: int) -> object:
    return (lambda: number) if number == 1 else number


def dies(folder: Path, number: int) -> int:
    """The task 1 kills its process, the first time it runs."""
    mark = folder / "died"
    if number == 1 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def says_where_and_sleeps(folder: Path, number: int) -> int:
    """For those who interrupt it."""
    (folder / str(os.getpid())).touch()
    time.sleep(600)  # the test ends it
    return number


def living(_: Shared, number: int) -> int:
    """How many values of that kind the process holds."""
    time.sleep(0.05)  # so that no process does all
    return sum(isinstance(thing, Counted) for thing in gc.get_objects())
