"""Simulations in lockstep give what each gives alone, and show it as one batch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from spark_sim import (
    PASS,
    Action,
    Cluster,
    IllegalActionError,
    Protocol,
    SimulationError,
    Simulator,
    Status,
)
from spark_sim.batch import batch_of
from spark_sim.observation import ObservationBatch
from spark_sim.tables import NONE
from spark_sim.vector import Run, VectorSimulator
from tests.test_agent_support import ARRAYS, CLUSTERS, TRACE, batch_run, each_protocol, run_of
from traces.numbers import Float64


def choose(
    rng: np.random.Generator, stages: Sequence[int], held: Sequence[int], most: int
) -> Action:
    """A random legal action on the open `stages` of jobs that hold `held`; sometimes a pass."""
    if len(stages) == 0 or rng.random() < 0.1:
        return PASS
    pick = int(rng.integers(len(stages)))
    return Action(stages[pick], int(rng.integers(held[pick] + 1, most + 1)))


def alone(cluster: Cluster, run: Run, seed: int) -> Simulator:
    """`run` at its end, under the random policy of `seed`."""
    if run.time_limit_ms is not None:
        cluster = replace(cluster, time_limit_ms=run.time_limit_ms)
    simulator = Simulator(ARRAYS, cluster, run.arrival_ms, run.job, duration_key=run.duration_key)
    rng = np.random.default_rng(seed)
    while simulator.status is Status.DECIDE:
        seen = simulator.observation()
        stages = seen.open_stages()
        held = seen.jobs["held"][seen.stages["job"][stages]]
        simulator.step(choose(rng, stages.tolist(), held.tolist(), seen.num_executors))
    return simulator


def decide_all(
    batch: ObservationBatch, rngs: Sequence[np.random.Generator]
) -> tuple[list[int], list[int]]:
    """One random action for each simulation that has a decision due."""
    actions = [PASS] * len(rngs)
    for index in np.flatnonzero(batch.alive).tolist():
        low, high = batch.stage_ptr[index], batch.stage_ptr[index + 1]
        stages = low + np.flatnonzero(batch.stages["open"][low:high])
        held = batch.jobs["held"][batch.stages["job"][stages]]
        most = int(batch.num_executors[index])
        actions[index] = choose(rngs[index], stages.tolist(), held.tolist(), most)
    return [action.stage for action in actions], [action.limit for action in actions]


def together(simulators: VectorSimulator, rngs: Sequence[np.random.Generator]) -> Float64:
    """All simulations to their ends, each under a random policy of its own; the returns."""
    return_s = np.zeros(len(rngs))
    while simulators.alive.any():
        stages, limits = decide_all(simulators.observation(), rngs)
        return_s += simulators.step(np.array(stages), np.array(limits)).reward_s
    return return_s


def assert_same(simulators: VectorSimulator, index: int, simulator: Simulator) -> None:
    """Simulation `index` has ended as `simulator`, to the last bit."""
    assert simulators.status[index] == simulator.status
    state, expected = simulators.state(index), simulator.state
    assert state.jobs["completion_ms"].tobytes() == expected.jobs["completion_ms"].tobytes()
    for name in ("time_ms", "decisions", "job_time_ms"):
        assert state.clock[0][name] == expected.clock[0][name]


# --- lockstep ------------------------------------------------------------------------------------


MIXED = [(1, 5, None), (2, 9, None), (3, 1, None), (4, 5, 60_000.0)]
"""seed, jobs and time limit of four runs, of which the last is truncated"""


@given(
    protocol=st.sampled_from(Protocol),
    drawn=st.lists(
        st.tuples(st.integers(0, 50), st.integers(1, 9), st.sampled_from([None, 60_000.0])),
        min_size=1,
        max_size=5,
    ),
)
@example(protocol=Protocol.EXECUTORS, drawn=MIXED)
@example(protocol=Protocol.SESSION, drawn=MIXED)
@example(protocol=Protocol.DECIMA_SIM, drawn=MIXED)
@settings(max_examples=12)
def test_each_simulation_gives_what_it_gives_alone(
    protocol: Protocol, drawn: list[tuple[int, int, float | None]]
) -> None:
    """Whatever runs beside it, in any number and order, twice the same run included."""
    cluster = CLUSTERS[protocol.label]
    runs = [run_of(*arguments) for arguments in drawn]
    seeds = [seed for seed, _, _ in drawn]
    simulators = VectorSimulator(ARRAYS, cluster, runs)
    return_s = together(simulators, [np.random.default_rng(seed) for seed in seeds])
    for index, (run, seed) in enumerate(zip(runs, seeds, strict=True)):
        simulator = alone(cluster, run, seed)
        assert_same(simulators, index, simulator)
        job_time_ms = float(simulator.state.clock[0]["job_time_ms"])
        assert return_s[index] == pytest.approx(-job_time_ms / 1000, rel=1e-12)
    if drawn == MIXED:
        assert {Status.DONE, Status.TRUNCATED} <= set(simulators.status.tolist())


def test_reset_begins_one_run_and_leaves_the_others() -> None:
    """A longer run than all before it fits in, too, in the middle of the others' episodes."""
    cluster = CLUSTERS["executors"]
    simulators = VectorSimulator(ARRAYS, cluster, [run_of(1), run_of(2), run_of(3)])
    rngs = [np.random.default_rng(index) for index in range(3)]
    for _ in range(10):
        stages, limits = decide_all(simulators.observation(), rngs)
        simulators.step(np.array(stages), np.array(limits))
    simulators.reset(1, run_of(8, jobs=30))
    rngs[1] = np.random.default_rng(8)
    together(simulators, rngs)
    assert {Status.DONE, Status.TRUNCATED} >= set(simulators.status.tolist())
    for index, (run, seed) in enumerate([(run_of(1), 0), (run_of(8, jobs=30), 8), (run_of(3), 2)]):
        assert_same(simulators, index, alone(cluster, run, seed))
    # A shorter run after a longer one meets nothing of it.
    simulators.reset(1, run_of(2))
    rngs[1] = np.random.default_rng(5)
    together(simulators, rngs)
    assert_same(simulators, 1, alone(cluster, run_of(2), 5))


