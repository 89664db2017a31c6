"""Learned policies against the best tuned heuristic of each setting, on unseen sequences.

    python -m benchmarks.quality [--policies decima,es_rule] [--trace tpch] [--sequences 20]
    python -m benchmarks.quality --session
    python -m benchmarks.quality --generalisation

For every setting the tunable heuristics are tuned on training sequences of that very setting; the
one that is best there is the reference. All policies then meet the same sequences, which neither
tuning nor training has seen. Differences are paired, with 95 % bootstrap intervals over sequences.

``--session`` is the same where all jobs share the slots of one session, as on a live Spark.

``--generalisation`` leaves the setting that models were trained in: other gaps, 10 to 200 executors
(arrivals as much denser), an unknown or wrong duration of tasks; differences to strict_fair,
which a policy should nowhere exceed by more than 5 % (Decima, table 2 and appendices I, J).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from decima import EvaluationConfig, evaluate
from decima.evaluation.report import Report
from decima.rl.parallel.local import LocalPool
from decima.rl.parallel.pool import WorkerPool
from decima.rl.statistics import Estimate, difference_percent
from decima.training.tuning import tune
from traces.files.writing import write_json

TUNABLE = ("tuned_weighted_fair", "tuned_srw")
PLAIN = ("strict_fair", "spark_fair")
TUNING_SEQUENCES = 10
EXECUTORS = 50


class Setting(NamedTuple):
    """One row of the table."""

    label: str
    config: EvaluationConfig


def quality_settings(trace: str, sequences: int, jobs: int) -> Iterator[Setting]:
    """The settings of the paper's comparison: three loads, and a batch."""
    base = EvaluationConfig(trace=trace, sequences=sequences, jobs=jobs)
    for gap in (25.0, 18.0, 15.0):
        yield Setting(f"gap {gap:g} s", replace(base, interarrival_s=gap))
    yield Setting("batch of 20", replace(base, arrivals="batch", jobs=20))


def session_settings(trace: str, sequences: int, jobs: int) -> Iterator[Setting]:
    """Three loads of a shared session of 16 slots, and one of 50 at the middle one."""
    base = EvaluationConfig(trace=trace, sequences=sequences, jobs=jobs, protocol="session")
    for gap in (100.0, 70.0, 55.0):
        yield Setting(f"16 slots, gap {gap:g} s", replace(base, executors=16, interarrival_s=gap))
    gap = 70.0 * 16 / EXECUTORS
    yield Setting(f"{EXECUTORS} slots, gap {gap:g} s", replace(base, interarrival_s=gap))


def general_settings(trace: str, sequences: int, jobs: int) -> Iterator[Setting]:
    """Yield settings one step away from that of the training."""
    base = EvaluationConfig(trace=trace, sequences=sequences, jobs=jobs, interarrival_s=18.0)
    for gap in (14.0, 20.0, 30.0, 45.0):
        yield Setting(f"gap {gap:g} s", replace(base, interarrival_s=gap))
    for executors in (10, 25, 100, 200):
        gap = base.interarrival_s * EXECUTORS / executors
        yield Setting(
            f"{executors} executors, gap {gap:g} s",
            replace(base, executors=executors, interarrival_s=gap),
        )
    for kind in ("bursty", "diurnal"):
        yield Setting(f"{kind} arrivals, gap 25 s", replace(base, arrivals=kind, interarrival_s=25))
    yield Setting("durations unknown", replace(base, estimates="none"))
    yield Setting("durations off by up to 50 %", replace(base, estimates="noisy"))
    yield Setting("random DAGs, gap 25 s", replace(base, trace="random-dag", interarrival_s=25.0))


def measure(setting: Setting, policies: tuple[str, ...], pool: WorkerPool, tuned: bool) -> Report:
    """Evaluate; the first policy is the reference: the best tuned heuristic, or strict fair."""
    config = setting.config
    names, parameters = (*PLAIN, *policies), {}
    if tuned:
        training = replace(config, sequences=TUNING_SEQUENCES, policies=("strict_fair",))
        results = [tune(name, training, pool=pool) for name in TUNABLE]
        ranked = sorted(results, key=lambda result: result.figure)
        parameters = {result.policy: result.parameters for result in ranked}
        names = (ranked[0].policy, *PLAIN, *(result.policy for result in ranked[1:]), *policies)
    return evaluate(replace(config, policies=names, parameters=parameters), pool=pool)


def row_of(report: Report, name: str) -> tuple[str, ...]:
    """Cells of one policy: average, difference with its interval, tail, wins."""
    result, reference = report.policies[name], report.reference
    tail = difference_percent(result.p95_jct_s, report.policies["strict_fair"].p95_jct_s)
    wins = (result.avg_jct_s < reference.avg_jct_s).mean()
    is_reference = name == report.config.policies[0]
    return (
        name,
        f"{result.avg_jct_s.mean():.1f}",
        "reference" if is_reference else percent(report.difference(name)),
        "" if is_reference else f"{wins:.0%}",
        percent(tail) if name != "strict_fair" else "",
    )


def percent(estimate: Estimate) -> str:
    """Mean and interval."""
    return estimate.words("+.1f", " %")


def figures_of(report: Report) -> dict[str, dict[str, list[float]]]:
    """Return average and 95th percentile of the JCT in s, of each policy and sequence."""
    return {
        name: {"avg_jct_s": result.avg_jct_s.tolist(), "p95_jct_s": result.p95_jct_s.tolist()}
        for name, result in report.policies.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--policies", default="es_rule,decima")
    parser.add_argument("--trace", action="append", help="may be repeated; default: tpch")
    parser.add_argument("--sequences", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--workers", type=int, default=1)
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--session", action="store_true")
    kind.add_argument("--generalisation", action="store_true")
    parser.add_argument("--json", type=Path, help="write every sequence's figures")
    arguments = parser.parse_args()
    console = Console(width=140)
    settings = quality_settings
    if arguments.generalisation or arguments.session:
        settings = general_settings if arguments.generalisation else session_settings
    policies = tuple(arguments.policies.split(","))
    stored: dict[str, Any] = {}
    for trace in arguments.trace or ["tpch"]:
        for setting in settings(trace, arguments.sequences, arguments.jobs):
            began_s = time.monotonic()
            with LocalPool(arguments.workers) as pool:
                report = measure(setting, policies, pool, not arguments.generalisation)
            table = Table(title=f"{report.trace.name}, {setting.label}", title_justify="left")
            for column in ("policy", "avg JCT s", "against reference", "better on", "p95 vs fair"):
                table.add_column(column)
            for name in report.config.policies:
                table.add_row(*row_of(report, name))
            console.print(table)
            console.print(f"{time.monotonic() - began_s:.0f} s\n")
            stored[f"{report.trace.name}, {setting.label}"] = figures_of(report)
            if arguments.json is not None:
                write_json(arguments.json, stored)


if __name__ == "__main__":
    main()
