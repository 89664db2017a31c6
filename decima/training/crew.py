"""`Crew`: the shards of a training, in this process or in others."""

from __future__ import annotations

import multiprocessing
from multiprocessing.connection import Connection
from typing import Any, Protocol

import torch

from decima.training.config import TrainConfig
from decima.training.rehearsal import rehearse
from decima.training.shard import Shard


class Crew(Protocol):
    """Calls a method of every shard."""

    def ask(self, method: str, *arguments: Any) -> list[Any]:
        """What each shard answers, in the order of the shards."""
        ...

    def close(self) -> None:
        """End the other processes, if there are any."""
        ...


def make_crew(config: TrainConfig, workers: int) -> Crew:
    """Shards spread over `workers` processes; the answers do not depend on how many.

    Every process has its compiled code when this returns. One compiles what the machine lacks, and
    only then the others start, which load it: together they would all compile the same.
    """
    workers = min(workers, config.episodes.shards)
    # More threads would change the order of additions, and are slower on matrices so small.
    torch.set_num_threads(1)
    rehearse(config)
    return _LocalCrew(config) if workers <= 1 else _ProcessCrew(config, workers)


class _LocalCrew:
    def __init__(self, config: TrainConfig) -> None:
        self._shards = [Shard(config, number) for number in range(config.episodes.shards)]

    def ask(self, method: str, *arguments: Any) -> list[Any]:
        return [getattr(shard, method)(*arguments) for shard in self._shards]

    def close(self) -> None:
        """Nothing to end."""


class _ProcessCrew:
    """Worker w has the shards w, w + workers, ..."""

    def __init__(self, config: TrainConfig, workers: int) -> None:
        # "spawn": forking a process that has started threads may hang.
        context = multiprocessing.get_context("spawn")
        self._pipes: list[Connection] = []
        self._processes = []
        self._count = config.episodes.shards
        for worker in range(workers):
            ours, theirs = context.Pipe()
            numbers = list(range(worker, self._count, workers))
            process = context.Process(target=_serve, args=(theirs, config, numbers), daemon=True)
            process.start()
            theirs.close()
            self._pipes.append(ours)
            self._processes.append(process)
        for worker in range(workers):
            self._answer(worker)

    def ask(self, method: str, *arguments: Any) -> list[Any]:
        for pipe in self._pipes:
            pipe.send((method, arguments))
        answers: list[Any] = [None] * self._count
        for worker in range(len(self._pipes)):
            for place, answer in enumerate(self._answer(worker)):
                answers[worker + place * len(self._pipes)] = answer
        return answers

    def _answer(self, worker: int) -> list[Any]:
        try:
            found: list[Any] | BaseException = self._pipes[worker].recv()
        except EOFError:
            raise RuntimeError(f"training process {worker} has died") from None
        if isinstance(found, BaseException):
            raise found
        return found

    def close(self) -> None:
        for pipe in self._pipes:
            pipe.close()
        for process in self._processes:
            process.join(timeout=5)
            if process.is_alive():
                process.terminate()


def _serve(pipe: Connection, config: TrainConfig, numbers: list[int]) -> None:
    """A worker process: say that it is ready, then answer until the pipe closes."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the main process's to handle
    torch.set_num_threads(1)
    shards = [Shard(config, number) for number in numbers]
    rehearse(config)
    pipe.send([])
    while True:
        try:
            method, arguments = pipe.recv()
        except (EOFError, OSError):
            return
        try:
            pipe.send([getattr(shard, method)(*arguments) for shard in shards])
        except Exception as error:  # noqa: BLE001 - handed to the main process, which raises it
            pipe.send(error)
