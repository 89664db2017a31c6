"""`decima cluster`: the archive that a Spark cluster needs."""

from __future__ import annotations

from pathlib import Path

import click

from decima.cli.console import progress_bar, say
from decima.cli.errors import OneLineErrors
from traces.files.errors import FileError


def _checked(_context: click.Context, _option: click.Parameter, path: Path) -> Path:
    from decima.rl.parallel.pack import check_output

    check_output(path)
    return path


def _absolute(_context: click.Context, _option: click.Parameter, path: Path | None) -> Path | None:
    if path is not None and not path.is_absolute():
        raise FileError(f"--python {path}: hosts need its path from the root")
    return path


@click.group(cls=OneLineErrors)
def cluster() -> None:
    """Prepare for `--cluster`."""


@cluster.command()
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    callback=_checked,
    help="Archive to write (.tar.gz).",
)
@click.option(
    "--python",
    type=click.Path(path_type=Path),
    callback=_absolute,
    help="Path of the same Python version on the hosts (default: its path here).",
)
def pack(output: Path, python: Path | None) -> None:
    """Pack this program and what it needs to run, for the executors of a cluster.

    Give the archive as --cluster-archive, or to Spark itself as spark.archives=FILE#environment.
    """
    from decima.rl.parallel.pack import pack as write_archive

    with progress_bar("packing") as (bar, task):
        packed = write_archive(
            output,
            python,
            progress=lambda done, total: bar.update(task, completed=done, total=total),
        )
    say(
        f"wrote {output}: {packed.num_bytes / 1e6:,.0f} MB, this program and "
        f"{len(packed.distributions)} packages"
    )
    say(f"every host needs {packed.python}; executors start ./environment/bin/python")
