"""The types of events that Spark 3.3 to 4.3 writes but that are of no use here."""

from __future__ import annotations

_KNOWN = frozenset(
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
        "ResourceProfileAdded",
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
_PREFIX = "SparkListener"
_FAMILIES = (
    "org.apache.spark.sql.execution.ui.",  # updates of plans and metrics
    "org.apache.spark.sql.streaming.",
    "org.apache.spark.sql.hive.thriftserver.",
    "org.apache.spark.sql.connect.",
)


def is_known(name: str) -> bool:
    """Return whether events of this type are Spark's own."""
    return name.removeprefix(_PREFIX) in _KNOWN or name.startswith(_FAMILIES)
