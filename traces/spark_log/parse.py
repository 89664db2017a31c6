"""One line of an event log as a typed record.

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
from collections.abc import Callable
from typing import Any

from traces.errors import DamageError
from traces.files.names import MAX_NAME, clean
from traces.spark_log import events

MAX_TIME_MS = 10**14  # a later time stamp (year 5138) is damaged
MAX_ID = 2**53
MAX_JSON_BYTES = 1 << 23  # text parsed at once; JSON can take sixty times its length in memory
MAX_CORES = 10**6

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
_SQL = "org.apache.spark.sql.execution.ui.SparkListener"
_EVENT = re.compile(rb'\s*\{\s*"Event"\s*:\s*"([^"\\]{1,200})"')
_PREFIX = b'{"Event":"'


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


def parse_event(name: str, line: bytes) -> events.Event | None:
    """The record of an event of type `name`, or DamageError; None for a type of no use here."""
    parser = _PARSERS.get(name)
    if parser is None:
        return None
    try:
        return parser(line)
    except KeyError as error:
        field = error.args[0]
        why = f": {TOO_OLD}" if (name, field) in _SINCE_1_5 else ""
        raise DamageError(f"{name} lacks the field {field!r:.40}{why}") from error
    except (TypeError, AttributeError) as error:
        raise DamageError(f"{name} has a field of a wrong type") from error
    except (ValueError, RecursionError) as error:
        raise DamageError(f"{name} is not valid JSON") from error


def _object(text: bytes) -> dict[str, Any]:
    if len(text) > MAX_JSON_BYTES:
        raise DamageError(f"a part of the event is longer than {MAX_JSON_BYTES >> 20} MiB")
    found = json.loads(text.decode())
    if not isinstance(found, dict):
        raise DamageError("the line is no JSON object")
    return found


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


def _properties(found: object) -> dict[str, str]:
    if not isinstance(found, dict):
        return {}
    # Any other may be large: applications put data of their own into a job's properties.
    kept = _KEPT & found.keys() | {key for key in found if events.RESOURCE_AMOUNT.fullmatch(key)}
    return {key: _text(found[key]) for key in kept}


def _log_part(line: bytes) -> events.LogPart:
    found = _object(line)
    number = found.get("Rollover Number")
    return events.LogPart(
        None if number is None else _whole_number(number), _maybe(found.get("Spark Version"))
    )


def _application_start(line: bytes) -> events.ApplicationStart:
    found = _object(line)
    return events.ApplicationStart(
        _text(found["App Name"]),
        _maybe(found.get("App ID")),
        _time(found["Timestamp"]),
        _maybe(found.get("App Attempt ID")),
    )


def _executor_added(line: bytes) -> events.ExecutorAdded:
    found = _object(line)
    info = found["Executor Info"]
    resources = info.get("Resources", {})  # since Spark 3.0
    return events.ExecutorAdded(
        _text(found["Executor ID"]),
        _time(found["Timestamp"]),
        _whole_number(info["Total Cores"], MAX_CORES),
        {_text(name): len(one["addresses"]) for name, one in resources.items()},
        _whole_number(info.get("Resource Profile Id", 0)),
    )


def _profile_added(line: bytes) -> events.ProfileAdded:
    found = _object(line)
    return events.ProfileAdded(
        _whole_number(found["Resource Profile Id"]),
        _amounts(found["Task Resource Requests"]),
        _amounts(found["Executor Resource Requests"]),
    )


def _amounts(requests: dict[str, Any]) -> dict[str, float]:
    found = {_text(name): one["Amount"] for name, one in requests.items()}
    for amount in found.values():
        is_number = isinstance(amount, int | float) and not isinstance(amount, bool)
        if not is_number or not (amount == 0 or events.LEAST_AMOUNT <= amount <= MAX_ID):
            raise DamageError(
                f"expected an amount from {events.LEAST_AMOUNT:g} to {MAX_ID}, found {amount!r:.40}"
            )
    return {name: float(amount) for name, amount in found.items() if amount > 0}


def _executor_removed(line: bytes) -> events.ExecutorRemoved:
    found = _object(line)
    return events.ExecutorRemoved(_text(found["Executor ID"]), _time(found["Timestamp"]))


def _sql_start(line: bytes) -> events.SqlStart:
    found = _cut(line, b',"details":', b"}")
    root = found.get("rootExecutionId")
    return events.SqlStart(
        _whole_number(found["executionId"]),
        None if root is None else _whole_number(root),
        _text(found["description"]),
    )


def _sql_end(line: bytes) -> events.SqlEnd:
    found = _object(line)
    # The message came with Spark 3.4; it is empty after a success.
    return events.SqlEnd(
        _whole_number(found["executionId"]), found.get("errorMessage") not in (None, "")
    )


def _job_start(line: bytes) -> events.JobStart:
    """A job may list thousands of stages, which are parsed one by one."""
    head, _, after = line.partition(b',"Stage Infos":[')
    body, found, tail = after.partition(b'],"Stage IDs":[')
    if not found:  # not Spark's field order
        whole = _object(line)
        return _job_of(whole, [_stage_info(info) for info in whole["Stage Infos"]])
    first, *others = body.split(b',{"Stage ID":')
    texts = [first, *(b'{"Stage ID":' + text for text in others)] if body else []
    stages = [_stage_info(_object(text)) for text in texts]
    return _job_of(_object(head + b',"Stage IDs":[' + tail), stages)


def _job_of(found: dict[str, Any], stages: list[events.StageInfo]) -> events.JobStart:
    return events.JobStart(
        _whole_number(found["Job ID"]),
        _time(found["Submission Time"]),
        tuple(stages),
        _properties(found.get("Properties")),
    )


def _stage_info(found: dict[str, Any]) -> events.StageInfo:
    rdds = sorted(_whole_number(rdd["RDD ID"]) for rdd in found["RDD Info"])
    return events.StageInfo(
        _whole_number(found["Stage ID"]),
        _whole_number(found["Number of Tasks"]),
        tuple(_whole_number(parent) for parent in found["Parent IDs"]),
        array("q", rdds).tobytes(),
        _whole_number(found.get("Resource Profile Id", 0)),  # since Spark 3.1
        any(rdd.get("Barrier") is True for rdd in found["RDD Info"]),  # since Spark 2.4
    )


def _job_end(line: bytes) -> events.JobEnd:
    found = _object(line)
    result = found["Job Result"]["Result"]
    return events.JobEnd(
        _whole_number(found["Job ID"]), _time(found["Completion Time"]), result == "JobSucceeded"
    )


def _stage_submitted(line: bytes) -> events.StageSubmitted:
    found = _cut(line, b',"RDD Info":[', b"}}")["Stage Info"]
    return events.StageSubmitted(
        _whole_number(found["Stage ID"]),
        _whole_number(found["Stage Attempt ID"]),
        _whole_number(found["Number of Tasks"]),
    )


_OUTCOMES = {
    "Success": events.Outcome.SUCCESS,
    "TaskKilled": events.Outcome.KILLED,
    "TaskCommitDenied": events.Outcome.KILLED,
    "Resubmitted": events.Outcome.RESUBMITTED,
}


def _task_end(line: bytes) -> events.TaskEnd:
    found = _cut(line, b',"Accumulables":[', b"}}")
    task = found["Task Info"]
    outcome = _OUTCOMES.get(found["Task End Reason"]["Reason"], events.Outcome.FAILED)
    partition = task.get("Partition ID", -1)  # since Spark 3.3
    # A large result is fetched after its task has left the slot; 0 means a small one.
    fetched = task.get("Getting Result Time", 0)
    finish = task["Finish Time"] if fetched == 0 else fetched
    return events.TaskEnd(
        _whole_number(found["Stage ID"]),
        _whole_number(found["Stage Attempt ID"]),
        found["Task Type"] == "ShuffleMapTask",
        outcome,
        _whole_number(task["Index"] if partition == -1 else partition),
        _text(task["Executor ID"]),
        task.get("Speculative") is True,
        _time(task["Launch Time"]),
        _time(finish),
    )


_PARSERS: dict[str, Callable[[bytes], events.Event]] = {
    "SparkListenerLogStart": lambda line: events.LogStart(_text(_object(line)["Spark Version"])),
    "DBCEventLoggingListenerMetadata": _log_part,
    "SparkListenerApplicationStart": _application_start,
    "SparkListenerApplicationEnd": (
        lambda line: events.ApplicationEnd(_time(_object(line)["Timestamp"]))
    ),
    "SparkListenerEnvironmentUpdate": (
        lambda line: events.Environment(_properties(_object(line)["Spark Properties"]))
    ),
    "SparkListenerExecutorAdded": _executor_added,
    "SparkListenerExecutorRemoved": _executor_removed,
    "SparkListenerResourceProfileAdded": _profile_added,
    f"{_SQL}SQLExecutionStart": _sql_start,
    f"{_SQL}SQLExecutionEnd": _sql_end,
    "SparkListenerJobStart": _job_start,
    "SparkListenerJobEnd": _job_end,
    "SparkListenerStageSubmitted": _stage_submitted,
    "SparkListenerTaskEnd": _task_end,
}
