"""`decima spark`: policies on a real Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from decima.cli.console import stdout
from decima.cli.options import (
    JSON,
    REPORT,
    TUNED,
    config_options,
    load_models,
    output_option,
    parse_names,
    read_all_tuned,
    write_report,
)
from decima.cli.replay import POOLS
from decima.rl.option_types import INPUT, NAME_OR_FILE, OUTPUT, POLICIES, OutputFile
from decima.rl.tables import aligned
from decima.spark.trial import DemoConfig, TrialConfig, run_demo, run_trial, words
from spark_sim.compiled.progress import announce
from traces import load_trace
from traces.files.names import counted
from traces.files.writing import write_json

if TYPE_CHECKING:
    from decima.report.spark import JctTable
    from decima.whatif.replay.pools import Pools


@click.group()
def spark() -> None:
    """Try policies on a real, unmodified Spark."""


@spark.command()
@click.option("--trace", type=NAME_OR_FILE, default="tpch", show_default=True, help="Name or file.")
@config_options(TrialConfig, jobs="", slots="Tasks at once.")
@click.option(
    "--policies",
    type=POLICIES,
    default="spark-fifo,spark-fair,strict_fair,es_rule",
    show_default=True,
    help="Also Spark's own: spark-fifo, spark-fair (a pool for each job), spark-pools (those of "
    "the log that the trace was imported from).",
)
@config_options(TrialConfig, interarrival_s="Mean real seconds between arrivals.")
@POOLS
@TUNED
@config_options(TrialConfig, time_scale="Factor on the durations of tasks.", seed="")
@JSON
@REPORT
def replay(
    trace: str,
    policies: str,
    pools: Pools | None,
    tuned: tuple[Path, ...],
    json_path: Path | None,
    page: Path | None,
    **settings: Any,
) -> None:
    """Replay jobs of a trace on a local Spark, as stages of tasks that sleep, and compare JCTs.

    Every policy gets the same jobs at the same times, and its own Spark. Policies of this package
    know durations from the event log of an earlier run. The simulator's figures are those of its
    shared session.
    """
    from decima.report.spark import replay_section, replay_table

    config = TrialConfig(
        parse_names(policies), parameters=read_all_tuned(tuned), pools=pools, **settings
    )
    load_models(config.policies)
    loaded = load_trace(trace)
    announce()
    outcomes = run_trial(loaded, config, lambda policy: click.echo(f"running {policy}", err=True))
    _print(replay_table(outcomes))
    facts = words(loaded.name, config, outcomes)
    stdout().print(f"\n{facts}")
    if json_path is not None:
        rows = {
            outcome.policy: {
                "jct_s": outcome.jct_s.tolist(),
                "simulated_s": outcome.simulated_s.tolist(),
            }
            for outcome in outcomes
        }
        write_json(json_path, {"format": "decima-spark-replay", "version": 1, "policies": rows})
    if page is not None:
        title = f"Replay of {loaded.name} on Spark"
        write_report(page, [replay_section(outcomes, facts)], title)


def _print(jcts: JctTable) -> None:
    table = aligned(jcts.headings[:1], jcts.headings[1:])
    for name, cells in jcts.rows:
        table.add_row(name, *(cell.text for cell in cells))
    stdout().print(table)


@spark.command()
@click.option(
    "--policies",
    type=POLICIES,
    default="spark-fifo,spark-fair,strict_fair,decima",
    show_default=True,
)
@config_options(DemoConfig, jobs="", slots="Tasks at once.", seed="")
def demo(policies: str, jobs: int, slots: int, seed: int) -> None:
    """Real TPC-H queries and replayed jobs, in turn, on a local Spark under several schedulers."""
    names = parse_names(policies)
    config = DemoConfig(names, jobs=jobs, slots=slots, seed=seed)
    load_models(names)
    announce()
    outcomes = run_demo(config, lambda text: click.echo(text, err=True))
    table = aligned(("policy",), ("average JCT", "queries", "replayed jobs", "p95"))
    for outcome in outcomes:
        parts = (outcome.jct_s, outcome.jct_s[outcome.is_query], outcome.jct_s[~outcome.is_query])
        times = (*(part.mean() for part in parts), np.quantile(outcome.jct_s, 0.95))
        table.add_row(outcome.policy, *(f"{time_s:.2f} s" for time_s in times))
    stdout().print(table)
    stdout().print(
        f"\n{counted(jobs, 'job')} on {counted(slots, 'slot')}; one run each, so look for large "
        "differences only."
    )


@spark.command()
@click.argument("log", type=INPUT)
@click.option(
    "--policies",
    type=POLICIES,
    help="Separated by commas; the first is the reference (default: fifo, spark_fair, strict_fair "
    "and the policy of the log; of auto, the one in force longest).",
)
@TUNED
@click.option("--draw", "picture", type=OUTPUT, help="SVG or PNG of the slots that each job held.")
@REPORT
def review(
    log: Path,
    policies: str | None,
    tuned: tuple[Path, ...],
    picture: Path | None,
    page: Path | None,
) -> None:
    """Simulate what other policies would have done with the jobs of a decision log.

    LOG is a file of `attach(..., decision_log=LOG)`, in any mode. The simulator plays its jobs with
    the measured durations under each policy. Spark's own time for each job was measured too, and is
    part of every figure. Older files LOG.1, LOG.2, ... are read with it.
    """
    from decima.report.spark import review_section, review_table
    from decima.spark.decision_log import read_decision_log
    from decima.spark.review import check_picture, draw_decisions, reviewed_policies, words
    from decima.spark.review import review as simulate

    if picture is not None:
        check_picture(picture)
    decisions = read_decision_log(log)
    names = reviewed_policies(decisions) if policies is None else parse_names(policies)
    load_models(names)
    announce()
    reviewed = simulate(decisions, names, read_all_tuned(tuned))
    _print(review_table(reviewed, decisions))
    stdout().print()
    for line in words(reviewed):
        stdout().print(line, highlight=False, markup=False)
    if picture is not None:
        draw_decisions(decisions, picture)
    if page is not None:
        write_report(page, [review_section(reviewed, decisions)], f"Review of {log.name}")


@spark.command()
@output_option(
    "File or folder to copy it to; else its path is printed.",
    type=OutputFile(folders=True),
    required=False,
)
def jar(output: Path | None) -> None:
    """Print the path of the plugin's jar, for any Spark from 3.5 to 4.x:
    `spark.plugins=decima.spark.DecimaPlugin`. A jar that the package lacks is compiled, which needs
    a JDK, and stored in the user's cache.
    """
    from decima.spark.jar import jar_name, plugin_jar
    from traces.files.writing import check_output, write_whole

    if output is None:
        click.echo(plugin_jar())
        return
    path = output / jar_name() if output.is_dir() else output
    check_output(path)
    write_whole(path, plugin_jar().read_bytes())
    click.echo(path)
