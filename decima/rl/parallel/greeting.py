"""Check before the work starts that every executor computes as this process does.

The same question (a pure function) is put to the driver and to as many executors as will take it.
Spark has no call that runs once on each executor but barrier stages, which one lost executor
restarts and dynamic allocation refuses. So rounds of short tasks are sent, one for each slot, until
every executor that is known has answered; tasks of later rounds linger, so that a fast executor
does not take them all. An executor that joins later is not asked: its tasks answer for it, since
they carry no other code than the archive that it was started with.
"""

from __future__ import annotations

import os
import re
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

from decima.rl.parallel.errors import ClusterError
from traces.files.names import one_line

Answer = Callable[[], Mapping[str, str]]

PATIENCE_S = 300.0
"""how long the first executor may take to come; a cluster that takes longer has none to give"""
_ROUNDS = 4
_LINGER_S = 0.5

_NO_MODULE = re.compile(r"ModuleNotFoundError: No module named '([\w.]+)'")
_NO_PYTHON = re.compile(r'Cannot run program "([^"]+)"')
_OTHER_PYTHON = re.compile(
    r"different version:? \(?(\d+)(?:, |\.)(\d+).{0,40}in driver:? (\d+\.\d+)", re.DOTALL
)
_LAST_LINE = re.compile(r"^\w*(?:\w+\.)*\w*(?:Error|Exception): .*", re.MULTILINE)


class Greeted(NamedTuple):
    """Answer of one executor to the greeting."""

    host: str
    executor: int
    """a process that only tasks of this executor share"""
    answer: Mapping[str, str]


def check_executors(context: Any, answer: Answer) -> None:
    """Ask every executor, and compare with the answer of this process, key by key.

    Raises ClusterError if an executor answers otherwise or cannot answer, or if none came.
    """
    expected = dict(answer())
    heard: set[tuple[str, int]] = set()
    for turn in range(_ROUNDS):
        linger_s = 0.0 if turn == 0 else _LINGER_S
        for greeted in _ask(context, answer, linger_s):
            for key in sorted(expected.keys() | greeted.answer.keys()):
                here, theirs = expected.get(key), greeted.answer.get(key)
                if here != theirs:
                    raise ClusterError(
                        f"{greeted.host}: {key} is {theirs} there and {here} here: executors and "
                        "driver must agree, which an archive of `decima cluster pack` provides"
                    )
            heard.add((greeted.host, greeted.executor))
        if len(heard) >= _known_executors(context):
            return


def _ask(context: Any, answer: Answer, linger_s: float) -> list[Greeted]:
    """One round: a task for each slot."""
    slots = max(context.defaultParallelism, _known_executors(context))
    group = f"greeting-{time.monotonic_ns()}"
    context.setJobGroup(group, "asking executors for their versions", interruptOnCancel=True)
    waiting = threading.Event()
    watch = threading.Thread(
        target=_give_up_without_executors, args=(context, group, waiting), daemon=True
    )
    watch.start()
    try:
        tasks = context.parallelize(range(slots), slots)
        answers: list[Greeted] = tasks.mapPartitions(partial(_greeted, answer, linger_s)).collect()
    except Exception as error:
        raise ClusterError(_fault(error)) from error
    finally:
        waiting.set()
        context.setLocalProperty("spark.jobGroup.id", None)
        context.setLocalProperty("spark.job.description", None)
    return answers


def _greeted(answer: Answer, linger_s: float, _tasks: Iterable[int]) -> Iterator[Greeted]:
    """Run the greeting on the executor, in worker processes below a process of their own."""
    answered = dict(answer())
    time.sleep(linger_s)
    yield Greeted(socket.gethostname(), os.getppid(), answered)


def _known_executors(context: Any) -> int:
    """Executors that have registered; the driver counts as one where it runs the tasks itself."""
    registered = int(context._jsc.sc().getExecutorMemoryStatus().size())
    return max(1, registered - 1)


def _give_up_without_executors(context: Any, group: str, done: threading.Event) -> None:
    """End the round of a cluster that starts no executor: Spark itself would wait for ever."""
    if done.wait(PATIENCE_S):
        return
    tracker = context.statusTracker()
    jobs = (tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group))
    stages = [tracker.getStageInfo(stage) for job in jobs if job for stage in job.stageIds]
    if not any(stage and stage.numActiveTasks + stage.numCompletedTasks for stage in stages):
        context.cancelJobGroup(group)


def _fault(error: Exception) -> str:
    """Explain a missing answer from a Java stack trace with a Python one inside."""
    text = str(error)
    if (module := _NO_MODULE.search(text)) is not None:
        return (
            f"executors have no module {module[1]}: make an archive with `decima cluster pack` and "
            "give it as --cluster-archive"
        )
    if (program := _NO_PYTHON.search(text)) is not None:
        return (
            f"executors cannot start {program[1]}: the archive must come from `decima cluster "
            "pack`, and the Python that it links to must be on every host"
        )
    if "PYTHON_VERSION_MISMATCH" in text or "different version" in text:
        versions = _OTHER_PYTHON.search(text)
        which = "" if versions is None else f" ({versions[1]}.{versions[2]}, here {versions[3]})"
        return f"executors run another Python{which}: `decima cluster pack` packs that of this one"
    if "cancelled" in text or "canceled" in text:
        return f"no executor has come within {PATIENCE_S:g} s: the cluster has no free resources"
    lines = _LAST_LINE.findall(text)
    return one_line(f"executors cannot answer: {lines[-1] if lines else text}", 500)
