"""Evaluation of schedulers on job sets, by every measure of the paper.

Letters: S job sets, J the most jobs of one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from decima.rl.study.lockstep import play
from decima.rl.study.streams import Draws
from deeprm.config import Config
from deeprm.episodes import Episodes, Steps
from deeprm.objectives import Objective
from deeprm.schedulers import PACKER, SJF, RandomChoice, Scheduler, Scored
from deeprm.tables import Bool, Float64, Int32, Jobs

TUNING_SETS = 200
"""job sets that heuristics are tuned on, of the purpose `TUNING`"""
WEIGHTS = tuple(round(0.05 * step, 2) for step in range(1, 20))
"""of shortness against fit, among which that of Tetris* is found"""


@dataclass(frozen=True)
class Outcome:
    """One episode on each of S job sets."""

    slowdown: Float64
    """(S,) mean over jobs of completion time / duration"""
    completion: Float64
    """(S,) mean steps from arrival to completion"""
    utilisation: Float64
    """(S,) mean share of the resources in use while jobs arrive"""
    makespan: Float64
    """(S,) steps until the last job is complete"""
    duration: Int32
    """(S, J) of each job; 0 where there is none"""
    job_slowdown: Float64
    """(S, J) of each job; one that an episode was cut from, up to then"""
    held_steps: Float64
    """(S,) share of the time steps in which a job in a slot could have started and did not"""
    held: Bool
    """(S, J) jobs that did not start in some step in which they could have"""
    cut: int
    """episodes that were over before all jobs were complete"""

    def measure(self, objective: Objective) -> Float64:
        """(S,) the objective's figure; lower is better but for utilisation."""
        found: Float64 = getattr(self, objective.value)
        return found


def score_of(outcome: Outcome, objective: Objective) -> float:
    """Mean of the objective's figure, negated where more is better."""
    mean = float(outcome.measure(objective).mean())
    return -mean if objective.is_gain else mean


def evaluate(scheduler: Scheduler, config: Config, jobs: Jobs, seed: int) -> Outcome:
    """Let a scheduler play each job set once.

    Args:
        scheduler: who chooses.
        config: the cluster.
        jobs: S job sets.
        seed: of what is random in the choices.
    """
    episodes = Episodes(config, jobs)
    watcher = _HeldJobs(episodes)
    play(_Watched(scheduler, watcher), episodes, Draws(seed, len(episodes)), watcher.passed)
    state = episodes.state
    exists = jobs.duration > 0
    # A job that was never placed, or not to its end, is in the system until the cut.
    end = np.where(state.start >= 0, state.start + jobs.duration, config.last_step)
    span = np.minimum(end, state.time[:, None]) - jobs.arrival
    job_slowdown = np.where(exists, span / np.maximum(jobs.duration, 1), 0.0)
    return Outcome(
        **episodes.figures(),
        duration=jobs.duration,
        job_slowdown=job_slowdown,
        held_steps=watcher.steps / state.time,
        held=watcher.held,
        cut=int(episodes.cut.sum()),
    )


class _HeldJobs:
    """Notes jobs that could have started when a scheduler let time pass."""

    def __init__(self, episodes: Episodes) -> None:
        self._episodes = episodes
        self._could_start: Bool = np.empty((0, 0), np.bool_)
        self._slot: Int32 = np.empty((0, 0), np.int32)
        self._time: Int32 = np.empty(0, np.int32)
        self.steps = np.zeros(len(episodes))
        self.held = np.zeros(episodes.state.start.shape, np.bool_)

    def about_to_act(self, rows: Int32) -> None:
        self._could_start = self._episodes.delays(rows) == 0
        self._slot = self._episodes.state.slot[rows]
        self._time = self._episodes.state.time[rows].copy()

    def passed(self, rows: Int32, action: Int32, steps: Steps) -> None:
        # A placement may let time pass too: no job was left in a slot then.
        placed = np.zeros(len(rows), np.bool_)
        chosen = action > 0
        taken = self._slot[chosen, action[chosen] - 1]
        placed[chosen] = (taken >= 0) & (self._episodes.state.start[rows[chosen], taken] >= 0)
        held = self._could_start & ~placed[:, None]
        self.steps[rows] += held.any(axis=1)
        row, slot = np.nonzero(held)
        self.held[rows[row], self._slot[row, slot]] = True


class _Watched:
    """A scheduler whose watcher sees each state before it acts."""

    def __init__(self, scheduler: Scheduler, watcher: _HeldJobs) -> None:
        self._scheduler = scheduler
        self._watcher = watcher

    def choose(self, episodes: Episodes, rows: Int32, draws: Draws) -> Int32:
        self._watcher.about_to_act(rows)
        return self._scheduler.choose(episodes, rows, draws)


def tuned_tetris(config: Config, jobs: Jobs, objective: Objective) -> Scored:
    """Tetris*: the weight that is best on these job sets, which no figure is measured on."""
    return _best([Scored(weight) for weight in WEIGHTS], config, jobs, objective)


def tuned_hold(config: Config, jobs: Jobs, objective: Objective) -> Scored:
    """SJF that holds large jobs back, with the theta that is best on these job sets.

    In an empty cluster every job can start, so theta is at most what the largest leaves free; about
    ten values up to there are tried.
    """
    most = min(config.capacities) - config.max_demand
    thetas = range(0, most + 1, max(1, most // 10))
    return _best([Scored(1.0, theta) for theta in thetas], config, jobs, objective)


def _best(candidates: Sequence[Scored], config: Config, jobs: Jobs, objective: Objective) -> Scored:
    def cost(candidate: Scored) -> float:
        episodes = Episodes(config, jobs)
        play(candidate, episodes, Draws(0, len(episodes)))
        count = jobs.number if objective in (Objective.SLOWDOWN, Objective.COMPLETION) else 1
        return float(-(objective.reward(config, episodes.state.cost) / count).mean())

    return min(candidates, key=cost)


def baselines(config: Config, tuning: Jobs, objective: Objective) -> Mapping[str, Scheduler]:
    """The heuristics by name; Tetris* and `hold` are tuned on `tuning`."""
    return {
        "tetris": tuned_tetris(config, tuning, objective),
        "hold": tuned_hold(config, tuning, objective),
        "sjf": SJF,
        "packer": PACKER,
        "random": RandomChoice(),
    }
