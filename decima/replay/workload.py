"""A recording made ready to be simulated, and its runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from decima.evaluation.runner import play
from decima.policies import Parameters, policy_named
from decima.replay.driver import Recording, with_waits
from decima.replay.spark_order import ORDERS, SparkJobs, play_spark
from spark_sim import Cluster, Protocol, Simulator
from traces import Trace, to_arrays
from traces.arrays import TraceArrays
from traces.arrivals import Arrivals
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
        cls, recording: Recording, jobs: Sequence[int] | None = None, *, driver_times: bool = True
    ) -> ReplayWorkload:
        """The jobs of `recording` (None: all), with or without what the driver took."""
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
            to_arrays(trace),
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
        seen_ms = arrivals.arrival_ms + self.before_ms[arrivals.job]
        order = np.argsort(seen_ms, kind="stable")
        job = arrivals.job[order]
        simulator = Simulator(self.arrays, cluster, seen_ms[order], job, duration_key=duration_key)
        if policy in ORDERS and cluster.protocol is Protocol.SESSION:
            play_spark(simulator, policy, [self.spark_jobs[row] for row in job])
        else:
            named = policy_named(
                policy,
                self.arrays,
                parameters=parameters,
                key=duration_key,
                networks=networks,
            )
            play(simulator, named)
        end_ms = np.empty(len(order))
        end_ms[order] = simulator.completion_ms()
        jct_ms: Float64 = end_ms + self.after_ms[arrivals.job] - arrivals.arrival_ms
        return jct_ms / MS_PER_S
