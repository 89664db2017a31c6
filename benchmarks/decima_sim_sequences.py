"""The fair shares on decima-sim's own sequences, under its rules and under the repaired ones.

    python -m benchmarks.decima_sim_sequences FOLDER [--sequences 10]

FOLDER holds decima-sim's TPC-H files ({size}/adj_mat_*.npy, {size}/task_duration_*.npy). Published
figures for comparison: decima-sim's dynamic_partition 58.13 s (seeds 0 to 9).
"""

from __future__ import annotations

import argparse

from decima import EvaluationConfig, evaluate
from decima.rl.statistics import mean_of

POLICIES = ("strict_fair", "sticky_fair", "spark_fair", "tuned_srw", "sjf_cp", "fifo", "random")
RULES = {
    "decima-sim": "decima-sim's rules",
    "executors": "default",
    "session": "shared session",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--sequences", type=int, default=10)
    arguments = parser.parse_args()
    print(
        "| protocol | policy | average JCT, s | 95 % interval | against strict fair | decisions |"
    )
    print("|---|---|---|---|---|---|")
    for protocol, label in RULES.items():
        config = EvaluationConfig(
            trace=arguments.folder,
            policies=POLICIES,
            arrivals="decima-sim",
            sequences=arguments.sequences,
            protocol=protocol,
        )
        report = evaluate(config)
        for name, found in report.policies.items():
            average, difference = mean_of(found.avg_jct_s), report.difference(name)
            low, high = average.ci95 or (average.mean, average.mean)
            below, above = difference.ci95 or (difference.mean, difference.mean)
            print(
                f"| {label} | {name} | {average.mean:.2f} | {low:.1f} to {high:.1f} | "
                f"{difference.mean:+.1f} % ({below:+.1f} to {above:+.1f}) | "
                f"{found.total('decisions') // arguments.sequences:,} |"
            )


if __name__ == "__main__":
    main()
