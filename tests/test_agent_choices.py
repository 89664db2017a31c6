"""What may be chosen: legal actions only, no probability elsewhere, and all of it in sum."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from decima.agent.acting import Choices, act
from decima.agent.scoring import Scorer
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from decima.agent import kernels
from decima.agent.memory import GraphSorter, Memory, Seen
from decima.agent.network import NetworkConfig, PolicyNetwork
from decima.agent.policy import LearnedPolicy
from decima.agent.recording import Recorder
from decima.agent.scene import Scene
from spark_sim import Cluster, Observation, Status
from spark_sim.tables import NONE
from tests.test_agent_support import (
    ARRAYS,
    CLUSTERS,
    SCALES,
    SMALL,
    VARIANTS,
    action_of,
    decisions,
    each_protocol,
    each_variant,
    random_network,
    run_of,
    simulator_of,
)
from tests.workloads import Workload, workloads
from traces import to_arrays

EXECUTORS = CLUSTERS["executors"]


def willing_to_pass(network: PolicyNetwork, logit: float) -> PolicyNetwork:
    """The same network with so much more on leaving executors idle."""
    with torch.no_grad():
        network.pass_head.last.bias.add_(logit)
    return network


def wanted(seen: Observation) -> list[int]:
    """Stages that may be chosen and have tasks without an executor."""
    return [int(row) for row in seen.open_stages() if seen.demand(int(row)) > 0]


def must_serve(seen: Observation) -> bool:
    """A job without an executor has a stage that could use one."""
    return any(seen.jobs["held"][seen.stages["job"][row]] == 0 for row in wanted(seen))


def assert_allowed(seen: Observation, choices: Choices, config: NetworkConfig) -> None:
    """The rules of the simulator, and those that the network's configuration adds."""
    stage, limit = action_of(choices)
    if stage == NONE:
        assert not wanted(seen) or config.may_idle
        assert not (config.always_one and must_serve(seen))
        return
    held = int(seen.jobs["held"][seen.stages["job"][stage]])
    room = min(seen.demand(stage), seen.on_offer, seen.num_executors - held)
    assert stage in wanted(seen)
    assert limit in seen.legal_limits(stage)
    assert held + 1 <= limit <= held + room
    if not config.limit_head:
        assert limit == held + room


# --- whole runs ----------------------------------------------------------------------------------


@given(
    workload=workloads(),
    label=st.sampled_from(sorted(VARIANTS)),
    seed=st.integers(0, 10**6),
    is_sampled=st.booleans(),
)
@settings(max_examples=60, deadline=None, derandomize=True)
def test_any_network_takes_allowed_actions_only(
    workload: Workload, label: str, seed: int, is_sampled: bool
) -> None:
    """Random weights on random jobs, clusters and protocols, to the end of every run."""
    config = VARIANTS[label]
    network = willing_to_pass(random_network(seed, config), 2.0)
    simulator = workload.simulator()
    policy = LearnedPolicy(network, to_arrays(workload.trace))
    rng = np.random.default_rng(seed)
    while simulator.status is Status.DECIDE:
        observation = simulator.observation()
        choices = act(network, policy.look(observation), rng.random((1, 2)) if is_sampled else None)
        assert_allowed(observation, choices, config)
        assert choices.log_prob[0] <= 1e-9
        simulator.step(action_of(choices))
    assert simulator.status in (Status.DONE, Status.DEADLOCK)


@each_protocol
def test_a_network_that_longs_to_idle_serves_every_job_all_the_same(cluster: Cluster) -> None:
    """With `always_one` it passes whenever it may, and never beside a job without executors."""
    network = willing_to_pass(random_network(1), 1_000.0)
    simulator = simulator_of(run_of(1), cluster)
    passes = 0
    for _, choices in decisions(network, simulator, np.random.default_rng(0)):
        is_pass = action_of(choices).stage == NONE
        assert is_pass != must_serve(simulator.observation())
        passes += is_pass
    assert passes > 0
    assert simulator.status is Status.DONE


def test_one_that_may_starve_jobs_does() -> None:
    """Without `always_one` the same longing leaves all executors idle."""
    network = willing_to_pass(random_network(1, VARIANTS["may starve"]), 1_000.0)
    simulator = simulator_of(run_of(1), EXECUTORS)
    _, choices = next(decisions(network, simulator, None))
    assert must_serve(simulator.observation())
    assert action_of(choices).stage == NONE


