"""Embeddings kept between decisions are those that a full computation gives, and cost less."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from decima.agent.acting import act
from decima.agent.kernels import KNOWN
from torch import Tensor

from decima.agent import columns
from decima.agent.memory import Memory, Seen, describe
from decima.agent.network import NetworkConfig, PolicyNetwork
from decima.agent.policy import LearnedPolicy
from decima.agent.scene import Scene, scene_of_batch
from gnn.encoder import Encoder
from gnn.reference import ReferenceEncoder
from spark_sim import Action, Cluster, Status
from spark_sim.vector import Run, VectorSimulator
from tests.test_agent_support import (
    ARRAYS,
    CLUSTERS,
    SCALES,
    TRACE,
    action_of,
    decisions,
    each_protocol,
    each_variant,
    random_network,
    run_of,
    simulator_of,
)

RUNS = [run_of(1), run_of(2, jobs=6), run_of(3, jobs=1), run_of(4, time_limit_ms=60_000.0)]


def in_full(network: PolicyNetwork, scene: Scene) -> Seen:
    """What a memory that has seen nothing before makes of the scene."""
    memory = Memory(network, ARRAYS, SCALES)
    ends = scene.memory_stage + scene.jobs["num_stages"][scene.rows]
    memory.make_room(int(scene.memory_job.max()) + 1, int(ends.max()))
    return memory.look(scene)


def assert_same_embeddings(kept: Seen, full: Seen) -> None:
    """Of stages, jobs and cluster, to 1e-6 of the largest number, or of 1 if that is larger."""
    for one, other in zip(kept.embeddings, full.embeddings, strict=True):
        largest = max(1.0, float(other.abs().max())) if len(other) else 1.0
        torch.testing.assert_close(one, other, rtol=0.0, atol=1e-6 * largest)


def node_x_of(scene: Scene) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    """The features of all stages, by row of the memory; NaN in rows of no job in sight."""
    ends = scene.memory_stage + scene.jobs["num_stages"][scene.rows]
    node_x = np.full((int(ends.max()), len(columns.NODE)), np.nan, np.float32)
    known = np.full((int(ends.max()), KNOWN), np.nan)
    describe(scene, SCALES, known, node_x, always_one=True)
    return node_x


# --- equal to full recomputation ---------------------------------------------------------------


@each_protocol
def test_in_one_simulation_kept_embeddings_are_right_at_every_decision(cluster: Cluster) -> None:
    """Whatever the jobs went through before, they are embedded as if seen for the first time."""
    network = random_network(3)
    simulator = simulator_of(run_of(2, jobs=6), cluster)
    count = 0
    for seen, _ in decisions(network, simulator, np.random.default_rng(1)):
        assert_same_embeddings(seen, in_full(network, seen.scene))
        count += 1
    assert simulator.status is Status.DONE
    assert count > 60


@each_variant
def test_in_many_simulations_kept_embeddings_are_right_at_every_step(
    config: NetworkConfig,
) -> None:
    """Sequences of different lengths side by side, some of them over."""
    network = random_network(4, config)
    simulators = VectorSimulator(ARRAYS, CLUSTERS["executors"], RUNS)
    jobs, stages = simulators.capacity
    memory = Memory(network, ARRAYS, SCALES)
    memory.make_room(jobs * len(RUNS), stages * len(RUNS))
    rng = np.random.default_rng(0)
    while simulators.alive.any():
        scene = scene_of_batch(simulators.observation(), jobs, stages)
        seen = memory.look(scene)
        assert_same_embeddings(seen, in_full(network, scene))
        choices = act(network, seen, rng.random((len(RUNS), 2)))
        simulators.step(choices.stage.astype(np.int32), choices.limit.astype(np.int32))


def edges_of(scene: Scene) -> tuple[Tensor, list[int], list[int]]:
    """(2, E) parent, child of all jobs in sight, stage by stage; each stage's row and job."""
    parents: list[int] = []
    children: list[int] = []
    rows: list[int] = []
    owner: list[int] = []
    for index, job in enumerate(scene.jobs[scene.rows]):
        first = len(rows)
        for local, stage in enumerate(TRACE.jobs[job["template"]].stages):
            parents += [first + parent for parent in stage.parents]
            children += [first + local] * len(stage.parents)
            rows.append(int(scene.memory_stage[index]) + local)
            owner.append(index)
    return torch.tensor([parents, children]), rows, owner


