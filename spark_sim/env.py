"""`SparkEnv`: one simulation as a Gymnasium environment, registered as ``decima/Spark-v0``.

Importing this module registers the id, so ``gymnasium.make("spark_sim.env:decima/Spark-v0")``
works everywhere and ``gymnasium.make("decima/Spark-v0")`` after the import.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.error import InvalidAction, ResetNeeded
from numpy.typing import NDArray

from spark_sim.cluster import Cluster
from spark_sim.env_view import Padded, View
from spark_sim.errors import IllegalActionError, SimulationError
from spark_sim.metrics import measure
from spark_sim.observation import PASS
from spark_sim.seeding import Streams
from spark_sim.simulator import Simulator, Status
from spark_sim.tables import ANY, State
from traces import ARRIVALS, Arrivals, Trace, load_trace, to_arrays
from traces.numbers import MS_PER_S

ENV_ID = "decima/Spark-v0"

ArrivalSource = Callable[[Trace, np.random.Generator], Arrivals]
"""draws the jobs of one episode from the episode's own generator"""


@dataclass(frozen=True)
class ArrivalSettings:
    """The jobs of an episode, drawn by one of `traces.ARRIVALS`: an `ArrivalSource`."""

    num_jobs: int = 20
    """jobs that arrive in an episode"""
    mean_gap_s: float = 25.0
    """mean time between two arrivals; no effect in a batch"""
    process: str = "poisson"
    """name in `traces.ARRIVALS`"""

    def __post_init__(self) -> None:
        if self.process not in ARRIVALS:
            raise SimulationError(f"unknown process {self.process!r}; there are {list(ARRIVALS)}")
        if self.num_jobs < 1 or not 0 < self.mean_gap_s < float("inf"):
            raise SimulationError(
                f"need num_jobs >= 1 and a finite mean_gap_s > 0, got {self.num_jobs} and "
                f"{self.mean_gap_s}"
            )

    def __call__(self, trace: Trace, rng: np.random.Generator) -> Arrivals:
        return ARRIVALS[self.process](trace, self.num_jobs, self.mean_gap_s * MS_PER_S, rng)


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

    Legal are the slots with `action_mask` 1 and limits of at least `lowest_limit[slot]`. An
    illegal action counts as a pass and sets `info["illegal_action"]`, or with `illegal="raise"`
    raises `IllegalActionError` and leaves the episode as it is.

    ## Observation space
    A `Dict` of arrays; M = max_jobs, S = max_stages, E the most edges that S stages of the trace
    can have. Unused slots are 0 (`stage_job` and `edges`: -1). Times in seconds are float32.

    | key | shape | bounds | meaning |
    |---|---|---|---|
    | `time_s` | (1,) | 0 .. | since the start |
    | `on_offer` | (1,) | 0 .. N | executors to give away now |
    | `jobs_in_system` | (1,) | 0 .. | also those without a slot |
    | `source_job` | (1,) | -1 .. M - 1 | slot of the job that freed them; -1: no one job in sight |
    | `job_mask` | (M,) | 0, 1 | the slot holds a job |
    | `job_age_s` | (M,) | 0 .. | since arrival |
    | `job_work_s` | (M,) | 0 .. | executor-seconds in all, from mean durations |
    | `job_remaining_s` | (M,) | 0 .. | the same over the tasks not yet started |
    | `job_held` | (M,) | 0 .. N | executors that work for it, move to it or are promised to it |
    | `job_attached` | (M,) | 0 .. N | executors in it |
    | `job_local` | (M,) | 0 .. N | executors on offer that are in it |
    | `job_limit` | (M,) | 0 .. N | its last parallelism limit |
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

    Jobs stand in the order of arrival, each with all its stages. If there are more than fit, jobs
    with a stage that may be chosen come before the others, earlier arrivals before later ones; a
    job that no longer fits is left out and later ones are tried. One left out cannot be chosen in
    this step; it takes part again as soon as it fits.

    ## Rewards
    Minus the job-seconds since the previous decision: the integral over time of the number of jobs
    in the system. The sum over an episode is minus the total time that jobs spent in the system,
    unfinished ones and those without a slot included, so more is better and the average JCT is
    what counts (Decima section 5.3).

    ## Starting state
    All executors idle in no job, time of the first decision. `reset(seed=s)` plays arrivals and
    durations of `Streams(s, 0)`; each further `reset()` the next sequence, `Streams(s, 1)` and so
    on. Its info holds that `seed` and `sequence`.

    ## Episode end
    Terminated when every job is complete; truncated at the time limit of the cluster (or, only
    under decima-sim's rules, when the agent left everything idle for ever). The info of the last
    step then holds the figures of `spark_sim.metrics` under their names: `avg_jct_s` (over the jobs
    that have arrived, unfinished ones with their age; NaN if none has), `decisions`, `task_events`
    (tasks finished); and `jobs_arrived`, `jobs_completed` and `illegal_actions`.

    ## Arguments
    See `__init__`.

    ## Version history
    * v0: first version
    """

    observation_space: spaces.Dict
    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 (Gymnasium's own declaration)

    def __init__(
        self,
        trace: Trace | None = None,
        cluster: Cluster = _CLUSTER,
        arrivals: ArrivalSource = _ARRIVALS,
        *,
        max_jobs: int = 32,
        max_stages: int = 256,
        illegal: Literal["pass", "raise"] = "pass",
    ) -> None:
        """Describe the episodes; the first begins with `reset`.

        Args:
            trace: the jobs; None for the built-in ``tpch``.
            cluster: what they run on; its `time_limit_ms` truncates an episode.
            arrivals: draws the jobs of an episode, an `ArrivalSettings` or a function.
            max_jobs: job slots of an observation.
            max_stages: stage slots of an observation, enough for the largest job.
            illegal: what becomes of an illegal action.

        Raises:
            SimulationError: `trace` is none, a bound is too small or `illegal` is neither of its
                values.
        """
        self._trace = load_trace("tpch") if trace is None else trace
        if not isinstance(self._trace, Trace):
            raise SimulationError(f"trace {trace!r:.60}: give a Trace, such as load_trace('tpch')")
        largest = max(self._trace.jobs, key=lambda job: len(job.stages))
        if max_jobs < 1 or max_stages < len(largest.stages):
            raise SimulationError(
                f"max_jobs {max_jobs} must be 1 or more and max_stages {max_stages} at least "
                f"{len(largest.stages)}, the stages of job {largest.name!r}"
            )
        if illegal not in ("pass", "raise"):
            raise SimulationError(f"illegal must be 'pass' or 'raise', got {illegal!r}")
        self._arrays = to_arrays(self._trace)
        self._cluster = cluster
        self._arrivals = arrivals
        self._illegal = illegal
        self._view = View(self._trace, cluster, max_jobs, max_stages)
        self.observation_space = self._view.space()
        parts = [max_stages + 1, cluster.num_executors]
        self._num_classes = len(cluster.classes or ())
        if self._num_classes > 1:
            parts.append(self._num_classes + 1)
        self.action_space = spaces.MultiDiscrete(parts)
        self._streams: Streams | None = None
        self._simulator: Simulator | None = None
        self._charged_ms = 0.0
        self._illegal_actions = 0

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
        if seed is not None:
            self._streams = Streams(seed, 0)
        elif self._streams is None:
            self._streams = Streams(int(self.np_random.integers(2**63)), 0)
        else:
            self._streams = Streams(self._streams.seed, self._streams.sequence + 1)
        drawn = self._arrivals(self._trace, self._streams.arrivals())
        self._simulator = Simulator(
            self._arrays,
            self._cluster,
            drawn.arrival_ms,
            drawn.job,
            duration_key=self._streams.duration_key(),
        )
        self._charged_ms = 0.0
        self._illegal_actions = 0
        info = {"seed": self._streams.seed, "sequence": self._streams.sequence}
        return self._view.show(self._simulator), info

    def step(self, action: NDArray[np.int64]) -> tuple[Padded, float, bool, bool, dict[str, Any]]:
        """Take one decision; see the tables above.

        Raises:
            ResetNeeded: no episode has begun, or it is over.
            InvalidAction: the action is not in the action space.
            IllegalActionError: the action is illegal, with `illegal="raise"`.
        """
        simulator = self._simulator
        if simulator is None:
            raise ResetNeeded("no episode is under way: call reset() first")
        if not self.action_space.contains(action):
            raise InvalidAction(f"action {action} is not in {self.action_space}")
        # A time limit before the first arrival ends an episode that has no decision at all.
        is_illegal = simulator.status is Status.DECIDE and self._apply(simulator, action)
        self._illegal_actions += is_illegal
        clock = simulator.state.clock[0]
        reward_s = (self._charged_ms - float(clock["job_time_ms"])) / MS_PER_S
        self._charged_ms = float(clock["job_time_ms"])
        terminated = simulator.status is Status.DONE
        truncated = simulator.status in (Status.TRUNCATED, Status.DEADLOCK)
        info: dict[str, Any] = {"illegal_action": is_illegal}
        if terminated or truncated:
            self._simulator = None
            info |= self._summary(simulator.state)
        return self._view.show(simulator), reward_s, terminated, truncated, info

    def _apply(self, simulator: Simulator, action: NDArray[np.int64]) -> bool:
        """Let the simulator take `action`. Returns whether it was illegal and became a pass."""
        slot, limit = int(action[0]), int(action[1]) + 1
        kind = int(action[2]) if len(action) > 2 and action[2] < self._num_classes else ANY
        try:
            simulator.step(self._view.action(slot, limit, kind))
        except IllegalActionError as error:
            if self._illegal == "raise":
                raise IllegalActionError(f"slot {slot}, limit {limit}: {error}") from error
            simulator.step(PASS)
            return True
        return False

    def _summary(self, state: State) -> dict[str, Any]:
        """What the info of the last step holds besides."""
        found = measure(state)
        return {
            "avg_jct_s": found.avg_jct_s,
            "jobs_arrived": len(found.jct_s),
            "jobs_completed": len(found.jct_s) - found.unfinished,
            "decisions": found.decisions,
            "task_events": found.task_events,
            "illegal_actions": self._illegal_actions,
        }


def register() -> None:
    """Make ``gymnasium.make("decima/Spark-v0")`` known; a second call changes nothing."""
    if ENV_ID not in gymnasium.registry:
        gymnasium.register(ENV_ID, entry_point="spark_sim.env:SparkEnv")


register()
