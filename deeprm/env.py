"""`DeepRmEnv`: one cluster as a Gymnasium environment, registered as ``deeprm/DeepRM-v0``.

Importing this module registers the id, so ``gymnasium.make("deeprm.env:deeprm/DeepRM-v0")`` works
everywhere and ``gymnasium.make("deeprm/DeepRM-v0")`` after the import.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from gymnasium import spaces
from gymnasium.error import ResetNeeded

from decima.rl.errors import StudyError
from decima.rl.study import env
from decima.rl.study.env import StudyEnv
from decima.rl.study.lockstep import ONLY
from decima.rl.study.streams import Purpose
from deeprm.config import CONFIGS, Config
from deeprm.episodes import Episodes
from deeprm.jobs import draw_jobs
from deeprm.objectives import Objective
from deeprm.observations import CompactLayout, ImageLayout
from deeprm.render import rgb
from deeprm.tables import Float32, Jobs, UInt8

ENV_ID = "deeprm/DeepRM-v0"


class DeepRmEnv(StudyEnv[Episodes, Float32]):
    """Pack jobs that need several resources for several steps into a cluster.

    ## Description
    Jobs arrive over time, each with a duration and a demand for each resource, all known on
    arrival. A job that is placed starts at the first step at which its units are free until it
    ends, and is never moved. Of several machines it takes the one on which it can start first. The
    first M jobs that wait stand in slots and may be chosen; the others wait behind them, in the
    order of arrival, and are not lost however many they are. Time stands still while jobs are
    placed, so one step may admit several. While no job waits, time passes by itself.

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
    `deeprm.observations.CompactLayout`.

    ## Rewards
    Those of the objective, for the time that passed since the last action: 0 if none did. Over an
    episode they sum to it exactly, see `deeprm.objectives`.

    ## Starting state
    An empty cluster, at the first step at which a job is there. `reset(seed=s)` plays the first
    job set of seed s, each further `reset()` the next one; info holds that `seed` and the number
    `job_set`. `reset(options={"jobs": ...})` plays a set of `deeprm.jobs.job_set`.

    ## Episode end
    Terminated when every job of the set is complete; truncated after `config.max_steps` time steps,
    or with `end="no_new_job"` after the steps in which jobs arrive.
    The info of the last step holds `slowdown` and `completion` (means over jobs), `utilisation`
    (mean while jobs arrive), `makespan` and `jobs`.

    ## Arguments
    See `__init__`.

    ## Version history
    * v0: first version
    """

    NUMBER_NAME = "job_set"
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

        Raises StudyError if a name is unknown, or the load cannot be reached.
        """
        cluster = env.configuration(config, CONFIGS)
        env.check_choice("objective", objective, [known.value for known in Objective])
        if observation not in ("image", "compact"):
            raise StudyError(f"observation is {observation!r}: image or compact")
        if render_mode not in (None, "rgb_array"):
            raise StudyError(f"render_mode is {render_mode!r}: rgb_array or None")
        self.config = cluster if load is None else cluster.at_load(load)
        self.render_mode = render_mode
        self._objective = Objective(objective)
        self._image = ImageLayout(self.config) if observation == "image" else None
        self._compact = CompactLayout(self.config)
        shape: tuple[int, ...] = (self._compact.size,)
        if self._image is not None:
            shape = (self.config.horizon, self._image.columns)
        self.observation_space = spaces.Box(0.0, 1.0, shape, np.float32)
        self.action_space = spaces.Discrete(self.config.actions)

    def render(self) -> UInt8:
        """(H, W, 3) the image of the state, each job in a colour of its own.

        Raises ResetNeeded if no episode has begun.
        """
        if self._episodes is None:
            raise ResetNeeded("nothing to render: call reset() first")
        return rgb(self._episodes)

    def _begin(self, jobs: Jobs | None, seed: int, number: int) -> Episodes:
        if jobs is None:
            jobs = draw_jobs(self.config, 1, seed, Purpose.EPISODES, number)
        episodes = Episodes(self.config, jobs)
        self._charged = np.zeros_like(episodes.state.cost[0])
        return episodes

    def _act(self, episodes: Episodes, action: int) -> tuple[float, dict[str, Any]]:
        episodes.step(ONLY, np.array([action], np.int32))
        # What passed before the first action is charged with it.
        cost = episodes.state.cost[0].copy()
        reward = float(self._objective.reward(self.config, cost - self._charged))
        self._charged = cost
        return reward, {}

    def _observation(self, episodes: Episodes) -> Float32:
        if self._image is not None:
            return np.asarray(self._image.pixels(episodes, ONLY)[0])
        return np.asarray(self._compact.read(episodes, ONLY)[0])

    def _summary(self, episodes: Episodes) -> dict[str, Any]:
        figures = {name: float(values[0]) for name, values in episodes.figures().items()}
        return {**figures, "jobs": int(episodes.jobs.number[0])}


env.register(ENV_ID, "deeprm.env:DeepRmEnv")
