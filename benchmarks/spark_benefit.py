"""Benefit of a policy on a real Spark, and the simulator's error: paired runs.

    python -m benchmarks.spark_benefit --json runs/benefit.json [--runs 5] [--policies ...]

In each run every policy gets the same TPC-H jobs of the built-in trace at the same times, replayed
as tasks that sleep, on a local Spark of its own. Policies know durations as in any application:
the jobs ran once before, and the event log of that was imported. Differences are paired over runs,
with 95 % bootstrap intervals. For the simulator, a task takes the median over all runs of what
Spark was seen to add to one. A run takes the sum of its gaps and more for each policy; the file is
rewritten after each one, and a run that it holds is not repeated.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.quality import percent
from decima.rl.statistics import difference_percent
from decima.spark.trial import (
    PLAIN,
    TrialConfig,
    TrialOutcome,
    draw_jobs,
    expected_s,
    record,
    run_trial,
)
from traces import load_trace
from traces.files.writing import write_json
from traces.numbers import Float64

POLICIES = "spark-fifo,spark-fair,strict_fair,tuned_srw,decima"


def to_json(outcome: TrialOutcome) -> dict[str, Any]:
    """Return the stored facts of one policy's run."""
    status = outcome.status
    return {
        "jct_s": outcome.jct_s.tolist(),
        "overhead_ms": outcome.overhead_ms,
        "jvm": {} if status is None else status.jvm,
        "fallbacks": 0 if status is None else status.fallbacks,
        "prior_hits": 0 if status is None else status.prior_hits,
        "prior_misses": 0 if status is None else status.prior_misses,
    }


def means(stored: dict[str, Any], policy: str) -> Float64:
    """(R,) average JCT in seconds of each run."""
    return np.array([np.mean(run[policy]["jct_s"]) for run in stored.values()])


def simulated(stored: dict[str, Any], configs: dict[str, TrialConfig], policy: str) -> Float64:
    """(R x K,) JCT of all runs of a policy in the simulator."""
    trace = load_trace("tpch")
    overhead_ms = float(
        np.median([one["overhead_ms"] for run in stored.values() for one in run.values()])
    )
    return np.concatenate(
        [
            expected_s(policy, configs[seed], *draw_jobs(trace, configs[seed]), overhead_ms)
            for seed in stored
        ]
    )


def show(stored: dict[str, Any], configs: dict[str, TrialConfig], policies: list[str]) -> None:
    """Benefit against each of Spark's own schedulers and strict fair, and fidelity."""
    console = Console(width=150)
    references = [name for name in ("spark-fifo", "spark-fair", "strict_fair") if name in policies]
    table = Table(title=f"{len(stored)} runs", title_justify="left")
    for heading in ("policy", "average JCT s", *(f"vs {name}" for name in references),
                    "median error", "bias", "first decision ms", "over limit"):  # fmt: skip
        table.add_column(heading)
    for policy in policies:
        jct_s = np.concatenate([run[policy]["jct_s"] for run in stored.values()])
        simulated_s = simulated(stored, configs, policy)
        jvm = [run[policy]["jvm"] for run in stored.values()]
        waits = [one["first_decision_ms_median"] for one in jvm if one]
        against = [
            percent(difference_percent(means(stored, policy), means(stored, name)))
            if name != policy and len(stored) > 1
            else ""
            for name in references
        ]
        table.add_row(
            policy,
            f"{means(stored, policy).mean():.2f}",
            *against,
            f"{np.median(np.abs(jct_s / simulated_s - 1)):.1%}",
            f"{jct_s.mean() / simulated_s.mean() - 1:+.1%}",
            f"{np.median(waits):.1f}" if waits else "",
            str(sum(one["launches_over_limit"] for one in jvm)) if waits else "",
        )
    console.print(table)


def main() -> None:
    """Run what is missing, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--policies", default=POLICIES)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=20)
    parser.add_argument("--slots", type=int, default=16)
    parser.add_argument("--interarrival", type=float, default=9.0, help="mean real seconds")
    parser.add_argument("--time-scale", type=float, default=0.2)
    parser.add_argument("--json", type=Path, required=True)
    given = parser.parse_args()
    policies = given.policies.split(",")
    trace = load_trace("tpch")
    stored: dict[str, Any] = {}
    if given.json.exists():
        stored = json.loads(given.json.read_text())
    configs = {
        str(seed): TrialConfig(
            tuple(policies),
            jobs=given.jobs,
            slots=given.slots,
            interarrival_s=given.interarrival,
            time_scale=given.time_scale,
            seed=seed,
        )
        for seed in range(given.runs)
    }
    for seed, config in configs.items():
        run = stored.setdefault(seed, {})
        priors = None
        for policy in policies:
            if policy in run:
                continue
            if priors is None and policy not in PLAIN:
                priors = record(draw_jobs(trace, config)[0], config.slots)
            one = replace(config, policies=(policy,))
            found = to_json(run_trial(trace, one, priors=priors)[0])
            run[policy] = found
            print(
                f"run {seed}, {policy}: {np.mean(found['jct_s']):.2f} s; priors of "
                f"{found['prior_hits']} stages, none of {found['prior_misses']}",
                flush=True,
            )
            write_json(given.json, stored, indent=None)
    whole = {seed: stored[seed] for seed in configs}
    show(whole, configs, policies)


if __name__ == "__main__":
    main()
