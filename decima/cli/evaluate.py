"""`decima evaluate`: compare policies on the same arrival sequences."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from decima.cli.console import progress_bar, stdout
from decima.cli.options import (
    JSON,
    OBJECTIVE,
    REPORT,
    TUNED,
    build_config,
    check_models,
    notes_of,
    parse_names,
    read_all_tuned,
    workload_options,
    write_report,
)
from decima.cli.workers import Where, open_pool, refuse_own_code, worker_options
from decima.evaluation import EvaluationConfig, Report
from decima.evaluation import evaluate as run_evaluation
from decima.evaluation.runner import Workload
from decima.evaluation.timeline import (
    check_timeline_path,
    recorded_within,
    timeline_table,
    write_timeline,
)
from decima.evaluation.trained_range import unlike_training
from decima.policy_names import SHIPPED_MODEL, is_learned, model_path
from decima.registry import HEURISTICS
from decima.rl.option_types import OUTPUT, POLICIES
from decima.rl.statistics import method
from spark_sim.compiled.progress import announce
from traces.files.names import counted
from traces.files.writing import write_json

if TYPE_CHECKING:
    from decima.report import Section

_MOST_RECORDED = 2_500_000  # largest number of tasks for a page, some 100 bytes each


@click.command()
@click.option(
    "--policies",
    type=POLICIES,
    default="strict_fair,fifo,sjf_cp,spark_fair",
    show_default=True,
    help=f"Separated by commas; the first is the reference. There are {', '.join(HEURISTICS)}; the "
    f"learned {SHIPPED_MODEL}; paths of model files; and classes of your own, my_policy.py:CLASS "
    "or module:CLASS.",
)
@workload_options
@OBJECTIVE
@worker_options("Processes.")
@TUNED
@JSON
@click.option("--timings", type=OUTPUT, help="Write the CPU seconds of each policy as JSON.")
@click.option(
    "--timeline", type=OUTPUT, help="Write every task: .parquet, .csv, or .json.gz for Perfetto."
)
@REPORT
def evaluate(
    policies: str,
    where: Where,
    tuned: tuple[Path, ...],
    json_path: Path | None,
    timings: Path | None,
    timeline: Path | None,
    page: Path | None,
    **options: Any,
) -> None:
    """Compare policies on the same arrival sequences.

    Prints average job completion times (JCT) with 95 % intervals over the sequences (bootstrap,
    below ten sequences Student's t), and the paired difference to the first policy.
    """
    config = build_config(options, parse_names(policies), read_all_tuned(tuned))
    refuse_own_code(where, config.policies)
    check_models(config.policies)
    if timeline is not None:
        check_timeline_path(timeline)
    total = config.sequences * len(config.policies)
    with (
        open_pool(where, "decima evaluate") as pool,
        progress_bar("simulating", total) as (bar, task),
    ):

        def show(done: int, _total: int) -> None:
            if done == 0:
                announce()
            bar.update(task, completed=done)

        recorded = _recorded(config, timeline, page)
        report = run_evaluation(config, pool=pool, timelines=recorded, progress=show)
    _print(report)
    for note in (*notes_of(config, report.trace), *_training_notes(report)):
        stdout().print(note, soft_wrap=True, markup=False)
    if json_path is not None:
        write_json(json_path, report.to_json())
    if timings is not None:
        write_json(timings, report.timings_json())
    if timeline is not None:
        write_timeline(report, timeline)
    if page is not None:
        write_report(page, page_sections(report))


def _training_notes(report: Report) -> Iterator[str]:
    """Warn if the shipped network plays a workload unlike those that it was trained on."""
    learned = [name for name in report.policies if is_learned(name)]
    words = unlike_training(report.config, report.trace)
    if words and model_path(SHIPPED_MODEL) in map(model_path, learned):
        yield (
            f"note: {SHIPPED_MODEL} was hardly trained for such a workload: {', '.join(words)}. "
            "Train for it first (`decima train`), or take it only if its interval is below zero."
        )


def _recorded(config: EvaluationConfig, timeline: Path | None, page: Path | None) -> range:
    """Return the sequences whose tasks are recorded: for a page, as many as fit in memory."""
    if timeline is not None:
        return range(config.sequences)
    return range(0) if page is None else recorded_within(config, _MOST_RECORDED)


def page_sections(report: Report) -> list[Section]:
    """Return the sections of the page: the comparison, timelines, and a network's decisions."""
    # Only a page needs these libraries, which load slowly.
    from decima.report import Timelines, comparison_sections, results_of

    results = results_of(report.to_json(), "these results")
    # A time limit may end the runs before their first task: then there is nothing to draw.
    tasks = timeline_table(report)
    timelines = Timelines(tasks, report.trace) if len(tasks) else None
    sections = comparison_sections([results], timelines)
    learned = next((name for name in report.config.policies if is_learned(name)), None)
    if learned is not None:
        from decima.report.decisions import decisions_section

        workload = Workload.of(report.config)
        sections.append(decisions_section(workload, report.config, learned, 0))
    return sections


def _print(report: Report) -> None:
    config = report.config
    console = stdout()
    console.print(report.table())
    by_class = report.class_table()
    if by_class is not None:
        console.print()
        console.print(by_class)
    tasks = report.reference.total("task_events")
    console.print(
        f"\n{counted(config.sequences, 'sequence')} of "
        f"{counted(report.reference.runs[0].metrics.num_jobs, 'job')} "
        f"({config.arrivals}) from {report.trace.name}, {counted(config.executors, 'executor')}, "
        f"{config.protocol} protocol, {tasks:,} tasks a policy. Seconds; means over sequences; "
        f"negative differences are better. {_intervals(report)}"
    )
    for line in _reached(report):
        console.print(line, soft_wrap=True)


def _intervals(report: Report) -> str:
    """Describe how the intervals are computed, or why there are none."""
    count = report.config.sequences
    if report.has_repeats:
        return (
            f"No intervals: the {count} sequences are identical, since neither arrivals nor "
            "durations are drawn; they are evidence of one."
        )
    return "" if count < 2 else f"Intervals: {method(count)} over sequences."


def _reached(report: Report) -> Iterator[str]:
    """Describe each learned policy's result against the reference, one sentence each."""
    reference = report.config.policies[0]
    for name, own in report.policies.items():
        if name != reference and is_learned(name):
            difference = report.difference(name)
            wins = int((own.objective < report.reference.objective).sum())
            count = len(own.objective)
            where = f"lower in {wins} of {counted(count, 'sequence')}"
            if report.has_repeats:
                where = f"in one sequence, repeated {count} times"
            title = report.objective.title
            yield f"{name}: {title} {difference.mean:+.1f} % against {reference}, {where}"
