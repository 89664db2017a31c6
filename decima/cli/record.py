"""`decima traces record`: make a trace by running something real."""

from __future__ import annotations

import click

from traces.record_tpch.command import tpch


@click.group("record")
def record() -> None:
    """Run a workload on real Spark and keep it as a trace."""


record.add_command(tpch)