def test_embeddings_are_those_of_textbook_message_passing() -> None:
    """Graphs from the jobs' own lists of parents, sums by another program; z of the mean job."""
    network = random_network(5)
    reference = ReferenceEncoder(network.encoder)
    rng = np.random.default_rng(2)
    simulator = simulator_of(run_of(2, jobs=6), CLUSTERS["executors"])
    for number, (seen, _) in enumerate(decisions(network, simulator, rng)):
        if number % 10:
            continue
        scene = seen.scene
        edges, rows, owner = edges_of(scene)
        x = torch.from_numpy(node_x_of(scene)[rows])
        with torch.no_grad():
            e = reference.nodes(x, edges)
            y = reference.jobs(x, e, torch.tensor(owner), len(scene.rows))
            summands = network.encoder.f_cluster(y)
            z = network.encoder.g_cluster(summands.mean(dim=0, keepdim=True))
        places = [rows.index(node) for node in seen.features.open_node]
        torch.testing.assert_close(seen.embeddings.e, e[places], rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(seen.embeddings.y, y, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(seen.embeddings.z, z, rtol=1e-5, atol=1e-5)


# --- only what has changed -----------------------------------------------------------------------


@pytest.fixture
def embedded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows by the number of jobs whenever some are embedded."""
    counts: list[int] = []
    whole = Encoder.jobs

    def counting(self: Encoder, x: Tensor, e: Tensor, job: Tensor, num_jobs: int) -> Tensor:
        counts.append(num_jobs)
        return whole(self, x, e, job, num_jobs)

    monkeypatch.setattr(Encoder, "jobs", counting)
    return counts


def changes_of(scenes: Iterator[Scene]) -> Iterator[tuple[int, int]]:
    """For each scene the jobs whose stages' columns are not those last seen, and all jobs."""
    last: dict[int, bytes] = {}
    for scene in scenes:
        node_x, changed = node_x_of(scene), 0
        for index, job in enumerate(scene.memory_job.tolist()):
            first = int(scene.memory_stage[index])
            now = node_x[first : first + scene.jobs["num_stages"][scene.rows[index]]].tobytes()
            changed += last.get(job) != now
            last[job] = now
        yield changed, len(scene.rows)


@each_protocol
def test_only_jobs_that_changed_are_embedded_again(cluster: Cluster, embedded: list[int]) -> None:
    """Once for each change of a job's columns and not more: a fraction of the jobs in sight."""
    simulator = simulator_of(run_of(2, jobs=6), cluster)
    played = decisions(random_network(3), simulator, np.random.default_rng(1))
    anew, in_sight = 0, 0
    for changed, jobs in changes_of(seen.scene for seen, _ in played):
        assert sum(embedded) == changed
        embedded.clear()
        anew += changed
        in_sight += jobs
    assert 0 < anew < 0.7 * in_sight


def test_a_decision_changes_one_job(embedded: list[int]) -> None:
    """Two jobs arrive; executors given to one; the other is not embedded again."""
    run = Run(np.zeros(2), np.array([0, 1], np.int32))
    simulator = simulator_of(run, CLUSTERS["executors"])
    policy = LearnedPolicy(random_network(1), ARRAYS)
    policy.look(simulator.observation())
    policy.look(simulator.observation())
    assert embedded == [2]

    open_stages = simulator.observation().open_stages()
    assert simulator.step(Action(int(open_stages[0]), 3)) is Status.DECIDE
    assert simulator.time_ms == 0.0
    seen = policy.look(simulator.observation())
    assert embedded == [2, 1]
    assert seen.features.changed.tolist() == [0]


# --- one policy for many runs --------------------------------------------------------------------


def completions(policy: LearnedPolicy, run: Run) -> list[float]:
    """When each job of a run under `policy` is complete."""
    simulator = simulator_of(run, CLUSTERS["executors"])
    while simulator.status is Status.DECIDE:
        simulator.step(policy.decide(simulator.observation()))
    return simulator.completion_ms().tolist()


def test_a_policy_forgets_one_run_before_the_next() -> None:
    """A small run, a large one that needs more room, the small one again: each as if alone."""
    network = random_network(6)
    policy = LearnedPolicy(network, ARRAYS)
    for run in (RUNS[2], RUNS[1], RUNS[2]):
        assert completions(policy, run) == completions(LearnedPolicy(network, ARRAYS), run)


def test_a_policy_may_be_asked_about_two_runs_in_turn() -> None:
    """Their jobs have the same rows of memory; neither is taken for the other."""
    network = random_network(6)
    policy = LearnedPolicy(network, ARRAYS)
    simulators = [simulator_of(run, CLUSTERS["executors"]) for run in RUNS[:2]]
    for _ in range(40):
        for simulator in simulators:
            seen = policy.look(simulator.observation())
            assert_same_embeddings(seen, in_full(network, seen.scene))
            simulator.step(action_of(act(network, seen, None)))
    assert all(simulator.status is Status.DECIDE for simulator in simulators)


def test_making_room_keeps_what_is_remembered(embedded: list[int]) -> None:
    """A memory that grows between two looks at a scene embeds nothing again."""
    network = random_network(2)
    simulator = simulator_of(RUNS[1], CLUSTERS["executors"])
    played = decisions(network, simulator, np.random.default_rng(0))
    seen = next(seen for seen, _ in played if len(seen.scene.rows) >= 3)
    memory = Memory(network, ARRAYS, SCALES)
    memory.make_room(len(seen.scene.jobs), len(seen.scene.stages))
    before = memory.look(seen.scene)
    embedded.clear()
    memory.make_room(10 * len(seen.scene.jobs), 10 * len(seen.scene.stages))
    assert_same_embeddings(memory.look(seen.scene), before)
    assert embedded == []

    memory.forget()
    assert_same_embeddings(memory.look(seen.scene), before)
    assert embedded == [len(seen.scene.rows)]
