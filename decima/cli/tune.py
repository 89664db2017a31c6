"""`decima tune`: fit a heuristic's parameters to a workload and save them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from decima.cli.console import progress_bar, stdout
from decima.cli.options import (
    OBJECTIVE,
    build_config,
    output_option,
    workload_options,
)
from decima.cli.workers import Where, open_pool, refuse_own_code, worker_options
from decima.evaluation.notes import notes_of
from decima.objectives import objective_named
from decima.registry import HEURISTICS
from decima.rl.option_types import Whole
from decima.training.tuning import HELD_BACK, REFERENCE, write_tuned
from decima.training.tuning import tune as search
from spark_sim.compiled.progress import announce
from traces import load_trace

_TUNABLE = ", ".join(name for name, spec in HEURISTICS.items() if spec.search)


@click.command()
@click.option("--policy", required=True, help=f"One of {_TUNABLE}.")
@workload_options
@OBJECTIVE
@click.option(
    "--held-back",
    type=Whole(1, 100_000),
    default=HELD_BACK,
    show_default=True,
    help="Held-out sequences, on which the result must beat the shipped parameters.",
)
@worker_options("Processes.")
@output_option("JSON file to write; `decima evaluate --tuned FILE` reads it.")
def tune(policy: str, held_back: int, where: Where, output: Path, **options: Any) -> None:
    """Fit a heuristic to a workload.

    Tries listed values of each parameter in turn on training sequences, which no evaluation uses.
    Saves the best if it also beats the shipped parameters on held-out sequences, else the shipped
    ones.
    """
    config = build_config(options, (policy,))
    refuse_own_code(where, config.objective)
    for note in notes_of(config, load_trace(config.trace)):  # refuse before the search
        stdout().print(note, soft_wrap=True, markup=False)
    announce()
    with open_pool(where, "decima tune") as pool, progress_bar("trials") as (bar, task):

        def show(trials: int, parameters: Mapping[str, float], ratio: float) -> None:
            label = f"best {ratio:.3f} of {REFERENCE}'s at {_words(policy, parameters)}"
            bar.update(task, completed=trials, description=label)

        tuned = search(policy, config, held_back=held_back, pool=pool, progress=show)
    write_tuned(tuned, output)
    title = objective_named(config.objective).title
    stdout().print(
        f"{policy}: {_words(policy, tuned.found)} is the best of {tuned.trials} on "
        f"{config.sequences} training sequences (seed {config.seed}): {title} "
        f"{tuned.ratio:.3f} of {REFERENCE}'s, {tuned.shipped_ratio:.3f} with the shipped ones",
        soft_wrap=True,
    )
    if tuned.found == tuned.shipped:
        stdout().print("Saved: the shipped parameters, which are the best found.")
        return
    shipped = f"the shipped parameters, {_words(policy, tuned.shipped)}"
    stdout().print(
        f"On {len(tuned.found_figures)} held-out sequences: {tuned.held_back.words('+.1f', ' %')} "
        f"against the shipped parameters. Saved: {'these' if tuned.is_better else shipped}.",
        soft_wrap=True,
    )


def _words(policy: str, parameters: Mapping[str, float]) -> str:
    """Describe the parameters that the search varies; a rule's fixed weights would fill pages."""
    return ", ".join(f"{label} {parameters[label]:g}" for label in HEURISTICS[policy].search)
