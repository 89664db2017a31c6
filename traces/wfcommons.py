"""Importer of WfCommons workflow instances (WfFormat 1.5, and 1.6 whose used fields are the same).

The older form of such workflows, Pegasus' abstract workflows (DAX), is read as well. A DAX has
jobs and which waits for which. The collections made for simulators also have runtimes, in seconds:
an attribute of the job, or its profile ``pegasus::runtime``.

One file is one workflow is one job, named after the file. A WfCommons task is one process, so each
becomes a stage of one task; with ``group=True`` tasks that are interchangeable in the graph become
one stage of several tasks (see `read_wfcommons`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.parsers import expat

from traces.errors import TraceError, located
from traces.files.names import clean
from traces.files.reading import MAX_JSON_BYTES, parse_json, read_bytes
from traces.model import Job, LevelDurations, Stage
from traces.numbers import MS_PER_S
from traces.text import json_number, parse_number
from traces.trace import Trace

SCHEMA_VERSIONS = ("1.5", "1.6")
SHORTEST_MS = 1.0  # duration of a task whose recorded runtime is 0, below the clock's resolution

BYTES_PER_MB = 2**20
MAX_TASKS = 200_000
"""jobs of one workflow; more take gigabytes"""
_NODES = ("job", "dag", "dax")


@dataclass(frozen=True)
class _Task:
    id: str
    program: str
    parents: frozenset[str]
    children: frozenset[str]
    runtime_ms: float
    cores: float | None
    memory_mb: float | None


def read_wfcommons(paths: Sequence[str | Path], *, group: bool = False) -> Trace:
    """Read one workflow from each file.

    Args:
        paths: WfFormat JSON files with an execution part, or DAX files with runtimes.
        group: merge tasks of the same program, the same parents and the same children into one
            stage with all their runtimes. This is exact for the graph: a child of one of them is
            a child of all, so it already waited for the whole group.

    Raises:
        TraceError: a file cannot be read, is neither a WfFormat 1.5 instance nor a DAX, lacks a
            task's runtime, names an unknown task, or has a cycle.
    """
    adjusted = Counter[str]()
    files = [Path(path) for path in paths]
    jobs = tuple(_read_job(file, group, adjusted) for file in files)
    metadata = {
        "format": "wfcommons",
        "source": [clean(file.name) for file in files],
        "grouped": group,
        "adjusted": dict(adjusted),
    }
    return Trace(clean(files[0].stem) if len(files) == 1 else "wfcommons", jobs, metadata)


def _read_job(path: Path, group: bool, adjusted: Counter[str]) -> Job:
    text = read_bytes(path, TraceError, MAX_JSON_BYTES)
    is_xml = is_dax(text)
    content = None if is_xml else parse_json(text, str(path), TraceError)
    with located(path):
        if is_xml:
            content = instance_of_dax(text)
        tasks = _tasks(content, adjusted)
        # Interchangeable tasks together, in order of appearance.
        groups: dict[object, list[_Task]] = {}
        for task in tasks:
            key = (task.program, task.parents, task.children) if group else task.id
            groups.setdefault(key, []).append(task)
        stage_of = {task.id: index for index, row in enumerate(groups.values()) for task in row}
        return Job(clean(path.stem), tuple(_stage(row, stage_of) for row in groups.values()))


def _tasks(content: Any, adjusted: Counter[str]) -> list[_Task]:
    version = _get(content, "schemaVersion", str, "the instance")
    if version not in SCHEMA_VERSIONS:
        raise TraceError(
            f"schemaVersion {version!r:.40}, this reader knows {' and '.join(SCHEMA_VERSIONS)}"
        )
    workflow = _get(content, "workflow", dict, "the instance")
    specified = _get(_get(workflow, "specification", dict, "workflow"), "tasks", list, "workflow")
    executed = _get(_get(workflow, "execution", dict, "workflow"), "tasks", list, "execution")
    runs = {_get(run, "id", str, "an executed task"): run for run in executed}
    parents, children = _relations(specified)
    return [
        _task(task, runs, parents[task["id"]], children[task["id"]], adjusted) for task in specified
    ]


def _relations(specified: list[Any]) -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    """Parents and children of each task id: an edge that either end names."""
    ids = [_get(task, "id", str, "a task") for task in specified]
    twice = [task for task, count in Counter(ids).items() if count > 1]
    if twice:
        raise TraceError(f"task id {twice[0]!r:.80} is used twice")
    parents: dict[str, set[str]] = {task: set() for task in ids}
    children: dict[str, set[str]] = {task: set() for task in ids}
    for task in specified:
        name = task["id"]
        edges = [(parent, name) for parent in _get(task, "parents", list, f"task {name!r:.80}")]
        edges += [(name, child) for child in _get(task, "children", list, f"task {name!r:.80}")]
        for above, below in edges:
            for end in (above, below):
                if not isinstance(end, str) or end not in parents:
                    raise TraceError(
                        f"task {name!r:.80} names {end!r:.80}, which is no task of the workflow"
                    )
            parents[below].add(above)
            children[above].add(below)
    return parents, children


def _task(
    task: dict[str, Any],
    runs: dict[str, Any],
    parents: set[str],
    children: set[str],
    adjusted: Counter[str],
) -> _Task:
    where = f"task {task['id']!r:.80}"
    if task["id"] not in runs:
        raise TraceError(f"{where} was not executed: the instance holds no runtime for it")
    run = runs[task["id"]]
    runtime_ms = _number(run, "runtimeInSeconds", where) * MS_PER_S
    if runtime_ms < SHORTEST_MS:
        adjusted["runtimes under 1 ms, taken as 1 ms"] += 1
    cores = _number(run, "coreCount", where) if "coreCount" in run else None
    memory = _number(run, "memoryInBytes", where) if "memoryInBytes" in run else None
    # The program is the command's, else the name without a trailing number.
    command = run.get("command")
    program = command.get("program") if isinstance(command, dict) else None
    name = program if isinstance(program, str) else str(task.get("name", task["id"]))
    return _Task(
        id=task["id"],
        program=re.sub(r"[_-]?(?:ID)?[0-9]+$", "", name) or name,
        parents=frozenset(parents),
        children=frozenset(children),
        runtime_ms=max(runtime_ms, SHORTEST_MS),
        cores=cores,
        memory_mb=None if memory is None else memory / BYTES_PER_MB,
    )


def _stage(tasks: Sequence[_Task], stage_of: dict[str, int]) -> Stage:
    # Each task starts a new process, so one runtime serves for all three waves.
    runtimes = [task.runtime_ms for task in tasks]
    measured = LevelDurations.of(1, fresh_ms=runtimes, first_ms=runtimes, rest_ms=runtimes)
    parents = sorted({stage_of[parent] for parent in tasks[0].parents})
    return Stage(
        name=clean(tasks[0].id),
        num_tasks=len(tasks),
        parents=tuple(parents),
        durations=(measured,),
        cpu=_largest(task.cores for task in tasks),
        memory_mb=_largest(task.memory_mb for task in tasks),
    )


def _largest(demands: Iterable[float | None]) -> float | None:
    return max((demand for demand in demands if demand is not None), default=None)


def _get(record: Any, key: str, kind: type, where: str) -> Any:
    if not isinstance(record, dict) or not isinstance(record.get(key), kind):
        raise TraceError(f"{where}: {key!r} is missing or not a {kind.__name__}")
    return record[key]


def _number(record: Any, key: str, where: str) -> float:
    value = json_number(record.get(key), f"{where}: {key}")
    if value < 0:
        raise TraceError(f"{where}: {key} {value:g} must not be negative")
    return value


def is_dax(content: bytes) -> bool:
    """Return whether a file begins like XML, in whatever encoding."""
    return content.lstrip(b"\xef\xbb\xbf\xff\xfe\0\t\r\n ").startswith(b"<")


def instance_of_dax(content: bytes) -> dict[str, Any]:
    """The workflow of a DAX as an instance of WfFormat 1.5; TraceError if it is none."""
    reader = _Reader()
    parser = expat.ParserCreate(namespace_separator="}")
    parser.StartElementHandler = reader.begin
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.add_text
    parser.StartDoctypeDeclHandler = reader.refuse
    try:
        parser.Parse(content, True)
    except TraceError:
        raise
    except (expat.ExpatError, LookupError, ValueError) as error:  # the latter of encodings
        raise TraceError(f"not XML: {error}") from error
    return {
        "schemaVersion": "1.5",
        "workflow": {
            "specification": {"tasks": list(reader.tasks)},
            "execution": {"tasks": list(reader.runs.values())},
        },
    }


class _Reader:
    """Handlers of the elements of a DAX."""

    def __init__(self) -> None:
        self.tasks: list[dict[str, Any]] = []
        self.runs: dict[str, dict[str, Any]] = {}
        self._parents: dict[str, list[str]] = {}
        self._depth = 0
        self._job = self._child = ""
        self._runtime: str | None = None  # the text so far of a profile that has one

    def refuse(self, *_: object) -> None:
        raise TraceError("a workflow with a DOCTYPE is not read")

    def begin(self, name: str, attributes: dict[str, str]) -> None:
        tag = name.rpartition("}")[2]
        self._depth += 1
        if self._depth == 1 and tag != "adag":
            raise TraceError(f"the root is <{tag:.40}>, that of a DAX <adag>")
        if self._depth == 2 and tag in _NODES:
            self._job = _attribute(attributes, "id", tag)
            parents = self._parents.setdefault(self._job, [])
            called = attributes.get("name", self._job)
            self.tasks.append({"id": self._job, "name": called, "parents": parents, "children": []})
            if len(self.tasks) > MAX_TASKS:
                raise TraceError(f"a workflow of more than {MAX_TASKS:,} jobs is not read")
            if "runtime" in attributes:
                self._run(attributes["runtime"])
        elif self._depth == 2 and tag == "child":
            self._child = _attribute(attributes, "ref", tag)
        elif self._depth == 3 and tag == "parent":
            parent = _attribute(attributes, "ref", tag)
            self._parents.setdefault(self._child, []).append(parent)
        elif self._depth == 3 and tag == "profile":
            key = attributes.get("namespace", "").lower(), attributes.get("key", "").lower()
            self._runtime = "" if key == ("pegasus", "runtime") else None

    def add_text(self, text: str) -> None:
        if self._runtime is not None:
            self._runtime += text

    def end(self, _name: str) -> None:
        self._depth -= 1
        if self._depth == 2 and self._runtime is not None and self._job not in self.runs:
            self._run(self._runtime)
        if self._depth == 2:
            self._runtime = None

    def _run(self, text: str) -> None:
        seconds = parse_number(text.strip(), f"job {self._job!r:.80}: runtime")
        self.runs[self._job] = {"id": self._job, "runtimeInSeconds": seconds}


def _attribute(attributes: dict[str, str], name: str, tag: str) -> str:
    if name not in attributes:
        raise TraceError(f"<{tag}> lacks the attribute {name!r}")
    return attributes[name]
