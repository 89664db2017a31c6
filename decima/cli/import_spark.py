"""`decima traces import spark`: event logs of Spark to a trace file."""

from __future__ import annotations

from pathlib import Path

import click

from decima.cli.console import say
from traces import TraceError, write_trace
from traces.spark_log import GroupBy, read_spark_logs


@click.command("spark")
@click.argument("paths", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option(
    "--group-by",
    type=click.Choice([choice.value for choice in GroupBy]),
    default=GroupBy.SQL.value,
    show_default=True,
    help="What makes one job: a SQL execution (outside SQL a Spark job), a Spark job, a job group.",
)
@click.option(
    "--executors",
    type=click.IntRange(min=1),
    help="File all durations under this executor level (default: the slots each job used).",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    help="Trace file to write (.parquet).",
)
def import_spark(
    paths: tuple[Path, ...], group_by: str, executors: int | None, output: Path
) -> None:
    """Import Spark event logs: files, rolled logs, folders of either.

    Plain, zstd, lz4, snappy and gzip logs, finished, in progress or cut short. Lines that cannot be
    read are counted and named; the rest is kept.
    """
    if output.suffix.lower() != ".parquet":
        raise TraceError(f"{output}: a trace file ends in .parquet")
    trace, summary = read_spark_logs(
        paths, group_by=GroupBy(group_by), executors=executors, name=output.stem
    )
    write_trace(trace, output)
    for line in summary.lines():
        say(line)
    say(f"wrote {output}")
