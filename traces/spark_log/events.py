"""Events of a log as typed records: one for each type of event that is used here.

Times are milliseconds since 1970 on the driver's clock. Names are short, printable and on one line.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple

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


class LogStart(NamedTuple):
    spark_version: str


class LogPart(NamedTuple):
    """The head of each file that Databricks writes of a log."""

    number: int | None  # from 0; None where the file lacks it
    spark_version: str | None


class ApplicationStart(NamedTuple):
    name: str
    app_id: str | None
    time_ms: int
    attempt: str | None = None
    """of a cluster manager to run the application; None where there is only one"""


class ApplicationEnd(NamedTuple):
    time_ms: int


class Environment(NamedTuple):
    properties: Mapping[str, str]  # those that this package reads


class ExecutorAdded(NamedTuple):
    executor: str
    time_ms: int
    cores: int
    resources: Mapping[str, int] = {}
    """how many of each it has, such as GPUs"""
    profile: int = 0
    """number of the resource profile that it was requested for"""


class ExecutorRemoved(NamedTuple):
    executor: str
    time_ms: int


class ProfileAdded(NamedTuple):
    """A resource profile; amounts by resource."""

    profile: int
    task: Mapping[str, float]
    executor: Mapping[str, float]


class SqlStart(NamedTuple):
    execution: int
    root: int | None
    description: str


class SqlEnd(NamedTuple):
    execution: int
    failed: bool


class StageInfo(NamedTuple):
    """A stage as a Spark job lists it, whether or not it will run."""

    stage: int
    num_tasks: int
    parents: tuple[int, ...]
    rdds: bytes
    """the sorted ids of its RDDs, packed: the same for a skipped stage and the one that ran"""
    profile: int = 0
    """number of its resource profile"""
    barrier: bool = False
    """whether its tasks start all at once"""


class JobStart(NamedTuple):
    job: int
    time_ms: int
    stages: tuple[StageInfo, ...]  # all that the job needs, whether they will run or be skipped
    properties: Mapping[str, str]  # those that this package reads


class JobEnd(NamedTuple):
    job: int
    time_ms: int
    succeeded: bool


class StageSubmitted(NamedTuple):
    stage: int
    attempt: int
    num_tasks: int


class TaskEnd(NamedTuple):
    stage: int
    stage_attempt: int
    is_map: bool
    outcome: Outcome
    partition: int
    executor: str
    speculative: bool
    launch_ms: int
    finish_ms: int  # when its slot was free again, by the driver's clock


Event = (
    LogStart
    | LogPart
    | ApplicationStart
    | ApplicationEnd
    | Environment
    | ExecutorAdded
    | ExecutorRemoved
    | ProfileAdded
    | SqlStart
    | SqlEnd
    | JobStart
    | JobEnd
    | StageSubmitted
    | TaskEnd
)
