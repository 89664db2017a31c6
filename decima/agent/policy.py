"""`LearnedPolicy`: a network as a policy, in the simulator and wherever observations come from."""

from __future__ import annotations

import numpy as np

from decima.agent.acting import act
from decima.agent.memory import Memory, Seen
from decima.agent.network import PolicyNetwork
from decima.agent.scales import Scales
from decima.agent.scene import scene_of
from spark_sim.observation import PASS, Action, Observation
from spark_sim.tables import NONE, Table
from spark_sim.views import for_kernels
from traces.arrays import TraceArrays


class LearnedPolicy:
    """Decides one by one; embeds a job anew only when it has changed since the last decision."""

    def __init__(
        self,
        network: PolicyNetwork,
        trace: TraceArrays,
        *,
        scales: Scales | None = None,
        rng: np.random.Generator | None = None,
        name: str = "decima",
    ) -> None:
        """Args:
        network: the weights.
        trace: the jobs that observations point to.
        scales: what is typical of the workload; None takes that of `trace`.
        rng: samples actions; None takes the likeliest.
        name: in tables.
        """
        self.name = name
        self._network = network
        self._memory = Memory(network, trace, Scales.of(trace) if scales is None else scales)
        self._rng = rng
        self._jobs: Table | None = None

    def decide(self, observation: Observation) -> Action:
        """The next action (`decima.policy.Policy`)."""
        seen = self.look(observation)
        uniform = None if self._rng is None else self._rng.random((1, 2))
        choice = act(self._network, seen, uniform)
        stage = int(choice.stage[0])
        return PASS if stage == NONE else Action(stage, int(choice.limit[0]))

    def look(self, observation: Observation) -> Seen:
        """Columns and embeddings of the decision that is due."""
        observation = for_kernels(observation)
        if observation.jobs is not self._jobs:  # another run, or tables that have grown
            self._memory.forget()
            self._jobs = observation.jobs
        self._memory.make_room(len(observation.jobs), len(observation.stages))
        return self._memory.look(scene_of(observation))
