"""A learner of six weights, and runs of it that tests of the training loop compare."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from decima.rl.baselines import TimedReturns, input_dependent_baseline
from decima.rl.checkpoint import load_tensors
from decima.rl.loop import LoopSettings, LoopState, TrainingResult, train
from decima.rl.losses import policy_gradient_loss
from decima.rl.optimiser import Optimiser, flat_gradient
from decima.rl.returns import AverageRate, Floats
from decima.rl.run_folder import RunFolder

ROLLOUTS = 8
SEED = 11
ROOT = Path(__file__).parents[1]


def advantages(took_s: Floats) -> Floats:
    """(2 N,) advantage of each decision of N rollouts, whose stages took (N, 2) seconds."""
    group = [
        TimedReturns(np.array([0.0, took[0]]), np.array([-took.sum(), -took[1]]), float(took.sum()))
        for took in took_s
    ]
    baselines = input_dependent_baseline(group, leave_one_out=True)
    return np.concatenate([own.returns - b for own, b in zip(group, baselines, strict=True)])


class ChainLearner:
    """A job passes two stages; in each the policy picks a machine that takes 1, 2 or 4 seconds.

    The reward of a decision is minus the time its stage takes. How loaded the system is (the
    input, shared by all rollouts of an iteration) adds the same time to every stage. The score is
    the mean time of a stage without load: 1 at best, 7/3 for a policy that picks at random.
    """

    TIME_S = np.array([2.0, 1.0, 4.0])

    def __init__(self, before: Callable[[int], None] = lambda _: None) -> None:
        self.policy = nn.Linear(2, 3, bias=False)
        nn.init.zeros_(self.policy.weight)
        self.optimiser = Optimiser(self.policy, 0.1, max_norm=5.0)
        self.average = AverageRate(window=200)
        self._before = before

    def iterate(self, iteration: int) -> Mapping[str, float]:
        self._before(iteration)
        rng = np.random.default_rng([SEED, iteration])
        load_s = rng.exponential(5.0)
        log_prob = self.policy(torch.eye(2)).log_softmax(dim=1)
        chance = np.exp(log_prob.detach().double().numpy())
        chance /= chance.sum(axis=1, keepdims=True)
        arms = np.array([[rng.choice(3, p=row) for row in chance] for _ in range(ROLLOUTS)])
        took_s = self.TIME_S[arms] + load_s
        self.average.add(took_s.size, -float(took_s.sum()), float(took_s.sum()))

        advantage = torch.from_numpy(advantages(took_s)).float()
        taken = log_prob[torch.arange(2).repeat(ROLLOUTS), torch.from_numpy(arms).flatten()]
        loss = policy_gradient_loss(taken, advantage)
        self.policy.zero_grad()
        torch.autograd.backward(loss)
        norm = self.optimiser.step(flat_gradient(self.policy))
        return {"loss": loss.item(), "gradient_norm": norm, "rate": self.average.rate}

    def validate(self) -> Mapping[str, float]:
        with torch.no_grad():
            chance = self.policy(torch.eye(2)).softmax(dim=1).numpy()
        return {"score": float((chance @ self.TIME_S).mean()), "sure": float(chance.max())}

    def state(self) -> dict[str, Tensor]:
        return {
            "policy": self.policy.weight.detach(),
            "average": torch.from_numpy(self.average.state()),
            **{f"adam.{name}": tensor for name, tensor in self.optimiser.state().items()},
        }

    def load(self, state: Mapping[str, Tensor]) -> None:
        with torch.no_grad():
            self.policy.weight.copy_(state["policy"])
        self.average.load(state["average"].numpy())
        self.optimiser.load({k.removeprefix("adam."): v for k, v in state.items() if "adam" in k})

    def model_state(self) -> dict[str, Tensor]:
        return {"policy": self.policy.weight.detach()}


def run(
    path: Path, settings: LoopSettings, learner: ChainLearner | None = None
) -> tuple[ChainLearner, TrainingResult]:
    """One session in a new or an old folder."""
    learner = ChainLearner() if learner is None else learner
    is_old = (path / "config.json").exists()
    folder = RunFolder.open(path) if is_old else RunFolder.create(path, {"seed": SEED})
    with folder:
        return learner, train(learner, folder, settings)


SHORT = LoopSettings(iterations=12, validate_every=3, checkpoint_every_s=0.0)


def assert_same_run(path: Path, expected: Path) -> None:
    """Bit for bit the same weights, best model and figures; times differ."""
    for name in ("checkpoint.safetensors", "best.safetensors"):
        (tensors, facts), (wanted, wanted_facts) = (
            load_tensors(p / name) for p in (path, expected)
        )
        assert tensors.keys() == wanted.keys()
        assert all(torch.equal(tensors[key], wanted[key]) for key in wanted)
        assert without_time(facts) == without_time(wanted_facts)
    with RunFolder.open(path) as ours, RunFolder.open(expected) as theirs:
        assert [*map(without_time, ours.metrics())] == [*map(without_time, theirs.metrics())]


def without_time(facts: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in facts.items() if name != "elapsed_s"}


def checkpoint_iteration(path: Path) -> int:
    return LoopState.from_json(load_tensors(path / "checkpoint.safetensors")[1]).next_iteration
