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
from decima.spark.auto import Question
from decima.spark.decision_log import logged_job
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
        error = None if self.error is None else [self.error.mean, self.error.ci95]
        differences = {
            name: [estimate.mean, estimate.ci95] for name, estimate in self.differences.items()
        }
        return self._asdict() | {"differences": differences, "error": error}


def compare(question: Question) -> Verdict:
    """Play the jobs under Spark's order and each candidate; PolicyError: there is none such."""
    world = World(question)
    sequences = [world.resampled(number) for number in range(SEQUENCES)]
    reference = world.average_s(question.order, sequences)
    differences = {
        name: difference_percent(world.average_s(name, sequences), reference)
        for name in question.candidates
    }
    better = [name for name, change in differences.items() if change.is_surely_below(0)]
    best = min(better, key=lambda name: differences[name].mean, default=None)
    return Verdict(best, differences, world.error(), len(question.jobs), world.followers())


class World:
    """The jobs of a question, ready to be simulated; K jobs."""

    def __init__(self, question: Question) -> None:
        self._question = question
        self._jobs = [job for job in map(logged_job, question.jobs) if job is not None]
        # Two runs of one query are two jobs, with durations of their own.
        named = (replace(job.job, name=f"{n} {job.job.name}") for n, job in enumerate(self._jobs))
        trace = Trace("session", tuple(named))
        self._exact: TraceArrays = to_arrays(trace)
        rng = np.random.default_rng(0)
        self._arrays = with_estimates(trace, self._exact, question.estimates, rng)
        self._own_ms = np.array([job.own_ms or 0 for job in self._jobs], float)
        self._arrival_ms = np.array([job.arrival_ms for job in self._jobs], float)
        self._cluster = session_cluster(question.slots)

    def resampled(self, number: int) -> Run:
        """As many jobs, each with the time that it came after another; exponential if unknown."""
        rng = Streams(0, number).arrivals()
        count = len(self._arrival_ms)
        job = rng.integers(count, size=count).astype(np.int32)
        if self._question.is_timed:
            gaps_ms = np.diff(self._arrival_ms)
            gaps_ms = np.concatenate([[gaps_ms.mean() if count > 1 else 0.0], gaps_ms])
        else:
            work_ms = float(np.sum(self._exact.num_tasks * self._exact.mean_ms)) / count
            gaps_ms = rng.exponential(work_ms / (ASSUMED_LOAD * self._question.slots), size=count)
        gap_ms = gaps_ms[job]
        return Run(np.cumsum(gap_ms) - gap_ms[0], job, Streams(0, number).duration_key())

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
        jcts_s = []
        parameters = self._question.parameters.get(policy)
        for run in runs:
            simulator = Simulator(
                self._arrays, self._cluster, run.arrival_ms, run.job, duration_key=run.duration_key
            )
            play(simulator, policy_named(policy, self._arrays, parameters=parameters))
            jcts_s.append((simulator.completion_ms() - run.arrival_ms) / MS_PER_S)
        return jcts_s

    def followers(self) -> float:
        """Return the share of the jobs that came right after another had ended; 0 if unknown."""
        if not self._question.is_timed:
            return 0.0
        end_ms = np.array([job.completion_ms for job in self._jobs], float)
        work_ms = np.array([job.job.work_ms for job in self._jobs])
        return followers_share(self._arrival_ms, end_ms, work_ms)

    def error(self) -> Estimate | None:
        """Percent by which jobs took longer than predicted for the policy that ran.

        The interval is over stretches of neighbouring jobs: where the real session queued longer
        than predicted, or a burst of slow jobs came, all of a stretch are off together.
        """
        if not self._question.is_timed:
            return None
        ended = np.array(
            [
                job.completion_ms is not None and job.arrival_ms >= self._question.ran_since_ms
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
        predicted_s = self._jct_s(self._question.ran, [run])[0] + self._own_ms / MS_PER_S
        jobs = [job for job, has_ended in zip(self._jobs, ended, strict=True) if has_ended]
        actual_ms = [float((job.completion_ms or 0) - job.arrival_ms) for job in jobs]
        return neighbours_difference_percent(np.array(actual_ms) / MS_PER_S, predicted_s[ended])


def main() -> None:
    """Read a question from standard input, write the verdict to standard output.

    The argument is the process of the driver: this one ends when that has, however it was.
    """
    driver = int(sys.argv[1])

    def end_with_driver() -> None:
        while os.getppid() == driver:
            time.sleep(_PARENT_LOOK_S)
        os._exit(1)

    with suppress(OSError):
        os.nice(_NICEST)
    threading.Thread(target=end_with_driver, daemon=True).start()
    json.dump(compare(Question(**json.load(sys.stdin))).as_json(), sys.stdout)


if __name__ == "__main__":
    main()
