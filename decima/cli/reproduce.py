"""`decima reproduce`: measure and draw the figures of the Decima paper."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from decima.reproduce.paper import PAPER
from decima.rl.option_types import FOLDER, SEED


@click.command()
@click.option(
    "--out", required=True, type=FOLDER, help="Folder for JSON, SVG, PNG, trainings and the page."
)
@click.option("--only", multiple=True, type=click.Choice(list(PAPER)), help="Default: all.")
@click.option("--quick", is_flag=True, help="Fewer sequences and shorter trainings: five minutes.")
@click.option("--seed", type=SEED, default=0, show_default=True, help="Of sequences and trainings.")
@click.option("--force", is_flag=True, help="Measure again what the folder has.")
def reproduce(out: Path, only: tuple[str, ...], quick: bool, seed: int, force: bool) -> None:
    """Measure and draw the figures of the Decima paper (SIGCOMM 2019).

    Each figure becomes NAME.json, NAME.svg and NAME.png; index.html has all of them, with the
    published values beside those measured here. Networks that a figure needs are trained in
    trainings/. All of it takes up to an hour of one core. Figures that are there are kept, and
    trainings go on where they were stopped.
    """
    # matplotlib and torch take seconds to load, which `--help` need not wait for.
    from decima.reproduce.bench import SCALES, Bench
    from decima.reproduce.figures import FIGURES
    from decima.reproduce.page import write_overview
    from decima.rl.study.figures import Measurement, to_measure, write_figures
    from spark_sim.compiled.progress import announce

    scale = "quick" if quick else "full"
    bench = Bench(SCALES[scale], seed, out / "trainings" / f"{scale}-{seed}")

    def measure(name: str) -> dict[str, Any]:
        begun_s = time.process_time()
        content = FIGURES[name][0](bench)
        return {**content, "cpu_s": round(time.process_time() - begun_s, 1)}

    measurement = Measurement(
        {name: figure.cpu_s[scale] for name, figure in PAPER.items()},
        {"scale": scale, "seed": seed},
        measure,
        {name: draw for name, (_, draw) in FIGURES.items()},
    )
    names = list(only or PAPER)
    missing = names if force else to_measure(names, measurement, out)
    announce()
    write_figures(missing, measurement, out)
    click.echo(write_overview(out, measurement.settings))
