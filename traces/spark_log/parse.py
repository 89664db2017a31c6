"""The lines of an event log, one at a time, as typed records.

Spark writes one JSON object for each event. The bulk of a log is not needed here: the metrics of
every task, the call stacks of every stage, the plan of every query. Spark's field order is fixed,
so most events are parsed only up to the field where the bulk begins. That is safe: the marker
begins with a comma and a bare quote, and inside a JSON string every quote is escaped. Where the cut
text is no JSON object after all, the whole line is parsed.
"""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Iterable, Iterator
from typing import Any

from traces.errors import DamageError
from traces.files.names import MAX_NAME, clean
from traces.files.reading import split_lines
from traces.spark_log import events

MAX_TIME_MS = 10**14  # a later time stamp (year 5138) is damaged
MAX_ID = 2**53
MAX_JSON_BYTES = 1 << 23  # text parsed at once; JSON can take sixty times its length in memory
MAX_CORES = 10**6
MAX_LINE_BYTES = 1 << 25  # an event longer than this is skipped

TOO_OLD = "the log is of a Spark before 1.5, which records too little to be read"
_SINCE_1_5 = {
    ("SparkListenerJobStart", "Submission Time"),
    ("SparkListenerJobStart", "Stage Infos"),
    ("SparkListenerJobEnd", "Completion Time"),
    ("SparkListenerJobStart", "Parent IDs"),
}

_KEPT = {
    *(events.OWN_JOB, events.EXECUTION_ID, events.ROOT_EXECUTION_ID, events.JOB_GROUP),
    *(events.POOL, events.JOB_DESCRIPTION, events.CALL_SITE),
    *events.SETTINGS,
}
_SQL = "org.apache.spark.sql.execution.ui."
_LISTENER = "SparkListener"
_BULK: dict[str, tuple[bytes, bytes] | None] = {
    "SparkListenerLogStart": None,
    "DBCEventLoggingListenerMetadata": None,
    "SparkListenerApplicationStart": None,
    "SparkListenerApplicationEnd": None,
    "SparkListenerEnvironmentUpdate": None,
    "SparkListenerExecutorAdded": None,
    "SparkListenerExecutorRemoved": None,
    "SparkListenerResourceProfileAdded": None,
    f"{_SQL}SparkListenerSQLExecutionStart": (b',"details":', b"}"),
    f"{_SQL}SparkListenerSQLExecutionEnd": None,
    "SparkListenerJobStart": None,
    "SparkListenerJobEnd": None,
    "SparkListenerStageSubmitted": (b',"RDD Info":[', b"}}"),
    "SparkListenerTaskEnd": (b',"Accumulables":[', b"}}"),
}
"""types of events that are read: where the bulk begins, and what closes the object before it"""
_UNUSED = frozenset(
    [
        "BlockManagerAdded",
        "BlockManagerRemoved",
        "BlockUpdated",
        "ExecutorBlacklisted",
        "ExecutorBlacklistedForStage",
        "ExecutorExcluded",
        "ExecutorExcludedForStage",
        "ExecutorMetricsUpdate",
        "ExecutorUnblacklisted",
        "ExecutorUnexcluded",
        "MiscellaneousProcessAdded",
        "NodeBlacklisted",
        "NodeBlacklistedForStage",
        "NodeExcluded",
        "NodeExcludedForStage",
        "NodeUnblacklisted",
        "NodeUnexcluded",
        "SpeculativeTaskSubmitted",
        "StageCompleted",
        "StageExecutorMetrics",
        "TaskGettingResult",
        "TaskStart",
        "UnpersistRDD",
        "UnschedulableTaskSetAdded",
        "UnschedulableTaskSetRemoved",
    ]
)
"""types that Spark 3.3 to 4.3 writes but that are of no use here"""
_FAMILIES = (
    "org.apache.spark.sql.execution.ui.",  # updates of plans and metrics
    "org.apache.spark.sql.streaming.",
    "org.apache.spark.sql.hive.thriftserver.",
    "org.apache.spark.sql.connect.",
)
_OUTCOMES = {
    "Success": events.Outcome.SUCCESS,
    "TaskKilled": events.Outcome.KILLED,
    "TaskCommitDenied": events.Outcome.KILLED,
    "Resubmitted": events.Outcome.RESUBMITTED,
}
_EVENT = re.compile(rb'\s*\{\s*"Event"\s*:\s*"([^"\\]{1,200})"')
_PREFIX = b'{"Event":"'


