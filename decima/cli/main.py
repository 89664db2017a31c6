"""The `decima` command. Subcommands are loaded on first use."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import click

from decima.cli.errors import OneLineErrors

SUBCOMMANDS: Mapping[str, str] = {
    "traces": "Look at traces and import them from other formats.",
    "evaluate": "Compare policies on the same arrival sequences.",
    "tune": "Fit a heuristic to a workload.",
    "fit-rule": "Fit the scoring rule to a workload.",
    "train": "Train a policy: imitation, then evolution.",
    "explain": "Explain one decision of a learned policy.",
    "reproduce": "Measure and draw the figures of the Decima paper.",
    "replay": "Simulate the jobs of Spark event logs as recorded.",
    "report": "Make one HTML file of results and training runs.",
    "whatif": "Try other schedulers, or more executors, on recorded jobs.",
    "spark": "Try policies on a real, unmodified Spark.",
    "coordinate": "Divide a cluster's executors among Spark applications.",
    "cluster": "Get ready for `--cluster`.",
    "prepare": "Compile beforehand what all commands need.",
}
"""one line for the help of `decima`; `decima.cli.NAME` holds the command"""


EXAMPLES: Mapping[str, str] = {
    "": "decima evaluate --policies strict_fair,decima --jobs 50 --sequences 3",
    "traces": "decima traces info tpch",
    "traces list": "decima traces list",
    "traces info": "decima traces info tpch --json",
    "traces validate": "decima traces validate mine.parquet",
    "traces show": "decima traces show tpch sf1/q5 -o q5.svg",
    "traces sample-logs": "decima traces sample-logs logs",
    "traces import": "decima traces import spark event-logs/ -o mine.parquet",
    "traces import spark": "decima traces import spark event-logs/ -o mine.parquet",
    "traces import decima-sim": "decima traces import decima-sim spark_env/tpch -o tpch.parquet",
    "traces import alibaba": "decima traces import alibaba batch_task.csv -o alibaba.parquet",
    "traces import csv": "decima traces import csv jobs.csv -o mine.parquet",
    "traces import json": "decima traces import json jobs.json -o mine.parquet",
    "traces import wfcommons": "decima traces import wfcommons flow.json --group -o flow.parquet",
    "evaluate": "decima evaluate --policies strict_fair,tuned_srw,decima --interarrival 18",
    "tune": "decima tune --policy tuned_srw --trace mine.parquet -o tuned.json",
    "fit-rule": "decima fit-rule --trace mine.parquet --minutes 30 --workers 2 -o rule.json",
    "train": "decima train --trace mine.parquet --executors 16 --protocol session --out runs/mine",
    "explain": "decima explain --model decima --decision 200",
    "reproduce": "decima reproduce --quick --out figures",
    "replay": "decima replay event-logs/",
    "report": "decima report results.json --timeline tasks.parquet -o report.html",
    "whatif": "decima whatif event-logs/ --executors 16",
    "prepare": "decima prepare",
    "spark": "decima spark demo",
    "spark jar": "decima spark jar -o decima-spark.jar",
    "spark replay": "decima spark replay --policies strict_fair,decima --jobs 20",
    "spark demo": "decima spark demo --jobs 10 --slots 4",
    "spark review": "decima spark review decisions.jsonl --draw slots.svg",
    "coordinate": "decima coordinate --slots 8 --policy decima --secret-file secret",
    "cluster": "decima cluster pack -o decima.tar.gz",
    "cluster pack": "decima cluster pack -o decima.tar.gz --python /usr/bin/python3.11",
}
"""examples by the words after `decima`"""


def add_examples(command: click.Command, words: str = "") -> None:
    """End the help of `command`, and of all below it, with its example."""
    command.epilog = f"\b\nExample:\n  {EXAMPLES[words]}"
    if isinstance(command, click.Group):
        for name, below in command.commands.items():
            add_examples(below, f"{words} {name}".strip())


class LazyGroup(OneLineErrors):
    """A group whose help costs no import of what its commands need: numba, torch, Arrow."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(SUBCOMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in SUBCOMMANDS and cmd_name not in self.commands:
            attribute = cmd_name.replace("-", "_")
            command = getattr(importlib.import_module(f"decima.cli.{attribute}"), attribute)
            add_examples(command, cmd_name)
            self.add_command(command)
        return super().get_command(ctx, cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, SUBCOMMANDS[name]) for name in self.list_commands(ctx)])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[Any]:
        """Subcommands by name; the rest as click completes it."""
        items = [
            click.shell_completion.CompletionItem(name, help=SUBCOMMANDS[name])
            for name in self.list_commands(ctx)
            if name.startswith(incomplete)
        ]
        return items + click.Command.shell_complete(self, ctx, incomplete)


@click.group(cls=LazyGroup)
@click.version_option(package_name="decima-scheduler")
def main() -> None:
    """Schedulers for Spark-style DAG jobs: import logs, simulate, compare, tune, train."""


add_examples(main)

if __name__ == "__main__":
    main()
