"""The trainings behind the figures: one policy for each load and seed, and for each objective.

Each seed begins with the paper's own recipe at 70 % (figure 6): 100 job sets that never change.
Weights learned so fit these sets better than others. All other policies on images go on
from there on job sets that are new in each iteration, a fifth as many, with a falling rate: it is
cheaper, and better on unseen job sets (docs/results/2026-11-deeprm.md).

Source: DeepRM (HotNets 2016), section 4.2: figure 4 has one policy a load, figure 5 one an
objective at 130 %, figures 6 and 7 look into two of those.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, NamedTuple

from decima.rl.errors import StudyError
from decima.rl.run_folder import read_run
from decima.rl.study.trainings import ModelFolder, Study
from deeprm.config import PAPER
from deeprm.schedulers import POLICY, Model
from deeprm.tables import OBJECTIVES, ObjectiveName
from deeprm.training_config import TrainConfig
from traces.files.numbers import is_number
from traces.files.reading import read_json
from traces.files.writing import write_json

LOADS = (10, 30, 50, 70, 90, 110, 130, 150, 170, 190)
"""percent"""
FIRST_AT, OBJECTIVES_AT, SIZES_AT = 70, 130, 90
"""percent, of figures 6 and 5, and of the network that other cluster sizes are tried with"""
BRANCHES_AT = {80: (0.7, 0.8, 0.9), 130: (1.1, 1.3, 1.5)}
"""percent, of the policies that learn from branches, and the loads of each"""
SEEDS = (0, 1, 2)
CURVES = "curves.json"
_SOONEST = (110, 130, 150, 90, 70)


Kind = ObjectiveName | Literal["paper", "compact", "branches"]


class Training(NamedTuple):
    """Training of the study."""

    kind: Kind
    """the objective; or, for slowdown, "paper" (its recipe), "compact" (a network on numbers) and
    "branches" (such a network, taught by what each action would have cost)"""
    load: int
    """percent"""
    seed: int

    @property
    def name(self) -> str:
        """Name of the run folder and the model."""
        return f"{self.kind}-{self.load}-{self.seed}"

    @property
    def needs(self) -> tuple[Training, ...]:
        """The training whose weights this one begins with, if any."""
        if self.kind in ("paper", "compact", "branches"):
            return ()
        return (Training("paper", FIRST_AT, self.seed),)

    def config(self) -> TrainConfig:
        """Return the training's settings; the defaults are the paper's."""
        cluster = PAPER.at_load(self.load / 100)
        if self.kind == "paper":
            return TrainConfig(cluster=cluster, seed=self.seed)
        common = TrainConfig(cluster=cluster, seed=self.seed, job_sets=20, fresh_job_sets=True)
        if self.kind == "compact":
            return replace(
                common,
                policy="compact",
                iterations=500,
                learning_rate=3e-3,
                final_learning_rate=3e-4,
            )
        if self.kind == "branches":
            return replace(
                common,
                policy="compact",
                teacher="hold",
                loads=BRANCHES_AT[self.load],
                job_sets=100,
                imitation=300,
                branches=900,
                iterations=1_200,
                optimiser="adam",
                average_iterations=20,
                learning_rate=2.5e-3,
                final_learning_rate=3e-5,
                validate_every=50,
            )
        return replace(
            common,
            objective=self.kind,
            # The weights to begin with know slowdown already.
            iterations=1_200 if self.kind == "slowdown" else 2_000,
            final_learning_rate=1e-4,
            initial=True,
        )


def trainings() -> list[Training]:
    """All, in an order in which each has what it begins with."""
    planned = []
    for seed in SEEDS:
        loads = (*_SOONEST, *(load for load in LOADS if load not in _SOONEST))
        planned.append(Training("paper", FIRST_AT, seed))
        planned += [Training("slowdown", load, seed) for load in loads]
        planned += [
            Training(name, OBJECTIVES_AT, seed) for name in OBJECTIVES if name != "slowdown"
        ]
        planned.append(Training("compact", SIZES_AT, seed))
        planned += [Training("branches", load, seed) for load in BRANCHES_AT]
    return planned


def branches_for(load: int) -> int:
    """Load of the policies on branches that play at a load, both in percent."""
    return min(BRANCHES_AT, key=lambda trained: abs(trained - load))


class Models(ModelFolder):
    """The models of the study."""

    package = "deeprm"

    def of(self, kind: Kind, load: int) -> list[Model]:
        """Load the models of all seeds that are there."""
        return self.loaded(POLICY, [Training(kind, load, seed) for seed in SEEDS])

    def curves(self) -> dict[str, list[dict[str, float]]]:
        """Return the metrics of each training by name: a row for each iteration.

        Raises StudyError if the file is there and holds something else.
        """
        path = self.path / CURVES
        curves = read_json(path, StudyError) if path.is_file() else {}
        if not isinstance(curves, dict):
            raise StudyError(f"{path}: holds no JSON object")
        for name, rows in curves.items():
            if not isinstance(rows, list) or not all(
                isinstance(row, dict) and "iteration" in row and all(map(is_number, row.values()))
                for row in rows
            ):
                raise StudyError(f"{path}: {name!r:.60} is no list of rows of numbers")
        return curves


def _gather_curves(runs: Path, out: Path, names: Sequence[str]) -> None:
    """Copy the learning curves of figure 6: rewards of iterations, slowdowns of validations."""
    metrics = ("iteration", "mean_reward", "max_reward", "validation/slowdown")
    curves = {
        name: [
            {key.removeprefix("validation/"): round(row[key], 4) for key in metrics if key in row}
            for row in read_run(runs / name).metrics
        ]
        for name in names
        if name.startswith("paper-")
    }
    write_json(out / CURVES, curves, StudyError)


STUDY = Study((POLICY,), trainings, _gather_curves)
