"""The `deeprm` command."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from decima.rl.command import (
    FILE,
    FOLDER,
    MINUTES,
    OLD_FOLDER,
    check_picture,
    one_line_errors,
    refuse_beside_resume,
    run_and_tell,
    train_named,
    write_figures,
)
from deeprm.config import CONFIGS
from deeprm.errors import DeepRmError
from traces.files.settings import build, change_setting

OBJECTIVES = ("slowdown", "completion", "utilisation", "makespan")
FIGURES = ("figure4", "figure5", "figure6", "figure7", "sizes")


@click.group(cls=one_line_errors(DeepRmError))
@click.version_option(package_name="decima-scheduler")
def main() -> None:
    """DeepRM: learn to pack jobs that need several resources (HotNets 2016)."""
    # numba takes a second to load, which the help need not wait for.
    from spark_sim.compiled.progress import announce

    announce()


@main.command()
@click.option("--out", required=True, type=FOLDER, help="Run folder.")
@click.option("--resume", is_flag=True, help="Go on with the run in that folder.")
@click.option("--cluster", type=click.Choice(list(CONFIGS)), default="paper", show_default=True)
@click.option("--load", type=float, help="0.7 is 70 %; else the cluster's own.")
@click.option("--objective", type=click.Choice(OBJECTIVES), default="slowdown", show_default=True)
@click.option("--seed", default=0, show_default=True)
@click.option("--set", "changes", multiple=True, metavar="KEY=VALUE", help="Change one setting.")
@click.option("--initial", type=FILE, help="A model whose weights to begin with.")
@click.option("--minutes", type=MINUTES, help="Stop after so long.")
def train(
    out: Path,
    resume: bool,
    cluster: str,
    load: float | None,
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
    from decima.rl.run_folder import RunFolder
    from deeprm.session import new_run
    from deeprm.training_config import TrainConfig

    if resume:
        refuse_beside_resume("out", "minutes")
        _run(RunFolder.open(out), minutes)
        return
    config = CONFIGS[cluster] if load is None else CONFIGS[cluster].at_load(load)
    table: dict[str, Any] = {"cluster": config.to_json(), "objective": objective, "seed": seed}
    for change in changes:
        change_setting(table, change, DeepRmError)
    _run(new_run(out, build(TrainConfig, table, DeepRmError), initial), minutes)


@main.command()
@click.option("--out", required=True, type=FOLDER, help="A folder for the run folders.")
@click.option("--minutes", type=MINUTES, help="Of each training.")
@click.option("--only", multiple=True, help="Name of a training, as paper-70-0.")
def study(out: Path, minutes: float | None, only: tuple[str, ...]) -> None:
    """Train all policies of the figures, one after another; goes on where it was stopped.

    Example: deeprm study --out runs/deeprm --only paper-70-0
    """
    from deeprm.study import trainings

    train_named(trainings(), only, lambda one: _run(one.open(out), minutes), DeepRmError)


@main.command()
@click.argument("runs", type=OLD_FOLDER)
@click.option("--out", required=True, type=FOLDER, help="Folder of models.")
def gather(runs: Path, out: Path) -> None:
    """Copy the models of a study, and the learning curves at 70 %, for `reproduce --models`."""
    from deeprm.study import gather as gather_models

    found = gather_models(runs, out)
    click.echo(f"{len(found)} models: {', '.join(found)}")


@main.command()
@click.option("--out", required=True, type=FOLDER, help="Folder for JSON, SVG and PNG.")
@click.option("--only", multiple=True, type=click.Choice(FIGURES), help="Default: all.")
@click.option("--sets", default=100, show_default=True, type=click.IntRange(min=2))
@click.option("--models", type=OLD_FOLDER, help="Models other than those in the package.")
def reproduce(out: Path, only: tuple[str, ...], sets: int, models: Path | None) -> None:
    """Measure and draw figures 4 to 7 of the paper, on job sets that no training has seen.

    And "sizes": a network on numbers, on clusters of other sizes than it was trained on.

    Example: deeprm reproduce --out figures
    """
    from deeprm.figures import FIGURES as MEASURED
    from deeprm.figures import Bench
    from deeprm.plots import draw
    from deeprm.study import Models

    bench = Bench(Models(models), sets)

    def measure(name: str) -> dict[str, Any]:
        return {"job_sets": sets, **MEASURED[name](bench)}

    write_figures(only or FIGURES, measure, draw, out, DeepRmError)


@main.command()
@click.argument("models", nargs=-1, type=FILE)
@click.option("--cluster", type=click.Choice(list(CONFIGS)), default="paper", show_default=True)
@click.option("--load", type=float, help="0.7 is 70 %; else the cluster's own.")
@click.option("--objective", type=click.Choice(OBJECTIVES), default="slowdown", show_default=True)
@click.option("--sets", default=100, show_default=True, type=click.IntRange(min=2))
@click.option("--seed", default=0, show_default=True)
def evaluate(
    models: tuple[Path, ...],
    cluster: str,
    load: float | None,
    objective: str,
    sets: int,
    seed: int,
) -> None:
    """Compare models, and the heuristics, on unseen job sets.

    Example: deeprm evaluate --load 0.9 runs/deeprm/model.safetensors
    """
    from decima.rl.tables import print_rows
    from deeprm.comparison import compare

    config = CONFIGS[cluster] if load is None else CONFIGS[cluster].at_load(load)
    rows = compare(config, objective, models, sets, seed)
    print_rows(next(rows), rows)


@main.command()
@click.option("-o", "--output", required=True, type=click.Path(dir_okay=False, path_type=Path))
@click.option("--cluster", type=click.Choice(list(CONFIGS)), default="paper", show_default=True)
@click.option("--load", type=float, help="0.7 is 70 %; else the cluster's own.")
@click.option("--step", default=25, show_default=True, help="Show the first state at or after it.")
@click.option("--seed", default=0, show_default=True)
@click.option("--model", type=FILE)
def show(
    output: Path, cluster: str, load: float | None, step: int, seed: int, model: Path | None
) -> None:
    """Draw a cluster under shortest job first, or under a model, as in figure 2 of the paper (PNG).

    Example: deeprm show --load 1.3 -o cluster.png
    """
    from deeprm.comparison import picture

    check_picture(output)
    config = CONFIGS[cluster] if load is None else CONFIGS[cluster].at_load(load)
    picture(config, model, seed, step, output)


def _run(opened: Any, minutes: float | None) -> Any:
    """Train in a run folder, print how it ended, and return the reason."""
    from deeprm.references import references
    from deeprm.session import MODEL, run_training

    return run_and_tell(opened, minutes, run_training, MODEL, references)


if __name__ == "__main__":
    main()
