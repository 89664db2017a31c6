"""`WorkerPool`: the one seam between what is computed and where. Tasks, shared state, answers.

A task is *pure*: what it answers depends on the shared state and on itself, not on the process, on
the moment or on other tasks. Then the place of a run, a second run and the order of ends have no
effect: answers come in the order of the keys, and sums in that order give the same bytes from one
process, from many and from a cluster.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any, Generic, NamedTuple, Protocol, Self, TypeVar, cast
from uuid import uuid4

from decima.rl.parallel.errors import TaskError, TaskRefusedError, WorkerLostError, raised_in

_TORCH_MEMORY = "can't allocate memory"  # part of torch's message, in a plain RuntimeError

K = TypeVar("K", bound=Hashable)
R = TypeVar("R")
S = TypeVar("S")
T = TypeVar("T")


class SentOnce(Generic[T]):
    """A value that goes to each process once, for as long as this object lives.

    For what is large and stays the same from `map` to `map`: `shared` is one, or is a tuple with
    some among its items. Processes drop the value when this object is gone.
    """

    def __init__(self, value: T) -> None:
        self.value = value
        self.name = uuid4().hex
        """by which processes know it"""


class WorkerPool(Protocol):
    """Pool that maps tasks. As a context manager it ends its processes on exit."""

    @property
    def slots(self) -> int:
        """Number of tasks that run at the same time."""
        ...

    def map(
        self, function: Callable[[S, T], R], shared: S, tasks: Mapping[K, T], *, label: str
    ) -> Iterator[tuple[K, R]]:
        """`function(shared, task)` of each task, with its key, in the order of `tasks`.

        Nothing runs before the first answer is requested. Stopping the iteration, by an error or by
        Ctrl-C, ends the tasks that still run.

        Args:
            function: pure, at the top level of a module.
            shared: goes out once for all tasks; see `SentOnce`.
            tasks: by key.
            label: what is being done, in a few words, for people who watch.

        Raises:
            TaskRefusedError: a task raised a ValueError.
            WorkerLostError: its process was killed, or its memory ran out.
            TaskError: it raised something else.
        """
        ...

    def close(self) -> None:
        """End the processes, if there are any; a further `map` would start new ones."""
        ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


# --- what the implementations have in common -----------------------------------------------------


class Failure(NamedTuple):
    """An exception, as it can travel: exceptions themselves may refuse to."""

    words: str
    trace: str
    origin: str
    is_refusal: bool
    is_memory: bool
    """whether memory ran out"""

    @classmethod
    def of(cls, error: Exception) -> Failure:
        """Describe an error as data that can be sent to another process."""
        module = type(error).__module__
        return cls(
            str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}",
            "".join(traceback.format_exception(error)),
            raised_in(error) if module == "builtins" else module,
            isinstance(error, ValueError),
            isinstance(error, MemoryError) or _TORCH_MEMORY in str(error),
        )

    def error(self, label: str, key: Hashable) -> TaskError | TaskRefusedError:
        """Return the error to raise where the answer was requested."""
        message = f"{self.words} ({label}, task {plain(key)})"
        if self.is_memory:
            return WorkerLostError(f"memory ran out; fewer workers take less: {message}")
        if self.is_refusal:
            return TaskRefusedError(message, self.origin)
        return TaskError(message)


class _ElsewhereError(Exception):
    """The traceback of another process, as the cause of what is raised in this one."""


def attempt(function: Callable[[S, T], R], shared: S, task: T) -> R | Failure:
    """The answer, or what went wrong."""
    try:
        return function(shared, task)
    except Exception as error:  # noqa: BLE001 - it is raised again where the answer was wanted
        return Failure.of(error)


def answer(outcome: R | Failure, label: str, key: Hashable) -> R:
    """Return the answer of a task, or raise its TaskError or TaskRefusedError."""
    if isinstance(outcome, Failure):
        raise outcome.error(label, key) from _ElsewhereError(f"\n{outcome.trace}")
    return outcome


def without_sent(shared: Any) -> tuple[Any, dict[int, SentOnce[Any]]]:
    """Split `shared` into the part sent with every map and the retained objects, by position."""
    if isinstance(shared, SentOnce):
        return None, {0: shared}
    if not isinstance(shared, tuple):
        return shared, {}
    kept = {place: item for place, item in enumerate(shared) if isinstance(item, SentOnce)}
    return _with_items(shared, dict.fromkeys(kept)), kept


def with_sent(rest: Any, kept: Mapping[int, SentOnce[Any]]) -> Any:
    """The whole again."""
    if rest is None and kept:
        return kept[0]
    return _with_items(rest, kept) if kept else rest


def _with_items(items: tuple[Any, ...], changed: Mapping[int, Any]) -> tuple[Any, ...]:
    values = [changed.get(place, item) for place, item in enumerate(items)]
    make = getattr(type(items), "_make", tuple)  # a NamedTuple stays one
    return cast("tuple[Any, ...]", make(values))


def plain(key: Hashable) -> str:
    """The key of a task, as messages name it."""
    return " ".join(str(part) for part in key) if isinstance(key, tuple) else str(key)
