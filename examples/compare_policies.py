"""Compare scheduling policies on the same jobs, with 95 % intervals.

Every policy plays the same sequences: the same jobs arrive at the same times, and their tasks take
equally long. The differences are therefore paired, and a few sequences can separate policies whose
averages vary much more from sequence to sequence. The first policy is the baseline.

    python examples/compare_policies.py
    python examples/compare_policies.py --policies spark_fair,es_rule --executors 20 --sequences 4
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass

from decima import EvaluationConfig, Report, evaluate


@dataclass(frozen=True)
class Row:
    """One policy against the baseline."""

    policy: str
    avg_jct_s: float
    """job completion time (JCT), averaged over jobs and sequences"""
    difference: str
    """average JCT against the baseline in percent, with its 95 % interval"""
    wins: int
    """sequences whose average JCT is below the baseline's"""
    verdict: str


def main() -> None:
    report = evaluate(config_of(arguments()), progress=show_progress)
    config = report.config
    print(
        f"{config.sequences} sequences of {config.jobs} jobs from {config.trace}, one every "
        f"{config.interarrival_s:g} s, {config.executors} executors\n"
    )
    baseline = config.policies[0]
    print(f"{'policy':<20}{'average JCT':>12}  {f'against {baseline} [95 %]':<34}{'wins':>6}")
    for row in rows_of(report):
        wins = "" if row.policy == baseline else f"{row.wins}/{config.sequences}"
        print(
            f"{row.policy:<20}{row.avg_jct_s:>10.1f} s  {row.difference:<34}{wins:>6}  "
            f"{row.verdict}"
        )


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--policies", default="strict_fair,tuned_srw,es_rule,decima")
    parser.add_argument("--trace", default="tpch", help="a built-in trace or a file")
    parser.add_argument("--executors", type=int, default=50)
    parser.add_argument("--jobs", type=int, default=50, help="in each sequence")
    parser.add_argument("--interarrival", type=float, default=25.0, help="mean gap in seconds")
    parser.add_argument("--sequences", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def config_of(given: argparse.Namespace) -> EvaluationConfig:
    return EvaluationConfig(
        trace=given.trace,
        policies=tuple(given.policies.split(",")),
        executors=given.executors,
        jobs=given.jobs,
        interarrival_s=given.interarrival,
        sequences=given.sequences,
        seed=given.seed,
    )


def rows_of(report: Report) -> list[Row]:
    """One row for each policy, the baseline first."""
    baseline, *others = report.config.policies
    base_s = report.policies[baseline].avg_jct_s
    rows = [Row(baseline, float(base_s.mean()), "", 0, "baseline")]
    for policy in others:
        avg_jct_s = report.policies[policy].avg_jct_s  # (sequences,)
        difference = report.difference(policy)
        rows.append(
            Row(
                policy,
                float(avg_jct_s.mean()),
                difference.words("+.1f", " %"),
                int((avg_jct_s < base_s).sum()),
                verdict(difference.ci95),
            )
        )
    return rows


def verdict(ci95: tuple[float, float] | None) -> str:
    """Verdict from the 95 % interval: certain if it excludes 0."""
    if ci95 is None:
        return "no interval"
    low, high = ci95
    return "faster" if high < 0 else "slower" if low > 0 else "not certain"


def show_progress(done: int, total: int) -> None:
    """Rewrite one line on a terminal; stay silent in a file."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r{done}/{total} simulations" + "\n" * (done == total))


if __name__ == "__main__":
    main()
