"""Driver of an application, in its own process: `python -m tests.application_driver CONF`.

Each line "TASKS SECONDS" on standard input is a job of sleeping tasks. Its answer is the number of
rows. Behind "TASKS SECONDS KEYS" their numbers are shuffled to so many tasks, which sleep as long
for each, and the answer is their sum. CONF is a JSON object of Spark's settings.
"""

from __future__ import annotations

import json
import sys


def answer(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> None:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    for name, value in json.loads(sys.argv[1]).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    answer("ready")
    for line in sys.stdin:
        tasks, seconds, *keys = line.split()
        nap = f"java_method('java.lang.Thread', 'sleep', {round(1000 * float(seconds))}L)"
        asleep = spark.range(0, int(tasks), 1, int(tasks)).selectExpr(f"{nap} AS nap", "id")
        if keys:
            numbers = asleep.repartition(int(keys[0]), "id").selectExpr(
                "nap", f"{nap} AS again", "id"
            )
            answer(str(sum(row.id for row in numbers.collect())))
        else:
            answer(str(len(asleep.select("nap").collect())))
    spark.stop()


if __name__ == "__main__":
    main()
