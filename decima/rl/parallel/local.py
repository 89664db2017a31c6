"""`LocalPool`: tasks in this process, or in several on this machine."""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

from decima.rl.parallel.errors import WorkerLostError
from decima.rl.parallel.pool import (
    Failure,
    K,
    R,
    S,
    SentOnce,
    T,
    WorkerPool,
    answer,
    attempt,
    plain,
    with_sent,
    without_sent,
)

_PATIENCE_S = 5.0
"""for a process that was asked to end"""
_LIKELY = {
    "SIGKILL": ": most likely the system's memory ran out; fewer workers take less",
    "SIGTERM": ": another program asked it to end",
    **dict.fromkeys(("SIGSEGV", "SIGBUS", "SIGABRT", "SIGILL"), ": a crash in compiled code"),
}
"""likely causes by signal"""


class LocalPool(WorkerPool):
    """One process: this one, without any detour. Several: others, which start when needed."""

    def __init__(self, workers: int) -> None:
        """Raise ValueError for fewer than one worker."""
        if workers < 1:
            raise ValueError(f"workers must be 1 or more, got {workers}")
        self._workers = workers
        self._processes: list[_Process] = []
        self._alive: WeakValueDictionary[str, SentOnce[Any]] = WeakValueDictionary()

    @property
    def slots(self) -> int:
        """The number of processes."""
        return self._workers

    def map(
        self, function: Callable[[S, T], R], shared: S, tasks: Mapping[K, T], *, label: str
    ) -> Iterator[tuple[K, R]]:
        """Map tasks; see `WorkerPool.map`."""
        if self._workers == 1:
            for key, task in tasks.items():
                try:
                    result = function(shared, task)
                except Exception as error:
                    raise Failure.of(error).error(label, key) from error
                yield key, result
            return
        keys = list(tasks)
        rest, kept = without_sent(shared)
        for value in kept.values():
            self._alive[value.name] = value
        work = _Work(function, rest, kept, frozenset(self._alive))
        waiting = deque(enumerate(tasks.values()))
        answers: dict[int, Any] = {}
        try:
            for _ in range(len(self._processes), min(self._workers, len(keys))):
                self._processes.append(_Process())
            for number, key in enumerate(keys):
                while number not in answers:
                    self._hand_out(waiting, work)
                    answers |= self._answers(label, keys)
                self._hand_out(waiting, work)
                yield key, answer(answers.pop(number), label, key)
        finally:
            # Left early: what still runs is not wanted, and the next map must not meet its answer.
            if any(process.task is not None for process in self._processes):
                self.close()

    def close(self) -> None:
        """End the processes, whatever they do."""
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.join()
        self._processes = []

    def _hand_out(self, waiting: deque[tuple[int, Any]], work: _Work) -> None:
        """The next tasks, to processes without one."""
        for process in self._processes:
            if waiting and process.task is None:
                process.give(*waiting.popleft(), work)

    def _answers(self, label: str, keys: list[Any]) -> dict[int, Any]:
        """Return the answers that at least one process has found."""
        busy = {process.pipe: process for process in self._processes if process.task is not None}
        answers = {}
        for pipe in wait(list(busy)):
            process = busy[pipe]  # type: ignore[index]
            number = int(process.task)  # type: ignore[arg-type]
            try:
                answers[number] = process.pipe.recv()
            except (EOFError, OSError):  # OSError: in the middle of an answer
                code = process.join()
                cause = f"ended with exit code {code}"
                with contextlib.suppress(ValueError):
                    name = signal.Signals(-(code or 0)).name
                    cause = f"was ended by {name}, exit code {code}{_LIKELY.get(name, '')}"
                raise WorkerLostError(
                    f"a worker process {cause} ({label}, task {plain(keys[number])})"
                ) from None
            process.task = None
        return answers


HERE: WorkerPool = LocalPool(1)
"""this process"""


class _Work(NamedTuple):
    """One map: what its tasks have in common."""

    function: Callable[..., Any]
    rest: Any
    kept: Mapping[int, SentOnce[Any]]
    alive: frozenset[str]
    """names of all retained values"""


class _Order(NamedTuple):
    """Message that a process gets before the first task of a map."""

    function: Callable[..., Any]
    rest: Any
    places: Mapping[int, str]
    new: Mapping[str, Any]
    gone: frozenset[str]


class _Process:
    """A process of a pool, and its retained values."""

    def __init__(self) -> None:
        # "spawn": forking a process that has started threads may hang.
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.task: int | None = None
        """number of the task that it does"""
        self._work: _Work | None = None
        self._names: frozenset[str] = frozenset()
        self._process = context.Process(target=_serve, args=(theirs,), daemon=True)
        # Ctrl-C is the main process's to handle. Blocked already while it imports: there it would
        # print where it was interrupted. Multiprocessing's tracker unblocks it when it starts.
        resource_tracker.ensure_running()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            self._process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        theirs.close()

    def give(self, number: int, task: Any, work: _Work) -> None:
        """Begin a task."""
        self.task = number
        try:
            if work is not self._work:
                sent = work.kept.values()
                places = {place: value.name for place, value in work.kept.items()}
                new = {value.name: value.value for value in sent if value.name not in self._names}
                gone = self._names - work.alive
                self._names = (self._names - gone) | new.keys()
                self.pipe.send(_Order(work.function, work.rest, places, new, gone))
                self._work = work
            self.pipe.send(task)
        except (BrokenPipeError, ConnectionResetError):
            pass  # it has died, which shows when waiting for the answer

    def terminate(self) -> None:
        """Ask the process to end."""
        self.pipe.close()
        self._process.terminate()

    def join(self) -> int | None:
        """Wait for its end; returns its exit code."""
        self._process.join(_PATIENCE_S)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        return self._process.exitcode


def _serve(pipe: Connection) -> None:
    """A process: do what comes until the pipe closes."""
    kept: dict[str, SentOnce[Any]] = {}
    function: Callable[..., Any] | None = None
    shared: Any = None
    while True:
        try:
            message = pipe.recv()
        except (EOFError, OSError):
            return
        if isinstance(message, _Order):
            function = message.function
            for name in message.gone:
                del kept[name]
            kept |= {name: SentOnce(value) for name, value in message.new.items()}
            places = message.places.items()
            shared = with_sent(message.rest, {place: kept[name] for place, name in places})
            continue
        if function is None:
            raise TypeError(f"task {message!r:.60} came before its map")
        try:
            pipe.send(attempt(function, shared, message))
        except OSError:
            pass  # the caller no longer waits
        except Exception as error:  # noqa: BLE001 - an answer that cannot be sent is a failed task
            pipe.send(Failure.of(error))