def test_one_that_may_not_idle_never_does() -> None:
    """However much it longs to, while a stage could use an executor."""
    network = willing_to_pass(random_network(1, VARIANTS["never idle"]), 1_000.0)
    simulator = simulator_of(run_of(1), EXECUTORS)
    for _, choices in decisions(network, simulator, np.random.default_rng(0)):
        assert (action_of(choices).stage == NONE) == (not wanted(simulator.observation()))


# --- what a part that is left out would have told ------------------------------------------------


def disturbed(network: PolicyNetwork, prefix: str) -> PolicyNetwork:
    """The same network with other weights in one part."""
    generator = torch.Generator().manual_seed(99)
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if name.startswith(prefix):
                parameter.add_(torch.randn(parameter.shape, generator=generator))
    return network


def log_probs(network: PolicyNetwork, actor: PolicyNetwork) -> NDArray[np.float64]:
    """Of the first decisions of a run in which `actor` decides: what `network` would do."""
    found: list[float] = []
    simulator = simulator_of(run_of(2), EXECUTORS)
    policy = LearnedPolicy(network, ARRAYS)
    for number, _ in enumerate(decisions(actor, simulator, np.random.default_rng(0))):
        seen = policy.look(simulator.observation())
        found += act(network, seen, None).log_prob.tolist()
        if number == 60:
            break
    return np.array(found)


@pytest.mark.parametrize(
    ("label", "part"),
    [
        ("no embeddings", "encoder"),
        ("no messages", "encoder.f_node"),
        ("no messages", "encoder.g_node"),
        ("no limits", "limit_head"),
        ("never idle", "pass_head"),
    ],
)
def test_a_part_left_out_has_no_influence(label: str, part: str) -> None:
    """Its weights change nothing there, and much in the full network."""
    actor = random_network(5)
    for config, is_used in ((VARIANTS[label], False), (SMALL, True)):
        before = log_probs(random_network(5, config), actor)
        after = log_probs(disturbed(random_network(5, config), part), actor)
        assert (np.abs(after - before).max() > 1e-3) == is_used
        assert is_used or np.array_equal(after, before)


# --- all choices together ------------------------------------------------------------------------


def all_choices(network: PolicyNetwork, seen: Seen) -> list[Choices]:
    """Every stage with every limit, and passing where it is possible, of one decision."""
    features = seen.features
    found: list[Choices] = []
    for row, stage in enumerate(features.open_stage):
        job = seen.scene.jobs[seen.scene.rows[features.open_job[row]]]
        room = int(features.room[row])
        limits = range(1, room + 1) if network.config.limit_head else (room,)
        held, local = int(job["held"]), int(job["local"])
        found.extend(one_choice(stage, row, added, held, local) for added in limits)
    if features.may_pass[0] and network.config.may_idle:
        found.append(one_choice(NONE, len(features.open_stage), 0, 0, 0))
    return found


def one_choice(stage: int, picked: int, added: int, held: int, local: int) -> Choices:
    numbers = (stage, held + added, picked, added, held, local)
    stages, limits, rows, more, *at = (np.array([one]) for one in numbers)
    return Choices(stages, limits, rows, more, np.zeros(1), *at)


def scored(network: PolicyNetwork, scene: Scene, several: list[Choices]) -> NDArray[np.float64]:
    """(K,) probability of each choice of one decision, by way of a recording."""
    memory = Memory(network, ARRAYS, SCALES)
    memory.make_room(len(scene.jobs), len(scene.stages))
    seen = memory.look(scene)
    recorder = Recorder(len(scene.jobs))
    recorder.take_snapshots(seen, memory.node_x)
    for choices in several:
        recorder.take(seen, choices, np.zeros(1, np.float32))
    with torch.no_grad():
        scores = Scorer(network, GraphSorter(ARRAYS), recorder.finish()).score(
            np.arange(len(several))
        )
    found: NDArray[np.float64] = np.exp(scores.log_prob.double().numpy())
    return found


