"""Importer of Spark's event logs as traces; see `docs/spark-logs.md`."""

from traces.spark_log.dag import GroupBy
from traces.spark_log.names import FORMAT
from traces.spark_log.reader import read_spark_logs
from traces.spark_log.summary import ImportSummary

__all__ = ["FORMAT", "GroupBy", "ImportSummary", "read_spark_logs"]
