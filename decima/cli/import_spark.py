"""`decima traces import spark`: event logs of Spark to a trace file, here or on a cluster."""

from __future__ import annotations

from pathlib import Path

import click

from decima.cli.console import progress_bar, say
from decima.cli.options import GROUP_BY, output_option
from decima.errors import ConfigError
from decima.rl.option_types import INPUT, INPUT_TREE, NAME_OR_FILE, OutputFile, Whole
from spark_sim.cluster import MAX_EXECUTORS
from traces import Trace, write_trace
from traces.dataset import check_dataset_output, write_dataset
from traces.parquet import check_output
from traces.spark_log import GroupBy, ImportSummary, read_spark_logs
from traces.spark_log.names import shared_words
from traces.spark_log.reader import HowToRead


def _check(path: Path) -> None:
    (check_output if path.suffix else check_dataset_output)(path)


@click.command("spark")
@click.argument("paths", nargs=-1, required=True, type=NAME_OR_FILE)
@GROUP_BY
@click.option(
    "--executors",
    type=Whole(1, MAX_EXECUTORS),
    help="File all durations under this executor level (default: the slots each job used).",
)
@click.option(
    "--samples",
    type=Whole(1),
    help="Keep about this many durations of each stage, with the same mean (default: all).",
)
@click.option(
    "--cluster",
    metavar="URL",
    help="Read on this Spark cluster, a task for each log; PATHS may be hdfs://, s3a:// and "
    "other paths that its Spark reads.",
)
@click.option(
    "--cluster-archive",
    "archive",
    type=INPUT,
    help="Python and this package for the executors, by `decima cluster pack`.",
)
@output_option(
    "Trace file to write (.parquet); a name without suffix: a folder of such files.",
    type=OutputFile(folders=True),
    check=_check,
)
def import_spark(
    paths: tuple[str, ...],
    group_by: str,
    executors: int | None,
    samples: int | None,
    cluster: str | None,
    archive: Path | None,
    output: Path,
) -> None:
    """Import Spark event logs: files, rolled logs, zip archives, folders of them.

    Plain, zstd, lz4, snappy and gzip logs, finished, in progress or cut short. Lines that cannot be
    read are counted and named; the rest is imported.
    """
    how = HowToRead(GroupBy(group_by), executors, samples)
    if cluster is not None:
        trace, summary = _read_on_cluster(cluster, archive, paths, how, output.name)
    elif archive is not None:
        raise ConfigError("--cluster-archive is for executors: it goes with --cluster")
    else:
        # All paths exist on this machine; only a cluster reads others.
        context = click.get_current_context()
        (argument,) = (param for param in context.command.params if param.name == "paths")
        here = [INPUT_TREE.convert(path, argument, context) for path in paths]
        trace, summary = read_spark_logs(
            here, group_by=how.group_by, executors=executors, samples=samples, name=output.stem
        )
    if output.suffix:
        write_trace(trace, output)
    else:
        write_dataset(trace, output)
    for line in summary.lines():
        say(line)
    shared = shared_words(trace)
    if shared is not None:
        say(f"names: {shared}")
    say(f"wrote {output}")


def _read_on_cluster(
    master: str, archive: Path | None, paths: tuple[str, ...], how: HowToRead, name: str
) -> tuple[Trace, ImportSummary]:
    # Only a cluster needs pyspark.
    from decima.rl.parallel.session import open_session
    from decima.spark.cluster_logs import read_logs_on_cluster

    context = open_session(master, name=f"decima traces import spark: {name}", archive=archive)
    try:
        with progress_bar("reading event logs") as (bar, task):
            return read_logs_on_cluster(
                context,
                paths,
                how=how,
                name=Path(name).stem,
                progress=lambda done, total: bar.update(task, completed=done, total=total),
            )
    finally:
        context.stop()
