"""A recording made ready to be simulated, and its runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from decima.evaluation.runner import play
from decima.policies import policy_named
from decima.registry import Parameters
from decima.whatif.replay.driver import Recording, with_waits
from decima.whatif.replay.spark_order import ORDERS, SparkJobs, play_spark
from spark_sim import Cluster, Protocol, Simulator
from spark_sim.vector import Run
from traces import Trace, to_arrays
from traces.arrays import TraceArrays
from traces.arrivals import Arrivals
from traces.estimates import Estimates, with_estimates
from traces.numbers import MS_PER_S, Float64

if TYPE_CHECKING:
    from decima.learned import Networks


@dataclass(frozen=True, eq=False)
class ReplayWorkload:
    """J recorded jobs as the simulator takes them."""

    trace: Trace
    arrays: TraceArrays
    recorded: Arrivals
    """each job once, when it was submitted"""
    before_ms: Float64
    """(J,) from a job's submission until the simulator sees it"""
    after_ms: Float64
    """(J,) from its last task to its end"""
    spark_jobs: tuple[SparkJobs, ...]
    """for each job"""

    @classmethod
    def of(
        cls,
        recording: Recording,
        jobs: Sequence[int] | None = None,
        *,
        driver_times: bool = True,
        estimates: Estimates = "exact",
        seed: int = 0,
    ) -> ReplayWorkload:
        """The jobs of a recording as the simulator takes them.

        Args:
            recording: the jobs.
            jobs: which of them; None: all.
            driver_times: whether the driver takes the time that was measured.
            estimates: of task durations, for policies.
            seed: of noisy estimates.
        """
        wanted = range(len(recording.trace.jobs)) if jobs is None else jobs
        pairs = [(recording.trace.jobs[index], recording.driver[index]) for index in wanted]
        if not driver_times:
            pairs = [(job, record.without_times()) for job, record in pairs]
        waiting = tuple(with_waits(job, record) for job, record in pairs)
        trace = Trace(recording.trace.name, waiting)
        arrival_ms = recording.arrival_ms[list(wanted)]
        order = np.argsort(arrival_ms, kind="stable")
        return cls(
            trace,
            with_estimates(trace, to_arrays(trace), estimates, np.random.default_rng(seed)),
            Arrivals(arrival_ms[order], order.astype(np.int32)),
            np.array([record.before_ms for _, record in pairs]),
            np.array([record.after_ms for _, record in pairs]),
            tuple(SparkJobs.of(record) for _, record in pairs),
        )

    def jct_s(
        self,
        cluster: Cluster,
        policy: str,
        arrivals: Arrivals,
        duration_key: int,
        parameters: Parameters | None = None,
        networks: Networks | None = None,
    ) -> Float64:
        """(K,) completion times of one run, in the order of `arrivals`.

        Args:
            cluster: what the jobs run on, without a time limit.
            policy: its name; "fifo" and "spark_fair" in a shared session are Spark's own
                order of stages (`spark_order`).
            arrivals: jobs of this workload.
            duration_key: decides every task's duration.
            parameters: of the policy, in place of its defaults.
            networks: as for `policy_named`.
        """
        run = self._seen(arrivals, duration_key)
        simulator = Simulator(
            self.arrays, cluster, run.arrival_ms, run.job, duration_key=duration_key
        )
        if policy in ORDERS and cluster.protocol is Protocol.SESSION:
            play_spark(simulator, policy, [self.spark_jobs[row] for row in run.job])
        else:
            named = policy_named(
                policy,
                self.arrays,
                parameters=parameters,
                key=duration_key,
                networks=networks,
            )
            play(simulator, named)
        return self._jct_s(arrivals, simulator.completion_ms())

    def learned_jct_s(
        self,
        cluster: Cluster,
        policy: str,
        runs: Sequence[tuple[Arrivals, int]],
        networks: Networks | None = None,
    ) -> list[Float64]:
        """`jct_s` of several runs under a learned policy, a tenth of the time of one by one.

        Args:
            cluster: as for `jct_s`.
            policy: its name.
            runs: arrivals and the key of the durations.
            networks: as for `policy_named`.
        """
        # torch takes a second to load, which heuristics need not wait for.
        from decima.learned import play_in_lockstep

        seen = [self._seen(*run) for run in runs]
        keys = [key for _, key in runs]
        played = play_in_lockstep(policy, self.arrays, cluster, seen, keys, networks)
        return [
            self._jct_s(arrivals, np.array(state.jobs["completion_ms"]))
            for (arrivals, _), state in zip(runs, played.states, strict=True)
        ]

    def _seen(self, arrivals: Arrivals, duration_key: int) -> Run:
        """The jobs in the order in which the simulator sees them."""
        order, seen_ms = self._order(arrivals)
        return Run(seen_ms[order], arrivals.job[order], duration_key)

    def _order(self, arrivals: Arrivals) -> tuple[NDArray[np.int64], Float64]:
        seen_ms: Float64 = arrivals.arrival_ms + self.before_ms[arrivals.job]
        return np.argsort(seen_ms, kind="stable"), seen_ms

    def _jct_s(self, arrivals: Arrivals, completion_ms: Float64) -> Float64:
        """(K,) from submission to end, in the order of `arrivals`.

        Args:
            arrivals: of the run.
            completion_ms: (K,) of the last task of each job, in the order of `_seen`.
        """
        end_ms = np.empty(len(completion_ms))
        end_ms[self._order(arrivals)[0]] = completion_ms
        jct_ms: Float64 = end_ms + self.after_ms[arrivals.job] - arrivals.arrival_ms
        return jct_ms / MS_PER_S
