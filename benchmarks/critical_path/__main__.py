"""`python -m benchmarks.critical_path`: what the graph encoder can express."""

from __future__ import annotations

import argparse

from rich.console import Console
from rich.table import Table

from benchmarks.critical_path.learn import CLOSE, ProbeConfig
from benchmarks.critical_path.study import Study, StudyConfig, run_study


def main() -> None:
    """Learn to name the runnable stage with the longest critical path.

    Trains the encoder on random DAGs, with two-level sums and with the one-level ablation, and
    tests both on larger random DAGs and on the jobs of a trace.
    """
    parser = argparse.ArgumentParser(description=(main.__doc__ or "").partition("\n")[0])
    parser.add_argument("--steps", type=int, default=ProbeConfig().steps, help="of each network")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--trace", default="tpch", help="name or file to test on")
    given = parser.parse_args()
    config = StudyConfig(ProbeConfig(steps=given.steps), seed=given.seed, trace=given.trace)
    console = Console()
    with console.status("starting") as status:

        def show(label: str, done: int, total: int) -> None:
            status.update(f"{label}: {done} of {total}")

        study = run_study(config, show)
    console.print(as_table(study))


def as_table(study: Study) -> Table:
    """One line for each test set and way to name a stage."""
    table = Table(title="naming the runnable stage with the longest critical path")
    table.add_column("tested on")
    table.add_column("network")
    for heading in ("right", f"within {CLOSE:.0%}", "error of the length"):
        table.add_column(heading, justify="right")
    for index, test in enumerate(study.tests):
        table.add_row(test.title, "guessing", f"{test.guessing:.1%}", "", "")
        table.add_row("", "most work", f"{test.largest_work:.1%}", "", "")
        for name, grades in study.grades.items():
            found = grades[index]
            table.add_row(
                "",
                name,
                f"{found.accuracy:.1%}",
                f"{found.close:.1%}",
                f"{found.relative_error:.1%}",
                end_section=name == list(study.grades)[-1],
            )
    return table


if __name__ == "__main__":
    main()
