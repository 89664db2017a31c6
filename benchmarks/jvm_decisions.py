"""Cost of a plan inside the JVM: the network, or any policy of the plugin.

    python -m benchmarks.jvm_decisions [--policies decima,es_rule] [--sizes 10:40,100:200,500:1000]

`java_app/DecisionSpeed.java` plans for made-up sessions without Spark, of so many jobs on so many
slots; a task ends and another starts before each plan, all jobs have two open stages. Medians of
400 warm plans, in microseconds of the thread's CPU time. "First" is the first plan of a new JVM
for four jobs, cold and after the rehearsal of 100 plans that the plugin makes when it starts.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
from pathlib import Path

from decima.spark.jar import find_javac, plugin_jar, spark_jars

REHEARSED_PLANS = 100
"""`ENOUGH` of `WarmUp.java`"""
_SOURCE = Path(__file__).parent / "java_app" / "DecisionSpeed.java"


def measured(folder: Path, jar: Path, policy: str, plans: int, sizes: list[str]) -> list[list[str]]:
    """Lines of a run in a new JVM, as words.

    Args:
        folder: of the compiled program.
        jar: the plugin.
        policy: of the plugin.
        plans: to warm_up.
        sizes: JOBS:SLOTS of the sessions to plan for when warm.
    """
    java = find_javac(os.environ).with_name("java")
    command = [java, "-cp", f"{folder}:{jar}:{spark_jars()}/*", "decima.policy.DecisionSpeed"]
    done = subprocess.run(  # noqa: S603 - the JDK's
        [*map(str, command), policy, str(plans), *sizes],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return [line.split() for line in done.stdout.splitlines()]


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--policies", default="decima,es_rule")
    parser.add_argument("--sizes", default="10:40,100:200,500:1000")
    arguments = parser.parse_args()
    jar = plugin_jar()
    print("| policy | jobs | slots | reports | tables | network or rule | its p99 |")
    print("|---|---|---|---|---|---|---|")
    firsts = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        command = [find_javac(os.environ), "--release", "8", "-Xlint:-options"]
        command += ["-cp", f"{jar}:{spark_jars()}/*", "-d", name, str(_SOURCE)]
        subprocess.run([*map(str, command)], check=True)  # noqa: S603 - the JDK's compiler
        for policy in arguments.policies.split(","):
            cold = dict(measured(folder, jar, policy, 0, []))
            lines = measured(folder, jar, policy, REHEARSED_PLANS, arguments.sizes.split(","))
            warm = dict(lines[:3])
            for line in lines[3:]:
                print(f"| {policy} | {' | '.join(line[1::2])} |", flush=True)
            firsts.append((policy, warm["load_us"], cold["first_us"], warm["rehearsal_us"],
                           warm["first_us"]))  # fmt: skip
    print("\n| policy | load | first plan, cold | rehearsal | first plan behind it |")
    print("|---|---|---|---|---|")
    for row in firsts:
        print(f"| {' | '.join(row)} |")


if __name__ == "__main__":
    main()
