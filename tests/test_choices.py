"""Preferences followed in one go: the same as choosing one by one, and where they end."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_sim import PASS, Action, Cluster, IllegalActionError, Observation, Simulator, Status
from spark_sim.kernels.dispatch import Preferences, follow
from spark_sim.tables import ANY, ILLEGAL, NONE
from spark_sim.vector import VectorSimulator
from tests.stories import build, job, stage
from tests.test_agent_support import ARRAYS, CLUSTERS, run_of
from tests.workloads import Workload, workloads

Choice = tuple[int, int, int]
"""a stage, a limit of its job and a class of executors"""
END: Choice = (NONE, 0, ANY)


def preferences(*choices: Choice) -> Preferences:
    """Of one simulation."""
    columns = np.array(choices, np.int64).reshape(-1, 3).T
    return Preferences(np.array([0, len(choices)]), *(column.copy() for column in columns))


def random_preferences(seen: Observation, rng: np.random.Generator) -> list[Choice]:
    """All open stages and the end in any order; limits of jobs, some of which are reached; where
    there are classes, any of them or one that is on offer and fits.
    """
    limit = {
        int(row): int(rng.integers(max(1, seen.jobs["held"][row] - 1), seen.num_executors + 1))
        for row in seen.active
    }
    named = [
        (int(row), limit[int(seen.stages["job"][row])], int(rng.choice(kinds_of(seen, int(row)))))
        for row in seen.open_stages()
    ]
    every = [*named, END]
    return [every[index] for index in rng.permutation(len(every))]


def kinds_of(seen: Observation, row: int) -> list[int]:
    """What a choice of the stage may say of the class."""
    if len(seen.classes) == 1:
        return [ANY]
    fits = int(seen.stages["fits"][row])
    offered = seen.classes["on_offer"].tolist()
    return [ANY, *(kind for kind, count in enumerate(offered) if count and fits >> kind & 1)]


def one_by_one(simulator: Simulator, wanted: list[Choice]) -> int:
    """The same choices through `Simulator.step`; how many were looked at."""
    number = simulator.observation().round_number
    for used, (row, limit, kind) in enumerate(wanted, start=1):
        seen = simulator.observation()
        if row == NONE:
            simulator.step(PASS)
            return used
        open_stages = seen.open_stages().tolist()
        if row not in open_stages or seen.jobs["held"][seen.stages["job"][row]] >= limit:
            continue
        if kind not in kinds_of(seen, row):
            return used - 1
        simulator.step(Action(row, limit, kind))
        if simulator.status is not Status.DECIDE:
            return used
        now = simulator.observation()
        is_new = set(now.open_stages().tolist()) - set(open_stages)
        has_run_out = kind != ANY and row in now.open_stages()
        if now.round_number != number or is_new or has_run_out:
            return used
    raise AssertionError("the end is among the preferences")


@given(workload=workloads(), seed=st.integers(0, 2**32))
@settings(max_examples=60)
def test_following_is_choosing_one_by_one(workload: Workload, seed: int) -> None:
    """Round by round to the end of a run: the same tables, and as many preferences looked at."""
    alone, compiled = workload.simulator(), workload.simulator()
    rng = np.random.default_rng(seed)
    for _ in range(200):
        if alone.status is not Status.DECIDE:
            break
        wanted = random_preferences(alone.observation(), rng)
        expected = one_by_one(alone, wanted)
        status, used = follow(compiled.state, preferences(*wanted), 0)
        assert (Status(status), used) == (alone.status, expected)
        compiled.finish(status)
        for name, table in alone.state._asdict().items():
            if name != "trace":
                assert getattr(compiled.state, name).tobytes() == table.tobytes()


# --- where they end ------------------------------------------------------------------------------


def chain_and_other() -> Simulator:
    """a: two tasks, two more behind them; b: three tasks; six executors. Stages 0, 1 | 2."""
    jobs = [job("a", stage("x", 2, 1000), stage("y", 2, 1000, [0])), job("b", stage("z", 3, 1000))]
    return build(jobs, Cluster(num_executors=6))


def test_a_limit_beyond_the_cluster_is_refused() -> None:
    """The kernel reports it; the simulations name which it was."""
    status, used = follow(chain_and_other().state, preferences((0, 7, ANY), END), 0)
    assert (status, used) == (ILLEGAL, 1)
    together = VectorSimulator(ARRAYS, CLUSTERS["executors"], [run_of(1), run_of(2)])
    batch = together.observation()
    first = batch.first_open_stages()
    wanted = Preferences(
        np.array([0, 1, 2]), first.astype(np.int64), np.array([8, 9]), np.array([ANY, ANY])
    )
    with pytest.raises(IllegalActionError, match="simulation 1: a limit beyond"):
        together.follow(wanted)
