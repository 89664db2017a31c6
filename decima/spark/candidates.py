"""Simulated comparison of policies on a session's own jobs, and a check of its prediction.

Jobs are played as a decision log holds them: one mean duration for each stage, and what Spark
itself took of each job's time added. Policies are compared on sequences that are resampled from
what was observed, job and the time since the one before it together, since the arrivals of the past
will not come again. The simulation of the policy that really ran checks the simulator.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from decima.evaluation.runner import play
from decima.policies import policy_named
from decima.policy_names import is_learned
from decima.rl.statistics import Estimate, difference_percent, neighbours_difference_percent
from decima.spark.evaluator_process import Question
from decima.spark.log_rows import logged_job
from decima.whatif.closed_loop import followers_share
from decima.whatif.replay.check import session_cluster
from spark_sim import Simulator, Streams
from spark_sim.metrics import measure
from spark_sim.vector import Run
from traces import Trace, to_arrays
from traces.arrays import TraceArrays
from traces.estimates import with_estimates
from traces.numbers import MS_PER_S, Float64

_NICEST = 19
_PARENT_LOOK_S = 5.0
ASSUMED_LOAD = 0.8
"""of a session of which only jobs are known, not when they come"""
SEQUENCES = 16
"""as many as a learned policy plays side by side"""


class Verdict(NamedTuple):
    """Result of a comparison; percentages are of the average JCT."""

    best: str | None
    """the candidate with the lowest average JCT whose interval lies below Spark's order"""
    differences: dict[str, Estimate]
    """of each candidate to Spark's order"""
    error: Estimate | None
    """of what was predicted for what ran to what really happened, over stretches of neighbouring
    jobs; None without jobs that can be compared"""
    jobs: int
    followers: float
    """share of the jobs that came right after another had ended (`closed_loop`); 0 if unknown"""

    def as_json(self) -> dict[str, Any]:
        """The form in which it is sent."""
        error = None if self.error is None else [self.error.mean, self.error.ci95]
        differences = {name: [one.mean, one.ci95] for name, one in self.differences.items()}
        return {
            "best": self.best,
            "differences": differences,
            "error": error,
            "jobs": self.jobs,
            "followers": self.followers,
        }


def compare(asked: Question) -> Verdict:
    """Play the jobs under Spark's order and under each candidate.

    Raises:
        PolicyError, ModelError: there is no such policy or model.
    """
    world = World(asked)
    sequences = [world.resampled(number) for number in range(SEQUENCES)]
    reference = world.average_s(asked.order, sequences)
    differences = {
        name: difference_percent(world.average_s(name, sequences), reference)
        for name in asked.candidates
    }
    sure = [name for name, one in differences.items() if one.is_surely_below(0)]
    best = min(sure, key=lambda name: differences[name].mean, default=None)
    return Verdict(best, differences, world.error(), len(asked.jobs), world.followers())


