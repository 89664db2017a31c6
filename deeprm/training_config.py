"""The configuration of a training: frozen, typed, and refused where it contradicts itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from decima.rl.study.settings import BELOW_1, AtLeastOne, NotNegative, Range, Settings
from deeprm.config import PAPER, Config
from deeprm.tables import ObjectiveName


@dataclass(frozen=True)
class TrainConfig(Settings):
    """Settings of a training. The defaults are the paper's (section 4.1)."""

    cluster: Config = PAPER
    objective: ObjectiveName = "slowdown"
    policy: Literal["image", "compact"] = "image"
    """what the network sees: the paper's image, or numbers by job and resource"""
    mask_empty_slots: bool = False
    """whether the policy on images cannot pick an empty slot; in the paper that lets time pass"""
    seed: NotNegative = 0
    iterations: AtLeastOne = 1_000
    job_sets: AtLeastOne = 100
    """in each iteration"""
    loads: tuple[float, ...] = ()
    """iterations take turns at these, in place of the cluster's load; they need fresh job sets"""
    fresh_job_sets: bool = False
    """whether each iteration draws new ones; else they are the same throughout, as in the paper"""
    episodes: Annotated[int, Range(2)] = 20
    """N, on each job set"""
    baseline: Literal["step", "time"] = "step"
    """mean return over the N episodes at the same number of actions, or at the same time"""
    discount: Annotated[float, Range(0.0, 1.0)] = 1.0
    """gamma, of rewards, for each step of time; with 1 a return is the objective"""
    optimiser: Literal["rmsprop", "adam"] = "rmsprop"
    """the paper's, or Adam on gradients that are clipped at norm 1"""
    learning_rate: float = 1e-3
    final_learning_rate: float = 1e-3
    """the rate falls to it in a straight line, over all iterations"""
    average_iterations: AtLeastOne = 1
    """the validated weights are a moving mean over so many iterations; 1 takes the newest"""
    decay: Annotated[float, Range(0.0, BELOW_1)] = 0.9
    """of RMSProp's mean of squares; the paper names none, this is the released code's"""
    entropy: Annotated[float, Range(0)] = 0.0
    """weight of an entropy bonus"""
    initial: bool = False
    """begin with the weights in the run folder's `initial.safetensors`"""
    imitation: NotNegative = 0
    """iterations at the beginning that imitate a teacher instead"""
    branches: NotNegative = 0
    """iterations after those, which lower the cost of trying every action and then going on as the
    teacher does (`deeprm.rollouts`)"""
    branch_batch: AtLeastOne = 512
    """decisions of one step of the optimiser in these iterations; each comes twice"""
    teacher: Literal["sjf", "hold"] = "sjf"
    """the heuristic that is imitated and that plays the branches on: shortest job first, as in the
    released code, or `hold`, tuned"""
    validate_every: AtLeastOne = 10
    """iterations"""
    validation_sets: AtLeastOne = 100
    """job sets that choose the best weights"""

    @property
    def clusters(self) -> tuple[Config, ...]:
        """The cluster at each load."""
        return tuple(self.cluster.at_load(load) for load in self.loads) or (self.cluster,)

    @property
    def is_greedy(self) -> bool:
        """Return whether its model takes the action with the highest score.

        What branches teach is the cheapest action; a policy gradient needs drawn ones.
        """
        return self.branches > 0

    def check(self) -> None:
        """Refuse loads that the job sets cannot have."""
        self.require(
            not self.loads or self.fresh_job_sets, "loads are given: fresh_job_sets=true is needed"
        )
        _ = self.clusters  # each checks its load
