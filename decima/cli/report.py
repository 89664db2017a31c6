"""`decima report`: results as an HTML page."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

import click

from decima.cli.console import say
from decima.cli.options import (
    check_page,
    command_line,
    output_option,
    write_report,
)
from decima.evaluation.timeline import read_timeline
from decima.rl.option_types import FOLDER, INPUT, InputPath
from traces import Trace, TraceError, load_trace
from traces.files.errors import FileError

if TYPE_CHECKING:
    from decima.report import Section


@click.command()
@click.argument("results", nargs=-1, required=True, type=InputPath(folders=True, guarded=False))
@click.option("--timeline", type=INPUT, help="Tasks of the first of the results (.parquet, .csv).")
@click.option("--title", help="Title of the page [default: by what it holds].")
@click.option(
    "--figures",
    type=FOLDER,
    help="Folder for all figures of the page, as SVG and PNG.",
)
@output_option("HTML file to write.", required=False, check=check_page)
def report(
    results: tuple[Path, ...],
    timeline: Path | None,
    title: str | None,
    figures: Path | None,
    output: Path | None,
) -> None:
    """Make one HTML file of RESULTS: files of `decima evaluate --json`, run folders of training.

    The page opens from disk and loads nothing from the network. Each of the RESULTS becomes a
    section. Several evaluations are also compared over all of them, and several runs by their
    curves and by the settings in which they differ.
    """
    from decima.report import Timelines, comparison_sections, read_results
    from decima.report.training import runs_section, training_section

    if output is None and figures is None:
        raise click.UsageError("nothing to write: give --output FILE or --figures FOLDER")
    evaluations = [read_results(path) for path in results if not path.is_dir()]
    if not evaluations and timeline is not None:
        raise click.UsageError("--timeline belongs to an evaluation, and there is none")
    sections: list[Section] = []
    if evaluations:
        tasks: Timelines | None = None
        if timeline is not None:
            trace: Trace | None = None
            with contextlib.suppress(TraceError, FileError):  # it may lie elsewhere
                trace = load_trace(evaluations[0].config.trace)
            tasks = Timelines(read_timeline(timeline), trace)
        sections += comparison_sections(evaluations, tasks)
    folders = [path for path in results if path.is_dir()]
    if len(folders) > 1:
        sections.append(runs_section(folders))
    sections += [training_section(path, number) for number, path in enumerate(folders)]
    if output is not None:
        if title is None and not evaluations:
            title = sections[0].heading if len(sections) == 1 else "Training runs"
        write_report(output, sections, title)
        say(f"wrote {output}")
    if figures is not None:
        # matplotlib takes a second to load.
        from decima.report.figures import write_figures

        figures.mkdir(parents=True, exist_ok=True)
        write_figures(figures, sections, command_line())
        say(f"wrote {figures}")
