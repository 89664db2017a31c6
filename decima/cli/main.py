"""The `decima` command. Subcommands are loaded on first use."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import click

from decima.cli.errors import OneLineErrors
from decima.cli.examples import add_examples

SUBCOMMANDS: Mapping[str, str] = {
    "traces": "Look at traces and import them from other formats.",
    "evaluate": "Compare policies on the same arrival sequences.",
    "tune": "Fit a heuristic to a workload.",
    "fit-rule": "Fit the scoring rule to a workload.",
    "train": "Train a policy: imitation, then policy gradient.",
    "explain": "Explain one decision of a learned policy.",
    "replay": "Simulate the jobs of Spark event logs as recorded.",
    "report": "Make one HTML file of results and training runs.",
    "whatif": "Try other schedulers, or more executors, on recorded jobs.",
    "spark": "Try policies on a real, unmodified Spark.",
    "coordinate": "Divide a cluster's executors among Spark applications.",
    "cluster": "Get ready for `--cluster`.",
    "prepare": "Compile beforehand what all commands need.",
}
"""one line for the help of `decima`; `decima.cli.NAME` holds the command"""


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
        names = [one for one in self.list_commands(ctx) if one.startswith(incomplete)]
        found = [click.shell_completion.CompletionItem(one, help=SUBCOMMANDS[one]) for one in names]
        return found + click.Command.shell_complete(self, ctx, incomplete)


@click.group(cls=LazyGroup)
@click.version_option(package_name="decima-scheduler")
def main() -> None:
    """Schedulers for Spark-style DAG jobs: import logs, simulate, compare, tune, train."""


add_examples(main)

if __name__ == "__main__":
    main()
