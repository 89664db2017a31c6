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
from dataclasses import replace
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
from decima.training.rule_fit.config import RuleFitConfig
from decima.training.rule_fit.fit import Budget, fit_rule
from decima.training.tuning import tune
from decima.whatif import what_if
from decima.whatif.report import to_json
from tests.commands import small_config
from tests.recordings import FAST, short_behind_long
from tests.spark_work import until
from tests.test_spark_cluster import executors, standalone
from tests.test_training import assert_equal, final_weights, small

__all__ = ["standalone"]  # a fixture that a test here asks for

pytestmark = [pytest.mark.slow, pytest.mark.real_spark]

FIVE = (
    "imitate.iterations=2",
    "reinforce.iterations=3",
    "validation.every=5",
    "episodes.growth_iterations=5",
)


def test_a_standalone_master_gives_the_same(standalone: str, trace_file: Path) -> None:
    """One executor of four cores, started by a worker of its own."""
    config = small_config(trace_file, policies=("strict_fair", "decima"))
    context = open_session(standalone, name="standalone")
    try:
        with SparkPool(context) as pool:
            check_executors(context, fingerprint)
            found = evaluate(config, pool=pool)
    finally:
        context.stop()
    for name, own in evaluate(config).policies.items():
        for one, other in zip(found.policies[name].runs, own.runs, strict=True):
            np.testing.assert_array_equal(one.metrics.jct_s, other.metrics.jct_s)


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
            os.kill(executors()[0], signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    learner.iterate(0)
    killer.join()
    assert killed == [1]  # a stage was under way

    undisturbed = DecimaLearner(config)
    undisturbed.iterate(0)
    assert torch.equal(learner.state()["weights"], undisturbed.state()["weights"])


def test_an_evaluation_is_the_same(cluster: SparkPool, trace_file: Path) -> None:
    """Heuristics, one that draws, and a learned policy."""
    config = small_config(trace_file, policies=("strict_fair", "random", "decima"))
    found, expected = evaluate(config, pool=cluster), evaluate(config)
    for name, own in found.policies.items():
        for one, other in zip(own.runs, expected.policies[name].runs, strict=True):
            np.testing.assert_array_equal(one.metrics.jct_s, other.metrics.jct_s)


def test_a_fit_is_the_same(cluster: SparkPool, trace_file: Path) -> None:
    """Weights and scores of `fit_rule`, and what `tune` finds."""
    settings = (small_config(trace_file), small_config(trace_file, interarrival_s=2))
    config = RuleFitConfig(settings, pairs=2, sequences=1, validation=2)
    found = fit_rule(config, Budget(generations=2), pool=cluster)
    expected = fit_rule(config, Budget(generations=2))
    assert (found.found, found.score) == (expected.found, expected.score)

    tuned = [
        tune("tuned_weighted_fair", small_config(trace_file), held_back=7, pool=pool)
        for pool in (cluster, HERE)
    ]
    assert tuned[0].to_json() == tuned[1].to_json()


def test_a_what_if_is_the_same(cluster: SparkPool) -> None:
    """The grid of policies, sizes and resampled sequences, tuning included."""
    settings = replace(FAST, policies=("fifo", "tuned_weighted_fair", "decima"), sequences=2)
    recorded = short_behind_long(8)
    found = to_json(what_if(recorded, settings, pool=cluster))
    assert found == to_json(what_if(recorded, settings))