class World:
    """The jobs of a question, ready to be simulated; K jobs."""

    def __init__(self, asked: Question) -> None:
        self._asked = asked
        self._jobs = [job for job in map(logged_job, asked.jobs) if job is not None]
        # Two runs of one query are two jobs, with durations of their own.
        named = (replace(job.job, name=f"{n} {job.job.name}") for n, job in enumerate(self._jobs))
        trace = Trace("session", tuple(named))
        exact = to_arrays(trace)
        self._arrays = with_estimates(trace, exact, asked.estimates, np.random.default_rng(0))
        self._exact: TraceArrays = exact
        self._own_ms = np.array([job.own_ms or 0 for job in self._jobs], float)
        self._arrival_ms = np.array([job.arrival_ms for job in self._jobs], float)
        self._cluster = session_cluster(asked.slots)

    def resampled(self, number: int) -> Run:
        """A sequence of as many jobs, each with the time that it came after another."""
        rng = Streams(0, number).arrivals()
        count = len(self._arrival_ms)
        job = rng.integers(count, size=count).astype(np.int32)
        gap_ms = self._gaps_ms(rng)[job]
        return Run(np.cumsum(gap_ms) - gap_ms[0], job, Streams(0, number).duration_key())

    def _gaps_ms(self, rng: np.random.Generator) -> Float64:
        """Return (K,) gaps before each job; exponential where unknown."""
        count = len(self._arrival_ms)
        if self._asked.is_timed:
            gaps_ms = np.diff(self._arrival_ms)
            return np.concatenate([[gaps_ms.mean() if count > 1 else 0.0], gaps_ms])
        work_ms = float(np.sum(self._exact.num_tasks * self._exact.mean_ms)) / count
        return rng.exponential(work_ms / (ASSUMED_LOAD * self._asked.slots), size=count)

    def average_s(self, policy: str, runs: Sequence[Run]) -> Float64:
        """(S,) average JCT of each sequence."""
        own_s = np.array([self._own_ms[run.job].mean() for run in runs]) / MS_PER_S
        return np.array([jct_s.mean() for jct_s in self._jct_s(policy, runs)]) + own_s

    def _jct_s(self, policy: str, runs: Sequence[Run]) -> list[Float64]:
        """Return the JCTs (K,) of each sequence by arrival, without Spark's own time."""
        if is_learned(policy):
            from decima.learned import play_in_lockstep

            keys = list(range(len(runs)))
            played = play_in_lockstep(policy, self._arrays, self._cluster, runs, keys)
            return [measure(state).jct_s for state in played.states]
        found = []
        for run in runs:
            simulator = Simulator(
                self._arrays,
                self._cluster,
                run.arrival_ms,
                run.job,
                duration_key=run.duration_key,
            )
            parameters = self._asked.parameters.get(policy)
            play(simulator, policy_named(policy, self._arrays, parameters=parameters))
            found.append((simulator.completion_ms() - run.arrival_ms) / MS_PER_S)
        return found

    def followers(self) -> float:
        """Return the share of the jobs that came right after another had ended; 0 if unknown."""
        if not self._asked.is_timed:
            return 0.0
        end_ms = np.array([job.completion_ms for job in self._jobs], float)
        work_ms = np.array([job.job.work_ms for job in self._jobs])
        return followers_share(self._arrival_ms, end_ms, work_ms)

    def error(self) -> Estimate | None:
        """Percent by which jobs took longer than predicted for the policy that ran.

        The interval is over stretches of neighbouring jobs: where the real session queued longer
        than predicted, or a burst of slow jobs came, all of a stretch are off together.
        """
        if not self._asked.is_timed:
            return None
        ended = np.array(
            [
                job.completion_ms is not None and job.arrival_ms >= self._asked.ran_since_ms
                for job in self._jobs
            ]
        )
        if ended.sum() < 2:
            return None
        run = Run(
            self._arrival_ms - self._arrival_ms[0],
            np.arange(len(ended), dtype=np.int32),
            Streams(0, 0).duration_key(),
        )
        predicted_s = self._jct_s(self._asked.ran, [run])[0] + self._own_ms / MS_PER_S
        jobs = [job for job, has_ended in zip(self._jobs, ended, strict=True) if has_ended]
        actual_ms = [float((job.completion_ms or 0) - job.arrival_ms) for job in jobs]
        return neighbours_difference_percent(np.array(actual_ms) / MS_PER_S, predicted_s[ended])


def main() -> None:
    """Read a question from standard input, write the verdict to standard output.

    The argument is the process of the driver, with which this one ends.
    """
    with suppress(OSError):
        os.nice(_NICEST)
    _end_with(int(sys.argv[1]))
    json.dump(compare(Question(**json.load(sys.stdin))).as_json(), sys.stdout)


def _end_with(driver: int) -> None:
    """End this process when the driver has ended, however that was."""

    def watch() -> None:
        while os.getppid() == driver:
            time.sleep(_PARENT_LOOK_S)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


if __name__ == "__main__":
    main()
