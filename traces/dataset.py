"""A trace as a folder: trace files of bounded size, and a manifest that names them.

For traces too large for one file, such as the jobs of thousands of event logs.
`docs/trace-format.md` describes it.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from traces.bounds import DEFAULT, TO_READ_MORE, Bounds
from traces.columns import Columns, StoredJobs, joined, part_of
from traces.errors import TraceError, located
from traces.files.errors import reason
from traces.files.names import clean, is_clean
from traces.files.reading import check_format, read_json
from traces.files.writing import PARTIAL_SUFFIX, write_json
from traces.model import MAX_NAME
from traces.parquet import read_trace, write_trace
from traces.trace import Trace

MANIFEST = "trace.json"
FORMAT = "decima-trace-parts"
VERSION = 1
PART_VALUES = 2_000_000  # most durations in a part, unless one job has more: 8 MB


def is_dataset(folder: Path) -> bool:
    return (folder / MANIFEST).is_file()


def check_dataset_output(folder: Path) -> None:
    """Check early for errors that `write_dataset` would raise after the work."""
    parent = folder.absolute().parent
    if folder.exists() or folder.is_symlink():
        raise TraceError(f"{folder}: is there already; a folder of traces is never written over")
    if not parent.is_dir():
        raise TraceError(f"{folder}: cannot write: {parent} is no folder")
    if not os.access(parent, os.W_OK):
        raise TraceError(f"{folder}: cannot write: no permission in {parent}")


def write_dataset(trace: Trace, folder: Path, part_values: int = PART_VALUES) -> None:
    """Write `trace` to a new `folder`, which appears whole or not at all."""
    check_dataset_output(folder)
    total = num_values(trace.columns)
    if total > DEFAULT.values:
        raise TraceError(
            f"{folder}: {total:,} durations, of which no command reads more than "
            f"{DEFAULT.values:,}: keep fewer (--samples), or take fewer logs"
        )
    partial = folder.with_name(f".{secrets.token_hex(8)}{PARTIAL_SUFFIX}")
    try:
        partial.mkdir()
        parts = []
        for number, rows in enumerate(_parts(trace.columns, part_values)):
            part = {"file": f"part-{number:05}.parquet", "jobs": len(rows)}
            jobs = StoredJobs(part_of(trace.columns, rows.start, rows.stop))
            write_trace(Trace(trace.name, jobs), partial / str(part["file"]))
            parts.append(part)
        header = {"format": FORMAT, "version": VERSION, "name": trace.name}
        content = {**header, "metadata": dict(trace.metadata), "parts": parts}
        write_json(partial / MANIFEST, content, TraceError)
        partial.rename(folder)
    except OSError as error:
        raise TraceError(f"{folder}: cannot write: {reason(error)}") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)  # it has become `folder`, or was never made


def read_dataset(folder: Path, limits: Bounds = DEFAULT) -> Trace:
    """Read and validate a folder of `write_dataset`; `limits` hold for all parts together."""
    path = folder / MANIFEST
    manifest: dict[str, Any] = read_json(path, TraceError)
    words = f"not the manifest of a trace ({FORMAT})"
    check_format(manifest, path, (FORMAT, VERSION), words, TraceError)
    if not isinstance(manifest.get("name"), str) or not isinstance(manifest.get("metadata"), dict):
        raise TraceError(f"{path}: lacks its name or metadata")
    parts: list[Columns] = []
    values_left = limits.values
    for file, count in _listed(folder, manifest):
        part = read_trace(folder / file, replace(limits, values=values_left))
        values_left -= num_values(part.columns)
        if values_left < 0:
            raise TraceError(
                f"{folder}: holds more than {limits.values:,} durations ({TO_READ_MORE})"
            )
        if len(part.jobs) != count:
            raise TraceError(
                f"{folder / file}: holds {len(part.jobs):,} jobs, {MANIFEST} has {count:,}"
            )
        parts.append(part.columns)
    with located(folder):
        name = clean(manifest["name"], MAX_NAME)
        return Trace.of_columns(name, joined(parts), manifest["metadata"])


def _listed(folder: Path, manifest: dict[str, Any]) -> Iterator[tuple[str, int]]:
    """The parts by the manifest: names of files of this very folder, none twice."""
    parts = manifest.get("parts")
    files = set[str]()
    for part in parts if isinstance(parts, list) else [None]:
        match part:
            case {"file": str(file), "jobs": int(count)} if is_clean(file, MAX_NAME) and Path(
                file
            ).name == file not in {"", "..", *files}:
                files.add(file)
                yield file, count
            case _:
                raise TraceError(f"{folder / MANIFEST}: {part!r:.80} is no part of it")


def _parts(columns: Columns, part_values: int) -> Iterator[range]:
    """The jobs in their order, cut where a part would grow beyond `part_values`."""
    counts = np.concatenate([[0], np.cumsum(sum(wave.counts for wave in columns.waves))])
    sizes = np.diff(counts[columns.first_level[columns.first_stage]]).tolist()
    first, size = 0, 0
    for row, values in enumerate(sizes):
        if row > first and size + values > part_values:
            yield range(first, row)
            first, size = row, 0
        size += values
    yield range(first, len(sizes))


def num_values(columns: Columns) -> int:
    """Number of durations."""
    return sum(len(wave.values) for wave in columns.waves)
