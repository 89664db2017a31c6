"""`decima probe`: what the graph encoder can express, checked by supervised learning."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from rich.table import Table

from decima.agent.probe.config import CLOSE, ProbeConfig, StudyConfig
from decima.cli.console import progress_bar, stdout
from spark_sim.compiled.progress import announce

if TYPE_CHECKING:
    from decima.agent.probe.study import Study


@click.group()
def probe() -> None:
    """Check what the graph encoder can express."""


@probe.command("critical-path")
@click.option(
    "--steps",
    default=ProbeConfig().steps,
    show_default=True,
    type=click.IntRange(min=1),
    help="Gradient steps for each of the two networks.",
)
@click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0))
@click.option("--trace", default="tpch", show_default=True, help="Name or file to test on.")
def critical_path(steps: int, seed: int, trace: str) -> None:
    """Learn to name the runnable stage with the longest critical path.

    Trains the encoder on random DAGs, with two-level sums and with the one-level ablation, and
    tests both on larger random DAGs and on the jobs of a trace. About two minutes.
    """
    # torch and torch-geometric take seconds to import; the other commands do without.
    from decima.agent.probe.study import run_study

    config = StudyConfig(ProbeConfig(steps=steps), seed=seed, trace=trace)
    announce()
    with progress_bar("starting") as (bar, task):

        def show(label: str, done: int, total: int) -> None:
            bar.update(task, description=label, completed=done, total=total)

        study = run_study(config, show)
    stdout().print(_table(study))


def _table(study: Study) -> Table:
    """One line for each test set and way to name a stage."""
    table = Table(title="naming the runnable stage with the longest critical path")
    table.add_column("tested on")
    table.add_column("network")
    for heading in ("right", f"within {CLOSE:.0%}", "error of the length"):
        table.add_column(heading, justify="right")
    for index, test in enumerate(study.tests):
        table.add_row(test.title, "guessing", f"{test.guessing:.1%}", "", "")
        table.add_row("", "most work", f"{test.largest_work:.1%}", "", "")
        for name, grades in study.grades.items():
            found = grades[index]
            table.add_row(
                "",
                name,
                f"{found.accuracy:.1%}",
                f"{found.close:.1%}",
                f"{found.relative_error:.1%}",
                end_section=name == list(study.grades)[-1],
            )
    return table
