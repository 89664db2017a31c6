"""`HarmonyEnv`: one cluster as a Gymnasium environment, registered as ``harmony/Harmony-v0``.

Importing this module registers the id, so ``gymnasium.make("harmony.env:harmony/Harmony-v0")``
works everywhere and ``gymnasium.make("harmony/Harmony-v0")`` after the import.
"""

from __future__ import annotations

from typing import Any, Literal, cast

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.error import InvalidAction, ResetNeeded

from harmony.clusters import Clusters
from harmony.config import CONFIGS, RATES, Arrivals, Config
from harmony.errors import HarmonyError
from harmony.jobs import Purpose, draw_jobs
from harmony.tables import Bool, Jobs
from harmony.token_kernels import SERVER_COLUMNS
from harmony.tokens import job_columns, most_rows, see
from traces.files.names import suggestion

ENV_ID = "harmony/Harmony-v0"
_ONLY = np.zeros(1, np.int32)
"""the one episode"""

Observation = dict[str, np.ndarray[Any, Any]]


class HarmonyEnv(gymnasium.Env[Observation, np.int64]):
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

        Raises:
            HarmonyError: a name is unknown.
        """
        found = CONFIGS.get(config) if isinstance(config, str) else config
        if found is None:
            near = suggestion(config, CONFIGS)
            raise HarmonyError(
                f"unknown configuration {config!r}{near}; there are {', '.join(CONFIGS)}"
            )
        if arrivals is not None and arrivals not in RATES:
            near = suggestion(arrivals, RATES)
            raise HarmonyError(f"unknown arrivals {arrivals!r}{near}; there are {', '.join(RATES)}")
        if render_mode is not None:
            raise HarmonyError(f"render_mode is {render_mode!r}: None is needed")
        self.config = found if arrivals is None else found.arriving(arrivals)
        self.render_mode = render_mode
        rows, servers = most_rows(self.config), self.config.servers
        self._space = spaces.Dict(
            {
                "job": spaces.Box(0.0, 10.0, (rows, job_columns()), np.float32),
                "is_job": spaces.MultiBinary(rows),
                "beside": spaces.MultiBinary((rows, rows)),
                "server": spaces.Box(0.0, 10.0, (servers, SERVER_COLUMNS), np.float32),
                "holds": spaces.MultiBinary((servers, rows)),
            }
        )
        self.observation_space = cast("spaces.Space[Observation]", self._space)
        self.action_space = spaces.Discrete(self.config.actions)
        self._seed: int | None = None
        self._number = 0
        self._clusters: Clusters | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin an episode; see "Starting state".

        Raises:
            HarmonyError: there is an option other than `jobs`.
        """
        super().reset(seed=seed)
        options = {} if options is None else dict(options)
        jobs: Jobs | None = options.pop("jobs", None)
        if options:
            raise HarmonyError(f"reset knows the option jobs, not {', '.join(options)}")
        if seed is not None:
            self._seed, self._number = seed, 0
        elif self._seed is None:
            self._seed = int(self.np_random.integers(2**63))
        else:
            self._number += 1
        if jobs is None:
            jobs = draw_jobs(self.config, 1, self._seed, Purpose.EPISODES, self._number)
        self._clusters = Clusters(self.config, jobs, seed=self._seed)
        info = {"seed": self._seed, "sequence": self._number}
        return self._observation(self._clusters), info | self._legal(self._clusters)

    def step(self, action: np.int64) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Place one task; see the tables above.

        Raises:
            ResetNeeded: no episode has begun, or it is over.
            InvalidAction: the action is not in the action space.
        """
        clusters = self._under_way()
        if not self.action_space.contains(action):
            raise InvalidAction(f"action {action} is not in {self.action_space}")
        allowed = clusters.masks(_ONLY)[0]
        is_replaced = not allowed[action]
        taken = int(np.argmax(allowed)) if is_replaced else int(action)
        steps = clusters.step(_ONLY, np.array([taken], np.int32))
        over, cut = bool(steps.over[0]), bool(clusters.cut[0])
        info = {"replaced": is_replaced, **self._legal(clusters)}
        if over:
            info["completion"] = float(clusters.mean_completion()[0])
        return (
            self._observation(clusters),
            float(steps.reward[0]),
            over and not cut,
            cut,
            info,
        )

    def action_masks(self) -> Bool:
        """(2 M,) which actions are allowed: as `sb3_contrib.MaskablePPO` asks.

        Raises:
            ResetNeeded: no episode is under way.
        """
        return np.asarray(self._under_way().masks(_ONLY)[0])

    def _under_way(self) -> Clusters:
        if self._clusters is None or self._clusters.over[0]:
            raise ResetNeeded("no episode is under way: call reset() first")
        return self._clusters

    def _observation(self, clusters: Clusters) -> Observation:
        if clusters.over[0]:
            return {
                name: np.zeros(space.shape, space.dtype)
                for name, space in self._space.spaces.items()
            }
        scene = see(clusters, _ONLY, most_rows(self.config))
        return {
            name: getattr(scene, name)[0].astype(space.dtype)
            for name, space in self._space.spaces.items()
        }

    def _legal(self, clusters: Clusters) -> dict[str, Any]:
        if clusters.over[0]:
            return {"action_mask": np.zeros(self.config.actions, np.int8)}
        return {"action_mask": clusters.masks(_ONLY)[0].astype(np.int8)}


def register() -> None:
    """Make ``gymnasium.make("harmony/Harmony-v0")`` known; a second call changes nothing."""
    if ENV_ID not in gymnasium.registry:
        gymnasium.register(ENV_ID, entry_point="harmony.env:HarmonyEnv")


register()
