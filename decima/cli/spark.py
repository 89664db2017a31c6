"""`decima spark`: policies on a real Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click
import numpy as np
from rich.table import Table

from decima.cli.console import announce_compilation, stdout
from decima.cli.options import TUNED, parse_names, read_all_tuned
from traces import load_trace
from traces.atomic import written_whole

if TYPE_CHECKING:
    from decima.spark.review import Review

_REVIEWED = ("fifo", "spark_fair", "strict_fair")


@click.group()
def spark() -> None:
    """Try policies on a real, unmodified Spark."""


@spark.command()
@click.option("--trace", default="tpch", show_default=True, help="Name or file.")
@click.option("--jobs", default=20, show_default=True)
@click.option("--slots", default=16, show_default=True, help="Tasks at once.")
@click.option(
    "--policies",
    default="spark-fifo,spark-fair,strict_fair,es_rule",
    show_default=True,
    help="Also spark-fifo and spark-fair: Spark's own.",
)
@click.option(
    "--interarrival",
    "interarrival_s",
    default=1.0,
    show_default=True,
    help="Mean real seconds between arrivals.",
)
@TUNED
@click.option("--time-scale", default=0.1, show_default=True, help="Tasks sleep so much of theirs.")
@click.option("--seed", default=0, show_default=True)
@click.option("--json", "json_path", type=click.Path(dir_okay=False, path_type=Path))
def replay(
    trace: str,
    jobs: int,
    slots: int,
    policies: str,
    interarrival_s: float,
    tuned: tuple[Path, ...],
    time_scale: float,
    seed: int,
    json_path: Path | None,
) -> None:
    """Replay jobs of a trace on a local Spark, as stages of tasks that sleep, and compare JCTs.

    Every policy gets the same jobs at the same times, and a Spark of its own; ours know durations
    from the event log of an earlier run. The simulator's figures are those of its shared session.
    """
    from decima.spark.trial import TrialConfig, run_trial

    config = TrialConfig(
        parse_names(policies),
        jobs=jobs,
        slots=slots,
        interarrival_s=interarrival_s,
        time_scale=time_scale,
        seed=seed,
        parameters=read_all_tuned(tuned),
    )
    loaded = load_trace(trace)
    announce_compilation()
    outcomes = run_trial(loaded, config, lambda policy: click.echo(f"running {policy}", err=True))
    table = Table(box=None)
    for heading in ("policy", "average JCT", "p95", "in the simulator", "median error", "bias",
                    "plans", "over limit"):  # fmt: skip
        table.add_column(heading, justify="left" if heading == "policy" else "right")
    for one in outcomes:
        status = one.status
        table.add_row(
            one.policy,
            f"{one.jct_s.mean():.2f} s",
            f"{np.quantile(one.jct_s, 0.95):.2f} s",
            f"{one.simulated_s.mean():.2f} s",
            f"{one.error:.1%}",
            f"{one.bias:+.1%}",
            "" if status is None else str(status.plans),
            "" if status is None else str(status.jvm.get("launches_over_limit", "?")),
        )
    stdout().print(table)
    added_ms = float(np.median([one.overhead_ms for one in outcomes]))
    stdout().print(
        f"\n{jobs} jobs of {loaded.name} on {slots} slots of a local Spark, mean gap "
        f"{interarrival_s:g} s, tasks at {time_scale:g} of their time. Spark adds "
        f"{added_ms:.0f} ms to each, which the simulator is told."
    )
    if json_path is not None:
        rows = {
            one.policy: {"jct_s": one.jct_s.tolist(), "simulated_s": one.simulated_s.tolist()}
            for one in outcomes
        }
        with written_whole(json_path) as partial:
            partial.write_text(json.dumps(rows, indent=1) + "\n")


@spark.command()
@click.option("--policies", default="spark-fifo,spark-fair,strict_fair,decima", show_default=True)
@click.option("--jobs", default=16, show_default=True)
@click.option("--slots", default=16, show_default=True, help="Tasks at once.")
@click.option("--seed", default=0, show_default=True)
def demo(policies: str, jobs: int, slots: int, seed: int) -> None:
    """Real TPC-H queries and replayed jobs, in turn, on a local Spark under several schedulers."""
    from decima.spark.demo import DemoConfig, run_demo
    from decima.spark.trial import TrialConfig

    names = parse_names(policies)
    TrialConfig(names, jobs=jobs, slots=slots)  # refuses what is unknown or impossible
    config = DemoConfig(names, jobs=jobs, slots=slots, seed=seed)
    announce_compilation()
    outcomes = run_demo(config, lambda text: click.echo(text, err=True))
    table = Table(box=None)
    for heading in ("policy", "average JCT", "queries", "replayed jobs", "p95"):
        table.add_column(heading, justify="left" if heading == "policy" else "right")
    for one in outcomes:
        table.add_row(
            one.policy,
            f"{one.jct_s.mean():.2f} s",
            f"{one.jct_s[one.is_query].mean():.2f} s",
            f"{one.jct_s[~one.is_query].mean():.2f} s",
            f"{np.quantile(one.jct_s, 0.95):.2f} s",
        )
    stdout().print(table)
    stdout().print(
        f"\n{jobs} jobs on {slots} slots; one run each, so look for large differences only."
    )


@spark.command()
@click.argument("log", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--policies",
    help="Separated by commas; the first is the reference (default: fifo, spark_fair, strict_fair "
    "and the policy of the log).",
)
@TUNED
@click.option(
    "--draw",
    "picture",
    type=click.Path(dir_okay=False, path_type=Path),
    help="SVG or PNG of the slots that each job held.",
)
def review(log: Path, policies: str | None, tuned: tuple[Path, ...], picture: Path | None) -> None:
    """What other policies would have done with the jobs of a decision log.

    LOG is what `attach(..., decision_log=LOG)` wrote, in any mode. The simulator plays its jobs,
    with the durations that were measured, under each policy. What Spark took of each job's time
    was measured too, and is part of every figure. Older files LOG.1, LOG.2, ... are read with it.
    """
    from decima.spark.decision_log import read_decision_log
    from decima.spark.review import draw_decisions, is_playable
    from decima.spark.review import review as simulate

    decisions = read_decision_log(log)
    if policies is not None:
        names = parse_names(policies)
    else:  # an object of the application's own cannot be played again
        own = [decisions.policy] if is_playable(decisions.policy) else []
        names = tuple(dict.fromkeys((*_REVIEWED, *own)))
    announce_compilation()
    found = simulate(decisions, names, read_all_tuned(tuned))
    table = Table(box=None)
    for heading in ("", "average JCT", f"vs {names[0]}", "p95"):
        table.add_column(heading, justify="right" if heading else "left")
    has_ended = ~np.isnan(found.jct_s)
    ended = found.jct_s[has_ended]
    # The same jobs everywhere: those that were cut off would only be there in the simulator.
    compared = has_ended if len(ended) else np.ones(len(found.names), np.bool_)
    if len(ended):
        ran = f"as it ran ({decisions.policy}, {decisions.mode})"
        table.add_row(ran, f"{ended.mean():.2f} s", "", f"{np.quantile(ended, 0.95):.2f} s")
    first_s = found.simulated_s[names[0]][compared].mean()
    for name, every_s in found.simulated_s.items():
        jct_s = every_s[compared]
        table.add_row(
            f"simulated: {name}",
            f"{jct_s.mean():.2f} s",
            "" if name == names[0] else f"{100 * (jct_s.mean() / first_s - 1):+.1f} %",
            f"{np.quantile(jct_s, 0.95):.2f} s",
        )
    stdout().print(table)
    stdout().print(f"\n{len(found.names)} jobs, {len(ended)} of them ended; {found.slots} slots.")
    for words in _trust_words(found):
        stdout().print(words, highlight=False)
    if picture is not None:
        draw_decisions(decisions, picture)


def _trust_words(found: Review) -> Iterator[str]:
    """How far the simulated figures can be believed."""
    own_s = found.own_s[~np.isnan(found.own_s)]
    if len(own_s):
        yield f"Spark itself took {own_s.mean():.2f} s of a job's time on average, here as there."
    if found.error is None:
        yield (
            f"Nothing tells how near the simulator comes: no job ended, or it has no {found.ran!r}."
        )
    elif not found.is_trusted:
        yield (
            f"But: {found.ran}, which really ran, is {100 * found.error:+.0f} % off in the "
            "simulator: smaller differences mean nothing."
        )