def read_lines(pieces: Iterable[bytes]) -> Iterator[tuple[int, bytes | DamageError]]:
    """Yield (line number, line) of each non-empty line, or a fault in place of an unusable line.

    Faults: the line is longer than `MAX_LINE_BYTES`, the last line lacks its end (a file cut short
    or still written to), the compressed data is damaged (nothing follows).
    """
    number = 0
    try:
        for number, (line, has_end) in enumerate(split_lines(pieces, MAX_LINE_BYTES), 1):
            if line is None:
                yield number, DamageError(f"the event is longer than {MAX_LINE_BYTES >> 20} MiB")
            elif not has_end and not line.endswith(b"}"):
                yield number, DamageError("the file ends in the middle of an event")
            elif line:
                yield number, line
    except DamageError as error:
        yield number + 1, error


def event_name(line: bytes) -> str:
    """The type that a line names; DamageError if it does not begin like an event."""
    # Spark writes no blanks; a log that another tool has rewritten may have some.
    if line.startswith(_PREFIX):
        end = line.find(b'"', len(_PREFIX), len(_PREFIX) + MAX_NAME)
        if end > 0:
            return line[len(_PREFIX) : end].decode(errors="replace")
    match = _EVENT.match(line)
    if match is None:
        raise DamageError("the line is no Spark event")
    return match[1].decode(errors="replace")


def is_known(name: str) -> bool:
    """Return whether events of this type are Spark's own."""
    return name.removeprefix(_LISTENER) in _UNUSED or name.startswith(_FAMILIES)


def parse_event(name: str, line: bytes) -> events.Event | None:
    """The record of an event of type `name`, or DamageError; None for a type of no use here."""
    if name not in _BULK:
        return None
    try:
        if name == "SparkListenerJobStart":
            return _job_start(line)
        bulk = _BULK[name]
        return _event(name, _object(line) if bulk is None else _cut(line, *bulk))
    except KeyError as error:
        field = error.args[0]
        why = f": {TOO_OLD}" if (name, field) in _SINCE_1_5 else ""
        raise DamageError(f"{name} lacks the field {field!r:.40}{why}") from error
    except (TypeError, AttributeError) as error:
        raise DamageError(f"{name} has a field of a wrong type") from error
    except (ValueError, RecursionError) as error:
        raise DamageError(f"{name} is not valid JSON") from error


def _event(name: str, record: dict[str, Any]) -> events.Event | None:  # noqa: C901 - see `add`
    match name.removeprefix(_SQL).removeprefix(_LISTENER):
        case "TaskEnd":
            task = record["Task Info"]
            partition = task.get("Partition ID", -1)  # since Spark 3.3
            # A large result is fetched after its task has left the slot; 0 means a small one.
            fetched = task.get("Getting Result Time", 0)
            return events.TaskEnd(
                _whole_number(record["Stage ID"]),
                _whole_number(record["Stage Attempt ID"]),
                record["Task Type"] == "ShuffleMapTask",
                _OUTCOMES.get(record["Task End Reason"]["Reason"], events.Outcome.FAILED),
                _whole_number(task["Index"] if partition == -1 else partition),
                _text(task["Executor ID"]),
                task.get("Speculative") is True,
                _time(task["Launch Time"]),
                _time(task["Finish Time"] if fetched == 0 else fetched),
            )
        case "StageSubmitted":
            info = record["Stage Info"]
            return events.StageSubmitted(
                _whole_number(info["Stage ID"]),
                _whole_number(info["Stage Attempt ID"]),
                _whole_number(info["Number of Tasks"]),
            )
        case "JobEnd":
            return events.JobEnd(
                _whole_number(record["Job ID"]),
                _time(record["Completion Time"]),
                record["Job Result"]["Result"] == "JobSucceeded",
            )
        case "SQLExecutionStart":
            root = record.get("rootExecutionId")
            return events.SqlStart(
                _whole_number(record["executionId"]),
                None if root is None else _whole_number(root),
                _text(record["description"]),
            )
        case "SQLExecutionEnd":
            # The message came with Spark 3.4; it is empty after a success.
            has_failed = record.get("errorMessage") not in (None, "")
            return events.SqlEnd(_whole_number(record["executionId"]), has_failed)
        case "ExecutorAdded":
            info = record["Executor Info"]
            resources = info.get("Resources", {})  # since Spark 3.0
            return events.ExecutorAdded(
                _text(record["Executor ID"]),
                _time(record["Timestamp"]),
                _whole_number(info["Total Cores"], MAX_CORES),
                {_text(kind): len(units["addresses"]) for kind, units in resources.items()},
                _whole_number(info.get("Resource Profile Id", 0)),
            )
        case "ExecutorRemoved":
            return events.ExecutorRemoved(_text(record["Executor ID"]), _time(record["Timestamp"]))
        case "ResourceProfileAdded":
            return events.ProfileAdded(
                _whole_number(record["Resource Profile Id"]),
                _amounts(record["Task Resource Requests"]),
                _amounts(record["Executor Resource Requests"]),
            )
        case "EnvironmentUpdate":
            return events.Environment(_properties(record["Spark Properties"]))
        case "ApplicationStart":
            return events.ApplicationStart(
                _text(record["App Name"]),
                _maybe(record.get("App ID")),
                _time(record["Timestamp"]),
                _maybe(record.get("App Attempt ID")),
            )
        case "ApplicationEnd":
            return events.ApplicationEnd(_time(record["Timestamp"]))
        case "LogStart":
            return events.LogStart(_text(record["Spark Version"]))
        case _:  # Databricks' metadata
            number = record.get("Rollover Number")
            return events.LogPart(
                None if number is None else _whole_number(number),
                _maybe(record.get("Spark Version")),
            )


