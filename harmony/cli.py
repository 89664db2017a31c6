"""The `harmony` command."""

from __future__ import annotations

from dataclasses import replace
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
from harmony.config import CONFIGS, RATES, Config
from harmony.errors import HarmonyError
from harmony.jobs import equal_arrivals
from traces.files.settings import build, change_setting

FIGURES = ("figure10", "figure12", "figure13", "figure14", "figure15", "table2")
_servers = click.option(
    "--servers", type=click.Choice(list(CONFIGS)), default="6", show_default=True
)
_arrivals = click.option(
    "--arrivals", type=click.Choice(list(RATES)), default="uniform", show_default=True
)
_trace = click.option("--trace", type=FILE, help="Times of arrival, for --arrivals trace (JSON).")


@click.group(cls=one_line_errors(HarmonyError))
@click.version_option(package_name="decima-scheduler")
def main() -> None:
    """Harmony: learn to place distributed training jobs under interference."""
    # numba takes a second to load, which the help need not wait for.
    from spark_sim.compiled.progress import announce

    announce()


@main.command()
@click.option("--out", required=True, type=FOLDER, help="Run folder.")
@click.option("--resume", is_flag=True, help="Go on with the run in that folder.")
@click.option("--what", type=click.Choice(["policy", "recipe", "reward"]), default="policy")
@_servers
@click.option("--seed", default=0, show_default=True)
@click.option("--set", "changes", multiple=True, metavar="KEY=VALUE", help="Change one setting.")
@click.option("--initial", type=FILE, help="A policy whose weights to begin with.")
@click.option("--reward", type=FILE, help="A reward model to train on, with world = model.")
@click.option("--minutes", type=MINUTES, help="Stop after so long.")
def train(
    out: Path,
    resume: bool,
    what: str,
    servers: str,
    seed: int,
    changes: tuple[str, ...],
    initial: Path | None,
    reward: Path | None,
    minutes: float | None,
) -> None:
    """Train a policy, one by the paper's recipe, or a reward model.

    Ctrl-C, SIGTERM and --minutes stop after the current iteration, and give it up if it has not
    ended five seconds later; `--resume` goes on to the same result as if it had never stopped.

    Example: harmony train --out runs/harmony
    """
    # torch takes a second to load, which other commands need not wait for.
    from decima.rl.run_folder import RunFolder
    from harmony.reward_config import RewardConfig
    from harmony.session import new_run
    from harmony.training_config import TrainConfig, recipe

    if resume:
        refuse_beside_resume("out", "minutes")
        _run(RunFolder.open(out), minutes)
        return
    first: TrainConfig | RewardConfig = recipe() if what == "recipe" else TrainConfig()
    if what == "reward":
        first = RewardConfig()
    table = replace(first, cluster=CONFIGS[servers], seed=seed).to_json()
    for change in changes:
        change_setting(table, change, HarmonyError)
    config = build(type(first), table, HarmonyError)
    _warned(config.cluster)
    _run(new_run(out, config, initial, reward), minutes)


@main.command()
@click.option("--out", required=True, type=FOLDER, help="A folder for the run folders.")
@click.option("--minutes", type=MINUTES, help="Of each training.")
@click.option("--only", multiple=True, help="Name of a training, as policy-6-0.")
def study(out: Path, minutes: float | None, only: tuple[str, ...]) -> None:
    """Train all models of the figures, one after another; goes on where it was stopped.

    Example: harmony study --out runs/harmony --only policy-6-0
    """
    from harmony.study import trainings

    train_named(trainings(), only, lambda one: _run(one.open(out), minutes), HarmonyError)


@main.command()
@click.argument("runs", type=OLD_FOLDER)
@click.option("--out", required=True, type=FOLDER, help="Folder of models.")
def gather(runs: Path, out: Path) -> None:
    """Copy the models of a study, for `reproduce --models`."""
    from harmony.study import gather as gather_models

    found = gather_models(runs, out)
    click.echo(f"{len(found)} models: {', '.join(found)}")


@main.command()
@click.option("--out", required=True, type=FOLDER, help="Folder for JSON, SVG and PNG.")
@click.option("--only", multiple=True, type=click.Choice(FIGURES), help="Default: all.")
@click.option("--sequences", default=100, show_default=True, type=click.IntRange(min=2))
@click.option("--models", type=OLD_FOLDER, help="Models other than those in the package.")
def reproduce(out: Path, only: tuple[str, ...], sequences: int, models: Path | None) -> None:
    """Measure and draw figures 10 and 12 to 15 and table II, on unseen sequences.

    Example: harmony reproduce --out figures
    """
    from harmony.figures import FIGURES as MEASURED
    from harmony.figures import Bench
    from harmony.plots import draw
    from harmony.study import Models

    bench = Bench(Models(models), sequences)

    def measure(name: str) -> dict[str, Any]:
        return {"sequences": sequences, **MEASURED[name](bench)}

    write_figures(only or FIGURES, measure, draw, out, HarmonyError)


@main.command()
@click.argument("models", nargs=-1, type=FILE)
@_servers
@_arrivals
@_trace
@click.option("--sequences", default=100, show_default=True, type=click.IntRange(min=2))
@click.option("--seed", default=0, show_default=True)
def evaluate(
    models: tuple[Path, ...],
    servers: str,
    arrivals: Any,
    trace: Path | None,
    sequences: int,
    seed: int,
) -> None:
    """Compare models, and the heuristics, on unseen sequences.

    Example: harmony evaluate --arrivals poisson runs/harmony/model.safetensors
    """
    from decima.rl.tables import print_rows
    from harmony.comparison import compare

    rows = compare(_cluster(servers, arrivals, trace), models, sequences, seed)
    print_rows(next(rows), rows)


@main.command()
@click.option("-o", "--output", required=True, type=click.Path(dir_okay=False, path_type=Path))
@_servers
@_arrivals
@_trace
@click.option("--interval", default=10, show_default=True, type=click.IntRange(min=0))
@click.option("--seed", default=0, show_default=True)
@click.option("--model", type=FILE)
def show(
    output: Path,
    servers: str,
    arrivals: Any,
    trace: Path | None,
    interval: int,
    seed: int,
    model: Path | None,
) -> None:
    """Draw who is where in a cluster at an interval, under Tiresias or a model (PNG).

    Example: harmony show -o cluster.png
    """
    from harmony.comparison import picture

    check_picture(output)
    picture(_cluster(servers, arrivals, trace), model, seed, interval, output)


def _cluster(servers: str, arrivals: Any, trace: Path | None) -> Config:
    config = CONFIGS[servers].arriving(arrivals)
    return _warned(config if trace is None else replace(config, arrivals_file=str(trace)))


def _warned(config: Config) -> Config:
    """Return the configuration after warning on stderr if its trace is doubtful."""
    if (line := equal_arrivals(config)) is not None:
        click.echo(f"warning: {line}", err=True)
    return config


def _run(opened: Any, minutes: float | None) -> Any:
    """Train in a run folder, print how it ended, and return the reason."""
    from harmony.references import references
    from harmony.session import MODEL, run_training

    return run_and_tell(opened, minutes, run_training, MODEL, references)


if __name__ == "__main__":
    main()
