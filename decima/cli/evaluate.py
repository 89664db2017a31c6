"""`decima evaluate`: compare policies on the same arrival sequences."""

from __future__ import annotations

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
    load_models,
    parse_names,
    read_all_tuned,
    workload_options,
    write_report,
)
from decima.cli.workers import Where, open_pool, refuse_own_code, worker_options
from decima.evaluation import Report
from decima.evaluation import evaluate as run_evaluation
from decima.evaluation.notes import notes_of
from decima.evaluation.runner import Workload
from decima.evaluation.timeline import (
    check_timeline_path,
    recorded_within,
    timeline_table,
    write_timeline,
)
from decima.policy_names import SHIPPED_MODEL, is_learned
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
    refuse_own_code(where, config.objective, config.policies)
    load_models(config.policies, config.cluster().protocol)
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

        recorded = range(config.sequences if timeline is not None else 0)
        if timeline is None and page is not None:  # as many as fit in memory
            recorded = recorded_within(config, _MOST_RECORDED)
        report = run_evaluation(config, pool=pool, timelines=recorded, progress=show)
    _print(report)
    for note in notes_of(config, report.trace):
        stdout().print(note, soft_wrap=True, markup=False)
    if json_path is not None:
        write_json(json_path, report.to_json())
    if timings is not None:
        write_json(timings, report.timings_json())
    if timeline is not None:
        write_timeline(report, timeline)
    if page is not None:
        write_report(page, page_sections(report))


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
    tasks, count = report.reference.total("task_events"), config.sequences
    intervals = "" if count < 2 else f"Intervals: {method(count)} over sequences."
    if report.has_repeats:
        intervals = (
            f"No intervals: the {count} sequences are identical, since neither arrivals nor "
            "durations are drawn; they are evidence of one."
        )
    console.print(
        f"\n{counted(config.sequences, 'sequence')} of "
        f"{counted(report.reference.runs[0].metrics.num_jobs, 'job')} "
        f"({config.arrivals}) from {report.trace.name}, {counted(config.executors, 'executor')}, "
        f"{config.protocol} protocol, {tasks:,} tasks a policy. Seconds; means over sequences; "
        f"negative differences are better. {intervals}"
    )
    reference = config.policies[0]
    for name, of_policy in report.policies.items():
        if name == reference or not is_learned(name):
            continue
        wins = int((of_policy.objective < report.reference.objective).sum())
        where = f"lower in {wins} of {counted(count, 'sequence')}"
        if report.has_repeats:
            where = f"in one sequence, repeated {count} times"
        console.print(
            f"{name}: {report.objective.title} {report.difference(name).mean:+.1f} % against "
            f"{reference}, {where}",
            soft_wrap=True,
        )
