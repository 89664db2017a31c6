"""The weights decide: without them, or with others, a network chooses otherwise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from decima.agent.model import load_model
from decima.agent.network import PolicyNetwork
from decima.agent.rollout import Lanes, play_out
from decima.learned import learned_policy
from decima.policy_names import SHIPPED_MODEL, model_path
from spark_sim import PASS, Cluster, Status
from tests.networks import random_network
from tests.stories import build, job, stage
from tests.test_agent_support import ARRAYS, CLUSTERS, SCALES, batch_run, run_of

RUNS = [run_of(1), run_of(2, jobs=8), batch_run(1, jobs=10)]


@pytest.fixture(params=["random weights", "the shipped model"])
def network(request: pytest.FixtureRequest) -> PolicyNetwork:
    """A network whose weights should matter."""
    if request.param == "random weights":
        return random_network(2)
    return load_model(model_path(SHIPPED_MODEL)).network


def with_weights(network: PolicyNetwork, change: Callable[[torch.Tensor], torch.Tensor]) -> None:
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(change(parameter))


def zeroed(network: PolicyNetwork) -> PolicyNetwork:
    copy = copied(network)
    with_weights(copy, torch.zeros_like)
    return copy


def shuffled(network: PolicyNetwork) -> PolicyNetwork:
    """Each weight in the place of another one of its layer."""
    copy = copied(network)
    generator = torch.Generator().manual_seed(1)
    with_weights(
        copy,
        lambda tensor: tensor.flatten()[
            torch.randperm(tensor.numel(), generator=generator)
        ].view_as(tensor),
    )
    return copy


def without_messages(network: PolicyNetwork) -> PolicyNetwork:
    silent = PolicyNetwork(replace(network.config, messages=False))
    silent.load_state_dict(network.state_dict())
    return silent


def copied(network: PolicyNetwork) -> PolicyNetwork:
    copy = PolicyNetwork(network.config)
    copy.load_state_dict(network.state_dict())
    return copy


def completion_ms(network: PolicyNetwork) -> list[list[float]]:
    """When each job of each run is complete."""
    played = play_out(network, SCALES, Lanes(ARRAYS, CLUSTERS["executors"], RUNS, None))
    return [state.jobs["completion_ms"].tolist() for state in played.states]


def test_the_same_weights_choose_the_same_and_others_choose_otherwise(
    network: PolicyNetwork,
) -> None:
    expected = completion_ms(network)
    assert completion_ms(copied(network)) == expected
    for change in (zeroed, shuffled, without_messages):
        others = completion_ms(change(network))
        assert all(other != own for other, own in zip(others, expected, strict=True)), change


@pytest.mark.parametrize(
    ("task_ms", "expected"), [(100_000.0, range(1, 45)), (100.0, range(47, 51))]
)
def test_the_shipped_network_leaves_executors_free_beside_tasks_that_block(
    task_ms: float, expected: range
) -> None:
    """After forty small jobs comes one of 1,000 tasks: nearly all executors if they are short."""
    small = [job(str(number), stage("x", 4, 1_000)) for number in range(40)]
    jobs = [*small, job("large", stage("x", 1_000, task_ms))]
    simulator = build(
        jobs,
        Cluster(num_executors=50, moving_delay_ms=10.0),
        arrival_ms=[*(5_000.0 * number for number in range(40)), 260_000.0],
    )
    policy = learned_policy(SHIPPED_MODEL, simulator.state.trace, 0)
    most = 0
    while simulator.status is Status.DECIDE:
        seen = simulator.observation()
        action = policy.decide(seen)
        if action != PASS and seen.stages["job"][action.stage] == 40:
            most = max(most, action.limit)
        simulator.step(action)
    assert most in expected
