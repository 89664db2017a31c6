"""`SparkPool`: tasks on a Spark cluster, as plain RDDs of one task a partition.

No barrier stages: one lost task of those restarts them all. Tasks are pure, so what Spark does
about lost executors, failed attempts and slow hosts (it runs a task again) shows in the time alone.
"""

from __future__ import annotations

import gc
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4
from weakref import WeakValueDictionary

from decima.rl.parallel.errors import ClusterError, TaskError, WorkerLostError
from decima.rl.parallel.pool import (
    K,
    R,
    S,
    SentOnce,
    T,
    WorkerPool,
    answer,
    attempt,
    with_sent,
    without_sent,
)

if TYPE_CHECKING:
    from pyspark import Broadcast, SparkContext

_TASKS_PER_SLOT = 8
"""of one Spark job: so answers come, and progress shows, before all tasks are done"""
_CANCEL_AGAIN_S = 0.5

_LOST = re.compile(
    r"ExecutorLostFailure|OutOfMemoryError|Python worker (?:exited|crashed)|MemoryError|"
    r"SparkContext was shut down"
)
"""in Spark's message where processes, not tasks, failed"""

_Items = Sequence[tuple[int, Any]]


class SparkPool(WorkerPool):
    """Tasks on the executors of an open session, which stays open when the pool closes."""

    def __init__(self, context: SparkContext) -> None:
        self.context = context
        """Spark's"""
        self._sent: dict[str, Broadcast[Any]] = {}
        self._alive: WeakValueDictionary[str, SentOnce[Any]] = WeakValueDictionary()
        # One job after the other, in a thread: signals reach only a thread that waits in Python.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="spark-pool")

    @property
    def slots(self) -> int:
        """Cores of the executors that are there now."""
        return int(self.context.defaultParallelism)

    def map(
        self, function: Callable[[S, T], R], shared: S, tasks: Mapping[K, T], *, label: str
    ) -> Iterator[tuple[K, R]]:
        """Map tasks; see `WorkerPool.map`. ClusterError if the executors lack a module."""
        keys, items = list(tasks), list(enumerate(tasks.values()))
        if not items:
            return
        rest, kept = without_sent(shared)
        common = self.context.broadcast(rest)
        held = {place: self._broadcast(value) for place, value in kept.items()}
        jobs = _Jobs(self.context, partial(_run, function, common, held), label)
        size = _TASKS_PER_SLOT * self.slots
        parts = [items[first : first + size] for first in range(0, len(items), size)]
        futures = [
            self._thread.submit(jobs.run, part, f" ({number} of {len(parts)})" * (len(parts) > 1))
            for number, part in enumerate(parts, start=1)
        ]
        try:
            for future in futures:
                for number, outcome in future.result():
                    yield keys[number], answer(outcome, label, keys[number])
        finally:
            jobs.end(futures)
            common.destroy()

    def close(self) -> None:
        """Destroy retained broadcasts; all Spark jobs of the pool have ended."""
        self._thread.shutdown()
        for broadcast in self._sent.values():
            broadcast.destroy()
        self._sent = {}

    def _broadcast(self, value: SentOnce[Any]) -> Broadcast[Any]:
        """Broadcast a value once; broadcasts whose owner is gone are destroyed."""
        for name in self._sent.keys() - self._alive.keys():
            self._sent.pop(name).destroy()
        if value.name not in self._sent:
            self._alive[value.name] = value
            self._sent[value.name] = self.context.broadcast(value.value)
        return self._sent[value.name]


class _Jobs:
    """The Spark jobs of one map, which are cancelled together."""

    def __init__(
        self, context: SparkContext, run: Callable[[tuple[int, Any]], Any], label: str
    ) -> None:
        self._context = context
        self._run = run
        self._label = label
        self._group = uuid4().hex

    def run(self, items: _Items, part: str) -> list[tuple[int, Any]]:
        """One job; called in the thread for jobs."""
        from py4j.protocol import Py4JError

        context = self._context
        context.setJobGroup(self._group, self._label + part, interruptOnCancel=True)
        try:
            outcomes = context.parallelize(items, len(items)).map(self._run).collect()
        except Py4JError as error:
            raise _gave_up(str(error), self._label) from error
        return sorted(outcomes, key=lambda outcome: int(outcome[0]))

    def end(self, futures: Sequence[Future[Any]]) -> None:
        """Cancel what has not ended, and wait until it has."""
        for future in futures:
            future.cancel()
        # Again and again: a job that is just being submitted is not there to be cancelled yet.
        while wait_for(futures, timeout=0).not_done:
            self._context.cancelJobGroup(self._group)
            wait_for(futures, timeout=_CANCEL_AGAIN_S)


def _run(
    function: Callable[[Any, Any], Any],
    common: Broadcast[Any],
    held: Mapping[int, Broadcast[Any]],
    item: tuple[int, Any],
) -> tuple[int, Any]:
    """One task, in an executor's Python."""
    number, task = item
    kept = {place: SentOnce(broadcast.value) for place, broadcast in held.items()}
    outcome = attempt(function, with_sent(common.value, kept), task)
    settle()
    return number, outcome


_settled_modules = 0
"""how many modules this process had when `settle` last did something"""


def settle() -> None:
    """Take what modules hold out of garbage collection: an executor's Python collects after every
    task, and looking through all of torch and numba takes longer than a short task.
    """
    global _settled_modules  # noqa: PLW0603 - it is about the process
    if len(sys.modules) != _settled_modules:
        _settled_modules = len(sys.modules)
        gc.collect()  # else what is garbage now would stay for good
        gc.freeze()


def _gave_up(words: str, label: str) -> ClusterError | TaskError:
    """Return the error for a job that Spark gave up, from Java's long message."""
    missing = re.search(r"ModuleNotFoundError: (No module named '[\w.]+')", words)
    if missing is not None:
        return ClusterError(
            f"{label}: on an executor: {missing[1]}: every host needs this package, installed or "
            "in an archive"
        )
    reason = re.search(r"^([A-Za-z]\w*Error: .*)$", words, re.MULTILINE) or re.search(
        r"SparkException: (.*)", words
    )
    cause = reason[1] if reason is not None else words.strip().partition("\n")[0]
    if _LOST.search(words):
        return WorkerLostError(f"{label}: Spark gave up after losing executors: {cause}")
    return TaskError(f"{label}: Spark gave up: {cause}")