# --- what they show ------------------------------------------------------------------------------


def test_a_batch_is_that_of_its_states_and_knows_their_dependencies() -> None:
    simulators = VectorSimulator(ARRAYS, Cluster(2), [batch_run(1, jobs=80), run_of(2, jobs=20)])
    for _ in range(60):
        batch = simulators.observation()
        simulators.step(batch.first_open_stages(), batch.num_executors)
    batch = simulators.observation()
    of_states = batch_of([simulators.state(index) for index in range(2)])
    for name, values in batch._asdict().items():
        expected_values = getattr(of_states, name)
        for column in values.dtype.names or ():
            np.testing.assert_array_equal(expected_values[column], values[column])
        if values.dtype.names is None:
            np.testing.assert_array_equal(expected_values, values)
    expected = [
        (int(job["first_stage"]) + parent, int(job["first_stage"]) + child)
        for job in batch.jobs
        for child, stage in enumerate(TRACE.jobs[job["template"]].stages)
        for parent in stage.parents
    ]
    assert len(batch.jobs) > 4
    edges = batch.edges(ARRAYS)
    assert sorted(edges.T.tolist()) == sorted(map(list, expected))


@each_protocol
def test_ended_simulations_have_no_rows(cluster: Cluster) -> None:
    """Truncated or done, they keep their flags and earn nothing while the last goes on."""
    runs = [run_of(1, time_limit_ms=20_000.0), run_of(3, jobs=1), run_of(2, jobs=20)]
    simulators = VectorSimulator(ARRAYS, cluster, runs)
    while simulators.alive[:2].any():
        batch = simulators.observation()
        simulators.step(batch.first_open_stages(), batch.num_executors)
    batch = simulators.observation()
    assert batch.alive.tolist() == [False, False, True]
    assert batch.on_offer[:2].tolist() == [0, 0]
    assert batch.source_job[:2].tolist() == [NONE, NONE]
    assert batch.time_ms[0] == 20_000.0
    for ends in (batch.job_ptr, batch.stage_ptr):
        assert ends[:3].tolist() == [0, 0, 0]
    result = simulators.step(batch.first_open_stages(), batch.num_executors)
    assert result.reward_s[:2].tolist() == [0.0, 0.0]
    assert result.done.tolist() == [False, True, False]
    assert result.truncated.tolist() == [True, False, False]


