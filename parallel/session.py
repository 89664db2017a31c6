"""Opening a Spark session for tasks."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parallel.errors import ClusterError

if TYPE_CHECKING:
    from pyspark import SparkContext


def open_session(master: str, *, name: str, archive: Path | None = None) -> SparkContext:
    """A Spark context on a cluster.

    Args:
        master: its URL.
        name: of the application, for Spark's UI.
        archive: of Python and this package, for the executors.

    Raises:
        ClusterError: there is no such cluster, or no pyspark.
    """
    try:
        from pyspark import SparkConf, SparkContext
    except ImportError:
        wanted = "pip install 'decima-scheduler[spark]'"
        raise ClusterError(f"a cluster needs pyspark, which is not installed: {wanted}") from None
    settings: dict[str, Any] = {
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.maxResultSize": "0",
    }
    if archive is not None:
        settings["spark.archives"] = f"{archive}#environment"
        os.environ["PYSPARK_PYTHON"] = "./environment/bin/python"
    elif master.startswith("local"):
        os.environ["PYSPARK_PYTHON"] = sys.executable
    conf = SparkConf().setMaster(master).setAppName(name).setAll(list(settings.items()))
    context = SparkContext.getOrCreate(conf)
    context.setLogLevel("ERROR")
    return context
