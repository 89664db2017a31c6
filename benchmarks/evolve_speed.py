"""Pairs of perturbations a second in the step `evolve`, by workers on this machine and on Spark.

    python -m benchmarks.evolve_speed --pairs 128 --iterations 3

Plays the shipped network's perturbations on batches of 20 TPC-H queries. `cpu_s` is that of a pair
on one process of this machine; wall times of a busy machine say little. What more executors would
give follows from the serial part: what the driver does while none of them plays.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from decima.agent.weights import flattened
from decima.policies import networks_of
from decima.rl.evolution import direction
from decima.rl.parallel.local import HERE, LocalPool
from decima.rl.parallel.pool import SentOnce, WorkerPool
from decima.rl.parallel.session import open_session
from decima.rl.parallel.spark import SparkPool
from decima.training.config import TrainConfig, config_from
from decima.training.evolve import evolution_of, evolve
from decima.training.play import TrainingContext
from decima.training.warm_up import warm_up, warm_up_task

MASTER = "local-cluster[2,1,2048]"
EXECUTORS = (2, 10, 100)


def config_of(pairs: int) -> TrainConfig:
    """Evolution of the shipped network on batches."""
    network = networks_of(["decima"])["decima"]
    return replace(
        config_from(
            {
                "initial_model": "decima",
                "workload": {"interarrival_s": [], "batch_jobs": [20]},
                "imitate": {"iterations": 0},
                "evolve": {"pairs": pairs},
            }
        ),
        network=network.config,
    )


def iterate(config: TrainConfig, pool: WorkerPool, iterations: int) -> tuple[float, float]:
    """Wall and CPU seconds of an iteration in this process; the first one is not counted."""
    for _ in pool.map(warm_up_task, config, {n: n for n in range(pool.slots)}, label="warm up"):
        pass
    weights = flattened(networks_of(["decima"])["decima"])
    context = SentOnce(TrainingContext(config))
    evolution = evolution_of(config, len(weights))
    began_s = began_cpu_s = 0.0
    for iteration in range(iterations + 1):
        if iteration == 1:
            began_s, began_cpu_s = time.perf_counter(), time.process_time()
        weights, _ = evolve(evolution, context, weights, iteration, pool)
    wall_s, cpu_s = time.perf_counter() - began_s, time.process_time() - began_cpu_s
    return wall_s / iterations, cpu_s / iterations


@contextmanager
def on_spark() -> Iterator[WorkerPool]:
    """Two executors of one core each."""
    context = open_session(MASTER, name="evolve speed")
    try:
        with SparkPool(context) as pool:
            yield pool
    finally:
        context.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=128)
    parser.add_argument("--iterations", type=int, default=3)
    options = parser.parse_args()
    config = config_of(options.pairs)
    warm_up(config)

    wall_s, cpu_s = iterate(config, HERE, options.iterations)
    pair_cpu_s = cpu_s / options.pairs
    print(f"1 process      {options.pairs / wall_s:6.2f} pairs/s, {pair_cpu_s:.3f} CPU s a pair")
    with LocalPool(2) as pool:
        wall_s, driver_s = iterate(config, pool, options.iterations)
    print(f"2 workers      {options.pairs / wall_s:6.2f} pairs/s, driver {driver_s:.3f} CPU s")
    with on_spark() as pool:
        wall_s, driver_s = iterate(config, pool, options.iterations)
    print(f"{MASTER}  {options.pairs / wall_s:6.2f} pairs/s, driver {driver_s:.3f} CPU s")

    began_s = time.process_time()
    for pair in range(100):
        direction(config.seed, 0, pair, 33_000)
    print(f"a direction drawn again in the driver: {10 * (time.process_time() - began_s):.2f} ms")
    serial_s = driver_s / options.pairs
    for executors in EXECUTORS:
        # With enough pairs that all executors have tasks; the driver's part is not divided.
        rate = 1 / (pair_cpu_s / executors + serial_s)
        print(f"{executors:4} executors would play {rate:7.1f} pairs/s (estimated)")


if __name__ == "__main__":
    main()
