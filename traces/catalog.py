"""The traces that come with the project, and one way to load any trace by name or path.

Built-in are the generated ones in `_GENERATED` and every ``traces/data/NAME.parquet``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from traces.dataset import is_dataset, read_dataset
from traces.decima_sim import read_decima_sim
from traces.errors import TraceError
from traces.files.names import suggestion
from traces.files.writing import make_folder, write_whole
from traces.inflation import with_model
from traces.parquet import read_trace
from traces.plain import read_csv, read_json
from traces.synthetic import (
    any_heavy_trace,
    any_trace,
    chain_trace,
    heavy_trace,
    layered_trace,
    short_trace,
    tpch_like,
)
from traces.trace import Trace

DATA_FOLDER = Path(__file__).parent / "data"

MEASURED = "-measured"  # suffix of a recorded built-in trace without the model

_SAMPLE_LOG = DATA_FOLDER / "sample-log.zstd"
_SAMPLE_NAME = "local-1795258383920.zstd"  # Spark's name for the log of this application

_SEED = 20_190_819  # arbitrary constant: a built-in trace is the same everywhere

_GENERATED: dict[str, tuple[Callable[[np.random.Generator], Trace], str]] = {
    "tpch-like": (tpch_like, "made-up TPC-H-like queries, 22 at 7 sizes, with work inflation"),
    "random-dag": (layered_trace, "100 random layered DAGs, tasks of fixed duration"),
    "heavy-dag": (heavy_trace, "300 random layered DAGs, a few of which hold most of the work"),
    "short-dag": (short_trace, "200 random layered DAGs of few and short tasks"),
    "chain-dag": (chain_trace, "100 random chains of stages of few tasks"),
    "any-dag-0": (any_trace, "60 random layered DAGs of a random shape; any-dag-1, ... are others"),
    "any-heavy-0": (any_heavy_trace, "200 like these, a few of which hold most of the work"),
}
_ANY = re.compile(r"(any-dag|any-heavy)-(\d{1,6})")  # a shape for each number
_READERS: dict[str, Callable[[Path], Trace]] = {
    ".parquet": read_trace,
    ".csv": read_csv,
    ".json": read_json,
}


def list_builtin() -> dict[str, str]:
    """Name of every built-in trace, with a few words about it."""
    recorded: dict[str, str] = {}
    for path in sorted(DATA_FOLDER.glob("*.parquet")):
        recorded[path.stem] = "recorded by the project, with a model of many executors on top"
        recorded[path.stem + MEASURED] = "the same as measured, without the model"
    return recorded | {name: words for name, (_, words) in _GENERATED.items()}


def write_sample_log(folder: Path) -> Path:
    """Write a small Spark event log into a folder, made if it is not there; return its path."""
    make_folder(folder, TraceError)
    path = folder / _SAMPLE_NAME
    write_whole(path, _SAMPLE_LOG.read_bytes(), TraceError)
    return path


def load_trace(name_or_path: str | Path) -> Trace:
    """Load a built-in trace by name, else a file by its suffix, else a folder.

    A folder is one of parts (`traces.dataset`), or decima-sim's.

    Write ``./NAME`` for a file with the name of a built-in trace. A trace file whose metadata
    request the executor model (`traces.inflation`) gets it here, but not in `read_trace`.

    Raises:
        TraceError: it is neither of these, or the file breaks a rule of its format.
    """
    name = name_or_path if isinstance(name_or_path, str) else ""
    if shape := _ANY.fullmatch(name):
        generate, _ = _GENERATED[f"{shape[1]}-0"]
        return replace(generate(np.random.default_rng([_SEED, int(shape[2])])), name=name)
    if name in _GENERATED:
        generate, _ = _GENERATED[name]
        return generate(np.random.default_rng(_SEED))
    if name in list_builtin():
        recorded = read_trace(DATA_FOLDER / f"{name.removesuffix(MEASURED)}.parquet")
        return replace(recorded, name=name) if name.endswith(MEASURED) else with_model(recorded)
    path = Path(name_or_path)
    if path.is_dir():
        return with_model(read_dataset(path)) if is_dataset(path) else read_decima_sim(path)
    if not path.exists():
        raise TraceError(
            f"{name_or_path}: no such file, and no built-in trace"
            f"{suggestion(name_or_path, list_builtin())} ({', '.join(list_builtin())})"
        )
    if path.suffix.lower() not in _READERS:
        raise TraceError(
            f"{path}: suffix {path.suffix!r} is none of {', '.join(_READERS)}; "
            "other formats have an importer"
        )
    return with_model(_READERS[path.suffix.lower()](path))
