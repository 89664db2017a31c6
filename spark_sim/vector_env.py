"""`SparkVectorEnv`: many simulations as one Gymnasium vector environment.

The simulations are a `spark_sim.vector.VectorSimulator`. Used directly, that is faster, and suits
graph networks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.error import InvalidAction, ResetNeeded
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from spark_sim.env_episodes import Completions, Episodes, after, summary
from spark_sim.env_view import Padded, Sight
from spark_sim.errors import SimulationError
from spark_sim.seeding import Streams
from spark_sim.tables import NONE
from spark_sim.vector import VectorSimulator
from traces.numbers import Bool, Float64


class SparkVectorEnv(VectorEnv[Padded, NDArray[np.int64], NDArray[Any]]):
    """Vector of B `spark_sim.env.SparkEnv` in lockstep, with its observations, actions, rewards and
    infos.

    ``gymnasium.make_vec("decima/Spark-v0", 8, vectorization_mode="vector_entry_point")`` builds
    one, too. `reset(seed=s)` gives simulation i what `SparkEnv.reset(seed=s + i)` gives; a list has
    a seed for each. A finished simulation ignores its next action and begins a new episode instead,
    with reward 0 (`AutoresetMode.NEXT_STEP`).
    """

    def __init__(self, num_envs: int = 1, **settings: Any) -> None:
        """Describe the episodes; the first begin with `reset`.

        Args:
            num_envs: simulations.
            settings: those of `SparkEnv`, by name.

        Raises:
            SimulationError: there is no simulation, or a setting is refused by `SparkEnv`.
        """
        if num_envs < 1:
            raise SimulationError(f"num_envs must be 1 or more, got {num_envs}")
        self._episodes = Episodes(**settings)
        self.num_envs = num_envs
        self.metadata = {"render_modes": [], "autoreset_mode": AutoresetMode.NEXT_STEP}
        self.single_observation_space = self._episodes.observation_space
        self.single_action_space = self._episodes.actions.space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._streams: list[Streams] = []
        self._simulators: VectorSimulator | None = None
        self._sight: Sight | None = None
        self._completions: list[Completions] = []
        self._over = np.zeros(num_envs, np.bool_)
        self._illegal_actions = np.zeros(num_envs, np.int64)

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Padded, dict[str, Any]]:
        """Begin an episode in every simulation. There are no options.

        Raises:
            SimulationError: options or too few seeds are given, or the arrivals break a rule.
        """
        if options:
            raise SimulationError(f"reset takes no options, got {list(options)}")
        seeds: list[int | None]
        if seed is None:
            seeds = [None] * self.num_envs
        elif isinstance(seed, int | np.integer):
            seeds = [int(seed) + index for index in range(self.num_envs)]
        else:
            seeds = list(seed)
        if len(seeds) != self.num_envs:
            raise SimulationError(f"{len(seeds)} seeds for {self.num_envs} simulations")
        super().reset(seed=seeds[0])
        before: Sequence[Streams | None] = self._streams or [None] * self.num_envs
        self._streams = [
            after(streams, seed_of_env, self.np_random)
            for streams, seed_of_env in zip(before, seeds, strict=True)
        ]
        runs = [self._episodes.run(streams) for streams in self._streams]
        self._simulators = VectorSimulator(self._episodes.arrays, self._episodes.cluster, runs)
        self._completions = [Completions() for _ in runs]
        self._over[:] = False
        self._illegal_actions[:] = 0
        infos: dict[str, Any] = {}
        for index in range(self.num_envs):
            infos = self._add_info(infos, self._place_of(index), index)
        return self._show(self._simulators), infos

    def step(
        self, actions: NDArray[np.int64]
    ) -> tuple[Padded, Float64, Bool, Bool, dict[str, Any]]:
        """Take one decision in each simulation; those that were over begin their next episode.

        Raises:
            ResetNeeded: no episode has begun.
            InvalidAction: the actions are not in the action space.
            IllegalActionError: one is illegal, with `illegal="raise"`; no simulation has moved.
        """
        simulators, sight = self._under_way()
        if not self.action_space.contains(actions):
            raise InvalidAction(f"actions {actions} are not in {self.action_space}")
        own_stage, limits, kinds, is_illegal = self._episodes.actions.chosen(
            sight, actions, lambda index: f"simulation {index}, "
        )
        self._illegal_actions += is_illegal
        batch = simulators.observation()
        # Rows ascend within a simulation, so together with its number they ascend in all.
        lane = np.repeat(np.arange(self.num_envs), np.diff(batch.stage_ptr))
        width = simulators.stacked.stages.shape[1]
        row = np.searchsorted(
            lane * width + batch.stage_row, np.arange(self.num_envs) * width + own_stage
        )
        result = simulators.step(np.where(own_stage == NONE, NONE, row), limits, kinds)
        began = self._over
        reward_s = np.where(began, 0.0, result.reward_s)
        terminated, truncated = result.done & ~began, result.truncated & ~began
        always = np.ones(self.num_envs, np.bool_)
        infos: dict[str, Any] = {"illegal_action": is_illegal, "_illegal_action": always}
        clock = simulators.stacked.clock[:, 0]
        completions = clock["next_arrival"] - clock["num_active"]
        completed = np.empty(self.num_envs, object)
        for index in range(self.num_envs):
            completed[index] = ()
            if not began[index] and completions[index] > self._completions[index].count:
                completed[index] = self._completions[index].since(simulators.state(index))
            if began[index]:
                self._streams[index] = after(self._streams[index], None, self.np_random)
                simulators.reset(index, self._episodes.run(self._streams[index]))
                self._illegal_actions[index] = 0
                self._completions[index] = Completions()
                infos = self._add_info(infos, self._place_of(index), index)
            elif terminated[index] or truncated[index]:
                ended = summary(simulators.state(index), int(self._illegal_actions[index]))
                infos = self._add_info(infos, ended, index)
        infos |= {"completed": completed, "_completed": always}
        self._over = terminated | truncated
        return self._show(simulators), reward_s, terminated, truncated, infos

    def action_masks(self) -> Bool:
        """(B, sum of `single_action_space.nvec`) those of `SparkEnv.action_masks`.

        Raises:
            ResetNeeded: no episode has begun.
        """
        return self._episodes.actions.masks(self._under_way()[1])

    def _place_of(self, index: int) -> dict[str, Any]:
        streams = self._streams[index]
        return {"seed": streams.seed, "sequence": streams.sequence}

    def _show(self, simulators: VectorSimulator) -> Padded:
        self._sight = self._episodes.sight(simulators.stacked, simulators.alive)
        return self._episodes.show(self._sight)

    def _under_way(self) -> tuple[VectorSimulator, Sight]:
        if self._simulators is None or self._sight is None:
            raise ResetNeeded("no episode is under way: call reset() first")
        return self._simulators, self._sight
