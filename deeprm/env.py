"""`DeepRmEnv`: one cluster as a Gymnasium environment, registered as ``deeprm/DeepRM-v0``.

Importing this module registers the id, so ``gymnasium.make("deeprm.env:deeprm/DeepRM-v0")`` works
everywhere and ``gymnasium.make("deeprm/DeepRM-v0")`` after the import.
"""

from __future__ import annotations

from typing import Any, Literal

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.error import InvalidAction, ResetNeeded

from deeprm.compact import CompactLayout
from deeprm.config import CONFIGS, Config
from deeprm.episodes import Episodes
from deeprm.errors import DeepRmError
from deeprm.image import ImageLayout
from deeprm.jobs import Purpose, draw_jobs
from deeprm.objectives import Objective
from deeprm.render import rgb
from deeprm.tables import Bool, Float32, Int64, Jobs, UInt8
from traces.files.names import suggestion

ENV_ID = "deeprm/DeepRM-v0"
_ONLY = np.zeros(1, np.int32)
"""the one episode"""


class DeepRmEnv(gymnasium.Env[Float32, np.int64]):
    """Pack jobs that need several resources for several steps into a cluster.

    ## Description
    Jobs arrive over time, each with a duration and a demand for each resource, all known on
    arrival. A job that is placed starts at the first step at which its units are free until it
    ends, and is never moved. The first M jobs that wait stand in slots and may be chosen; the
    others wait behind them, in the order of arrival, and are not lost however many they are. Time
    stands still while jobs are placed, so one step may admit several. While no job waits, time
    passes by itself.

    ## Action space
    `Discrete(M + 1)`

    | value | meaning |
    |---|---|
    | 0 | void: let one time step pass |
    | m | place the job in slot m, 1 .. M |

    Choosing an empty slot, or a job that cannot end within the horizon of T steps, counts as void.
    `action_masks()` and `info["action_mask"]` mark the actions that are void or place a job.

    ## Observation space
    With `observation="image"` a `Box` of shape (T, C), each cell in 0..1: a row for each step
    ahead; from left to right the units in use of each resource, then for each slot and resource
    the units (columns) and steps (rows) that its job needs, at last a cell for each job beyond the
    slots, row by row, up to the number that fits. More of them wait too; only the count ends.

    With `observation="compact"` a `Box` of shape (F,): shares by job and resource, see
    `deeprm.compact.CompactLayout`.

    ## Rewards
    Those of the objective, for the time that passed since the last action: 0 if none did. Over an
    episode they sum to it exactly, see `deeprm.objectives`.

    ## Starting state
    An empty cluster, at the first step at which a job is there. `reset(seed=s)` plays the first
    job set of seed s, each further `reset()` the next one; info holds that `seed` and the number
    `job_set`. `reset(options={"jobs": ...})` plays a set of `deeprm.jobs.job_set`.

    ## Episode end
    Terminated when every job of the set is complete; truncated after `config.max_steps` time steps.
    The info of the last step holds `slowdown` and `completion` (means over jobs), `utilisation`
    (mean while jobs arrive), `makespan` and `jobs`.

    ## Arguments
    See `__init__`.

    ## Version history
    * v0: first version
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 4}  # noqa: RUF012 (Gymnasium's own declaration)

    def __init__(
        self,
        config: Config | Literal["paper", "released"] = "paper",
        *,
        load: float | None = None,
        objective: str = "slowdown",
        observation: Literal["image", "compact"] = "image",
        render_mode: str | None = None,
    ) -> None:
        """Describe the episodes; the first begins with `reset`.

        Args:
            config: the cluster and its jobs, or the name of one of `deeprm.config.CONFIGS`.
            load: other than the configuration's; 0.7 is 70 %.
            objective: "slowdown", "completion", "utilisation" or "makespan".
            observation: what is seen, see above.
            render_mode: "rgb_array" or None.

        Raises:
            DeepRmError: a name is unknown, or the load cannot be reached.
        """
        found = CONFIGS.get(config) if isinstance(config, str) else config
        if found is None:
            near = suggestion(config, CONFIGS)
            raise DeepRmError(
                f"unknown configuration {config!r}{near}; there are {', '.join(CONFIGS)}"
            )
        if objective not in {one.value for one in Objective}:
            names = ", ".join(one.value for one in Objective)
            near = suggestion(objective, (one.value for one in Objective))
            raise DeepRmError(f"unknown objective {objective!r}{near}; there are {names}")
        if observation not in ("image", "compact"):
            raise DeepRmError(f"observation is {observation!r}: image or compact")
        if render_mode not in (None, "rgb_array"):
            raise DeepRmError(f"render_mode is {render_mode!r}: rgb_array or None")
        self.config = found if load is None else found.at_load(load)
        self.render_mode = render_mode
        self._objective = Objective(objective)
        self._image = ImageLayout(self.config)
        self._compact = CompactLayout(self.config)
        self._is_image = observation == "image"
        shape = (self.config.horizon, self._image.columns)
        self.observation_space = spaces.Box(
            0.0, 1.0, shape if self._is_image else (self._compact.size,), np.float32
        )
        self.action_space = spaces.Discrete(self.config.actions)
        self._seed: int | None = None
        self._number = 0
        self._episodes: Episodes | None = None
        self._charged: Int64 = np.zeros(0, np.int64)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Float32, dict[str, Any]]:
        """Begin an episode; see "Starting state".

        Raises:
            DeepRmError: there is an option other than `jobs`.
        """
        super().reset(seed=seed)
        options = {} if options is None else dict(options)
        jobs: Jobs | None = options.pop("jobs", None)
        if options:
            raise DeepRmError(f"reset knows the option jobs, not {', '.join(options)}")
        if seed is not None:
            self._seed, self._number = seed, 0
        elif self._seed is None:
            self._seed = int(self.np_random.integers(2**63))
        else:
            self._number += 1
        if jobs is None:
            jobs = draw_jobs(self.config, 1, self._seed, Purpose.EPISODES, self._number)
        self._episodes = Episodes(self.config, jobs)
        self._charged = np.zeros_like(self._episodes.state.cost[0])
        info = {"seed": self._seed, "job_set": self._number}
        return self._observation(self._episodes), info | self._legal(self._episodes)

    def step(self, action: np.int64) -> tuple[Float32, float, bool, bool, dict[str, Any]]:
        """Take one action; see the tables above.

        Raises:
            ResetNeeded: no episode has begun, or it is over.
            InvalidAction: the action is not in the action space.
        """
        episodes = self._under_way()
        if not self.action_space.contains(action):
            raise InvalidAction(f"action {action} is not in {self.action_space}")
        steps = episodes.step(_ONLY, np.array([action], np.int32))
        # What passed before the first action is charged with it.
        cost = episodes.state.cost[0].copy()
        reward = float(self._objective.reward(self.config, cost - self._charged))
        self._charged = cost
        truncated = bool(episodes.cut[0])
        info = self._legal(episodes)
        if steps.over[0]:
            info |= self._summary(episodes)
        return (
            self._observation(episodes),
            reward,
            bool(steps.over[0]) and not truncated,
            truncated,
            info,
        )

    def action_masks(self) -> Bool:
        """(M + 1,) which actions are void or place a job: as `sb3_contrib.MaskablePPO` asks.

        Raises:
            ResetNeeded: no episode is under way.
        """
        return np.asarray(self._under_way().masks(_ONLY)[0])

    def render(self) -> UInt8:
        """(H, W, 3) the image of the state, each job in a colour of its own.

        Raises:
            ResetNeeded: no episode has begun.
        """
        if self._episodes is None:
            raise ResetNeeded("nothing to render: call reset() first")
        return rgb(self._episodes)

    def _under_way(self) -> Episodes:
        if self._episodes is None or self._episodes.over[0]:
            raise ResetNeeded("no episode is under way: call reset() first")
        return self._episodes

    def _observation(self, episodes: Episodes) -> Float32:
        if self._is_image:
            return np.asarray(self._image.pixels(episodes, _ONLY)[0])
        return np.asarray(self._compact.read(episodes, _ONLY)[0])

    def _legal(self, episodes: Episodes) -> dict[str, Any]:
        return {"action_mask": episodes.masks(_ONLY)[0].astype(np.int8)}

    def _summary(self, episodes: Episodes) -> dict[str, Any]:
        """Figures of an episode that is over."""
        jobs = int(episodes.jobs.number[0])

        def total(objective: Objective) -> float:
            return abs(float(objective.reward(self.config, episodes.state.cost[0])))

        busy = total(Objective.UTILISATION) / self.config.arrival_steps / self.config.resources
        return {
            "slowdown": total(Objective.SLOWDOWN) / jobs,
            "completion": total(Objective.COMPLETION) / jobs,
            "utilisation": busy,
            "makespan": total(Objective.MAKESPAN),
            "jobs": jobs,
        }


def register() -> None:
    """Make ``gymnasium.make("deeprm/DeepRM-v0")`` known; a second call changes nothing."""
    if ENV_ID not in gymnasium.registry:
        gymnasium.register(ENV_ID, entry_point="deeprm.env:DeepRmEnv")


register()
