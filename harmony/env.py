"""`HarmonyEnv`: one cluster as a Gymnasium environment, registered as ``harmony/Harmony-v0``.

Importing this module registers the id, so ``gymnasium.make("harmony.env:harmony/Harmony-v0")``
works everywhere and ``gymnasium.make("harmony/Harmony-v0")`` after the import.
"""

from __future__ import annotations

from typing import Any, Literal, cast

import numpy as np
from gymnasium import spaces

from decima.rl.errors import StudyError
from decima.rl.study import env
from decima.rl.study.env import StudyEnv
from decima.rl.study.lockstep import ONLY
from decima.rl.study.streams import Purpose
from harmony.clusters import Clusters
from harmony.config import CONFIGS, RATES, Arrivals, Config
from harmony.jobs import draw_jobs
from harmony.measured import measured
from harmony.tables import Jobs
from harmony.tokens import job_columns, most_rows, see, server_columns

ENV_ID = "harmony/Harmony-v0"

Observation = dict[str, np.ndarray[Any, Any]]


class HarmonyEnv(StudyEnv[Clusters, Observation]):
    """Place distributed training jobs on servers, where they slow each other down.

    ## Description
    At the beginning of each interval the jobs that have come are placed, one worker or parameter
    server at a time. A job runs once all its tasks are placed, and stays where it is until it is
    complete. How fast it runs depends on its type, on how many servers it is spread over, and on
    the jobs it shares servers with; none of that is shown. A job for which there is no room waits.

    ## Action space
    `Discrete(2 M)`

    | value | meaning |
    |---|---|
    | m | a worker of the present job on server m, 0 .. M - 1 |
    | M + m | a parameter server of it on server m |

    `action_masks()` and `info["action_mask"]` mark the actions that have room and leave room for
    the rest of the job. Any other is replaced by the first of those, and sets `info["replaced"]`.

    ## Observation space
    A `Dict` of arrays, padded with 0 to N rows of jobs (`harmony.tokens.Scene`):

    | key | shape | what |
    |---|---|---|
    | `job` | (N, F) | the present job, those that run, some that wait |
    | `is_job` | (N,) | which rows are jobs |
    | `beside` | (N, N) | which jobs share a server |
    | `server` | (M, G) | free shares, tasks, what may be put there |
    | `holds` | (M, N) | which jobs have a task on which server |

    ## Rewards
    For the intervals that passed since the last action, 0 if none did: the sum over jobs of the
    share of their epochs that they trained. Over an episode it sums to the number of jobs.

    ## Starting state
    An empty cluster, at the first interval with a job to place. `reset(seed=s)` plays the first
    sequence of seed s, each further `reset()` the next one; info holds that `seed` and the number
    `sequence`. `reset(options={"jobs": ...})` plays one of `harmony.jobs.job_sequence`.

    ## Episode end
    Terminated when every job is complete; truncated after `config.max_intervals`. The info of the
    last step holds `completion`, the mean time from arrival to completion in intervals.

    ## Arguments
    See `__init__`.

    ## Version history
    * v0: first version
    """

    NUMBER_NAME = "sequence"
    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 (Gymnasium's own declaration)

    def __init__(
        self,
        config: Config | Literal["6", "30"] = "6",
        *,
        arrivals: Arrivals | None = None,
        render_mode: str | None = None,
    ) -> None:
        """Describe the episodes; the first begins with `reset`.

        Args:
            config: the cluster and its jobs, or the name of one of `harmony.config.CONFIGS`.
            arrivals: other than the configuration's: "uniform", "poisson" or "trace".
            render_mode: None; there is no picture.

        Raises StudyError if a name is unknown.
        """
        cluster = env.configuration(config, CONFIGS)
        if arrivals is not None:
            env.check_choice("arrivals", arrivals, RATES)
        if render_mode is not None:
            raise StudyError(f"render_mode is {render_mode!r}: None is needed")
        self.config = cluster if arrivals is None else cluster.arriving(arrivals)
        self.render_mode = render_mode
        models, gpus = len(measured(self.config.table_file).models), len(self.config.gpu_table)
        rows, servers = most_rows(self.config), self.config.servers
        self._space = spaces.Dict(
            {
                "job": spaces.Box(0.0, 10.0, (rows, job_columns(models, gpus)), np.float32),
                "is_job": spaces.MultiBinary(rows),
                "beside": spaces.MultiBinary((rows, rows)),
                "server": spaces.Box(0.0, 10.0, (servers, server_columns(gpus)), np.float32),
                "holds": spaces.MultiBinary((servers, rows)),
            }
        )
        self.observation_space = cast("spaces.Space[Observation]", self._space)
        self.action_space = spaces.Discrete(self.config.actions)

    def _begin(self, jobs: Jobs | None, seed: int, number: int) -> Clusters:
        if jobs is None:
            jobs = draw_jobs(self.config, 1, seed, Purpose.EPISODES, number)
        return Clusters(self.config, jobs, seed=seed)

    def _act(self, episodes: Clusters, action: int) -> tuple[float, dict[str, Any]]:
        allowed = episodes.masks(ONLY)[0]
        is_replaced = not allowed[action]
        taken = int(np.argmax(allowed)) if is_replaced else action
        steps = episodes.step(ONLY, np.array([taken], np.int32))
        return float(steps.reward[0]), {"replaced": is_replaced}

    def _summary(self, episodes: Clusters) -> dict[str, Any]:
        return {"completion": float(episodes.mean_completion()[0])}

    def _observation(self, episodes: Clusters) -> Observation:
        named = self._space.spaces.items()
        if episodes.over[0]:
            return {name: np.zeros(space.shape, space.dtype) for name, space in named}
        scene = see(episodes, ONLY, most_rows(self.config))
        return {name: getattr(scene, name)[0].astype(space.dtype) for name, space in named}

    def _legal(self, episodes: Clusters) -> dict[str, Any]:
        if episodes.over[0]:
            return {"action_mask": np.zeros(self.config.actions, np.int8)}
        return super()._legal(episodes)


env.register(ENV_ID, "harmony.env:HarmonyEnv")