# --- bad input -----------------------------------------------------------------------------------


@each_protocol
@pytest.mark.parametrize(
    ("row", "limit", "rule"),
    [
        pytest.param("other", 8, "its rows of the batch are", id="another simulation's stage"),
        pytest.param("beyond", 8, "its rows of the batch are", id="no row"),
        pytest.param("negative", 8, "its rows of the batch are", id="below NONE"),
        pytest.param("closed", 8, "may not be chosen now", id="closed stage"),
        pytest.param("open", 0, "limit 0 must lie in 1..8", id="limit too low"),
        pytest.param("open", 9, "limit 9 must lie in 1..8", id="limit too high"),
    ],
)
def test_an_illegal_action_moves_no_simulation(
    cluster: Cluster, row: str, limit: int, rule: str
) -> None:
    """The message names simulation, stage, limit and rule; the legal ones wait, too."""
    simulators = VectorSimulator(ARRAYS, cluster, [run_of(1), run_of(2)])
    batch = simulators.observation()
    legal = batch.first_open_stages()
    low, high = int(batch.stage_ptr[1]), int(batch.stage_ptr[2])
    closed = low + int(np.flatnonzero(batch.stages["open"][low:high] == 0)[0])
    rows = {"other": 0, "beyond": high, "negative": -2, "closed": closed, "open": int(legal[1])}
    before = [simulators.state(index).clock.copy() for index in range(2)]
    with pytest.raises(IllegalActionError, match=rule) as caught:
        simulators.step(np.array([legal[0], rows[row]]), np.array([8, limit]))
    assert f"simulation 1, batch row {rows[row]}, limit {limit}" in str(caught.value)
    for index in range(2):
        np.testing.assert_array_equal(simulators.state(index).clock, before[index])
    with pytest.raises(SimulationError, match=r"all must be \(2,\)"):
        simulators.step(legal[:1], np.array([8, 8]))
    simulators.step(legal, np.array([8, 8]))


def test_only_a_pass_is_legal_once_a_run_is_over() -> None:
    """An action for it is a mistake of the caller's."""
    simulators = VectorSimulator(ARRAYS, Cluster(), [run_of(1, time_limit_ms=1e-3)])
    assert not simulators.alive.any()
    assert simulators.step(np.array([NONE]), np.array([0])).truncated.all()
    with pytest.raises(IllegalActionError, match="only -1 is legal"):
        simulators.step(np.array([0]), np.array([1]))


@pytest.mark.parametrize(
    ("runs", "rule"),
    [
        pytest.param([], "no run", id="none"),
        ([run_of(1), Run(np.zeros(1), np.array([99], np.int32))], "run 1: .*job 99"),
    ],
)
def test_bad_runs_are_refused_by_number(runs: list[Run], rule: str) -> None:
    """One line that names the run and the rule; a time limit of NaN would never be reached."""
    with pytest.raises(SimulationError, match=rule):
        VectorSimulator(ARRAYS, Cluster(), runs)
    for limit_ms in (0.0, math.nan):
        with pytest.raises(SimulationError, match="time limit must be positive"):
            Run(np.zeros(1), np.zeros(1, np.int32), time_limit_ms=limit_ms)
