"""`decima traces record tpch`: TPC-H queries, recorded on real Spark as a trace."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from decima.cli.config_options import config_options
from decima.cli.options import output_option
from traces.errors import TraceError
from traces.parquet import check_output, write_trace
from traces.record_tpch.plan import RecordingPlan, Variant
from traces.record_tpch.recording import DEFAULT_SAMPLES, read_recording, record_tpch
from traces.trace import Trace

_PLAN = RecordingPlan()
_FOLDER = click.Path(file_okay=False, path_type=Path)


@click.command("tpch")
@output_option(
    "Trace file to write (.parquet).",
    required=False,
    default=Path("tpch.parquet"),
    show_default=True,
    check=check_output,
)
@click.option(
    "--scale-factors",
    default=",".join(f"{factor:g}" for factor in _PLAN.scale_factors),
    show_default=True,
    help="TPC-H sizes; 1 is 0.4 GB of Parquet.",
)
@click.option("--queries", help="Numbers such as 1,6,21 (default: all 22).")
@click.option(
    "--variant",
    type=click.Choice([variant.value for variant in Variant]),
    default=_PLAN.variant.value,
    show_default=True,
    help="cluster: many tasks a stage, no broadcasts, not adaptive; defaults: Spark's own.",
)
@config_options(
    RecordingPlan,
    repetitions="Runs of each job; the one with the least work is stored.",
    time_limit_s="Seconds after which no further repetition begins.",
    cores="Spark's slots.",
    driver_memory="",
)
@click.option(
    "--samples",
    type=click.IntRange(min=1),
    default=DEFAULT_SAMPLES,
    show_default=True,
    help="About the most samples of a stage in the file.",
)
@click.option("--no-model", is_flag=True, help="Leave out the model of many executors.")
@click.option("--keep-logs", type=_FOLDER, help="New folder for the event log and the facts.")
@click.option("--from-logs", type=_FOLDER, help="Record nothing: read a folder of --keep-logs.")
def tpch(
    output: Path,
    scale_factors: str,
    queries: str | None,
    variant: str,
    samples: int,
    no_model: bool,
    keep_logs: Path | None,
    from_logs: Path | None,
    **others: Any,
) -> None:
    """Record the 22 TPC-H queries on real Spark as a trace (needs PySpark, Java, tpchgen-cli).

    The defaults are those of the built-in trace tpch and take about half an hour on two cores.
    """
    if from_logs is not None:
        trace = read_recording(from_logs, name=output.stem, samples=samples, model=not no_model)
    else:
        factors = tuple(_numbers("--scale-factors", scale_factors))
        if queries is not None:
            others["queries"] = tuple(
                _whole("--queries", one) for one in _numbers("--queries", queries)
            )
        trace = record_tpch(
            RecordingPlan(factors, variant=Variant(variant), **others),
            name=output.stem,
            samples=samples,
            model=not no_model,
            keep_logs=keep_logs,
            progress=lambda line: click.echo(line, err=True),
        )
    write_trace(trace, output)
    click.echo(_words(trace))
    click.echo(f"wrote {output}")


def _numbers(option: str, text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise TraceError(f"{option} {text!r}: numbers with commas between them") from None


def _whole(option: str, number: float) -> int:
    if not number.is_integer():
        raise TraceError(f"{option} {number:g}: not a whole number")
    return int(number)


def _words(trace: Trace) -> str:
    stages = sum(len(job.stages) for job in trace.jobs)
    tasks = sum(job.num_tasks for job in trace.jobs)
    work_s = sum(job.work_ms for job in trace.jobs) / 1e3
    return (
        f"{len(trace.jobs):,} jobs, {stages:,} stages, {tasks:,} tasks, "
        f"{work_s:,.1f} executor-seconds measured"
    )
