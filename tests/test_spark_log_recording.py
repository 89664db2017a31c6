"""From a query on real Spark to a trace, end to end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from traces import to_arrays
from traces.spark_log import read_spark_logs

QUERY = """
import sys
from pyspark.sql import SparkSession

spark = (
    SparkSession.builder.master("local[2]")
    .appName("shop")
    .config("spark.ui.enabled", "false")
    .config("spark.driver.host", "localhost")
    .config("spark.eventLog.enabled", "true")
    .config("spark.eventLog.dir", sys.argv[1])
    .config("spark.sql.shuffle.partitions", "3")
    .config("spark.sql.adaptive.enabled", "false")
    .getOrCreate()
)
spark.sparkContext.setJobDescription("remainders")
rows = spark.range(0, 100, 1, 4).selectExpr("id % 7 AS rest").groupBy("rest").count()
assert len(rows.collect()) == 7
spark.stop()
"""


@pytest.mark.slow
@pytest.mark.real_spark
def test_a_query_on_real_spark_becomes_a_job(tmp_path: Path) -> None:
    """Four tasks that scan, three that add up, in whatever format this Spark writes by default."""
    command = [sys.executable, "-c", QUERY, tmp_path.as_uri()]
    subprocess.run(command, check=True, capture_output=True, timeout=120)  # noqa: S603
    trace, summary = read_spark_logs([tmp_path])
    (job,) = trace.jobs
    assert job.name == "shop/remainders"
    assert [(stage.num_tasks, stage.parents) for stage in job.stages] == [(4, ()), (3, (0,))]
    assert (summary.lines_skipped, summary.files_skipped) == (0, 0)
    assert to_arrays(trace).num_tasks.tolist() == [4, 3]
