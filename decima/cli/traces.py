"""`decima traces`: list, show, import, check and draw traces."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from decima.cli.console import progress_bar, say, stdout
from decima.cli.errors import OneLineErrors
from decima.cli.logs import PLACE, logs_of, selection_options
from decima.cli.options import GROUP_BY, TRACE_OUTPUT, output_option
from decima.errors import ConfigError
from decima.rl.option_types import (
    FOLDER,
    INPUT,
    INPUT_TREE,
    NAME_OR_FILE,
    Number,
    OutputFile,
    Whole,
)
from spark_sim.cluster import MAX_EXECUTORS
from traces import (
    Job,
    Trace,
    list_builtin,
    load_trace,
    read_alibaba,
    read_csv,
    read_decima_sim,
    read_json,
    read_wfcommons,
    write_trace,
)
from traces.catalog import write_sample_log
from traces.dataset import check_dataset_output, write_dataset
from traces.graph import depth, summary
from traces.numbers import MS_PER_S
from traces.parquet import check_output
from traces.spark_log import GroupBy, read_spark_logs
from traces.spark_log.names import shared_words
from traces.spark_log.reader import HowToRead

_ABOVE_ZERO = Number(0.0, 1e12, above=True)


@click.group(cls=OneLineErrors)
def traces() -> None:
    """Show traces and import them from other formats."""


@traces.command("list")
def list_command() -> None:
    """List the built-in traces."""
    table = Table("name", "description", box=None, header_style="bold")
    for name, words in list_builtin().items():
        table.add_row(name, words)
    _print(table)


@traces.command()
@click.argument("trace", type=NAME_OR_FILE)
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
def info(trace: str, as_json: bool) -> None:
    """Key figures of TRACE: a built-in name, a trace file, a .csv, a .json."""
    figures = summary(load_trace(trace))
    if as_json:
        click.echo(json.dumps(figures, indent=2))
    else:
        _print_figures(figures)


@traces.command()
@click.argument("file", type=INPUT_TREE)
def validate(file: Path) -> None:
    """Read FILE, check every rule, and print one line of key figures."""
    figures = summary(load_trace(file))
    say(
        f"{file}: valid, {figures['jobs']:,} jobs, {figures['stages']:,} stages, "
        f"{figures['tasks']:,} tasks, {figures['work_executor_s']:,.1f} executor-seconds"
    )


@traces.command()
@click.argument("trace", type=NAME_OR_FILE)
@click.argument("job", required=False)
@output_option("Draw JOB to this .svg or .png instead of printing a table.", required=False)
def show(trace: str, job: str | None, output: Path | None) -> None:
    """Show the stages of JOB in TRACE as a table, or draw its graph; without JOB, list the jobs."""
    if job is None and output is not None:
        raise click.UsageError("--output draws one job: name it after the trace")
    loaded = load_trace(trace)
    if job is None:
        _print_jobs(loaded)
        return
    chosen = loaded.job(job)
    if output is None:
        _print_job(chosen)
        return
    from traces.draw import draw_job  # matplotlib takes 0.3 s to import

    draw_job(chosen, output)
    say(f"wrote {output}")


@traces.command("sample-logs")
@click.argument("folder", type=FOLDER)
def sample_logs(folder: Path) -> None:
    """Write a small Spark event log into FOLDER, to try other commands with.

    Four small queries, one after the other, as Spark 4.3 recorded them on two slots.
    """
    path = write_sample_log(folder)
    say(f"wrote {path}")


@traces.group("import")
def import_group() -> None:
    """Convert another format to a trace file."""


@import_group.command("spark")
@click.argument("paths", nargs=-1, required=True, type=NAME_OR_FILE)
@selection_options
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
    check=lambda path: (check_output if path.suffix else check_dataset_output)(path),
)
def import_spark(
    paths: tuple[str, ...],
    applications: tuple[str, ...],
    since: timedelta | None,
    group_by: str,
    executors: int | None,
    samples: int | None,
    cluster: str | None,
    archive: Path | None,
    output: Path,
) -> None:
    """Import Spark event logs: files, rolled logs, zip archives, folders of them.

    PATHS may be addresses, too: a History Server (http://HOST:18080), s3://, hdfs:// or gs://.
    Plain, zstd, lz4, snappy and gzip logs, finished, in progress or cut short. Lines that cannot be
    read are counted and named; the rest is imported.
    """
    how = HowToRead(GroupBy(group_by), executors, samples)
    if cluster is not None:
        if applications or since is not None:
            raise click.UsageError("--application and --since go without --cluster")
        # Only a cluster needs pyspark.
        from decima.rl.parallel.session import open_session
        from decima.spark.cluster_logs import read_logs_on_cluster

        name = f"decima traces import spark: {output.name}"
        context = open_session(cluster, name=name, archive=archive)
        try:
            with progress_bar("reading event logs") as (bar, task):
                trace, imported = read_logs_on_cluster(
                    context,
                    paths,
                    how=how,
                    name=output.stem,
                    progress=lambda done, total: bar.update(task, completed=done, total=total),
                )
        finally:
            context.stop()
    elif archive is not None:
        raise ConfigError("--cluster-archive is for executors: it goes with --cluster")
    else:
        context = click.get_current_context()
        (argument,) = (param for param in context.command.params if param.name == "paths")
        places = tuple(PLACE.convert(path, argument, context) for path in paths)
        trace, imported = read_spark_logs(
            logs_of(places, applications, since).fetch(),
            group_by=how.group_by,
            executors=executors,
            samples=samples,
            name=output.stem,
        )
    if output.suffix:
        write_trace(trace, output)
    else:
        write_dataset(trace, output)
    for line in imported.lines():
        say(line)
    shared = shared_words(trace)
    if shared is not None:
        say(f"names: {shared}")
    say(f"wrote {output}")


@import_group.command("decima-sim")
@click.argument("folder", type=INPUT_TREE)
@TRACE_OUTPUT
def import_decima_sim(folder: Path, output: Path) -> None:
    """Import decima-sim's TPC-H FOLDER (all sizes, or one)."""
    save_imported(read_decima_sim(folder), output)


@import_group.command("alibaba")
@click.argument("file", type=INPUT)
@click.option(
    "--limit",
    type=Whole(1),
    help="Take only the first jobs of the file, this many. All of it is read even so: the rows of "
    "a job may lie anywhere.",
)
@click.option("--machine-memory-mb", type=_ABOVE_ZERO, help="What 100 in plan_mem stands for.")
@click.option(
    "--instance-durations",
    "instances",
    type=INPUT,
    help="Alibaba's batch_instance.csv, or a CSV of job, task, mean seconds; plain or .gz.",
)
@click.option(
    "--most-task-s", type=_ABOVE_ZERO, help="Leave out jobs with a longer task, in seconds."
)
@click.option(
    "--most-work-s", type=_ABOVE_ZERO, help="Leave out jobs with more work, in task seconds."
)
@click.option("--raw-starts", is_flag=True, help="Count waiting for parents as run time.")
@TRACE_OUTPUT
def import_alibaba(
    file: Path, machine_memory_mb: float | None, raw_starts: bool, output: Path, **others: Any
) -> None:
    """Import Alibaba's batch_task.csv (2018), plain or .gz."""
    trace = read_alibaba(
        file, machine_memory_mb=machine_memory_mb, registered_starts=not raw_starts, **others
    )
    save_imported(trace, output)


@import_group.command("csv")
@click.argument("files", nargs=-1, required=True, type=INPUT)
@TRACE_OUTPUT
def import_csv(files: tuple[Path, ...], output: Path) -> None:
    """Import CSV files written by hand (docs/trace-format.md)."""
    save_imported(_merged(files, read_csv, output), output)


@import_group.command("json")
@click.argument("files", nargs=-1, required=True, type=INPUT)
@TRACE_OUTPUT
def import_json(files: tuple[Path, ...], output: Path) -> None:
    """Import JSON files written by hand (docs/trace-format.md)."""
    save_imported(_merged(files, read_json, output), output)


@import_group.command("wfcommons")
@click.argument("files", nargs=-1, required=True, type=INPUT)
@click.option("--group", is_flag=True, help="Merge interchangeable tasks into one stage.")
@TRACE_OUTPUT
def import_wfcommons(files: tuple[Path, ...], group: bool, output: Path) -> None:
    """Import WfCommons instances (WfFormat 1.5, 1.6, or Pegasus' DAX), one job for each file."""
    save_imported(read_wfcommons(files, group=group), output)


def save_imported(trace: Trace, output: Path) -> None:
    """Write the imported `trace`; print its figures and what the importer left out."""
    write_trace(trace, output)
    _print_figures(summary(trace))
    say(f"wrote {output}")


def _merged(files: Sequence[Path], read: Callable[[Path], Trace], output: Path) -> Trace:
    if len(files) == 1:
        return read(files[0])
    parts = [read(file) for file in files]
    metadata = {
        "format": parts[0].metadata["format"],
        "source": [part.metadata["source"] for part in parts],
    }
    return Trace(output.stem, tuple(job for part in parts for job in part.jobs), metadata)


def _print_figures(figures: Mapping[str, Any]) -> None:
    table = Table(title=figures["name"], box=None, show_header=False, title_justify="left")
    for key in ("jobs", "stages", "tasks", "edges"):
        table.add_row(key, f"{figures[key]:,}")
    table.add_row("work", f"{figures['work_executor_s']:,.1f} executor-seconds")
    table.add_row("depth", f"up to {figures['depth_max']} stages")
    for key in ("stages_per_job", "tasks_per_job"):
        spread = figures[key]
        table.add_row(
            key.replace("_", " "),
            f"{spread['min']:,} to {spread['max']:,}, median {spread['median']:,.6g}, "
            f"mean {spread['mean']:,.1f}",
        )
    table.add_row("executor levels", ", ".join(map(str, figures["executor_levels"])))
    table.add_row("recorded arrivals", f"{figures['jobs_with_arrival']:,} jobs")
    if figures["jobs_with_deadline"] > 0:
        table.add_row("deadlines", f"{figures['jobs_with_deadline']:,} jobs")
    if figures["job_weights"] != [1.0, 1.0]:
        table.add_row("weights", "{:,g} to {:,g}".format(*figures["job_weights"]))
    for key, value in figures["metadata"].items():
        first, *others = _metadata_rows(value)
        table.add_row(key.replace("_", " "), first)
        for words in others:
            table.add_row("", words)
    _print(table)


def _metadata_rows(value: Any) -> list[str]:
    """Format a fact: a row for each reason of a count, one row for anything else."""
    if isinstance(value, Mapping) and any(isinstance(entry, Mapping) for entry in value.values()):
        return [f"{len(value):,} entries (all of them with --json)"]
    if isinstance(value, Mapping):
        return [f"{words}: {number}" for words, number in value.items()] or ["nothing"]
    if isinstance(value, list):
        shown = ", ".join(map(str, value[:8]))
        return [shown if len(value) <= 8 else f"{shown}, ... ({len(value)} in all)"]
    return [str(value)]


def _print_jobs(trace: Trace) -> None:
    table = Table(box=None, header_style="bold")
    table.add_column("job", no_wrap=True, overflow="fold")
    for column in ("stages", "tasks", "work executor-s"):
        table.add_column(column, justify="right")
    for job in trace.jobs:
        table.add_row(
            job.name, f"{len(job.stages):,}", f"{job.num_tasks:,}", f"{job.work_ms / MS_PER_S:,.1f}"
        )
    _print(table)


def _print_job(job: Job) -> None:
    facts = [f"{job.num_tasks:,} tasks", f"depth {depth(job)}"]
    facts.append(f"work {job.work_ms / MS_PER_S:,.1f} executor-seconds")
    if job.arrival_ms is not None:
        facts.append(f"arrives at {job.arrival_ms / MS_PER_S:,.1f} s")
    if job.weight != 1:
        facts.append(f"weight {job.weight:,g}")
    if job.deadline_ms is not None:
        facts.append(f"due after {job.deadline_ms / MS_PER_S:,.1f} s")
    table = Table(
        title=f"{job.name}: {', '.join(facts)}",
        box=None,
        header_style="bold",
        title_justify="left",
    )
    table.add_column("stage")
    for column in ("tasks", "mean task s", "work executor-s", "to the end s"):
        table.add_column(column, justify="right")
    demands = {
        name: heading
        for name, heading in (("memory_mb", "memory MB"), ("cpu", "cores"))
        if any(getattr(stage, name) is not None for stage in job.stages)
    }
    if any(stage.slots > 1 or stage.barrier for stage in job.stages):
        demands |= {"slots": "slots a task", "barrier": "barrier"}
    for heading in demands.values():
        table.add_column(heading, justify="right")
    table.add_column("parents")
    for stage, remaining_ms in zip(job.stages, job.critical_path_ms, strict=True):
        needs = [getattr(stage, name) for name in demands]
        table.add_row(
            stage.name,
            f"{stage.num_tasks:,}",
            f"{stage.mean_ms / MS_PER_S:,.3f}",
            f"{stage.work_ms / MS_PER_S:,.1f}",
            f"{remaining_ms / MS_PER_S:,.1f}",
            *("" if need is None else f"{need:,g}" for need in needs),
            ", ".join(job.stages[parent].name for parent in stage.parents),
        )
    _print(table)


def _print(table: Table) -> None:
    # Names come from files: they are shown as they are, never read as markup.
    stdout(markup=False).print(table)
