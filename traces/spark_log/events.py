"""The lines of an event log: what they name, and their fields, checked.

Spark writes one JSON object for each event. The bulk of a log is not needed here: the metrics of
every task, the call stacks of every stage, most of the plan of every query. Spark's field order is
fixed, so most events are parsed only up to the field where the bulk begins. That is safe: the
marker begins with a comma and a bare quote, and inside a JSON string every quote is escaped. Where
the cut text is no JSON object after all, the whole line is parsed.

Times are milliseconds since 1970 on the driver's clock. Names are short, printable and on one line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from enum import IntEnum
from typing import Any

from traces.errors import DamageError
from traces.files.names import MAX_NAME, clean
from traces.files.reading import split_lines

EXECUTION_ID = "spark.sql.execution.id"
ROOT_EXECUTION_ID = "spark.sql.execution.root.id"
JOB_GROUP = "spark.jobGroup.id"
POOL = "spark.scheduler.pool"
OWN_JOB = "decima.job"
"""local property by which an application may name the job that a Spark job is part of"""
JOB_DESCRIPTION = "spark.job.description"
CALL_SITE = "callSite.short"
TASK_CPUS = "spark.task.cpus"
LEAST_AMOUNT = 1e-6
"""least part of a resource that a task can take; less is damage"""
RESOURCE_AMOUNT = re.compile(r"spark\.(task|executor)\.resource\.([^.]{1,100})\.amount")
"""settings of how many GPUs, or others, each task takes and each executor has"""
SETTINGS = (
    "spark.scheduler.mode",
    "spark.scheduler.allocation.file",
    "spark.sql.adaptive.enabled",
    "spark.sql.autoBroadcastJoinThreshold",
    "spark.sql.files.maxPartitionBytes",
    "spark.sql.shuffle.partitions",
    "spark.default.parallelism",
    "spark.dynamicAllocation.enabled",
    "spark.dynamicAllocation.executorAllocationRatio",
    "spark.dynamicAllocation.executorIdleTimeout",
    "spark.dynamicAllocation.initialExecutors",
    "spark.dynamicAllocation.maxExecutors",
    "spark.dynamicAllocation.minExecutors",
    "spark.dynamicAllocation.schedulerBacklogTimeout",
    "spark.dynamicAllocation.sustainedSchedulerBacklogTimeout",
    "spark.executor.cores",
    "spark.executor.instances",
    "spark.executor.memory",
    "spark.speculation",
    TASK_CPUS,
)
"""settings that shape jobs and their tasks"""


class Outcome(IntEnum):
    """Outcome of an attempt at a task."""

    SUCCESS = 0
    FAILED = 1
    KILLED = 2
    RESUBMITTED = 3  # no attempt at all: the output of one that had succeeded is lost


MAX_TIME_MS = 10**14  # a later time stamp (year 5138) is damaged
MAX_ID = 2**53
MAX_JSON_BYTES = 1 << 23  # text parsed at once; JSON can take sixty times its length in memory
MAX_CORES = 10**6
MAX_LINE_BYTES = 1 << 25  # an event longer than this is skipped

JOB_START = "SparkListenerJobStart"
TOO_OLD = "the log is of a Spark before 1.5, which records too little to be read"
_SINCE_1_5 = {
    (JOB_START, "Submission Time"),
    (JOB_START, "Stage Infos"),
    ("SparkListenerJobEnd", "Completion Time"),
    (JOB_START, "Parent IDs"),
}

_KEPT = {
    *(OWN_JOB, EXECUTION_ID, ROOT_EXECUTION_ID, JOB_GROUP),
    *(POOL, JOB_DESCRIPTION, CALL_SITE),
    *SETTINGS,
}
SQL = "org.apache.spark.sql.execution.ui."
LISTENER = "SparkListener"
USED: dict[str, tuple[bytes, bytes] | None] = {
    "SparkListenerLogStart": None,
    "DBCEventLoggingListenerMetadata": None,
    "SparkListenerApplicationStart": None,
    "SparkListenerApplicationEnd": None,
    "SparkListenerEnvironmentUpdate": None,
    "SparkListenerExecutorAdded": None,
    "SparkListenerExecutorRemoved": None,
    "SparkListenerResourceProfileAdded": None,
    f"{SQL}SparkListenerSQLExecutionStart": (b',"details":', b"}"),
    f"{SQL}SparkListenerSQLExecutionEnd": None,
    JOB_START: None,
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
OUTCOMES = {
    "Success": Outcome.SUCCESS,
    "TaskKilled": Outcome.KILLED,
    "TaskCommitDenied": Outcome.KILLED,
    "Resubmitted": Outcome.RESUBMITTED,
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
    return name.removeprefix(LISTENER) in _UNUSED or name.startswith(_FAMILIES)


def damage_of(name: str, error: Exception) -> DamageError:
    """Explain why an event of type `name` cannot be read."""
    if isinstance(error, KeyError):
        field = error.args[0]
        why = f": {TOO_OLD}" if (name, field) in _SINCE_1_5 else ""
        return DamageError(f"{name} lacks the field {field!r:.40}{why}")
    if isinstance(error, TypeError | AttributeError):
        return DamageError(f"{name} has a field of a wrong type")
    return DamageError(f"{name} is not valid JSON")


def record_of(name: str, line: bytes) -> dict[str, Any]:
    """The JSON of an event of a type that is used, as far as it is needed.

    The stages of a job, of which there may be thousands, are parsed one by one as they are read.
    """
    bulk = USED[name]
    if bulk is not None:
        return _cut(line, *bulk)
    if name != JOB_START:
        return _object(line)
    head, _, after = line.partition(b',"Stage Infos":[')
    body, separator, tail = after.partition(b'],"Stage IDs":[')
    if not separator:  # not Spark's field order
        return _object(line)
    first, *others = body.split(b',{"Stage ID":')
    texts = [first, *(b'{"Stage ID":' + text for text in others)] if body else []
    return {**_object(head + b',"Stage IDs":[' + tail), "Stage Infos": map(_object, texts)}


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


def whole(value: object, highest: int = MAX_ID) -> int:
    """Return a whole number that is not negative."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= highest:
        raise DamageError(f"expected a whole number of at most {highest}, found {value!r:.40}")
    return value