def _object(text: bytes) -> dict[str, Any]:
    if len(text) > MAX_JSON_BYTES:
        raise DamageError(f"a part of the event is longer than {MAX_JSON_BYTES >> 20} MiB")
    record = json.loads(text.decode())
    if not isinstance(record, dict):
        raise DamageError("the line is no JSON object")
    return record


def _cut(line: bytes, marker: bytes, closing: bytes) -> dict[str, Any]:
    """The object in `line` without what comes after `marker`."""
    end = line.find(marker)
    if end > 0:
        try:
            return _object(line[:end] + closing)
        except ValueError:
            pass  # another field order than Spark's
    return _object(line)


def _whole_number(value: object, highest: int = MAX_ID) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= highest:
        raise DamageError(f"expected a whole number of at most {highest}, found {value!r:.40}")
    return value


def _text(value: object) -> str:
    """Return a clean name."""
    if not isinstance(value, str):
        raise DamageError(f"expected text, found {value!r:.40}")
    return clean(value)


def _time(value: object) -> int:
    return _whole_number(value, MAX_TIME_MS)


def _maybe(value: object) -> str | None:
    return None if value is None else _text(value)


def _properties(properties: object) -> dict[str, str]:
    if not isinstance(properties, dict):
        return {}
    # Any other may be large: applications put data of their own into a job's properties.
    amounts = {key for key in properties if events.RESOURCE_AMOUNT.fullmatch(key)}
    return {key: _text(properties[key]) for key in _KEPT & properties.keys() | amounts}


def _amounts(requests: dict[str, Any]) -> dict[str, float]:
    amounts = {_text(name): request["Amount"] for name, request in requests.items()}
    for amount in amounts.values():
        is_number = isinstance(amount, int | float) and not isinstance(amount, bool)
        if not is_number or not (amount == 0 or events.LEAST_AMOUNT <= amount <= MAX_ID):
            raise DamageError(
                f"expected an amount from {events.LEAST_AMOUNT:g} to {MAX_ID}, found {amount!r:.40}"
            )
    return {name: float(amount) for name, amount in amounts.items() if amount > 0}


def _job_start(line: bytes) -> events.JobStart:
    """A job may list thousands of stages, which are parsed one by one."""
    head, _, after = line.partition(b',"Stage Infos":[')
    body, separator, tail = after.partition(b'],"Stage IDs":[')
    if not separator:  # not Spark's field order
        whole = _object(line)
        return _job_of(whole, [_stage_info(info) for info in whole["Stage Infos"]])
    first, *others = body.split(b',{"Stage ID":')
    texts = [first, *(b'{"Stage ID":' + text for text in others)] if body else []
    stages = [_stage_info(_object(text)) for text in texts]
    return _job_of(_object(head + b',"Stage IDs":[' + tail), stages)


def _job_of(record: dict[str, Any], stages: list[events.StageInfo]) -> events.JobStart:
    return events.JobStart(
        _whole_number(record["Job ID"]),
        _time(record["Submission Time"]),
        tuple(stages),
        _properties(record.get("Properties")),
    )


def _stage_info(info: dict[str, Any]) -> events.StageInfo:
    rdds = sorted(_whole_number(rdd["RDD ID"]) for rdd in info["RDD Info"])
    return events.StageInfo(
        _whole_number(info["Stage ID"]),
        _whole_number(info["Number of Tasks"]),
        tuple(_whole_number(parent) for parent in info["Parent IDs"]),
        array("q", rdds).tobytes(),
        _whole_number(info.get("Resource Profile Id", 0)),  # since Spark 3.1
        any(rdd.get("Barrier") is True for rdd in info["RDD Info"]),  # since Spark 2.4
    )
