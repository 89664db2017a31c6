"""The trainings behind the figures, and where their models lie.

* `reward`: a model of speeds (figure 13).
* `policy`: the policy of figures 10, 12 and 14; the one for 30 servers goes on from that for 6.
* `analytic`: policies for the analytic speeds (figures 10, 14): on 6 servers from the `policy`, on
  30 from nothing, by branches of load balancing.
* `model`: the same as `policy`, rewarded by the reward model in place of the clusters.
* `recipe` and its ablations (table II): from nothing, without imitation, on a small network.
* sizes (figure 15): short trainings of the policy, one number of its network changed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from decima.rl.study.models import Model
from decima.rl.study.trainings import ModelFolder, Study
from harmony.config import CONFIGS
from harmony.models import POLICY, REWARD_MODEL
from harmony.network import ActorCritic, RewardModel, Size
from harmony.session import AnyConfig
from harmony.training_config import RewardConfig, TrainConfig, recipe

SEEDS = (0, 1, 2)
SMALL = Size(width=32)
ABLATIONS: dict[str, dict[str, Any]] = {
    "recipe": {},
    "no_critic": {"critic": False},
    "no_exploration": {"exploration": 0.0},
    "one_head": {"size": Size(width=32, heads=1)},
    "no_replay": {"shuffled": False},
}
"""rows of table II, and what each changes"""
# In 6,000 updates the recipe to the letter hardly leaves the start. A smaller lambda (smoothing)
# learns sooner, and averaged weights swing less between validations than an ablation changes them.
_QUICKER: dict[str, Any] = {
    "iterations": 24,
    "clip": 0.2,
    "smoothing": 0.5,
    "exploration": 0.2,
    "entropy": 0.01,
    "learning_rate": 1e-3,
    "final_learning_rate": 1e-4,
    "average_iterations": 2,
    "validate_every": 3,
}
_ANALYTIC: dict[str, dict[str, Any]] = {
    "6": {"iterations": 6, "imitation": 6, "coming": 8, "learning_rate": 4e-4},
    "30": {
        "iterations": 5,
        "imitation": 5,
        "coming": 8,
        "learning_rate": 1e-3,
        "teacher": "load_balance",
        "replay": 4_950,
        "validation_sequences": 4,
    },
}
"""settings of `analytic` by the number of servers"""
SIZES: dict[str, Size] = {
    "width_32": Size(width=32),
    "width_64": Size(width=64),
    "paper_size": Size(),
    "layers_1": Size(layers=1),
    "layers_3": Size(layers=3),
    "heads_1": Size(heads=1),
    "heads_2": Size(heads=2),
}
"""points of figure 15"""


class Training(NamedTuple):
    """Training of the study."""

    kind: str
    servers: str
    """a name in `CONFIGS`"""
    seed: int

    @property
    def name(self) -> str:
        """Name of the run folder and the model."""
        return f"{self.kind}-{self.servers}-{self.seed}"

    @property
    def needs(self) -> tuple[Training | None, Training | None]:
        """The policy whose weights this one begins with, and the reward model it trains on."""
        reward = Training("reward", self.servers, self.seed) if self.kind == "model" else None
        return self.initial, reward

    @property
    def initial(self) -> Training | None:
        """The policy whose weights this one begins with."""
        begins = {"policy": self.servers != "6", "analytic": self.servers == "6"}
        return Training("policy", "6", self.seed) if begins.get(self.kind) else None

    def config(self) -> AnyConfig:
        """Return the training's settings."""
        cluster = CONFIGS[self.servers]
        if self.kind == "reward":
            return RewardConfig(cluster=cluster, seed=self.seed)
        if self.kind in ABLATIONS:
            return replace(
                recipe(cluster=cluster, seed=self.seed, size=SMALL),
                **_QUICKER | ABLATIONS[self.kind],
            )
        if self.kind in SIZES:
            size = SIZES[self.kind]
            return TrainConfig(
                cluster=cluster, seed=self.seed, size=size, iterations=6, imitation=6, tau=0.0
            )
        if self.kind == "model":
            # Branches would ask the model for each interval of each.
            return TrainConfig(
                cluster=cluster, seed=self.seed, world="model", iterations=24, imitation=12, tau=0.0
            )
        if self.kind == "analytic":
            return TrainConfig(
                cluster=replace(cluster, speed="analytic"),
                seed=self.seed,
                initial=self.initial is not None,
                validate_every=1,
                **_ANALYTIC[self.servers],
            )
        if self.initial is not None:
            return TrainConfig(
                cluster=cluster,
                seed=self.seed,
                iterations=8,
                imitation=0,
                learning_rate=1e-4,
                initial=True,
            )
        return TrainConfig(cluster=cluster, seed=self.seed)


def trainings() -> list[Training]:
    """All, in an order in which each has what it stands on."""
    planned = []
    for seed in SEEDS:
        for servers in CONFIGS:
            planned += [Training(kind, servers, seed) for kind in ("policy", "reward", "analytic")]
        planned += [Training(kind, "6", seed) for kind in ABLATIONS]
        planned.append(Training("model", "6", seed))
        planned += [Training(kind, "6", seed) for kind in SIZES]
    return planned


class Models(ModelFolder):
    """The models of the study."""

    package = "harmony"

    def policies(self, kind: str, servers: str) -> list[ActorCritic]:
        """Load the policies of all seeds that are there."""
        models = self.loaded(POLICY, [Training(kind, servers, seed) for seed in SEEDS])
        return [model.network for model in models]

    def rewards(self, servers: str) -> list[Model[RewardModel, RewardConfig]]:
        """Load the reward models of all seeds that are there."""
        return self.loaded(REWARD_MODEL, [Training("reward", servers, seed) for seed in SEEDS])


STUDY = Study((POLICY, REWARD_MODEL), trainings)
