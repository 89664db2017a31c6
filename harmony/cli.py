"""The `harmony` command."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click

from decima.rl.command import OneLineErrors, set_option
from decima.rl.errors import StudyError
from decima.rl.option_types import INPUT, OUTPUT, Whole
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
from harmony.config import CONFIGS, RATES, Arrivals, Config, GpuType
from harmony.jobs import equal_arrivals
from traces.files.private import read_secret
from traces.files.settings import changed
from traces.files.tls import tls_of

FIGURES = {
    "figure10": 58,
    "figure11": 5,
    "figure12": 21,
    "figure13": 9,
    "figure14": 220,
    "figure15": 1,
    "table2": 11,
}
"""names, and about how many CPU seconds each takes on `COUNT` sequences"""
COUNT = 16
"""so many that two cores reproduce all figures in three minutes"""
_STUDY = """Train all models of the figures, one after another; goes on where it was stopped.

Example: harmony study --out runs/harmony --only policy-6-0
"""
_GATHER = "Copy the models of a study, for `reproduce --models`."
_REPRODUCE = """Measure and draw figures 10 to 15 and table II, on unseen sequences.

The more sequences, the narrower the intervals: 100 take six times as long.

Example: harmony reproduce --out figures
"""


def _cluster(
    servers: str,
    gpu: tuple[str, ...] = (),
    arrivals: Arrivals = "uniform",
    trace: Path | None = None,
    table: Path | None = None,
    jobs: Path | None = None,
) -> Config:
    """Return the configuration of these options; those that a command lacks change nothing."""
    config = CONFIGS[servers].arriving(arrivals)
    if gpu:
        config = replace(
            config, gpu_types=gpu, servers=sum(GpuType.parse(text).servers for text in gpu)
        )
    if trace is not None:
        config = replace(config, arrivals_file=str(trace))
    if table is not None:
        config = replace(config, table_file=str(table.resolve()))
    if jobs is not None:
        config = replace(config, jobs_file=str(jobs.resolve()))
    return _warned(config)


def _warned(config: Config) -> Config:
    """Return the configuration after warning on stderr if its trace is doubtful."""
    if (line := equal_arrivals(config)) is not None:
        click.echo(f"warning: {line}", err=True)
    return config


_OPTIONS = {
    "servers": click.option(
        "--servers", type=click.Choice(list(CONFIGS)), default="6", show_default=True
    ),
    "gpu": click.option(
        "--gpu",
        multiple=True,
        metavar="NAME:SERVERS:SPEED",
        help="A type of GPU, such as V100:3:2.",
    ),
    "arrivals": click.option(
        "--arrivals", type=click.Choice(list(RATES)), default="uniform", show_default=True
    ),
    "trace": click.option(
        "--trace", type=INPUT, help="Times of arrival, for --arrivals trace (JSON)."
    ),
    "table": click.option("--table", type=INPUT, help="Interference of one's own models (JSON)."),
    "jobs": click.option("--jobs", type=INPUT, help="Table of jobs, in place of drawn ones (CSV)."),
}
_config = partial(cluster_options, _cluster, _OPTIONS)


@click.group(cls=OneLineErrors)
@click.version_option(package_name="decima-scheduler")
def main() -> None:
    """Harmony: learn to place distributed training jobs under interference."""
    # numba takes a second to load, which the help need not wait for.
    from spark_sim.compiled.progress import announce

    announce()


@main.command()
@out_option
@resume_option
@click.option("--what", type=click.Choice(["policy", "recipe", "reward"]), default="policy")
@_config("servers", "gpu", "table", "jobs")
@seed_option
@set_option
@click.option("--initial", type=INPUT, help="A policy whose weights to begin with.")
@click.option("--reward", type=INPUT, help="A reward model to train on, with world = model.")
@minutes_option("Stop after so long.")
def train(
    out: Path,
    resume: bool,
    what: str,
    config: Config,
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
    from harmony.measured import measured
    from harmony.session import AnyConfig, new_run
    from harmony.training_config import RewardConfig, TrainConfig, recipe

    def begin() -> Any:
        makers: dict[str, Callable[[], AnyConfig]]
        makers = {"policy": TrainConfig, "recipe": recipe, "reward": RewardConfig}
        first = makers[what]()
        models, types = len(measured(config.table_file).models), len(config.gpu_table)
        size = replace(first.size, models=models, gpu_types=types)
        settings = replace(first, cluster=config, size=size, seed=seed).to_json()
        training = changed(type(first), settings, changes, StudyError)
        _warned(training.cluster)
        return new_run(out, training, initial, reward)

    train_in("harmony", out, resume, minutes, begin)


add_study_commands(
    main,
    "harmony",
    StudyWords(_STUDY, _GATHER, _REPRODUCE, FIGURES, "policy-6-0", "sequences", "sequences", COUNT),
)


@main.command()
@click.argument("models", nargs=-1, type=INPUT)
@_config(*_OPTIONS)
@inputs_option("sequences")
@seed_option
@set_option
def evaluate(
    models: tuple[Path, ...], config: Config, sequences: int, seed: int, changes: tuple[str, ...]
) -> None:
    """Compare models, and the heuristics, on unseen sequences; --set is for the cluster.

    Example: harmony evaluate --arrivals poisson runs/harmony/model.safetensors
    """
    from decima.rl.tables import print_rows
    from harmony.evaluation import compare

    config = changed(Config, config.to_json(), changes, StudyError)
    rows = compare(config, models, sequences, seed)
    print_rows(next(rows), rows)


@main.command()
@click.argument("models", nargs=-1, required=True, type=INPUT)
@_config(*_OPTIONS)
@click.option("--periods", default=10, show_default=True, type=Whole(1, 1_000_000))
@inputs_option("sequences", 16)
@seed_option
@set_option
@click.option("-o", "--output", type=OUTPUT)
def update(
    models: tuple[Path, ...],
    config: Config,
    periods: int,
    sequences: int,
    seed: int,
    changes: tuple[str, ...],
    output: Path | None,
) -> None:
    """Use policies for some periods, learn from the jobs after each, compare with no updates.

    A period has --sequences sequences; --set changes a setting of the updates or, as cluster.KEY,
    of the cluster.

    Example: harmony update policy.safetensors --arrivals trace -o updated.safetensors
    """
    from decima.rl.tables import print_rows
    from harmony.updating import rows_of, use

    rows = rows_of(use(models, config, periods, sequences, seed, changes, output))
    print_rows(next(rows), rows)


@main.command()
@output_option
@_config("servers", "arrivals", "trace")
@click.option("--interval", default=10, show_default=True, type=Whole(0, 1_000_000))
@seed_option
@click.option("--model", type=INPUT)
def show(output: Path, config: Config, interval: int, seed: int, model: Path | None) -> None:
    """Draw the tasks on each server at an interval, under Tiresias or a model (PNG).

    Example: harmony show -o cluster.png
    """
    from harmony.figures import picture

    check_picture(output)
    picture(config, model, seed, interval, output)


@main.command("import")
@click.argument("form", type=click.Choice(["alibaba", "helios", "philly"]))
@click.argument("trace", type=INPUT)
@output_option
@_config("servers", "gpu", "table")
@click.option("--machines", type=INPUT, help="Philly's cluster_machine_list: types of GPU.")
def import_trace(
    form: str, trace: Path, output: Path, config: Config, machines: Path | None
) -> None:
    """Write a public trace of a GPU cluster as a table of jobs, for --jobs.

    FORM is alibaba (pai_task_table.csv of 2020), helios (cluster_log.csv) or philly
    (cluster_job_log).

    Example: harmony import philly cluster_job_log -o jobs.csv
    """
    from harmony.jobs import write_import

    click.echo(write_import(form, trace, config, output, machines))


@main.command()
@click.argument("model", type=INPUT)
@click.option("--secret-file", type=INPUT, required=True, help="Mode 0600; comes with requests.")
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--port", default=8750, show_default=True, type=Whole(0, 65_535))
@click.option("--tls-certificate", type=INPUT, help="PEM file; needed beyond loopback.")
@click.option("--tls-key", type=INPUT, help="Its key, if not in the same file.")
def serve(
    model: Path,
    secret_file: Path,
    host: str,
    port: int,
    tls_certificate: Path | None,
    tls_key: Path | None,
) -> None:
    """Answer over HTTP where a policy places a job.

    Example: harmony serve harmony/data/policy-6-0.safetensors --secret-file secret
    """
    from harmony.serving import server_of

    tls = tls_of(host, tls_certificate, tls_key, StudyError)
    with server_of(model, read_secret(secret_file, StudyError), host, port, tls) as server:
        scheme = "http" if tls is None else "https"
        address = f"{scheme}://{host}:{server.server_port}/place"
        click.echo(f"serving {address}; Ctrl-C stops it", err=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
