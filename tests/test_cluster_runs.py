"""The same bytes from a Spark of two executors as from this machine, also when one is killed.

The test of a standalone master comes first: a process can have one session at a time.

Slow (minutes, most of them Spark's start): `pytest -m slow tests/test_cluster_runs.py`.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from decima import evaluate
from decima.fingerprint import fingerprint
from decima.rl.parallel.greeting import check_executors
from decima.rl.parallel.local import HERE, LocalPool
from decima.rl.parallel.session import open_session
from decima.rl.parallel.spark import SparkPool
from decima.training.learner import DecimaLearner, Pools
from tests import spark_applications
from tests.commands import small_config
from tests.spark_commands import EXECUTOR, children
from tests.spark_work import until
from tests.test_training import assert_equal, final_weights, small

pytestmark = [pytest.mark.slow, pytest.mark.real_spark]

FIVE = (
    "imitate.iterations=2",
    "reinforce.iterations=3",
    "validation.every=5",
    "episodes.growth_iterations=5",
)


def test_a_standalone_master_gives_the_same(tmp_path: Path, trace_file: Path) -> None:
    """One executor of four cores, started by a worker of its own."""
    config = small_config(trace_file, policies=("strict_fair", "decima"))
    with spark_applications.standalone(tmp_path, workers=1, cores=4) as url:
        context = open_session(url, name="standalone")
        try:
            with SparkPool(context) as pool:
                check_executors(context, fingerprint)
                report = evaluate(config, pool=pool)
        finally:
            context.stop()
    for name, own in evaluate(config).policies.items():
        for expected, other in zip(report.policies[name].runs, own.runs, strict=True):
            np.testing.assert_array_equal(expected.metrics.jct_s, other.metrics.jct_s)


@pytest.fixture(scope="module")
def cluster() -> Iterator[SparkPool]:
    """Two executors of one core each."""
    context = open_session("local-cluster[2,1,1024]", name="runs")
    try:
        with SparkPool(context) as pool:
            yield pool
    finally:
        context.stop()


def test_five_iterations_give_the_weights_of_two_local_workers(
    cluster: SparkPool, trace_file: Path, tmp_path: Path
) -> None:
    """And the state of the optimiser, and every figure of every iteration."""
    config = small(trace_file, *FIVE)
    on_cluster = final_weights(tmp_path / "cluster", config, pools=Pools(cluster, HERE))
    with LocalPool(2) as pool:
        here = final_weights(tmp_path / "here", config, pools=Pools(pool, pool))
    assert_equal(on_cluster, here)
    assert (tmp_path / "cluster" / "best.safetensors").read_bytes() == (
        tmp_path / "here" / "best.safetensors"
    ).read_bytes()


def test_an_executor_killed_in_an_iteration_changes_nothing_but_the_time(
    cluster: SparkPool, trace_file: Path
) -> None:
    """Killed with -9 while rollouts run: they are played again, elsewhere."""
    long = (
        "episodes.start_jobs=60",
        "episodes.end_jobs=60",
        "imitate.iterations=0",
        "reinforce.iterations=1",
        "reinforce.rollouts=100",
    )
    config = small(trace_file, *long)
    learner = DecimaLearner(config, Pools(cluster, HERE))
    tracker = cluster.context.statusTracker()
    killed: list[int] = []

    def kill() -> None:
        if until(lambda: len(tracker.getActiveStageIds()) > 0, 60):
            time.sleep(0.3)  # the tasks have begun
            killed.append(len(tracker.getActiveStageIds()))
            os.kill(children(os.getpid(), EXECUTOR)[0], signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    learner.iterate(0)
    killer.join()
    assert killed == [1]  # a stage was under way

    undisturbed = DecimaLearner(config)
    undisturbed.iterate(0)
    assert torch.equal(learner.state()["weights"], undisturbed.state()["weights"])
