"""Our policies on a live, unmodified PySpark: `attach`."""

from decima.spark.attaching import attach
from decima.spark.errors import AttachError
from decima.spark.log_files import LogFiles
from decima.spark.planning import Guard
from decima.spark.scheduler import Scheduler, Status

__all__ = ["AttachError", "Guard", "LogFiles", "Scheduler", "Status", "attach"]
