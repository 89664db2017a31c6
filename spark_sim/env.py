"""`SparkEnv`: one simulation as a Gymnasium environment; many of them: `spark_sim.vector_env`.

Importing this module registers ``decima/Spark-v0`` and ``decima/SparkScaled-v0``, so
``gymnasium.make("spark_sim.env:decima/SparkScaled-v0")`` works everywhere and
``gymnasium.make("decima/SparkScaled-v0")`` after the import.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.error import InvalidAction, ResetNeeded
from numpy.typing import NDArray

from spark_sim import render
from spark_sim.cluster import Cluster
from spark_sim.env_actions import Illegal, Limits
from spark_sim.env_episodes import (
    ArrivalSettings,
    ArrivalSource,
    Completions,
    Episodes,
    after,
    summary,
)
from spark_sim.env_view import Padded, Sight
from spark_sim.errors import SimulationError
from spark_sim.observation import PASS, Action
from spark_sim.seeding import Streams
from spark_sim.simulator import Simulator, Status
from spark_sim.tables import NONE, State
from traces import Trace
from traces.numbers import MS_PER_S, Bool

__all__ = ["ENV_ID", "SCALED_ENV_ID", "ArrivalSettings", "ArrivalSource", "SparkEnv", "register"]

ENV_ID = "decima/Spark-v0"
SCALED_ENV_ID = "decima/SparkScaled-v0"
"""id of the environment with relative limits and scaled observations"""

_CLUSTER = Cluster()
_ARRIVALS = ArrivalSettings()


class SparkEnv(gymnasium.Env[Padded, NDArray[np.int64]]):
    """Schedule DAG jobs on a cluster of N executors.

    ## Description
    Jobs made of stages made of tasks arrive over time. At every scheduling event the idle
    executors are on offer; the agent gives them to stages, one stage a step, until none is left on
    offer, no stage may be chosen, or it passes. `spark_sim.Simulator` has the model.

    ## Action space
    `MultiDiscrete([max_stages + 1, N])`

    | part | values | meaning |
    |---|---|---|
    | 0 | 0 .. max_stages - 1 | give executors to the stage in this slot |
    | 0 | max_stages | pass: leave what is on offer idle until the next event |
    | 1 | 0 .. N - 1 | the job's new parallelism limit, less one; no matter in a pass |

    With several executor classes there is a third part: 0 .. C - 1 gives executors of that class
    alone, C those of any class that fits, small ones first.

    Legal are the slots with `action_mask` 1 and limits of at least `lowest_limit[slot]`.

    With `limits="relative"` part 1 counts from there: 0 .. N - 1 is how much the limit is above
    `lowest_limit[slot]`, at most N. Part 2 then names a class or, where it is not legal for the
    stage, the next larger one that is, else the largest that is. So every action on a slot that
    may be chosen is legal.

    `action_masks()` returns the legal values of each part, as `sb3_contrib.MaskablePPO` expects.
    Every combination of allowed values is legal. With absolute limits, values that are legal for
    some slots only are left out.

    With `illegal="warn"`, the default, an illegal action counts as a pass, sets
    `info["illegal_action"]` and is counted in `info["illegal_actions"]` at the end. The first one
    of an environment logs a warning. "pass" is the same without the warning. With "raise" it raises
    `IllegalActionError` and leaves the episode as it is.

    ## Observation space
    A `Dict` of arrays; M = max_jobs, S = max_stages, E the most edges that S stages of the trace
    can have. Unused slots are 0 (`stage_job` and `edges`: -1). Times in seconds are float32.

    | key | shape | bounds | meaning |
    |---|---|---|---|
    | `time_s` | (1,) | 0 .. | since the start |
    | `on_offer` | (1,) | 0 .. N | executors to give away now |
    | `jobs_in_system` | (1,) | 0 .. | also those without a slot |
    | `fair_share` | (1,) | 0 .. N | N over the jobs in the system; 0 without jobs |
    | `source_job` | (1,) | -1 .. M - 1 | slot of the job that freed them; -1: no one job in sight |
    | `job_mask` | (M,) | 0, 1 | the slot holds a job |
    | `job_age_s` | (M,) | 0 .. | since arrival |
    | `job_work_s` | (M,) | 0 .. | executor-seconds in all, from mean durations |
    | `job_remaining_s` | (M,) | 0 .. | the same over the tasks not yet started |
    | `job_held` | (M,) | 0 .. N | executors that work for it, move to it or are promised to it |
    | `job_attached` | (M,) | 0 .. N | executors in it |
    | `job_local` | (M,) | 0 .. N | executors on offer that are in it |
    | `job_limit` | (M,) | 0 .. N | its last parallelism limit |
    | `job_share` | (M,) | 0 .. | `job_held` over the fair share |
    | `stage_mask` | (S,) | 0, 1 | the slot holds a stage |
    | `stage_job` | (S,) | -1 .. M - 1 | slot of its job |
    | `stage_tasks` | (S,) | 0 .. 10^7 | tasks in all |
    | `stage_launched` | (S,) | 0 .. 10^7 | tasks started |
    | `stage_finished` | (S,) | 0 .. 10^7 | tasks finished |
    | `stage_demand` | (S,) | 0 .. 10^7 | tasks that no executor runs, moves to or is promised to |
    | `stage_runnable` | (S,) | 0, 1 | all parents are complete |
    | `stage_task_s` | (S,) | 0 .. | mean duration of a task |
    | `stage_critical_path_s` | (S,) | 0 .. | from its start to the end of the job, mean durations |
    | `lowest_limit` | (S,) | 0 .. N | the lowest legal limit; 0 where the mask is 0 |
    | `action_mask` | (S + 1,) | 0, 1 | part 0 of an action may be this; the last is always 1 |
    | `edges` | (2, E) | -1 .. S - 1 | slots of parent and child |

    With C > 1 executor classes also:

    | key | shape | bounds | meaning |
    |---|---|---|---|
    | `class_memory_mb` | (C,) | 0 .. | of each executor |
    | `class_count` | (C,) | 0 .. N | executors |
    | `class_on_offer` | (C,) | 0 .. N | part of `on_offer` |
    | `class_mask` | (S, C + 1) | 0, 1 | part 2 of an action for the stage in the slot may be this |
    | `stage_memory_mb` | (S,) | 0 .. | that a task needs |

    With `scaled=True` all but the masks are float32 from 0 to 1: `spark_sim.env_view.Scale`.

    Jobs are in the order of arrival, each with all its stages. If not all fit, jobs with a stage
    that may be chosen go first, then earlier arrivals; a job that does not fit is left out and
    later ones are tried. A job left out cannot be chosen in this step, and returns as soon as it
    fits.

    ## Rewards
    Minus the job-seconds since the previous decision: the integral over time of the number of jobs
    in the system. The sum over an episode is minus the total time that jobs spent in the system,
    including unfinished ones and those without a slot. Maximising it minimises the average JCT
    (Decima section 5.3).

    ## Starting state
    All executors idle in no job, time of the first decision. `reset(seed=s)` plays arrivals and
    durations of `Streams(s, 0)`; each further `reset()` the next sequence, `Streams(s, 1)` and so
    on. Its info holds that `seed` and `sequence`.

    ## Infos
    Each step's info has `illegal_action` and `completed`: for each job that has completed since the
    last step its row in the trace and its JCT in s.

    ## Episode end
    Terminated when every job is complete; truncated at the time limit of the cluster (or, only
    under decima-sim's rules, when the agent left everything idle for ever). The info of the last
    step then holds the figures of `spark_sim.metrics` under their names: `jct_s` (of each job that
    has arrived, unfinished ones with their age), `avg_jct_s` (NaN if none has), `decisions`,
    `task_events` (tasks finished); and `jobs_arrived`, `jobs_completed` and `illegal_actions`.

    ## Arguments
    See `__init__`.

    ## Version history
    * Spark-v0: first version
    * SparkScaled-v0: with `limits="relative"` and `scaled=True`
    """

    observation_space: spaces.Dict
    metadata: dict[str, Any] = {"render_modes": list(render.MODES), "render_fps": 4}  # noqa: RUF012 (Gymnasium's own declaration)

    def __init__(
        self,
        trace: Trace | None = None,
        cluster: Cluster = _CLUSTER,
        arrivals: ArrivalSource = _ARRIVALS,
        *,
        max_jobs: int = 32,
        max_stages: int = 256,
        limits: Limits = "absolute",
        illegal: Illegal = "warn",
        scaled: bool = False,
        render_mode: str | None = None,
    ) -> None:
        """Describe the episodes; the first begins with `reset`.

        Args:
            trace: the jobs; None for the built-in ``tpch``.
            cluster: what they run on; its `time_limit_ms` truncates an episode. Jobs beyond its
                `max_jobs` enter in the order of submission: the agent is not asked
                (`ask_admission` has no effect).
            arrivals: draws the jobs of an episode, an `ArrivalSettings` or a function.
            max_jobs: job slots of an observation.
            max_stages: stage slots of an observation, enough for the largest job.
            limits: "absolute" or "relative" to the lowest legal limit of the slot.
            illegal: handling of an illegal action: "warn", "pass" or "raise".
            scaled: whether observations are scaled to 0 .. 1.
            render_mode: what `render` returns: "ansi", a text of the jobs in the system;
                "rgb_array", an image of the tasks of each executor so far; None, nothing.

        Raises:
            SimulationError: `trace` is no trace, a bound is too small or a choice is unknown.
        """
        if render_mode not in (None, *render.MODES):
            raise SimulationError(
                f"render_mode must be one of {', '.join(render.MODES)}, got {render_mode!r:.40}"
            )
        self.render_mode = render_mode
        self._episodes = Episodes(
            trace, cluster, arrivals, max_jobs, max_stages, limits, illegal, scaled
        )
        self.observation_space = self._episodes.observation_space
        self.action_space = self._episodes.actions.space
        self._streams: Streams | None = None
        self._simulator: Simulator | None = None
        self._sight: Sight | None = None
        self._is_over = False
        self._charged_ms = 0.0
        self._illegal_actions = 0
        self._completions = Completions()

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Padded, dict[str, Any]]:
        """Begin an episode; see "Starting state". There are no options.

        Raises:
            SimulationError: options are given, or the arrivals break a rule.
        """
        super().reset(seed=seed)
        if options:
            raise SimulationError(f"reset takes no options, got {list(options)}")
        self._streams = after(self._streams, seed, self.np_random)
        run = self._episodes.run(self._streams)
        self._simulator = Simulator(
            self._episodes.arrays,
            self._episodes.cluster,
            run.arrival_ms,
            run.job,
            duration_key=run.duration_key,
            timeline=self.render_mode == "rgb_array",
        )
        self._is_over = False
        self._charged_ms = 0.0
        self._illegal_actions = 0
        self._completions = Completions()
        info = {"seed": self._streams.seed, "sequence": self._streams.sequence}
        return self._show(self._simulator), info

    def step(self, action: NDArray[np.int64]) -> tuple[Padded, float, bool, bool, dict[str, Any]]:
        """Take one decision; see the tables above.

        Raises:
            ResetNeeded: no episode has begun, or it is over.
            InvalidAction: the action is not in the action space.
            IllegalActionError: the action is illegal, with `illegal="raise"`.
        """
        simulator, sight = self._under_way()
        if not self.action_space.contains(action):
            raise InvalidAction(f"action {action} is not in {self.action_space}")
        is_legal = True
        # A time limit before the first arrival ends an episode that has no decision at all.
        if sight.is_due[0]:
            chosen = self._episodes.actions.chosen(sight, action[None], lambda _: "")
            stage, limit, kind, is_illegal = (int(part[0]) for part in chosen)
            is_legal = not is_illegal
            simulator.step(PASS if stage == NONE else Action(stage, limit, kind))
        self._illegal_actions += not is_legal
        clock = simulator.state.clock[0]
        reward_s = (self._charged_ms - float(clock["job_time_ms"])) / MS_PER_S
        self._charged_ms = float(clock["job_time_ms"])
        terminated = simulator.status is Status.DONE
        truncated = simulator.status in (Status.TRUNCATED, Status.DEADLOCK)
        info: dict[str, Any] = {
            "illegal_action": not is_legal,
            "completed": self._completions.since(simulator.state),
        }
        if terminated or truncated:
            self._is_over = True
            info |= summary(simulator.state, self._illegal_actions)
        return self._show(simulator), reward_s, terminated, truncated, info

    def action_masks(self) -> Bool:
        """(sum of `action_space.nvec`,) which values of each part of an action are legal.

        Raises:
            ResetNeeded: no episode is under way.
        """
        masks: Bool = self._episodes.actions.masks(self._under_way()[1])[0]
        return masks

    def render(self) -> Any:
        """Return the run up to now as `render_mode` says: a text, an image or None.

        Raises:
            ResetNeeded: no episode has begun.
        """
        if self.render_mode is None:
            return None
        if self._simulator is None:
            raise ResetNeeded("no episode has begun: call reset() first")
        state = self._simulator.state
        return render.text(state) if self.render_mode == "ansi" else render.image(state)

    def _under_way(self) -> tuple[Simulator, Sight]:
        if self._simulator is None or self._sight is None or self._is_over:
            raise ResetNeeded("no episode is under way: call reset() first")
        return self._simulator, self._sight

    def _show(self, simulator: Simulator) -> Padded:
        """Return the present observation of `simulator`, in new arrays."""
        state = simulator.state
        stacked = State._make([*(table[None] for table in state[:-1]), state.trace])
        is_due = np.array([simulator.status is Status.DECIDE])
        self._sight = self._episodes.sight(stacked, is_due)
        return {name: values[0] for name, values in self._episodes.show(self._sight).items()}


def register() -> None:
    """Make both ids known to Gymnasium; a second call changes nothing."""
    for env_id, settings in _IDS.items():
        if env_id not in gymnasium.registry:
            gymnasium.register(
                env_id,
                entry_point="spark_sim.env:SparkEnv",
                vector_entry_point="spark_sim.vector_env:SparkVectorEnv",
                kwargs=settings,
            )


_IDS: dict[str, dict[str, Any]] = {
    ENV_ID: {},
    SCALED_ENV_ID: {"limits": "relative", "scaled": True},
}
register()