@each_variant
def test_the_choices_of_a_decision_share_the_whole_probability(config: NetworkConfig) -> None:
    """Over all stages, their limits and passing it is 1: nothing leaks into what is masked."""
    network = random_network(2, config)
    simulator = simulator_of(run_of(2), EXECUTORS)
    counts: list[int] = []
    for seen, _ in decisions(network, simulator, np.random.default_rng(0)):
        several = all_choices(network, seen)
        if len(several) > 1:
            assert scored(network, seen.scene, several).sum() == pytest.approx(1.0, abs=1e-5)
            counts.append(len(several))
    assert max(counts) >= (3 if not config.limit_head else 15)


def test_actions_are_drawn_with_the_probability_that_is_recorded() -> None:
    """Of one decision: a fine grid of numbers finds each choice as often as its share."""
    network, grid = random_network(2), 40
    simulator = simulator_of(run_of(2), EXECUTORS)
    played = decisions(network, simulator, np.random.default_rng(0))
    seen = next(seen for seen, _ in played if 8 < len(all_choices(network, seen)) < 30)
    several = all_choices(network, seen)
    share = scored(network, seen.scene, several)
    place = {(int(one.picked[0]), int(one.added[0])): row for row, one in enumerate(several)}

    counts = np.zeros(len(several))
    for first in (np.arange(grid) + 0.5) / grid:
        for second in (np.arange(grid) + 0.5) / grid:
            drawn = act(network, seen, np.array([[first, second]]))
            row = place[int(drawn.picked[0]), int(drawn.added[0])]
            assert np.exp(drawn.log_prob[0]) == pytest.approx(share[row], abs=1e-6)
            counts[row] += 1
    # A cell of the grid lies on each border between two choices.
    np.testing.assert_allclose(counts / grid**2, share, atol=2 / grid)
    likeliest = act(network, seen, None)
    stages = np.bincount([int(one.picked[0]) for one in several], share)
    assert int(likeliest.picked[0]) == stages.argmax()


# --- one choice among numbers --------------------------------------------------------------------


def chosen(
    logits: list[float], last: float, uniform: NDArray[np.float64]
) -> tuple[list[int], NDArray[np.float64]]:
    """(K,) choices from the same logits with each of K numbers, and their log-probabilities."""
    count = len(uniform)
    picked, log_prob = np.empty(count, np.int64), np.empty(count)
    kernels.choose(
        np.tile(np.array(logits, np.float32), count),
        np.arange(count + 1) * len(logits),
        np.full(count, last, np.float32),
        uniform,
        picked,
        log_prob,
    )
    return picked.tolist(), log_prob


def test_a_choice_by_hand() -> None:
    """Weights 1, 2, 1 and 4 for the last: borders at 1/8, 3/8 and 4/8."""
    logits = [0.0, math.log(2), 0.0]
    uniform = np.array([0.0, 0.12, 0.13, 0.37, 0.38, 0.49, 0.51, 0.999, -1.0])
    picked, log_prob = chosen(logits, math.log(4), uniform)
    assert picked == [0, 0, 1, 1, 2, 2, 3, 3, 3]
    weights = np.array([1, 2, 1, 4])[picked]
    np.testing.assert_allclose(log_prob, np.log(weights / 8), atol=1e-6)


LOGITS = st.floats(-60.0, 60.0, width=32)


@given(
    logits=st.lists(LOGITS, min_size=1, max_size=8),
    uniform=st.floats(0.0, 1.0, exclude_max=True),
)
@settings(max_examples=200, deadline=None, derandomize=True)
def test_what_is_masked_is_never_chosen(logits: list[float], uniform: float) -> None:
    """Not even by the largest number below 1, where sums are rounded."""
    numbers = np.array([uniform, np.nextafter(1.0, 0.0), -1.0])
    picked, log_prob = chosen(logits, -math.inf, numbers)
    assert all(0 <= one < len(logits) for one in picked)
    assert picked[-1] == int(np.argmax(np.array(logits, np.float32)))
    exact = np.array(logits, np.float32).astype(np.float64)
    exact -= np.logaddexp.reduce(exact)
    np.testing.assert_allclose(log_prob, exact[picked], atol=1e-5)


def test_with_nothing_else_the_last_is_chosen() -> None:
    """For certain."""
    picked, log_prob = chosen([], 0.7, np.array([0.0, 0.5, -1.0]))
    assert picked == [0, 0, 0]
    assert log_prob.tolist() == [0.0, 0.0, 0.0]
