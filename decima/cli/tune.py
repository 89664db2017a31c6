"""`decima tune`: fit a heuristic's parameters to a workload and save them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from decima.cli.console import announce_compilation, progress_bar, stdout
from decima.cli.options import build_config, check_folder, workload_options
from decima.policies import HEURISTICS
from decima.tuning import tune as search
from decima.tuning import write_tuned

_TUNABLE = ", ".join(name for name, spec in HEURISTICS.items() if spec.search)


@click.command()
@click.option("--policy", required=True, help=f"One of {_TUNABLE}.")
@workload_options
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="JSON file to write; `decima evaluate --tuned FILE` reads it.",
)
def tune(policy: str, output: Path, **options: Any) -> None:
    """Fit a heuristic to a workload.

    Tries the listed values of each parameter in turn on training sequences, which no evaluation
    uses, and saves the best.
    """
    config = build_config(options, (policy,))
    check_folder(output)
    announce_compilation()
    with progress_bar("trials") as (bar, task):

        def show(trials: int, parameters: Mapping[str, float], best_s: float) -> None:
            label = f"best {best_s:.2f} s at {_words(parameters)}"
            bar.update(task, completed=trials, description=label)

        tuned = search(policy, config, progress=show)
    write_tuned(tuned, output)
    stdout().print(
        f"{policy}: {_words(tuned.parameters)}; average JCT {tuned.avg_jct_s:.2f} s in training "
        f"({tuned.default_avg_jct_s:.2f} s with the shipped parameters), {tuned.trials} trials"
    )


def _words(parameters: Mapping[str, float]) -> str:
    return ", ".join(f"{label} {value:g}" for label, value in parameters.items())
