"""Evaluation and comparison of schedulers on job sets, by every measure of the paper.

Letters: S job sets, J the most jobs of one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from decima.rl.statistics import difference_percent
from decima.rl.study.lockstep import play
from decima.rl.study.streams import Draws, Purpose
from deeprm.config import Config
from deeprm.episodes import Episodes, Steps
from deeprm.jobs import draw_jobs
from deeprm.objectives import Objective
from deeprm.schedulers import PACKER, SJF, RandomChoice, Scheduler, Scored, load_scheduler
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
        figure: Float64 = getattr(self, objective.value)
        return figure


def score_of(outcome: Outcome, objective: Objective) -> float:
    """Mean of the objective's figure, negated where more is better."""
    mean = float(outcome.measure(objective).mean())
    return -mean if objective.is_gain else mean


def evaluate(scheduler: Scheduler, config: Config, jobs: Jobs, seed: int) -> Outcome:
    """Let a scheduler play each of S job sets once; `seed` is of what is random in its choices."""
    episodes = Episodes(config, jobs)
    watched = _Watched(scheduler, episodes)
    play(watched, episodes, Draws(seed, len(episodes)), watched.acted)
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
        held_steps=watched.steps / state.time,
        held=watched.held,
        cut=int(episodes.cut.sum()),
    )


class _Watched:
    """A scheduler, and the jobs that could have started when it let time pass."""

    def __init__(self, scheduler: Scheduler, episodes: Episodes) -> None:
        self._scheduler = scheduler
        self._episodes = episodes
        self._could_start: Bool = np.empty((0, 0), np.bool_)
        self._slot: Int32 = np.empty((0, 0), np.int32)
        self.steps = np.zeros(len(episodes))
        self.held = np.zeros(episodes.state.start.shape, np.bool_)

    def choose(self, episodes: Episodes, rows: Int32, draws: Draws) -> Int32:
        self._could_start = episodes.delays(rows) == 0
        self._slot = episodes.state.slot[rows]
        return self._scheduler.choose(episodes, rows, draws)

    def acted(self, rows: Int32, action: Int32, _steps: Steps) -> None:
        # A placement may let time pass too: no job was left in a slot then.
        placed = np.zeros(len(rows), np.bool_)
        chosen = action > 0
        taken = self._slot[chosen, action[chosen] - 1]
        placed[chosen] = (taken >= 0) & (self._episodes.state.start[rows[chosen], taken] >= 0)
        held = self._could_start & ~placed[:, None]
        self.steps[rows] += held.any(axis=1)
        row, slot = np.nonzero(held)
        self.held[rows[row], self._slot[row, slot]] = True


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


def compare(
    config: Config, objective: str, models: Sequence[Path], sets: int, seed: int
) -> Iterator[list[str]]:
    """Rows of a table, headings first: each scheduler's figures, and how far it is from Tetris*.

    Args:
        config: the cluster.
        objective: what Tetris* is tuned for and the difference is taken in.
        models: files of `deeprm.schedulers`.
        sets: how many unseen job sets.
        seed: of the job sets and of choices.

    Raises StudyError if a model is none, or was made for a cluster of another shape.
    """
    # Before anything compiles.
    learned = {str(path): load_scheduler(path, config) for path in models}
    measure = Objective(objective)
    tuning = draw_jobs(config, TUNING_SETS, seed, Purpose.TUNING)
    jobs = draw_jobs(config, sets, seed, Purpose.TEST)
    schedulers = dict(baselines(config, tuning, measure)) | learned
    reference = evaluate(schedulers["tetris"], config, jobs, seed).measure(measure)
    yield [
        "scheduler",
        *(measured.value for measured in Objective),
        "held steps",
        f"{objective} against tetris, 95 %",
    ]
    for name, scheduler in schedulers.items():
        outcome = evaluate(scheduler, config, jobs, seed)
        figures = [f"{outcome.measure(measured).mean():.3f}" for measured in Objective]
        difference = difference_percent(outcome.measure(measure)[None], reference)
        held = f"{100 * outcome.held_steps.mean():.1f} %"
        yield [name, *figures, held, difference.words("+.1f", " %")]
