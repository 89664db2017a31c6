"""The TPC-H tables as Parquet, by `tpchgen-cli`."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from traces.errors import TraceError
from traces.record_tpch.failures import last_line
from traces.record_tpch.plan import Layout

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


def find_generator() -> Path:
    """The program, beside this Python or on the path."""
    beside = shutil.which(PROGRAM, path=str(Path(sys.executable).parent))
    found = beside if beside is not None else shutil.which(PROGRAM)
    if found is None:
        raise TraceError(f"{PROGRAM}: not found; install it with pip install {PROGRAM}")
    return Path(found)


def generator_version(program: Path) -> str:
    """Return the generator's version, such as ``4.0.0``."""
    done = subprocess.run(  # noqa: S603
        [str(program), "--version"], capture_output=True, text=True, check=False
    )
    return done.stdout.strip().rpartition(" ")[2] if done.returncode == 0 else "unknown"


def check_space(folder: Path, scale_factors: tuple[float, ...]) -> None:
    """Refuse tables that would take more than is free below `folder`."""
    needed = 1.1 * sum(TABLE_BYTES.values()) * sum(scale_factors)
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise TraceError(
            f"{folder}: the tables take about {needed / 1e9:,.1f} GB, {free / 1e9:,.1f} GB are free"
        )


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
