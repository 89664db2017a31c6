"""Overhead of a cluster beside the rollouts, and how many workers one driver can feed.

    python -m benchmarks.cluster_overhead --iterations 5

Trains at the default size on two executors of this machine and takes the time of every task. Then
the same shared state goes out, and recordings of the same size come back, without any playing
between: that is the fixed cost. Driver costs are CPU seconds of its Python and its JVM, so a busy
machine does not blur them. The model at the end scales the iteration with the workers (each plays
as many groups as here) and shows where the curve bends.
"""

from __future__ import annotations

import argparse
import importlib
import os
import pickle
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from decima.rl.parallel.local import HERE
from decima.rl.parallel.pool import K, SentOnce, WorkerPool
from decima.rl.parallel.session import open_session
from decima.rl.parallel.spark import SparkPool
from decima.training.config import read_config
from decima.training.learner import DecimaLearner, Pools
from decima.training.play import Rollouts
from traces.numbers import Float64

MASTER = "local-cluster[2,1,2048]"
WORKERS = (2, 8, 16, 32, 64, 128, 256, 512)
DRIVER_CORES = 16
_DRAWS = 20
"""of the groups' times, in the model"""
_TICKS = os.sysconf("SC_CLK_TCK")


class Task(NamedTuple):
    """Begin and end of a task, by the clock that all processes of a machine share."""

    label: str
    began_s: float
    ended_s: float
    cpu_s: float
    pid: float
    process_cpu_s: float
    """of the whole process, when the task ended"""

    @property
    def wall_s(self) -> float:
        """Duration of the map."""
        return self.ended_s - self.began_s


class Timed(WorkerPool):
    """A pool that records the times of its tasks."""

    def __init__(self, pool: WorkerPool) -> None:
        self._pool = pool
        self.tasks: list[Task] = []
        self.maps_s: list[tuple[str, float]] = []
        self.answers: list[Any] = []

    @property
    def slots(self) -> int:
        """Slots of the pool."""
        return self._pool.slots

    def map(
        self, function: Callable[..., Any], shared: Any, tasks: Mapping[K, Any], *, label: str
    ) -> Iterator[tuple[K, Any]]:
        """Map tasks; see `WorkerPool.map`."""
        began_s = time.time()
        wrapped = {key: (function, task) for key, task in tasks.items()}
        self.answers = []
        for key, (found, times) in self._pool.map(timed, shared, wrapped, label=label):
            self.tasks.append(Task(label, *times))
            self.answers.append(found)
            yield key, found
        self.maps_s.append((label, time.time() - began_s))

    def close(self) -> None:
        """Do nothing: the pool is closed where it was opened."""


def timed(shared: Any, task: tuple[Callable[..., Any], Any]) -> tuple[Any, tuple[float, ...]]:
    """A task with its begin, its end (s since 1970) and its CPU seconds."""
    function, own = task
    began_s, cpu_s = time.time(), time.process_time()
    found = function(shared, own)
    ended_cpu_s = time.process_time()
    return found, (began_s, time.time(), ended_cpu_s - cpu_s, os.getpid(), ended_cpu_s)


class Echo(NamedTuple):
    """Shared input of rollouts without playing: weights that are sent each time, and the answer."""

    weights: Tensor
    recorded: SentOnce[list[Rollouts]]


def echo(shared: Echo, number: int) -> Rollouts:
    """A recording as it comes from a rollout."""
    return shared.recorded.value[number % len(shared.recorded.value)]


def cpu_s(pids: list[int]) -> float:
    """CPU seconds of some processes so far."""
    spent = 0
    for pid in pids:
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        spent += int(words[11]) + int(words[12])
    return spent / _TICKS


class Cost(NamedTuple):
    """Cost of one map of empty tasks."""

    tasks: int
    wall_s: float
    driver_cpu_s: float


def costs(pool: SparkPool, shared: Echo, repeats: int) -> list[Cost]:
    """Medians, by number of tasks."""
    # The JVM is the first child of the process that has started it.
    gateway: Any = pool.context._gateway
    pids = [os.getpid(), int(gateway.proc.pid)]
    found = []
    for count in (4, 16, 64):
        tasks = {number: number for number in range(count)}
        rows: list[tuple[float, float]] = []
        for _ in range(repeats):
            list(pool.map(echo, shared, tasks, label="warming up"))  # the JVM compiles as it goes
        for _ in range(repeats):
            began_s, began_cpu_s = time.monotonic(), cpu_s(pids)
            list(pool.map(echo, shared, tasks, label=f"{count} tasks that do nothing"))
            rows.append((time.monotonic() - began_s, cpu_s(pids) - began_cpu_s))
        wall_s, driver_cpu_s = np.median(rows, axis=0)
        found.append(Cost(count, float(wall_s), float(driver_cpu_s)))
    return found


class Model(NamedTuple):
    """Measured costs of the parts of an iteration."""

    group_s: Float64  # (groups,) CPU of rollouts of one group
    gradient_s: float  # CPU of all gradients on one group
    map_s: float  # wall of a map beyond its tasks
    task_s: float  # CPU of the driver for a task and its recording
    steps: int  # gradients in an iteration

    def iteration_s(self, workers: int, driver_cores: int, *, on_executors: bool) -> float:
        """Wall time of an iteration with two groups for each worker, mean of some draws."""
        groups = 2 * workers
        played_s = np.mean([self._played_s(workers, seed, on_executors) for seed in range(_DRAWS)])
        if on_executors:  # one task for each worker and step
            return float(played_s) + self.steps * (self.map_s + workers * self.task_s)
        return float(played_s) + groups * self.gradient_s / driver_cores

    def _played_s(self, workers: int, seed: int, on_executors: bool) -> float:
        """Wall time of the rollouts, and of gradients where executors compute them."""
        groups = 2 * workers
        times = np.random.default_rng(seed).choice(self.group_s, groups)
        if on_executors:
            times = times + self.gradient_s
        free_s = np.zeros(workers)
        for number, spent_s in enumerate(times):  # the driver hands out one after the other
            worker = int(free_s.argmin())
            free_s[worker] = max(free_s[worker], number * self.task_s) + spent_s
        return self.map_s + float(free_s.max())


