"""Compilation of everything that the commands need, by tiny runs of all of it. Machine code depends
on the types of a function's arguments, so only a call compiles it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from decima.evaluation import EvaluationConfig, evaluate
from decima.fingerprint import played
from decima.heuristics import run as heuristics
from decima.policies import policy_named
from decima.policy_names import SHIPPED_MODEL
from spark_sim import Cluster, Protocol, Simulator
from spark_sim.compiled.shipped import ARCHIVES, archive_of, baseline, pack
from spark_sim.kernels import dispatch
from traces import load_trace, to_arrays

_TRACE = "random-dag"  # generated, so nothing is read
_OLDER = ("deeprm", "harmony")
"""packages with commands and kernels of their own, each with a function `session.prepare`"""

Step = tuple[str, Callable[[], object]]


def decima_steps() -> Iterator[Step]:
    """Yield the steps of `prepare`, with a short label each."""
    yield "protocols and heuristics", _load
    yield "a few jobs under the fitted rules and the learned policy", lambda: list(played())
    yield "comparisons", _evaluate
    yield "decisions of a live session", _decide
    yield "replays of event logs", _replay
    yield "explanations", _explain
    yield "training", _train


def all_steps() -> Iterator[Step]:
    """Yield the steps of `decima_steps`, and one for each older system."""
    yield from decima_steps()
    for package in _OLDER:
        yield package, import_module(f"{package}.session").prepare


def ship_kernels() -> list[Path]:
    """Compile everything for the `Baseline` of this architecture into archives of the package.

    Returns:
        the archives, in place of older ones; none if this processor is below the baseline.
    """
    shutil.rmtree(ARCHIVES, ignore_errors=True)
    made_for = baseline()
    if made_for is None:
        return []
    with tempfile.TemporaryDirectory() as cache:
        processor = {"NUMBA_CPU_NAME": made_for.processor, "NUMBA_CPU_FEATURES": ""}
        subprocess.run(
            [sys.executable, "-m", "decima", "prepare"],
            env={**os.environ, **processor, "NUMBA_CACHE_DIR": cache},
            check=True,
        )
        archives = []
        for folder in sorted(Path(cache).glob("decima-*/")):
            archive = archive_of(folder, made_for)
            pack(folder, archive)
            archives.append(archive)
    return archives


def _config(**changed: Any) -> EvaluationConfig:
    return EvaluationConfig(
        **{"trace": _TRACE, "executors": 4, "jobs": 2, "sequences": 1, **changed}
    )


def _load() -> None:
    """Load what kernels call by number: the runs below use a part of it."""
    for protocol in Protocol:
        dispatch.load(protocol)
    for number in range(len(heuristics.HEURISTICS)):
        heuristics.load(number)


def _evaluate() -> None:
    evaluate(_config(policies=("strict_fair", "graphene", SHIPPED_MODEL)))
    policies = ("tetris", "es_classes", SHIPPED_MODEL)
    evaluate(_config(policies=policies, classes="6x2,9x2", demands="drawn"))


def _decide() -> None:
    from decima.spark.loading import warm_up

    for name in ("es_rule", SHIPPED_MODEL):
        warm_up(partial(policy_named, name))


def _replay() -> None:
    from decima.whatif.replay.recording import FIFO
    from decima.whatif.replay.spark_order import SparkJobs, play_spark

    trace = load_trace(_TRACE)
    cluster = Cluster(num_executors=3, protocol=Protocol.SESSION)
    simulator = Simulator(to_arrays(trace), cluster, np.zeros(1), np.zeros(1, np.int32))
    of_stage = np.zeros(len(trace.jobs[0].stages), np.int64)
    play_spark(simulator, FIFO, [SparkJobs(of_stage, of_stage, "default")])


def _explain() -> None:
    from decima.evaluation.runner import Workload
    from decima.learned import load
    from decima.report.explain.decision import at_number, explain_decision, moments

    config = _config(policies=(SHIPPED_MODEL,))
    workload = Workload.of(config)
    moment = at_number(moments(workload, config, SHIPPED_MODEL, 0), 1)
    explain_decision(load(SHIPPED_MODEL), workload, moment)


def _train() -> None:
    from decima.training.config import TrainConfig
    from decima.training.warm_up import warm_up

    warm_up(TrainConfig())
