"""Work for a real Spark, and policies that fail, for the tests that attach to one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import pytest

from decima.spark import Scheduler, attaching, jar, jvm
from spark_sim import Action, Observation
from traces.loopback import LOOPBACK

SLOTS = 8


def quiet_spark(master: str = f"local[{SLOTS}]", **settings: str) -> Any:
    """A session that only this machine reaches; settings are named with _ for a point."""
    from pyspark.sql import SparkSession

    conf: dict[str, bool | float | int | str | None] = {
        **LOOPBACK,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "4",
        # The session that started this JVM may have had one, in a folder that is gone by now.
        "spark.eventLog.enabled": "false",
        **{name.replace("_", "."): value for name, value in settings.items()},
    }
    spark = SparkSession.builder.master(master).config(map=conf).getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


@contextmanager
def local_spark(master: str = f"local[{SLOTS}]", **settings: str) -> Iterator[Any]:
    """A `quiet_spark`, with eight slots, that is stopped on leaving."""
    spark = quiet_spark(master, **settings)
    try:
        yield spark
    finally:
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


def together(*work: Callable[[], object]) -> None:
    """Run each in a thread of its own; no exception is lost, and none may hang."""
    failed: list[BaseException] = []

    def guarded(action: Callable[[], object]) -> None:
        try:
            action()
        except BaseException as error:  # noqa: BLE001 - it is raised again below
            failed.append(error)

    threads = [threading.Thread(target=guarded, args=(answer,), daemon=True) for answer in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
        assert not thread.is_alive(), "a job hangs"
    if failed:
        raise failed[0]


def several(spark: Any, jobs: int = 3, tasks: int = 16) -> None:
    together(*(lambda n=n: sleep_tasks(spark, f"j{n}", tasks) for n in range(jobs)))


def most_at_once(spans: Sequence[tuple[float, float]]) -> int:
    """The most that had begun and not ended at the same time."""
    return max(sum(begin <= at < end for begin, end in spans) for at, _ in spans)


class Faulty:
    """Fails in the way that it is told to."""

    name = "faulty"

    def __init__(self, fail: Callable[[], Any]) -> None:
        self.fail = fail

    def decide(self, seen: Observation) -> Action:
        action: Action = self.fail()
        return action


def assert_all_slots_are_free(scheduler: Scheduler) -> None:
    """Soon: tasks of a job that has failed may still be ending."""
    assert until(lambda: not any(scheduler.status().jvm["held"].values()), 10)


def spark_objects(spark: Any) -> tuple[str, str]:
    """Classes of the root pool's children and of the builder that the task scheduler uses now."""
    scheduler = spark.sparkContext._jsc.sc().taskScheduler()
    kind = "org.apache.spark.scheduler.TaskSchedulerImpl"
    owner = spark.sparkContext._jvm.java.lang.Class.forName(kind)
    field = owner.getDeclaredField("schedulableBuilder")
    field.setAccessible(True)
    pools = [
        pool.getClass().getName() for pool in scheduler.rootPool().schedulableQueue().toArray()
    ]
    return str(pools), str(field.get(scheduler).getClass().getName())


# --- a planner that fails as it is told to -------------------------------------------------------

_HOOK = 'String hook = System.getProperty("decima.test", "");'
_CHANGES: dict[str, dict[str, str | None]] = {
    "plugin/Decider.java": {
        "private boolean step() throws Exception {": _HOOK
        + 'if (hook.startsWith("sleep ")) Thread.sleep(Long.parseLong(hook.substring(6)));',
        "private void decide(Report now, long began) throws Exception {": _HOOK
        + 'if (hook.equals("no plan")) return;'
        + 'if (hook.equals("fail")) throw new IllegalStateException("a fault of ours");'
        + 'if (hook.startsWith("slow ")) Thread.sleep(Long.parseLong(hook.substring(5)));',
        "private void apply(Plan made) throws Exception {": _HOOK
        + 'if (hook.equals("broken")) {'
        + 'java.lang.reflect.Field rank = made.getClass().getDeclaredField("rank");'
        + "rank.setAccessible(true); rank.set(made, null);"
        + "try { control.apply(made); } catch (RuntimeException seen) { } return; }",
        "settings.holdMs, CAPACITY,": None,
    },
    "exact/Admission.java": {
        "void look() {": _HOOK
        + 'if (hook.equals("no admission")) throw new IllegalStateException("a fault of ours");'
    },
    "exact/Fields.java": {
        "static void set(Object owner, String name, Object value) throws Exception {": _HOOK
        + 'if (hook.equals("refuse") || (hook.equals("refuse late") && value instanceof Builder))'
        + ' throw new IllegalAccessException("final field " + name);'
    },
}
"""by source: what a hook is put behind; the property `decima.test` says what it does"""
_LOADERS: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()


def hooked_jar(folder: Path) -> Path:
    """The jar with hooks; its package has another name, as py4j remembers methods by class name."""
    changed = []
    for name, content in jar._sources().items():
        text = content.decode()
        for place, hook in _CHANGES.get(name, {}).items():
            assert place in text, place
            capacity = 'settings.holdMs, Integer.getInteger("decima.test.capacity", CAPACITY),'
            text = text.replace(place, capacity if hook is None else f"{place} {hook}")
        changed.append((name, text.replace("decima.spark", "hooked").encode()))
    classes, path = folder / "classes", folder / "hooked.jar"
    jar.compile_java(changed, classes)
    jar.pack(path, classes)
    return path


class Hooks:
    """Faults of the planner of this session, switched on by name."""

    def __init__(self, spark: Any, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Attach by the jar with hooks, until the test has ended."""
        self._system = spark.sparkContext._jvm.java.lang.System
        monkeypatch.setattr(jvm, "plugin_jar", lambda: path)
        monkeypatch.setattr(jvm, "_loaders", _LOADERS)
        monkeypatch.setattr(attaching, "_ATTACHMENT", "hooked.Attachment")

    def set(self, hook: str, name: str = "decima.test") -> None:
        """One of `_CHANGES`."""
        self._system.setProperty(name, hook)

    def clear(self) -> None:
        """Nothing any more."""
        for name in ("decima.test", "decima.test.capacity"):
            self._system.clearProperty(name)
