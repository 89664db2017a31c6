"""Our policies on a live, unmodified PySpark: `attach`."""

from decima.spark.errors import AttachError
from decima.spark.planning import Guard
from decima.spark.scheduler import Scheduler, Status, attach

__all__ = ["AttachError", "Guard", "Scheduler", "Status", "attach"]
