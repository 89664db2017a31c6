"""The `deeprm` command."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click

from decima.rl.command import OneLineErrors, set_option
from decima.rl.errors import StudyError
from decima.rl.option_types import INPUT, Number, Whole
from decima.rl.study.command import (
    StudyWords,
    add_study_commands,
    check_picture,
    cluster_options,
    inputs_option,
    minutes_option,
    out_option,
    output_option,
    resume_option,
    seed_option,
    train_in,
)
from deeprm.config import CONFIGS, Config
from deeprm.tables import OBJECTIVES
from deeprm.training_config import TrainConfig
from traces.files.settings import changed

FIGURES = {"figure4": 15, "figure5": 4, "figure6": 1, "figure7": 1, "sizes": 6}
"""names, and about how many CPU seconds each takes on 100 job sets"""
_STUDY = """Train all policies of the figures, one after another; goes on where it was stopped.

Example: deeprm study --out runs/deeprm --only paper-70-0
"""
_GATHER = "Copy the models of a study, and the learning curves at 70 %, for `reproduce --models`."
_REPRODUCE = """Measure and draw figures 4 to 7 of the paper, on job sets that no training has seen.

And "sizes": a network on numbers, on clusters of other sizes than it was trained on.

Example: deeprm reproduce --out figures
"""


def _cluster(cluster: str, load: float | None = None, jobs: Path | None = None) -> Config:
    config = CONFIGS[cluster] if load is None else CONFIGS[cluster].at_load(load)
    return config if jobs is None else replace(config, jobs_file=str(jobs.resolve()))


_OPTIONS = {
    "cluster": click.option(
        "--cluster", type=click.Choice(list(CONFIGS)), default="paper", show_default=True
    ),
    "load": click.option(
        "--load",
        type=Number(0.0, 100.0, above=True),
        help="0.7 is 70 %; else the cluster's own.",
    ),
    "jobs": click.option("--jobs", type=INPUT, help="Table of jobs, in place of drawn ones (CSV)."),
}
_config = partial(cluster_options, _cluster, _OPTIONS)
_objective = click.option(
    "--objective", type=click.Choice(OBJECTIVES), default="slowdown", show_default=True
)


@click.group(cls=OneLineErrors)
@click.version_option(package_name="decima-scheduler")
def main() -> None:
    """DeepRM: learn to pack jobs that need several resources (HotNets 2016)."""
    # numba takes a second to load, which the help need not wait for.
    from spark_sim.compiled.progress import announce

    announce()


@main.command()
@out_option
@resume_option
@_config("cluster", "load", "jobs")
@_objective
@seed_option
@set_option
@click.option("--initial", type=INPUT, help="A model whose weights to begin with.")
@minutes_option("Stop after so long.")
def train(
    out: Path,
    resume: bool,
    config: Config,
    objective: str,
    seed: int,
    changes: tuple[str, ...],
    initial: Path | None,
    minutes: float | None,
) -> None:
    """Train a policy by REINFORCE.

    Ctrl-C, SIGTERM and --minutes stop after the current iteration, and give it up if it has not
    ended five seconds later; `--resume` goes on to the same result as if it had never stopped.

    Example: deeprm train --load 0.7 --out runs/deeprm
    """
    # torch takes a second to load, which other commands need not wait for.
    from deeprm.session import new_run

    def begin() -> Any:
        table = {"cluster": config.to_json(), "objective": objective, "seed": seed}
        return new_run(out, changed(TrainConfig, table, changes, StudyError), initial)

    train_in("deeprm", out, resume, minutes, begin)


add_study_commands(
    main,
    "deeprm",
    StudyWords(_STUDY, _GATHER, _REPRODUCE, FIGURES, "paper-70-0", "sets", "job_sets"),
)


@main.command()
@click.argument("models", nargs=-1, type=INPUT)
@_config("cluster", "load", "jobs")
@_objective
@inputs_option("sets")
@seed_option
def evaluate(
    models: tuple[Path, ...], config: Config, objective: str, sets: int, seed: int
) -> None:
    """Compare models, and the heuristics, on unseen job sets.

    Example: deeprm evaluate --load 0.9 runs/deeprm/model.safetensors
    """
    from decima.rl.tables import print_rows
    from deeprm.evaluation import compare

    rows = compare(config, objective, models, sets, seed)
    print_rows(next(rows), rows)


@main.command()
@output_option
@_config("cluster", "load")
@click.option(
    "--step",
    type=Whole(0, 1_000_000),
    default=25,
    show_default=True,
    help="Show the first state at or after it.",
)
@seed_option
@click.option("--model", type=INPUT)
def show(output: Path, config: Config, step: int, seed: int, model: Path | None) -> None:
    """Draw a cluster under shortest job first, or under a model, as in figure 2 of the paper (PNG).

    Example: deeprm show --load 1.3 -o cluster.png
    """
    from deeprm.figures import picture

    check_picture(output)
    picture(config, model, seed, step, output)


@main.command("import")
@click.argument("form", type=click.Choice(["alibaba", "google"]))
@click.argument("trace", type=INPUT)
@output_option
@click.option("--step-s", default=60.0, show_default=True, type=Number(1e-3, 1e9))
@_config("cluster")
def import_trace(form: str, trace: Path, output: Path, step_s: float, config: Config) -> None:
    """Write a public trace as a table of jobs, for --jobs.

    FORM is alibaba (batch_task.csv of 2018) or google (task_events of 2011, one plain file).

    Example: deeprm import alibaba batch_task.csv -o jobs.csv
    """
    from deeprm.jobs import write_import

    click.echo(write_import(form, trace, config, step_s, output))


if __name__ == "__main__":
    main()
