"""DeepRM and Harmony side by side, for the tests of what they share."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import click
import numpy as np
import pytest
from click.testing import CliRunner, Result

import deeprm.cli
import deeprm.config
import harmony.cli
import harmony.config
from decima.rl.run_folder import RunFolder
from decima.rl.study.env import StudyEnv
from decima.rl.study.lockstep import Lockstep
from decima.rl.study.models import ModelKind
from deeprm.episodes import Episodes
from deeprm.schedulers import POLICY as DEEPRM_POLICY
from deeprm.schedulers import new_network as new_deeprm
from deeprm.training_config import TrainConfig as DeepRmTraining
from harmony.clusters import Clusters
from harmony.models import POLICY as HARMONY_POLICY
from harmony.models import REWARD_MODEL, new_network, new_reward_model
from harmony.network import Size
from harmony.training_config import RewardConfig
from harmony.training_config import TrainConfig as HarmonyTraining
from tests import deeprm_clusters, harmony_clusters


class System(NamedTuple):
    """A package with a study, and small settings of it."""

    name: str
    command: click.Group
    tiny: Any
    """a small cluster"""
    training: Any
    """a short training on it"""
    quick: tuple[str, ...]
    """settings of a short training on the paper's cluster, as `--set` takes them"""
    inputs: str
    """option for the number of inputs"""
    number: str
    """what info of the environment calls the number of an input"""
    first: str
    """name of the study's first training"""
    later: str
    """name of one that begins with the weights of `before`"""
    before: str

    def module(self, name: str) -> ModuleType:
        return import_module(f"{self.name}.{name}")

    def load_model(self, path: Path) -> Any:
        return self.module("schedulers" if self.name == "deeprm" else "models").load_model(path)

    def run(self, *arguments: str) -> Result:
        return CliRunner().invoke(self.command, arguments)

    def train(self, out: Path, *arguments: str, iterations: int = 2) -> Result:
        settings = (*self.quick, f"iterations={iterations}")
        changes = [part for setting in settings for part in ("--set", setting)]
        return self.run("train", "--out", str(out), *changes, *arguments)

    def env(self, **settings: Any) -> StudyEnv[Any, Any]:
        module = self.module("env")
        make = module.DeepRmEnv if self.name == "deeprm" else module.HarmonyEnv
        environment: StudyEnv[Any, Any] = make(**{"config": self.tiny, **settings})
        return environment

    def episodes(self, config: Any, jobs: Any, rows: Any, scheduler: Any) -> Lockstep:
        if self.name == "deeprm":
            return Episodes(config, jobs, rows)
        return Clusters(config, jobs, rows, priority=scheduler.priority(jobs))


DEEPRM = System(
    "deeprm",
    deeprm.cli.main,
    deeprm_clusters.TINY,
    DeepRmTraining(
        cluster=deeprm_clusters.TINY,
        iterations=4,
        job_sets=3,
        episodes=4,
        validate_every=2,
        validation_sets=3,
    ),
    ("cluster.load=0.3", "job_sets=2", "episodes=2", "validation_sets=2", "validate_every=1"),
    "sets",
    "job_set",
    "paper-70-0",
    "slowdown-30-1",
    "paper-70-1",
)
HARMONY = System(
    "harmony",
    harmony.cli.main,
    harmony_clusters.TINY,
    HarmonyTraining(
        cluster=harmony_clusters.TINY,
        patterns=("uniform", "poisson"),
        size=Size(width=16, heads=2, layers=1),
        iterations=3,
        replay=64,
        imitation=1,
        samples=60,
        validate_every=2,
        validation_sequences=2,
    ),
    (
        "size.width=16",
        "size.heads=2",
        "cluster.jobs=4",
        "replay=32",
        "imitation=0",
        "validation_sequences=1",
        "validate_every=1",
    ),
    "sequences",
    "sequence",
    "policy-6-0",
    "policy-30-1",
    "policy-6-1",
)
SYSTEMS = {one.name: one for one in (DEEPRM, HARMONY)}
each_system = pytest.mark.parametrize("system", SYSTEMS.values(), ids=SYSTEMS)
REWARD = RewardConfig(
    cluster=harmony_clusters.TINY, size=HARMONY.training.size, samples=200, iterations=2
)


class Trained(NamedTuple):
    """A kind of network, with a short training of it and a network that has learned nothing."""

    system: System
    kind: ModelKind[Any, Any]
    config: Any
    make: Callable[[], Any]

    def save(self, path: Path, card: Mapping[str, object] | None = None) -> Any:
        network = self.make()
        self.kind.save(path, self.config, network.state_dict(), card or {})
        return network


def _deeprm(**changes: Any) -> Trained:
    config = replace(DEEPRM.training, **changes)
    return Trained(DEEPRM, DEEPRM_POLICY, config, lambda: new_deeprm(config))


TRAINED = {
    "image": _deeprm(imitation=1, fresh_job_sets=True, entropy=0.01),
    "compact": _deeprm(policy="compact", imitation=1, fresh_job_sets=True, entropy=0.01),
    "policy": Trained(
        HARMONY, HARMONY_POLICY, HARMONY.training, lambda: new_network(HARMONY.training.size, 3)
    ),
    "policy without a critic": Trained(
        HARMONY,
        HARMONY_POLICY,
        replace(HARMONY.training, critic=False, shuffled=False, average_iterations=2),
        lambda: new_network(HARMONY.training.size, 3),
    ),
    "reward model": Trained(HARMONY, REWARD_MODEL, REWARD, lambda: new_reward_model(REWARD.size)),
}
each_kind = pytest.mark.parametrize("trained", TRAINED.values(), ids=TRAINED)


def few_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fit models of interference to few states, and take quick intervals."""
    monkeypatch.setattr("harmony.interference.SAMPLES", 100)
    monkeypatch.setattr("decima.rl.statistics.RESAMPLES", 50)


def episode(env: StudyEnv[Any, Any], seed: int) -> tuple[list[float], dict[str, Any]]:
    """Rewards of an episode of random allowed actions, and its last info."""
    _, info = env.reset(seed=seed)
    rng = np.random.default_rng(seed)
    rewards, over = [], False
    while not over:
        action = rng.choice(np.nonzero(info["action_mask"])[0])
        seen, reward, terminated, truncated, info = env.step(action)
        assert env.observation_space.contains(seen)
        assert not info.get("replaced", False)
        rewards.append(reward)
        over = terminated or truncated
    return rewards, info


def metrics_without_times(folder: Path) -> list[dict[str, Any]]:
    """Rows of a run's metrics, less the time that they took."""
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{name: value for name, value in row.items() if name != "elapsed_s"} for row in rows]


def run_in_parts(trained: Trained, path: Path, limits_s: Sequence[float | None]) -> None:
    """Train in a new run folder, in a session for each limit of time."""
    session = trained.system.module("session")
    session.new_run(path, trained.config).close()
    for limit_s in limits_s:
        with RunFolder.open(path) as folder:
            session.run_training(folder, time_limit_s=limit_s)
