"""Decoding of a trace file's columns to jobs, without a Python object for each duration."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from traces.bounds import TO_READ_MORE, Bounds
from traces.errors import TraceError
from traces.files.names import clean
from traces.model import MAX_NAME, Job, LevelDurations, Stage

_WAVES = ("fresh_ms", "first_ms", "rest_ms")


class _Lists:
    """A column of lists: row i is `values[start[i] : start[i + 1]]`; a null list is empty."""

    def __init__(self, column: pa.ListArray) -> None:
        self.start: list[int] = column.offsets.to_pylist()
        self.values: pa.Array = column.values

    def rows(self, index: int) -> range:
        """Return the positions of the values of row `index`."""
        return range(self.start[index], self.start[index + 1])


def read_jobs(table: pa.Table, limits: Bounds) -> Iterator[Job]:
    """The jobs of a table of the trace file's schema, whose names are dictionaries.

    Raises:
        TraceError: there are more stages or levels than `limits` allow, something is null that may
            not be, or a rule of `traces.model` is broken.
    """
    names = _names(table["name"].combine_chunks())
    arrivals = table["arrival_ms"].to_pylist()
    stages = _Lists(table["stages"].combine_chunks())
    read = _Stages(stages.values, limits)
    for index, name in enumerate(names):
        rows = stages.rows(index)
        if len(rows) > limits.stages_per_job:
            raise TraceError(
                f"job {name!r}: {len(rows):,} stages, at most {limits.stages_per_job:,} are read "
                f"({TO_READ_MORE})"
            )
        yield Job(name, tuple(read.stage(row) for row in rows), arrivals[index])


class _Stages:
    """The columns of all stages of a file."""

    def __init__(self, stages: pa.StructArray, limits: Bounds) -> None:
        levels = _Lists(stages.field("durations"))
        count = max(len(stages), len(levels.values))
        if count > limits.stages:
            raise TraceError(
                f"{count:,} stages and executor levels, at most {limits.stages:,} are read "
                f"({TO_READ_MORE})"
            )
        self._names = _names(_present(stages).field("name"))
        self._num_tasks = _present(stages.field("num_tasks")).to_pylist()
        self._cpu = stages.field("cpu").to_pylist()
        self._memory_mb = stages.field("memory_mb").to_pylist()
        self._parents = _Lists(stages.field("parents"))
        self._parent: list[int] = _present(self._parents.values).to_pylist()
        self._levels = levels
        level = _present(levels.values)
        self._executors = _present(level.field("executors")).to_pylist()
        self._samples = [_Lists(level.field(wave)) for wave in _WAVES]
        # A null inside a list becomes NaN, which LevelDurations refuses by name.
        self._values = [one.values.to_numpy(zero_copy_only=False) for one in self._samples]

    def stage(self, row: int) -> Stage:
        """The stage in one row."""
        return Stage(
            self._names[row],
            self._num_tasks[row],
            tuple(self._parent[place] for place in self._parents.rows(row)),
            tuple(self._level(place) for place in self._levels.rows(row)),
            self._cpu[row],
            self._memory_mb[row],
        )

    def _level(self, row: int) -> LevelDurations:
        fresh, first, rest = (
            values[lists.start[row] : lists.start[row + 1]]
            for lists, values in zip(self._samples, self._values, strict=True)
        )
        return LevelDurations.of(self._executors[row], fresh_ms=fresh, first_ms=first, rest_ms=rest)


def _names(column: pa.DictionaryArray) -> list[str]:
    known = [clean(name, MAX_NAME) for name in _present(column.dictionary).to_pylist()]
    return [known[index] for index in _present(column.indices).to_pylist()]


def _present(column: Any) -> Any:
    if column.null_count > 0:
        raise TraceError("a name, count, parent, stage or level is null")
    return column
