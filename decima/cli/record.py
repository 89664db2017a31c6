"""`decima traces record`: record a trace of real Spark jobs."""

from __future__ import annotations

import click

from traces.record_tpch.command import tpch


@click.group("record")
def record() -> None:
    """Run a workload on real Spark and store it as a trace."""


record.add_command(tpch)
