"""The weights decide: without them, or with others, a network chooses otherwise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch

from decima.agent import plans
from decima.agent.model import load_model
from decima.agent.network import PolicyNetwork
from decima.agent.rollout import Lanes, Lockstep
from decima.agent.scorer import Scorer, Seen
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
    found = copied(network)
    with_weights(found, torch.zeros_like)
    return found


def shuffled(network: PolicyNetwork) -> PolicyNetwork:
    """Each weight in the place of another one of its layer."""
    found = copied(network)
    generator = torch.Generator().manual_seed(1)
    with_weights(
        found,
        lambda one: one.flatten()[torch.randperm(one.numel(), generator=generator)].view_as(one),
    )
    return found


def without_messages(network: PolicyNetwork) -> PolicyNetwork:
    found = PolicyNetwork(replace(network.config, messages=False))
    found.load_state_dict(network.state_dict())
    return found


def copied(network: PolicyNetwork) -> PolicyNetwork:
    found = PolicyNetwork(network.config)
    found.load_state_dict(network.state_dict())
    return found


def choices(seen: Seen) -> list[list[tuple[int, int]]]:
    """Stages and limits of the likeliest plan of each decision, up to its end."""
    legal = seen.tables.legal
    every = np.arange(len(legal.open_ptr) - 1)
    wanted = plans.preferences(plans.draw(seen.scores, legal, every, None), legal)
    found: list[list[tuple[int, int]]] = []
    for lane in every:
        own = slice(wanted.ptr[lane], wanted.ptr[lane + 1])
        stage, limit = wanted.stage[own].tolist(), wanted.limit[own].tolist()
        end = stage.index(-1)
        found.append(list(zip(stage[:end], limit[:end], strict=True)))
    return found


def share_of_other_plans(network: PolicyNetwork, other: PolicyNetwork) -> float:
    """How many of a network's plans another one would not have made in the same states."""
    lockstep = Lockstep(network, SCALES, Lanes(ARRAYS, CLUSTERS["executors"], RUNS, None))
    jobs_each, stages_each = lockstep.simulators.capacity
    scorer = Scorer(other, ARRAYS, SCALES)
    scorer.make_room(jobs_each * len(RUNS), stages_each * len(RUNS))
    differs: list[bool] = []
    for step in lockstep:
        own, its = choices(step.seen), choices(scorer.look(step.seen.scene))
        differs += [one != two for one, two in zip(own, its, strict=True) if one or two]
        lockstep.simulators.follow(plans.preferences(step.plans, step.seen.tables.legal))
    assert len(differs) > 50
    return float(np.mean(differs))


def test_the_same_weights_choose_the_same(network: PolicyNetwork) -> None:
    assert share_of_other_plans(network, copied(network)) == 0.0


@pytest.mark.parametrize("change", [zeroed, shuffled, without_messages])
def test_other_weights_choose_otherwise(
    network: PolicyNetwork, change: Callable[[PolicyNetwork], PolicyNetwork]
) -> None:
    """In the states that the network comes to itself."""
    assert share_of_other_plans(network, change(network)) > 0.02


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
