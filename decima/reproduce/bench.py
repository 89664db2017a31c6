"""What the figures are measured with: sequences, tuned baselines and trainings of one size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import click

from decima.evaluation import EvaluationConfig, Report, evaluate
from decima.evaluation.config import gap_at
from decima.rl.command import InterruptedCommand, Refused
from decima.rl.loop import StopReason
from decima.rl.progress import RichProgress
from decima.rl.run_folder import RunFolder, RunRecord, read_run
from decima.training.config import TrainConfig
from decima.training.learner import CollapsedError
from decima.training.session import MODEL, config_of, run_training
from decima.training.tuning import tune

TRACE = "tpch"
EXECUTORS = 50
LOAD = 0.85
"""of continuous arrivals, as in the paper"""
BATCH_JOBS = 20
BASELINES = (
    "fifo",
    "sjf_cp",
    "strict_fair",
    "weighted_fair",
    "tuned_weighted_fair",
    "tetris",
    "graphene",
)
"""the paper's seven"""
TUNABLE = ("tuned_weighted_fair", "tetris", "graphene")
SHORT_JOBS = 200
"""most jobs in a sequence that tunes a baseline, compares trainings or has its tasks recorded"""


class Scale(NamedTuple):
    """How much is played and trained."""

    batches: int
    """sequences of a batch"""
    streams: int
    """sequences of continuous arrivals"""
    stream_jobs: int
    """jobs in each"""
    tuning: int
    """sequences that tune a baseline, and as many that check it"""
    imitate_iterations: int
    reinforce_iterations: int
    evolve_iterations: int
    evolve_pairs: int
    validation: int
    """held-out sequences that choose a training's weights"""
    encoder_steps: int
    """gradient steps of each encoder in the test of critical paths"""


SCALES: Mapping[str, Scale] = {
    "quick": Scale(20, 4, 200, 5, 6, 4, 4, 32, 8, 300),
    "full": Scale(100, 10, 1000, 20, 20, 40, 30, 128, 16, 6000),
}


def stream(load: float = LOAD, trace: str = TRACE, executors: int = EXECUTORS) -> EvaluationConfig:
    """Return Poisson arrivals at a load."""
    gap_s = gap_at(trace, executors, load)
    return EvaluationConfig(trace=trace, executors=executors, interarrival_s=gap_s)


def batch() -> EvaluationConfig:
    """Return batches of jobs."""
    return EvaluationConfig(trace=TRACE, executors=EXECUTORS, arrivals="batch", jobs=BATCH_JOBS)


class Bench:
    """Sequences, tuned baselines and trainings of one scale and seed."""

    def __init__(self, scale: Scale, seed: int, trainings: Path) -> None:
        """`trainings`: folder of the trainings' run folders."""
        self.scale = scale
        self.seed = seed
        self._trainings = trainings
        self._tuned: dict[str, Mapping[str, float]] = {}

    def sized(self, config: EvaluationConfig) -> EvaluationConfig:
        """Return the setting with this bench's seed, and its numbers of sequences and jobs."""
        scale, config = self.scale, replace(config, seed=self.seed)
        if config.arrivals == "batch":
            return replace(config, sequences=scale.batches)
        return replace(config, sequences=scale.streams, jobs=scale.stream_jobs)

    def tuned(self, config: EvaluationConfig, policy: str) -> Mapping[str, float]:
        """Return the parameters of a heuristic, tuned on sequences that no figure uses."""
        sized = self.sized(config)
        jobs = min(sized.jobs, SHORT_JOBS)
        setting = replace(sized, policies=(policy,), sequences=self.scale.tuning, jobs=jobs)
        key = repr(setting)  # several figures have the same
        if key not in self._tuned:
            self._tuned[key] = tune(policy, setting, held_back=self.scale.tuning).parameters
        return self._tuned[key]

    def compared(
        self,
        config: EvaluationConfig,
        policies: Sequence[str],
        *,
        is_short: bool = False,
        sequences: int | None = None,
        timelines: bool = False,
    ) -> Report:
        """Compare policies on the bench's sequences; those of `TUNABLE` are tuned before.

        Args:
            config: the workload.
            policies: names, and paths of models.
            is_short: whether sequences have at most `SHORT_JOBS`.
            sequences: other than the bench has.
            timelines: whether each task is recorded.
        """
        parameters = {
            policy: self.tuned(config, policy) for policy in policies if policy in TUNABLE
        }
        setting = replace(self.sized(config), policies=tuple(policies), parameters=parameters)
        if is_short:
            setting = replace(setting, jobs=min(setting.jobs, SHORT_JOBS))
        if sequences is not None:
            setting = replace(setting, sequences=sequences)
        return evaluate(setting, timelines=range(setting.sequences if timelines else 0))

    def model(self, name: str, config: TrainConfig) -> str:
        """Train, resume or reuse a model; return its path.

        Raises:
            Refused: the folder holds a training of that name with other settings.
            InterruptedCommand: the training was asked to stop.
        """
        path = self._trainings / name
        seeded = replace(config, seed=self.seed)
        if (path / "config.json").is_file():
            folder = RunFolder.open(path)
        else:
            folder = RunFolder.create(path, seeded.to_json())
        with folder:
            if config_of(folder) != seeded:
                raise Refused(f"{path}: was trained with other settings: take another folder")
            rows = read_run(path).metrics
            is_done = bool(rows) and rows[-1]["iteration"] + 1 >= seeded.iterations
            if not (is_done and (path / MODEL).exists()):
                click.echo(f"training {name}, {seeded.iterations} iterations", err=True)
                try:
                    result = run_training(folder, observers=(RichProgress(every_s=30.0),))
                except CollapsedError as error:
                    if not (path / MODEL).exists():  # before the first validation
                        raise
                    click.echo(f"{name}: {error}", err=True)
                else:
                    if result.reason is StopReason.SIGNAL:
                        raise InterruptedCommand
        return str(path / MODEL)

    def record(self, name: str) -> RunRecord:
        """Return the record of a training."""
        return read_run(self._trainings / name)
