"""Traces written by hand: CSV with one row for each stage, or JSON.

`docs/trace-format.md` describes both with an example. A stage names its parents by name. Durations
are samples: one number, or several (``;`` between them in CSV, a list in JSON). ``task_ms`` is the
rest wave; ``first_ms`` and ``fresh_ms`` are the other two, empty where nothing was measured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from traces.bounds import DEFAULT, TO_READ_MORE, Bounds
from traces.errors import TraceError, located
from traces.files import reading
from traces.files.names import clean, some, suggestion
from traces.model import Job, LevelDurations, Stage
from traces.text import json_number, parse_count, parse_number, read_table
from traces.trace import Trace

REQUIRED_COLUMNS = ("job", "stage", "num_tasks", "task_ms")
OPTIONAL_COLUMNS = (
    "parents",
    "arrival_ms",
    "weight",
    "deadline_ms",
    "first_ms",
    "fresh_ms",
    "executors",
    "cpu",
    "memory_mb",
    "slots",
    "barrier",
)
_OF_JOBS = ("arrival_ms", "weight", "deadline_ms")
"""columns or keys of a job, and fields of `Job`"""
_DURATIONS = {"rest_ms": "task_ms", "first_ms": "first_ms", "fresh_ms": "fresh_ms"}
"""field of `LevelDurations` -> its column or key"""


@dataclass
class _StageDraft:
    """A stage whose parents are still names."""

    where: str
    name: str
    num_tasks: int
    parents: tuple[str, ...] = ()
    cpu: float | None = None
    memory_mb: float | None = None
    slots: int = 1
    barrier: bool = False
    levels: dict[int, LevelDurations] = field(default_factory=dict)


@dataclass
class _JobDraft:
    where: str
    name: str
    given: dict[str, float] = field(default_factory=dict)
    """what the file has of `_OF_JOBS`"""
    stages: dict[str, _StageDraft] = field(default_factory=dict)


def read_csv(path: str | Path, limits: Bounds = DEFAULT) -> Trace:
    """Read a CSV trace, named after the file.

    Raises:
        TraceError: the file exceeds `limits`, or breaks a rule of the format or of `traces.model`;
            the message begins with ``file:line:``.
    """
    path = Path(path)
    drafts: dict[str, _JobDraft] = {}
    samples = 0
    for line, row in read_table(path, REQUIRED_COLUMNS, OPTIONAL_COLUMNS, limits.text_bytes):
        where = f"{path}:{line}"
        samples += sum(row.get(column, "").count(";") + 1 for column in _DURATIONS.values())
        if line > limits.stages or samples > limits.values:
            raise TraceError(
                f"{where}: more than {limits.stages:,} rows or {limits.values:,} durations "
                f"({TO_READ_MORE})"
            )
        cells = {column: cell for column, cell in row.items() if cell}
        names = {column: clean(cells[column]) for column in ("job", "stage") if column in cells}
        with located(where):
            _add_row(drafts, cells | names, where)
    return _trace(path, path.stem, "csv", drafts.values())


def _parse_parents(text: str, _column: str) -> tuple[str, ...]:
    return tuple(clean(name.strip()) for name in text.split(";") if name.strip())


def _parse_flag(text: str, column: str) -> bool:
    if text not in ("true", "false"):
        raise TraceError(f"{column} {text!r:.60} must be true or false")
    return text == "true"


_CELLS: dict[str, Callable[[str, str], Any]] = {
    "num_tasks": parse_count,
    "parents": _parse_parents,
    "cpu": parse_number,
    "memory_mb": parse_number,
    "slots": parse_count,
    "barrier": _parse_flag,
}
"""column of a stage, also the field of `_StageDraft` -> parser"""


def _add_row(drafts: dict[str, _JobDraft], row: Mapping[str, str], where: str) -> None:
    """Add the stage, or one more executor level of it, that `row` (without empty cells) holds."""
    for column in ("job", "stage"):
        if column not in row:
            raise TraceError(f"{column} is empty")
    job = drafts.setdefault(row["job"], _JobDraft(where, row["job"]))
    for column in _OF_JOBS:
        if column in row:
            value = parse_number(row[column], column)
            before = job.given.setdefault(column, value)
            if value != before:
                raise TraceError(
                    f"job {job.name!r}: {column} is {value:g} here and {before:g} in an earlier row"
                )
    given = {
        column: parse(row[column], column) for column, parse in _CELLS.items() if column in row
    }
    if row["stage"] not in job.stages:
        if "num_tasks" not in given:
            raise TraceError(f"num_tasks of stage {row['stage']!r} is empty")
        job.stages[row["stage"]] = _StageDraft(where, row["stage"], **given)
    stage = job.stages[row["stage"]]
    for column, value in given.items():
        if value != getattr(stage, column):
            raise TraceError(
                f"stage {stage.name!r}: {column} {row[column]:.60} differs from its first row"
            )
    executors = parse_count(row.get("executors", "1"), "executors")
    if executors in stage.levels:
        raise TraceError(f"stage {stage.name!r} has executor level {executors} twice")
    stage.levels[executors] = LevelDurations.of(
        executors,
        **{
            wave: [parse_number(text, column) for text in row.get(column, "").split(";") if text]
            for wave, column in _DURATIONS.items()
        },
    )


def read_json(path: str | Path, limits: Bounds = DEFAULT) -> Trace:
    """Read a JSON trace; its name is the key ``name``, else that of the file.

    Raises:
        TraceError: the file is larger than `limits.text_bytes`, or breaks a rule of the format or
            of `traces.model`; the message names
            the file and the job and stage, or the line where the text is no JSON.
    """
    path = Path(path)
    content = reading.read_json(path, TraceError, limits.text_bytes)
    _check_keys(content, {"name", "jobs"}, {"jobs"}, str(path))
    name = _text(content.get("name", path.stem), f"{path}: name")
    drafts = [
        _json_job(record, f"{path}: jobs[{index}]")
        for index, record in enumerate(_list(content["jobs"], f"{path}: jobs"))
    ]
    return _trace(path, name, "json", drafts)


def _json_job(record: Any, where: str) -> _JobDraft:
    _check_keys(record, {"name", "stages", *_OF_JOBS}, {"name", "stages"}, where)
    job = _JobDraft(where, _text(record["name"], f"{where}.name"))
    for key in _OF_JOBS:
        if record.get(key) is not None:
            job.given[key] = json_number(record[key], f"{where}.{key}")
    for index, entry in enumerate(_list(record["stages"], f"{where}.stages")):
        stage = _json_stage(entry, f"{where}.stages[{index}]")
        if stage.name in job.stages:
            raise TraceError(f"{stage.where}: stage name {stage.name!r} is used twice")
        job.stages[stage.name] = stage
    return job


def _json_stage(record: Any, where: str) -> _StageDraft:
    durations = {"executors", *_DURATIONS.values()}
    _check_keys(record, {"name", "levels", *durations, *_CELLS}, {"name", "num_tasks"}, where)
    stage = _StageDraft(
        where,
        _text(record["name"], f"{where}.name"),
        _whole(record["num_tasks"], f"{where}.num_tasks"),
        tuple(_text(name, f"{where}.parents") for name in _list(record.get("parents", []), where)),
    )
    for key in ("cpu", "memory_mb"):
        if record.get(key) is not None:
            setattr(stage, key, json_number(record[key], f"{where}.{key}"))
    stage.slots = _whole(record.get("slots", 1), f"{where}.slots")
    stage.barrier = record.get("barrier", False)
    if not isinstance(stage.barrier, bool):
        raise TraceError(f"{where}.barrier: expected true or false, found {stage.barrier!r:.60}")
    if "levels" not in record:
        entries = [{key: record[key] for key in durations & set(record)}]
    elif durations & set(record):
        raise TraceError(f"{where}: give durations either directly or in levels, not in both")
    else:
        entries = _list(record["levels"], f"{where}.levels")
    for entry in entries:
        _check_keys(entry, durations, set(), f"{where}.levels")
        samples: dict[str, list[float]] = {}
        for wave, key in _DURATIONS.items():
            value = entry.get(key, [])
            values = value if isinstance(value, list) else [value]
            samples[wave] = [json_number(sample, f"{where}.{key}") for sample in values]
        executors = _whole(entry.get("executors", 1), f"{where}.executors")
        with located(where):
            level = LevelDurations.of(executors, **samples)
        if level.executors in stage.levels:
            raise TraceError(f"{where}: executor level {level.executors} appears twice")
        stage.levels[level.executors] = level
    return stage


def _check_keys(record: Any, known: set[str], required: set[str], where: str) -> None:
    if not isinstance(record, dict):
        raise TraceError(f"{where}: expected an object, found {record!r:.60}")
    for key in record:
        if key not in known:
            raise TraceError(
                f"{where}: unknown key {key!r:.60}{suggestion(key, sorted(known))}, known: "
                f"{', '.join(sorted(known))}"
            )
    for key in sorted(required - set(record)):
        raise TraceError(f"{where}: key {key!r} is missing")


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str) or not value:
        raise TraceError(f"{where}: expected a name, found {value!r:.60}")
    return clean(value)


def _whole(value: Any, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TraceError(f"{where}: expected a whole number, found {value!r:.60}")
    return value


def _list(value: Any, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise TraceError(f"{where}: expected a list, found {value!r:.60}")
    return value


def _trace(path: Path, name: str, file_format: str, drafts: Iterable[_JobDraft]) -> Trace:
    jobs = []
    for draft in drafts:
        index_of = {stage: index for index, stage in enumerate(draft.stages)}
        stages = tuple(_stage(stage, index_of) for stage in draft.stages.values())
        with located(draft.where):
            jobs.append(Job(draft.name, stages, **draft.given))
    with located(path):
        return Trace(clean(name), tuple(jobs), {"format": file_format, "source": clean(path.name)})


def _stage(draft: _StageDraft, index_of: Mapping[str, int]) -> Stage:
    unknown = [name for name in draft.parents if name not in index_of]
    if unknown:
        raise TraceError(
            f"{draft.where}: stage {draft.name!r} names parent {unknown[0]!r:.60}, "
            f"the job has {some(list(index_of), 5)}"
        )
    levels = tuple(draft.levels[executors] for executors in sorted(draft.levels))
    parents = tuple(index_of[name] for name in draft.parents)
    demands = (draft.cpu, draft.memory_mb, draft.slots, draft.barrier)
    with located(draft.where):
        return Stage(draft.name, draft.num_tasks, parents, levels, *demands)
