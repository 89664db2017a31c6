"""`decima replay`: the simulator's error on recorded event logs."""

from __future__ import annotations

from pathlib import Path

import click
import numpy as np

from decima.cli.console import progress_bar, stdout, wrapped
from decima.cli.logs import Logs, log_arguments
from decima.cli.options import GROUP_BY, JSON, config_options, load_models
from decima.rl.option_types import INPUT, POLICIES, Whole
from decima.whatif.replay import ReplayReport, ReplaySettings, read_recording
from decima.whatif.replay import replay as run_replay
from decima.whatif.replay.allocation import NAMES, parse_changes
from decima.whatif.replay.losses import Losses, losses
from decima.whatif.replay.pools import Pools, read_pools
from decima.whatif.replay.report import (
    conditions_words,
    fidelity_table,
    parts_table,
    verdict,
    worst_jobs_table,
)
from spark_sim.cluster import MAX_EXECUTORS, Protocol
from spark_sim.compiled.progress import announce
from traces.files.names import counted
from traces.files.writing import write_json
from traces.spark_log import GroupBy

POOLS = click.option(
    "--pools",
    callback=lambda _context, _option, path: None if path is None else read_pools(path),
    type=INPUT,
    help="The application's allocation file (fairscheduler.xml): weights, minShares, modes.",
)

ALLOCATION = click.option(
    "--allocation",
    callback=lambda _context, _option, text: None if text is None else parse_changes(text),
    metavar="log|NAME=VALUE,...",
    help="Simulate dynamic allocation instead of the recorded slots: with the log's settings, or "
    f"with others for {', '.join(NAMES)}.",
)


@click.command()
@log_arguments
@click.option(
    "--slots",
    type=Whole(1, MAX_EXECUTORS),
    help="Task slots of each application (default: as recorded).",
)
@click.option(
    "--policy",
    type=POLICIES,
    help="fifo, spark_fair (a pool for each job), spark_pools (those of the log) or one of "
    "`decima evaluate`'s (default: that of the log).",
)
@ALLOCATION
@POOLS
@GROUP_BY
@config_options(ReplaySettings, draws="Repetitions to average over.", seed="")
@click.option(
    "--worst", type=Whole(0, 1_000_000), default=10, show_default=True, help="Jobs to list."
)
@JSON
def replay(
    logs: Logs,
    slots: int | None,
    policy: str | None,
    allocation: dict[str, str] | None,
    pools: Pools | None,
    group_by: str,
    draws: int,
    seed: int,
    worst: int,
    json_path: Path | None,
) -> None:
    """Simulate the jobs of Spark event LOGS as they were recorded, and compare.

    LOGS are files, rolled logs, zip archives, or folders of them, or where they are: a History
    Server (http://HOST:18080), s3://, hdfs://, gs://. Prints the difference between
    simulated and recorded job durations: the error to expect of `decima whatif` on the same logs.
    """
    settings = ReplaySettings(slots, allocation, policy, draws, seed)
    recording = read_recording(logs.fetch(), group_by=GroupBy(group_by), pools=pools)
    if policy is not None:
        load_models((policy,), Protocol.SESSION)
    announce()
    with progress_bar("replaying", 2 * draws * len(recording.slots)) as (bar, task):
        report = run_replay(
            recording, settings, progress=lambda done, _: bar.update(task, completed=done)
        )
        lost = losses(report, settings)
    _print(report, lost, worst)
    if json_path is not None:
        content = {**report.to_json(), "losses": None if lost is None else lost.to_json()}
        write_json(json_path, content)


def _print(report: ReplayReport, lost: Losses | None, worst: int) -> None:
    console = stdout(markup=False)
    recording = report.recording
    wrapped(console, verdict(report))
    jobs_of = np.bincount(recording.application, minlength=len(report.slots))
    applications = recording.trace.metadata["applications"]
    for facts, jobs, slots, policy in zip(
        applications, jobs_of, report.slots, report.policies, strict=True
    ):
        version = facts["spark_version"] or "of unknown version"
        numbers = f"{counted(jobs, 'job')}, {counted(slots, 'slot')}"
        console.print(f"{facts['name']}: {numbers}, Spark {version}, under {policy}")
    for line in (*conditions_words(recording), *recording.summary.left_out()):
        console.print(line)
    console.print()
    console.print(fidelity_table(report))
    if worst > 0:
        console.print("\nThe largest errors")
        console.print(worst_jobs_table(report, worst))
        console.print("\nWhere the time went (docs/whatif.md)")
        console.print(parts_table(recording, worst))
    if lost is not None:
        wrapped(console, lost.words())
