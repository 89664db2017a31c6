"""`decima traces import spark`: event logs of Spark to a trace file."""

from __future__ import annotations

from pathlib import Path

import click

from decima.cli.console import say
from decima.cli.options import GROUP_BY, TRACE_OUTPUT
from traces import write_trace
from traces.spark_log import GroupBy, read_spark_logs


@click.command("spark")
@click.argument("paths", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@GROUP_BY
@click.option(
    "--executors",
    type=click.IntRange(min=1),
    help="File all durations under this executor level (default: the slots each job used).",
)
@TRACE_OUTPUT
def import_spark(
    paths: tuple[Path, ...], group_by: str, executors: int | None, output: Path
) -> None:
    """Import Spark event logs: files, rolled logs, folders of either.

    Plain, zstd, lz4, snappy and gzip logs, finished, in progress or cut short. Lines that cannot be
    read are counted and named; the rest is kept.
    """
    trace, summary = read_spark_logs(
        paths, group_by=GroupBy(group_by), executors=executors, name=output.stem
    )
    write_trace(trace, output)
    for line in summary.lines():
        say(line)
    say(f"wrote {output}")
