"""The files and tables that a SQL execution reads and writes, as its plan names them.

The plan in the log (`sparkPlanInfo`) may take megabytes, so it is searched and not parsed: a field
begins with a bare quote, which inside a JSON string is always escaped.
"""

from __future__ import annotations

import json
import re
from typing import NamedTuple

from traces.files.names import clean

_PLAN = b',"sparkPlanInfo":'
_MOST_NODES = 10_000
_NODE = re.compile(rb'"nodeName":"((?:[^"\\]|\\.)*)","simpleString":"((?:[^"\\]|\\.){0,4000})')
_LOCATION = re.compile(rb'"Location":"((?:[^"\\]|\\.)*)"')
_PATHS = re.compile(r"[^\[]*\[(.*)\]$", re.DOTALL)
_CUT_OFF = "..."  # in place of further paths
_TABLE_SCAN = re.compile(r"(?:Scan \w+|BatchScan) ([\w.`]+)$")
_SCAN = re.compile(r"Scan (?!ExistingRDD|OneRow)|BatchScan")
_WRITING_COMMAND = re.compile(
    r"Execute \w*(?:Insert|Save|AsSelect|Merge|Delete|Update|Write|Copy|Load|Truncate)"
)
_WRITING_NODES = (
    "AppendData", "AtomicCreateTableAsSelect", "AtomicReplaceTableAsSelect", "CreateTableAsSelect",
    "OverwriteByExpression", "OverwritePartitionsDynamic", "ReplaceData", "ReplaceTableAsSelect",
    "WriteDelta", "WriteToDataSourceV2",
)  # fmt: skip
_NO_OUTPUT = "Noop"
_WRITTEN = (
    re.compile(r"Execute InsertIntoHadoopFsRelationCommand (.+?), (?:true|false), "),
    re.compile(r"\bpath(?: -> |=)([^,\])]+)"),
    re.compile(r"(`[^`]+`(?:\.`[^`]+`)*)"),
    re.compile(r"\btable=([\w.]+)"),
)
"""where a writing node may name its output, the surest first"""
_LOCAL = re.compile(r"file:/+")
_S3 = re.compile(r"s3[an]?://")
_OWN_CATALOG = "spark_catalog."


class DataUse(NamedTuple):
    """What a SQL execution reads and writes: paths, and names of tables."""

    reads: frozenset[str] = frozenset()
    writes: frozenset[str] = frozenset()
    reads_more: bool = False
    """whether it reads, or may read, what the log does not name"""
    writes_more: bool = False
    """whether it writes, or may write, what the log does not name"""

    def joined(self, other: DataUse) -> DataUse:
        return DataUse(
            self.reads | other.reads,
            self.writes | other.writes,
            self.reads_more or other.reads_more,
            self.writes_more or other.writes_more,
        )


UNKNOWN_USE = DataUse(reads_more=True, writes_more=True)
"""of a SQL execution whose plan the log lacks"""


def data_use(line: bytes) -> DataUse:
    """Return what the plan of a SQLExecutionStart event reads and writes."""
    _, marker, plan = line.partition(_PLAN)
    if not marker:
        return UNKNOWN_USE
    reads: set[str] = set()
    writes: set[str] = set()
    reads_more = writes_more = False
    locations = _LOCATION.findall(plan)
    for location in locations:
        match = _PATHS.match(_text(location))
        paths = [] if match is None else match[1].split(", ")
        reads |= {normalised(path) for path in paths if path != _CUT_OFF}
        reads_more |= match is None or _CUT_OFF in paths
    described_locations = 0
    for count, node in enumerate(_NODE.finditer(plan)):
        if count == _MOST_NODES:
            return UNKNOWN_USE
        name, described = _text(node[1]), _text(node[2])
        if (table := _TABLE_SCAN.match(name.strip())) is not None:
            reads.add(normalised(table[1]))
        elif _SCAN.match(name) and "Location" not in described:
            reads_more = True
        described_locations += bool(_SCAN.match(name)) and "Location" in described
        if _WRITING_COMMAND.match(name) or name.startswith(_WRITING_NODES):
            if _NO_OUTPUT in described:
                continue
            outputs = filter(None, (pattern.search(described) for pattern in _WRITTEN))
            output = next(outputs, None)
            if output is None:
                writes_more = True
            else:
                writes.add(normalised(output[1]))
    # Spark has no metadata of files that DataSource V2 reads.
    reads_more |= described_locations > len(locations)
    return DataUse(frozenset(reads), frozenset(writes), reads_more, writes_more)


def _text(escaped: bytes) -> str:
    try:
        return str(json.loads(b'"' + escaped.rstrip(b"\\") + b'"'))
    except ValueError:
        return escaped.decode(errors="replace")


def normalised(resource: str) -> str:
    """Return one name for a path or a table that may be written in several ways.

    Tables have no slash, and no catalog if it is Spark's own.
    """
    text = resource.strip()
    if "/" not in text:
        return clean(text.replace("`", "").lower().removeprefix(_OWN_CATALOG))
    text = _S3.sub("s3://", _LOCAL.sub("file:/", text)).rstrip("/")
    return clean(f"file:{text}" if text.startswith("/") else text)
