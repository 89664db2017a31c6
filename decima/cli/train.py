"""`decima train`: learn a policy, resumably, into a run folder."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from decima.cli.console import stdout
from decima.cli.options import OBJECTIVE_HELP, REPORT, write_report
from decima.cli.workers import (
    Where,
    open_cluster,
    open_machine,
    refuse_own_code,
    resumable,
    worker_options,
)
from decima.evaluation.notes import notes_of
from decima.objectives import objective_named, objective_title
from decima.policies import networks_of
from decima.policy_names import SHIPPED_MODEL
from decima.rl.command import refuse_beside_resume, set_option
from decima.rl.entry import INTERRUPTED
from decima.rl.option_types import FOLDER, INPUT, MINUTES, NAME_OR_FILE, POLICIES, SECONDS, Whole
from spark_sim import Protocol
from spark_sim.cluster import MAX_EXECUTORS
from spark_sim.compiled.progress import announce
from traces import load_trace

if TYPE_CHECKING:
    from decima.rl.loop import TrainingResult
    from decima.rl.run_folder import RunFolder
    from decima.training.config import TrainConfig


@click.command()
@click.option(
    "--config",
    "config_path",
    type=INPUT,
    help="TOML file of settings; the others have their defaults (docs/training.md).",
)
@click.option("--trace", type=NAME_OR_FILE, help="Name or file.  [default: tpch]")
@click.option("--executors", type=Whole(1, MAX_EXECUTORS), help="[default: 50]")
@click.option(
    "--protocol", help=f"{', '.join(setting.label for setting in Protocol)}.  [default: executors]"
)
@click.option(
    "--interarrival",
    "interarrival_s",
    type=SECONDS,
    multiple=True,
    help="Mean seconds between arrivals; may be repeated.  [default: loads of 0.7, 0.9 and 1.1, "
    "and a batch]",
)
@click.option("--objective", type=POLICIES, help=f"{OBJECTIVE_HELP}  [default: avg_jct]")
@set_option
@click.option(
    "--out",
    required=True,
    type=FOLDER,
    help="Run folder: settings, checkpoints, metrics, and at the end model.safetensors.",
)
@click.option("--resume", is_flag=True, help="Resume the run in this folder.")
@worker_options("Processes; with --cluster for gradients. Results do not depend on it.")
@REPORT
@click.option(
    "--minutes",
    type=MINUTES,
    help="Stop after this many minutes, without compilation and without runs before --resume.",
)
def train(
    config_path: Path | None,
    objective: str | None,
    changes: tuple[str, ...],
    out: Path,
    resume: bool,
    where: Where,
    minutes: float | None,
    page: Path | None,
    **workload: Any,
) -> None:
    """Train a policy: imitate the best heuristic of each setting, then evolve.

    The score is the objective (the average JCT, if no other is named) on held-out sequences against
    strict_fair, in percent, averaged over the settings: lower is better. Ctrl-C, SIGTERM and
    --minutes stop after the current iteration, or abandon it after five seconds. `--resume`
    continues to the same result as an uninterrupted run.
    """
    if resume:
        refuse_beside_resume(
            "out", "workers", "cluster", "cluster_archive", "page", "minutes", "objective"
        )
    given = {key: value for key, value in workload.items() if value not in (None, ())}
    config = None if resume else _config(config_path, changes, given, objective)
    if objective is not None:
        refuse_own_code(where, objective)

    # torch takes a second to load, which a refused setting need not wait for.
    from decima.ahead import compile_ahead
    from decima.rl.loop import StopReason
    from decima.rl.progress import RichProgress
    from decima.rl.run_folder import RunFolder
    from decima.training.learner import Pools
    from decima.training.session import check_resumed, config_of, run_training

    notes: list[str] = []
    if config is not None:
        settings = config.workload.evaluations()
        loaded = {name: load_trace(name) for name in {setting.trace for setting in settings}}
        notes = [note for setting in settings for note in notes_of(setting, loaded[setting.trace])]
    with ExitStack() as stack:
        if config is None:
            folder = stack.enter_context(RunFolder.open(out))
            check_resumed(config_of(folder), objective)  # before processes start
        # A cluster plays, this machine differentiates.
        machine = stack.enter_context(open_machine(where))
        players = machine
        if where.cluster is not None:
            players = stack.enter_context(open_cluster(where, f"decima train {out.name}"))
        pools = Pools(players, machine)
        if config is not None:  # last, so that no mistake leaves a folder behind
            folder = stack.enter_context(RunFolder.create(out, config.to_json()))
        for note in dict.fromkeys(notes):
            stdout().print(note, soft_wrap=True, markup=False)
        announce()
        compile_ahead([SHIPPED_MODEL])
        with resumable(lambda: f"`decima train --out {out} --resume` continues the run"):
            result = run_training(
                folder,
                pools=pools,
                time_limit_s=None if minutes is None else minutes * 60,
                observers=(RichProgress(),),
                say=lambda line: click.echo(line, err=True),
            )
        _show(folder, result, page)
    if result.reason is StopReason.SIGNAL:
        click.get_current_context().exit(INTERRUPTED)


def _show(folder: RunFolder, result: TrainingResult, page: Path | None) -> None:
    from decima.report.training import training_section, training_title
    from decima.rl.progress import duration_text
    from decima.training.session import MODEL, curve, verdict

    state, out = result.state, folder.path
    stdout().print(
        f"{result.reason.value} after {state.next_iteration} iterations, "
        f"{duration_text(state.elapsed_s)} of training"
    )
    if state.best_iteration is None:
        stdout().print("no validation yet: the model is the newest")
    else:
        stdout().print(verdict(folder, state.best_iteration))
    for line in curve(folder.metrics(), objective_title(folder.config["objective"])):
        stdout().print(line, markup=False, highlight=False)
    if (out / MODEL).exists():
        stdout().print(f"model: {out / MODEL}")
    if page is not None:
        write_report(page, [training_section(out)], training_title(out))


def _config(
    path: Path | None, changes: tuple[str, ...], workload: dict[str, Any], objective: str | None
) -> TrainConfig:
    """Return the configuration of a new run; raise if its first model is missing."""
    from decima.training.config import read_config

    config = read_config(path, changes, workload, objective)
    objective_named(config.objective)
    if config.imitate.iterations > 0:
        networks_of(config.imitate.teachers)

    from decima.training.learner import first_network

    first_network(config, is_resumed=False)
    return config
