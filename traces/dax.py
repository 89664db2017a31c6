"""Pegasus' abstract workflows (DAX), of which WfCommons' instances are the successor.

A DAX has jobs and which waits for which. The collections made for simulators also have runtimes, in
seconds: an attribute of the job, or its profile ``pegasus::runtime``.
"""

from __future__ import annotations

from typing import Any
from xml.parsers import expat

from traces.errors import TraceError
from traces.text import parse_number

MAX_TASKS = 200_000
"""jobs of one workflow; more take gigabytes"""
_NODES = ("job", "dag", "dax")


def is_dax(content: bytes) -> bool:
    """Return whether a file begins like XML, in whatever encoding."""
    return content.lstrip(b"\xef\xbb\xbf\xff\xfe\0\t\r\n ").startswith(b"<")


def instance_of_dax(content: bytes) -> dict[str, Any]:
    """The workflow of a DAX as an instance of WfFormat 1.5.

    Raises:
        TraceError: it is no XML, declares a DOCTYPE, or is no DAX.
    """
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