def report(timings: tuple[Timed, Timed], walls_s: list[float], cost: list[Cost]) -> Model:
    """Print what was measured; returns what the model needs."""
    players, differ = timings
    rollouts = [one for one in players.tasks if "rollouts" in one.label]
    gradients = [one for one in differ.tasks if "gradient" in one.label]
    count, groups = len(walls_s), len(rollouts) // len(walls_s)
    steps = len({one.label for one in gradients}) // count
    played_s = sum(one.wall_s for one in rollouts)
    phase_s = sum(spent_s for label, spent_s in players.maps_s if "rollouts" in label)
    gradient_s = sum(one.cpu_s for one in gradients)
    per_task_s = (cost[-1].driver_cpu_s - cost[0].driver_cpu_s) / (cost[-1].tasks - cost[0].tasks)
    print(f"iterations of {groups} groups, {steps} gradients: {np.median(walls_s):.2f} s (median)")
    print(f"rollouts of a group: {np.median([one.cpu_s for one in rollouts]):.2f} s of CPU "
          f"(median), {played_s / len(rollouts):.2f} s of time (mean)")  # fmt: skip
    print(f"two workers play {played_s / (2 * phase_s):.0%} of the rollout phase, "
          f"{played_s / (2 * sum(walls_s)):.0%} of the iteration")  # fmt: skip
    print(f"{cpu_share(rollouts):.0%} of the CPU time of the workers' Python is spent playing")
    share = gradient_s / sum(one.cpu_s for one in rollouts)
    print(
        f"gradients: {gradient_s / count:.2f} s of CPU an iteration, {share:.1%} of the rollouts'"
    )
    for one in cost:
        print(f"{one.tasks} tasks that do nothing: {one.wall_s:.3f} s, driver "
              f"{one.driver_cpu_s:.3f} s of CPU")  # fmt: skip
    return Model(np.array([one.cpu_s for one in rollouts]), gradient_s / count / groups,
                 cost[0].wall_s, per_task_s, steps)  # fmt: skip


def cpu_share(tasks: list[Task]) -> float:
    """The part of their processes' CPU time that tasks took, after the first one of each."""
    spent = taken = 0.0
    for pid in {one.pid for one in tasks}:
        own = sorted((one for one in tasks if one.pid == pid), key=lambda one: one.ended_s)
        spent += own[-1].process_cpu_s - own[0].process_cpu_s
        taken += sum(one.cpu_s for one in own[1:])
    return taken / spent


def print_model(model: Model) -> None:
    """Iterations with more workers, the work of each as here."""
    busy_s = 2 * float(model.group_s.mean())
    print(f"\nmodel: a group {model.group_s.mean():.2f} s, its gradients {model.gradient_s:.3f} s, "
          f"the driver {1e3 * model.task_s:.1f} ms a task; two groups a worker")  # fmt: skip
    print("workers | 1 core for gradients | 16 cores | gradients on executors  "
          "(iteration s, share of the workers' time spent playing)")  # fmt: skip
    for workers in WORKERS:
        walls_s = [
            model.iteration_s(workers, 1, on_executors=False),
            model.iteration_s(workers, DRIVER_CORES, on_executors=False),
            model.iteration_s(workers, 1, on_executors=True),
        ]
        print(f"{workers:7} | " + " | ".join(f"{s:7.2f} {busy_s / s:5.0%}" for s in walls_s))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--iterations", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--master", default=MASTER)
    parser.add_argument("--set", action="append", default=[], dest="changes")
    parser.add_argument("--map-s", type=float, help="for the model, in place of the measured cost")
    arguments = parser.parse_args()
    here = {"spark.executorEnv.PYTHONPATH": str(Path(__file__).parents[1])}  # for this module
    context = open_session(arguments.master, name="overhead", settings=here)
    with SparkPool(context) as pool:
        players, differ = Timed(pool), Timed(HERE)
        learner = DecimaLearner(read_config(None, tuple(arguments.changes)), Pools(players, differ))
        learner.iterate(0)  # what is loaded once counts for no iteration
        for one in (players, differ):
            one.tasks, one.maps_s = [], []
        walls_s = []
        for iteration in range(1, arguments.iterations + 1):
            began_s = time.monotonic()
            learner.iterate(iteration)
            walls_s.append(time.monotonic() - began_s)
        recorded = [one for one in players.answers if one is not None]
        shared = Echo(learner.state()["weights"], SentOnce(recorded))
        sent, got = len(pickle.dumps(shared.weights)), [len(pickle.dumps(one)) for one in recorded]
        print(f"weights out: {sent / 1e3:.0f} kB; recordings back: {sum(got) / 1e6:.2f} MB an "
              f"iteration, {max(got) / 1e6:.2f} MB the largest")  # fmt: skip
        model = report((players, differ), walls_s, costs(pool, shared, arguments.repeats))
    context.stop()
    print_model(model if arguments.map_s is None else model._replace(map_s=arguments.map_s))


if __name__ == "__main__":
    # Other processes look functions and classes up by their module, and have another `__main__`.
    importlib.import_module("benchmarks.cluster_overhead").main()