def clean_text(value: object) -> str:
    """Return a clean name."""
    if not isinstance(value, str):
        raise DamageError(f"expected text, found {value!r:.40}")
    return clean(value)


def time_stamp(value: object) -> int:
    """Return milliseconds since 1970."""
    return whole(value, MAX_TIME_MS)


def maybe_text(value: object) -> str | None:
    """Return a clean name, or None where there is none."""
    return None if value is None else clean_text(value)


def properties_of(properties: object) -> dict[str, str]:
    """Return the properties that this package reads."""
    if not isinstance(properties, dict):
        return {}
    # Any other may be large: applications put data of their own into a job's properties.
    amounts = {key for key in properties if RESOURCE_AMOUNT.fullmatch(key)}
    return {key: clean_text(properties[key]) for key in _KEPT & properties.keys() | amounts}


def amounts_of(requests: dict[str, Any]) -> dict[str, float]:
    """Return the amounts of a resource profile by resource."""
    amounts = {clean_text(name): request["Amount"] for name, request in requests.items()}
    for amount in amounts.values():
        is_number = isinstance(amount, int | float) and not isinstance(amount, bool)
        if not is_number or not (amount == 0 or LEAST_AMOUNT <= amount <= MAX_ID):
            raise DamageError(
                f"expected an amount from {LEAST_AMOUNT:g} to {MAX_ID}, found {amount!r:.40}"
            )
    return {name: float(amount) for name, amount in amounts.items() if amount > 0}
