"""TPC-H: the tables as Parquet, by `tpchgen-cli`, and the 22 queries as Spark SQL.

Queries have the parameters of the validation run.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from traces.errors import TraceError

PROGRAM = "tpchgen-cli"
TABLE_BYTES: Mapping[str, int] = {
    "lineitem": 250_000_000,
    "orders": 65_000_000,
    "partsupp": 48_000_000,
    "customer": 14_000_000,
    "part": 8_000_000,
    "supplier": 1_000_000,
    "nation": 4_000,
    "region": 2_000,
}
"""table -> Parquet at scale factor 1, about"""
_FIXED_SIZE = ("nation", "region")


class Layout(NamedTuple):
    """Layout of the tables on disk."""

    file_bytes: int | None
    """a table has so many files that each is about so large; None: one file"""
    row_group_bytes: int | None
    """uncompressed size of a row group, which Spark does not split; None: the generator's"""


# Every task reads the list of all row groups of its file, so files must be small, too:
# in one large file of small groups that list would cost more than the data.
MANY_TASKS = Layout(4_000_000, 500_000)
"""tables that Spark reads by many tasks, as if they were large"""


def find_generator() -> Path:
    """The program, beside this Python or on the path."""
    beside = shutil.which(PROGRAM, path=str(Path(sys.executable).parent))
    program = beside if beside is not None else shutil.which(PROGRAM)
    if program is None:
        raise TraceError(f"{PROGRAM}: not found; install it with pip install {PROGRAM}")
    return Path(program)


def num_files(table: str, scale_factor: float, file_bytes: int | None) -> int:
    """Files of `table`, each about `file_bytes` large."""
    if file_bytes is None or table in _FIXED_SIZE:
        return 1
    return max(1, round(TABLE_BYTES[table] * scale_factor / file_bytes))


def generate_tables(program: Path, scale_factor: float, folder: Path, layout: Layout) -> None:
    """Write the eight tables to `folder` as TABLE/TABLE.PART.parquet."""
    for table in TABLE_BYTES:
        files = num_files(table, scale_factor, layout.file_bytes)
        command = [str(program), "parquet", "-q", "-s", f"{scale_factor:g}", "-o", str(folder)]
        command += ["-T", table, "-p", str(files)]
        if layout.row_group_bytes is not None:
            command += ["--row-group-bytes", str(layout.row_group_bytes)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
        if done.returncode != 0:
            raise TraceError(
                f"{PROGRAM}: {table} at scale factor {scale_factor:g}: {last_line(done.stderr)}"
            )


def last_line(output: str) -> str:
    """Return the last line of a failed program that is no stack frame: it holds the reason."""
    lines = [line.strip() for line in output.splitlines()]
    telling = [line for line in lines if line and not line.startswith(("at ", "... "))]
    return telling[-1] if telling else "failed without a word"


FRACTION_AT_1 = 0.0001
"""parameter of query 11 at scale factor 1; TPC-H divides it by the scale factor"""


def query_text(query: int, scale_factor: float) -> str:
    text = (files("traces.tpch") / "queries" / f"q{query:02d}.sql").read_text("utf-8")
    return text.replace(":fraction", f"{FRACTION_AT_1 / scale_factor:.12f}")
