"""`decima report`: results as a page to look at."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import click

from decima.cli.options import check_folder
from decima.report import Results, Timelines, read_results, write_page
from files.errors import FileError
from traces import Trace, TraceError, load_trace

_INPUT = click.Path(dir_okay=False, path_type=Path)


@click.command()
@click.argument("results", nargs=-1, required=True, type=_INPUT)
@click.option(
    "--timeline", type=_INPUT, help="Tasks of the first of the results (.parquet or .csv)."
)
@click.option("--title", default="Comparison of schedulers", show_default=True)
@click.option(
    "--figures",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for the figures of the first of the results, as SVG and PNG.",
)
@click.option("-o", "--output", type=_INPUT, help="HTML file to write.")
def report(
    results: tuple[Path, ...],
    timeline: Path | None,
    title: str,
    figures: Path | None,
    output: Path | None,
) -> None:
    """Make one HTML file of the RESULTS that `decima evaluate --json` wrote.

    The file opens from disk and asks the network for nothing. Each of the RESULTS becomes a
    section; with several, the policies are compared over all of them, too.
    """
    if output is None and figures is None:
        raise click.UsageError("nothing to write: give --output FILE or --figures FOLDER")
    check_folder(output)
    found = [read_results(path) for path in results]
    timelines = None if timeline is None else read_timelines(timeline, found[0])
    if output is not None:
        write_page(output, found, timelines, title=title, command=command_line())
    if figures is not None:
        # matplotlib takes a second to load.
        from decima.report.figures import write_figures

        figures.mkdir(parents=True, exist_ok=True)
        write_figures(figures, found[0], command_line())


def read_timelines(path: Path, results: Results) -> Timelines:
    """The tasks in a file, and the jobs where their trace is at hand."""
    # pyarrow's CSV takes a moment to load.
    from decima.evaluation.timeline import read_timeline

    return Timelines(read_timeline(path), trace_of(results))


def trace_of(results: Results) -> Trace | None:
    """The trace that the results were made with; None where it is not at hand."""
    try:
        return load_trace(results.trace)
    except (TraceError, FileError):
        return None


def command_line() -> str:
    """What was typed."""
    return shlex.join(["decima", *sys.argv[1:]])
