"""Policies on a live, unmodified PySpark: `attach`."""

from decima.spark.attaching import attach
from decima.spark.auto import AutoSettings
from decima.spark.decision_log import DecisionLogFiles
from decima.spark.scheduler import Scheduler
from decima.spark.settings import AttachError, Guard
from decima.spark.status import JobStatus, SchedulerStatus

__all__ = [
    "AttachError",
    "AutoSettings",
    "DecisionLogFiles",
    "Guard",
    "JobStatus",
    "Scheduler",
    "SchedulerStatus",
    "attach",
]
