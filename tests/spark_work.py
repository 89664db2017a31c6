"""Work for a real Spark, and policies that fail, for the tests that attach to one."""

from __future__ import annotations

import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from decima.spark import Scheduler, jar
from spark_sim import Action, Observation
from traces.loopback import LOOPBACK

SLOTS = 8


@contextmanager
def local_spark() -> Iterator[Any]:
    """A local Spark with eight slots."""
    from pyspark.sql import SparkSession

    spark = (
        SparkSession.builder.master(f"local[{SLOTS}]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "4")
        # The session that started this JVM may have had one, in a folder that is gone by now.
        .config("spark.eventLog.enabled", "false")
        .config(map=dict(LOOPBACK))
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    yield spark
    spark.stop()


def sleep_tasks(
    spark: Any, job: str | None, tasks: int, task_s: float = 0.1, description: str | None = None
) -> None:
    """One stage of tasks that sleep inside the JVM, then a small one."""
    spark.sparkContext.setLocalProperty("decima.job", job)
    spark.sparkContext.setJobDescription(description)
    nap = f"java_method('java.lang.Thread', 'sleep', {round(1000 * task_s)}L)"
    numbers = spark.range(0, tasks, 1, tasks).selectExpr("id % 3 AS part", f"{nap} AS slept")
    counted = numbers.groupBy("part").agg({"slept": "max"})  # an unused column would be left out
    assert len(counted.collect()) == min(3, tasks)


def until(condition: Callable[[], bool], seconds: float = 20) -> bool:
    """Wait for it; whether it came."""
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.05)
    return condition()


def together(*work: Callable[[], None]) -> None:
    """Run each in a thread of its own; no exception is lost, and none may hang."""
    failed: list[BaseException] = []

    def guarded(one: Callable[[], None]) -> None:
        try:
            one()
        except BaseException as error:  # noqa: BLE001 - it is raised again below
            failed.append(error)

    threads = [threading.Thread(target=guarded, args=(one,), daemon=True) for one in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
        assert not thread.is_alive(), "a job hangs"
    if failed:
        raise failed[0]


def several(spark: Any, jobs: int = 3, tasks: int = 16) -> None:
    together(*(lambda n=n: sleep_tasks(spark, f"j{n}", tasks) for n in range(jobs)))


class Faulty:
    """Fails in the way that it is told to."""

    name = "faulty"

    def __init__(self, fail: Callable[[], Any]) -> None:
        self.fail = fail

    def decide(self, seen: Observation) -> Action:
        found: Action = self.fail()
        return found


def assert_all_slots_are_free(scheduler: Scheduler) -> None:
    """Soon: tasks of a job that has failed may still be ending."""
    end = time.monotonic() + 10
    while any(scheduler.status().jvm["held"].values()) and time.monotonic() < end:
        time.sleep(0.1)
    assert not any(scheduler.status().jvm["held"].values())


def spark_objects(spark: Any) -> tuple[str, str]:
    """Classes of the root pool's children and of the builder that the task scheduler uses now."""
    scheduler = spark.sparkContext._jsc.sc().taskScheduler()
    kind = "org.apache.spark.scheduler.TaskSchedulerImpl"
    owner = spark.sparkContext._jvm.java.lang.Class.forName(kind)
    field = owner.getDeclaredField("schedulableBuilder")
    field.setAccessible(True)
    pools = [one.getClass().getName() for one in scheduler.rootPool().schedulableQueue().toArray()]
    return str(pools), str(field.get(scheduler).getClass().getName())


def refusing_jar(folder: Path, when: str, package: str) -> Path:
    """A jar whose classes cannot set a field, as a final one on a Java to come.

    Args:
        folder: for the jar.
        when: a Java condition on `name`, the field's.
        package: in place of decima.spark, as py4j remembers methods by class name.
    """
    setting = "find(owner, name).set(owner, value);"
    refusal = f'if ({when}) throw new IllegalAccessException("final field " + name); {setting}'
    sources = {name: content.decode() for name, content in jar._sources().items()}
    assert setting in sources["exact/Fields.java"]
    changed = [
        (name, text.replace(setting, refusal).replace("decima.spark", package).encode())
        for name, text in sources.items()
    ]
    classes, path = folder / "classes", folder / f"{package}.jar"
    jar.compile_java(changed, classes)
    with zipfile.ZipFile(path, "w") as file:
        for one in [*classes.rglob("*.class")]:
            file.write(one, one.relative_to(classes))
        for name, content in jar._resources().items():
            file.writestr(name, content)
    return path
