"""`decima cluster`: the archive that a Spark cluster needs."""

from __future__ import annotations

from pathlib import Path

import click

from decima.cli.console import progress_bar, say
from decima.cli.errors import OneLineErrors
from decima.cli.options import output_option
from decima.rl.option_types import PathType
from traces.files.errors import FileError


def _check_archive(path: Path) -> None:
    from decima.rl.parallel.pack import check_output

    check_output(path)


@click.group(cls=OneLineErrors)
def cluster() -> None:
    """Prepare for `--cluster`."""


@cluster.command()
@output_option("Archive to write (.tar.gz).", check=_check_archive)
@click.option(
    "--python",
    type=PathType(),
    help="Path of the same Python version on the hosts (default: its path here).",
)
def pack(output: Path, python: Path | None) -> None:
    """Pack this program and what it needs to run, for the executors of a cluster.

    Give the archive as --cluster-archive, or to Spark itself as spark.archives=FILE#environment.
    """
    from decima.rl.parallel.pack import pack as write_archive

    if python is not None and not python.is_absolute():
        raise FileError(f"--python {python}: hosts need its path from the root")
    with progress_bar("packing") as (bar, task):
        packed = write_archive(
            output, python, progress=lambda done, n: bar.update(task, completed=done, total=n)
        )
    say(
        f"wrote {output}: {packed.num_bytes / 1e6:,.0f} MB, this program and "
        f"{len(packed.distributions)} packages"
    )
    say(f"every host needs {packed.python}; executors start ./environment/bin/python")
