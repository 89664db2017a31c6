"""`python -m benchmarks.record_tpch`: TPC-H queries, recorded on real Spark as a trace."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from benchmarks.record_tpch.plan import QUERIES, RecordingPlan, Variant
from benchmarks.record_tpch.recording import DEFAULT_SAMPLES, read_recording, record_tpch
from decima.cli.options import config_options, output_option
from traces.errors import TraceError
from traces.graph import summary
from traces.parquet import check_output, write_trace

_PLAN = RecordingPlan()
_FOLDER = click.Path(file_okay=False, path_type=Path)


def _numbers(kind: type[int] | type[float]) -> Callable[..., tuple[float, ...] | None]:
    """Return the callback of an option that takes numbers with commas between them."""

    def parse(_: click.Context, __: click.Parameter, text: str | None) -> tuple[float, ...] | None:
        try:
            return None if text is None else tuple(kind(part) for part in text.split(","))
        except ValueError:
            words = "whole numbers" if kind is int else "numbers"
            raise click.BadParameter(f"{text!r}: {words} with commas between them") from None

    return parse


@click.command()
@output_option(
    "Trace file to write (.parquet).",
    required=False,
    default=Path("tpch.parquet"),
    show_default=True,
)
@click.option(
    "--scale-factors",
    callback=_numbers(float),
    default=",".join(f"{factor:g}" for factor in _PLAN.scale_factors),
    show_default=True,
    help="TPC-H sizes; 1 is 0.4 GB of Parquet.",
)
@click.option("--queries", callback=_numbers(int), help="Numbers such as 1,6,21 (default: all 22).")
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
def main(
    output: Path,
    samples: int,
    no_model: bool,
    keep_logs: Path | None,
    from_logs: Path | None,
    queries: tuple[int, ...] | None,
    variant: str,
    **plan: Any,
) -> None:
    """Record the 22 TPC-H queries on real Spark as a trace (needs PySpark, Java, tpchgen-cli).

    The defaults are those of the built-in trace tpch and take about half an hour on two cores.
    """
    how: dict[str, Any] = {"name": output.stem, "samples": samples, "model": not no_model}
    try:
        check_output(output)
        if from_logs is not None:
            trace = read_recording(from_logs, **how)
        else:
            trace = record_tpch(
                RecordingPlan(queries=queries or QUERIES, variant=Variant(variant), **plan),
                keep_logs=keep_logs,
                progress=lambda line: click.echo(line, err=True),
                **how,
            )
        write_trace(trace, output)
    except TraceError as error:
        raise click.ClickException(str(error)) from error
    figures = summary(trace)
    click.echo(
        f"{figures['jobs']:,} jobs, {figures['stages']:,} stages, {figures['tasks']:,} tasks, "
        f"{figures['work_executor_s']:,.1f} executor-seconds measured"
    )
    click.echo(f"wrote {output}")


if __name__ == "__main__":
    main()
