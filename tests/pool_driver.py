"""Driver of one session with two FAIR pools: `python -m tests.pool_driver CONF`.

Pool "prod" runs one job and pool "adhoc" three, all at the same time, of as many tasks each pool.
The tasks sleep; begin and end of each, by its own clock, are printed as JSON by pool. CONF is a
JSON object of Spark's settings.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from typing import Any

TASKS = 120
NAP_S = 0.2
JOBS = {"prod": 1, "adhoc": 3}


def main() -> None:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    for name, value in json.loads(sys.argv[1]).items():
        builder = builder.config(name, value)
    context = builder.getOrCreate().sparkContext
    spans: dict[str, list[Any]] = {name: [] for name in JOBS}

    def nap(_: int) -> tuple[float, float]:
        begin_s = time.time()
        time.sleep(NAP_S)  # the task's work
        return begin_s, time.time()

    def run(pool: str, tasks: int) -> None:
        context.setLocalProperty("spark.scheduler.pool", pool)
        spans[pool] += context.parallelize(range(tasks), tasks).map(nap).collect()

    run("prod", 8)  # the first tasks start Python and load classes
    spans["prod"].clear()
    threads = [
        threading.Thread(target=run, args=(pool, TASKS // jobs))
        for pool, jobs in JOBS.items()
        for _ in range(jobs)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sys.stdout.write(f"{json.dumps(spans)}\n")
    context.stop()


if __name__ == "__main__":
    main()
