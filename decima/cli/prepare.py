"""`decima prepare`: compile everything now, so that later commands start at once."""

from __future__ import annotations

import time

import click

from spark_sim.compiled.progress import announce


@click.command()
def prepare() -> None:
    """Compile what all commands need, `deeprm` and `harmony` included.

    It takes some minutes of processor time, once for a machine and a version of this program.
    Without it, each command compiles and logs what it needs.
    """
    # torch takes a second to load, and other commands do not need it.
    from decima.prepare import all_steps

    announce()
    began_s = time.monotonic()
    for name, step in all_steps():
        click.echo(f"preparing: {name}", err=True)
        step()
    click.echo(f"ready after {time.monotonic() - began_s:.0f} s")
