"""Attached to schedulers that extend Spark's own, as YARN's does; and to one that does not."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import decima.spark
from decima.spark import AttachError
from tests.spark_work import SLOTS, quiet_spark, several, spark_objects

pytestmark = pytest.mark.real_spark

YARN = "org.apache.spark.scheduler.cluster.YarnScheduler"
MANAGER = """
package decima.test;

import org.apache.spark.SparkContext;
import org.apache.spark.scheduler.ExternalClusterManager;
import org.apache.spark.scheduler.SchedulerBackend;
import org.apache.spark.scheduler.TaskScheduler;
import org.apache.spark.scheduler.TaskSchedulerImpl;
import org.apache.spark.scheduler.local.LocalSchedulerBackend;

public class Manager implements ExternalClusterManager {
  public boolean canCreate(String master) {
    return master.equals("yarn-like");
  }

  public TaskScheduler createTaskScheduler(SparkContext context, String master) {
    return new %s(context);
  }

  public SchedulerBackend createSchedulerBackend(
      SparkContext context, String master, TaskScheduler scheduler) {
    return new LocalSchedulerBackend(context.conf(), (TaskSchedulerImpl) scheduler, %d);
  }

  public void initialize(TaskScheduler scheduler, SchedulerBackend backend) {
    ((TaskSchedulerImpl) scheduler).initialize(backend);
  }
}
"""


def cluster_manager(jvm: Any, folder: Path) -> Path:
    """A jar by which Spark finds a master that schedules with YARN's class, on local slots."""
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.cook(MANAGER % (YARN, SLOTS))
    path = folder / "manager.jar"
    with zipfile.ZipFile(path, "w") as jar:
        jar.writestr(
            "decima/test/Manager.class", bytes(compiler.getBytecodes()["decima.test.Manager"])
        )
        service = "META-INF/services/org.apache.spark.scheduler.ExternalClusterManager"
        jar.writestr(service, "decima.test.Manager\n")
    return path


@pytest.fixture(scope="module")
def subclass(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A session whose task scheduler is YARN's: a subclass that Spark ships."""
    from pyspark import SparkContext

    SparkContext._ensure_initialized()
    gateway: Any = SparkContext._gateway
    jvm = gateway.jvm
    thread = jvm.java.lang.Thread.currentThread()
    usual = thread.getContextClassLoader()
    jar = cluster_manager(jvm, tmp_path_factory.mktemp("jar"))
    urls = gateway.new_array(jvm.java.net.URL, 1)
    urls[0] = jvm.java.io.File(str(jar)).toURI().toURL()
    thread.setContextClassLoader(jvm.java.net.URLClassLoader(urls, usual))
    try:
        spark = quiet_spark("yarn-like")
    finally:
        thread.setContextClassLoader(usual)
    yield spark
    spark.stop()


def test_a_scheduler_that_extends_sparks_own(subclass: Any) -> None:
    """What it inherits is what we need; the same guarantees, and the way back."""
    scala = subclass.sparkContext._jsc.sc()
    assert scala.taskScheduler().getClass().getName() == YARN
    before = spark_objects(subclass)
    with decima.spark.attach(subclass, policy="strict_fair", mode="exact") as scheduler:
        assert spark_objects(subclass) != before
        several(subclass)
        status = scheduler.status()
    assert spark_objects(subclass) == before
    assert (status.fallbacks, status.ended_because) == (0, None)
    assert status.jvm["launches_under_limit"] > 0
    assert (status.jvm["launches_over_limit"], status.jvm["faults"]) == (0, 0)


def test_a_scheduler_of_another_kind_is_refused(subclass: Any) -> None:
    jvm, scala = subclass.sparkContext._jvm, subclass.sparkContext._jsc.sc()
    kind = jvm.java.lang.Class.forName("org.apache.spark.scheduler.TaskScheduler")
    other = jvm.java.beans.EventHandler.create(kind, jvm.java.lang.Object(), "toString")
    field = scala.getClass().getDeclaredField("_taskScheduler")
    field.setAccessible(True)
    usual = field.get(scala)
    field.set(scala, other)
    try:
        with pytest.raises(AttachError, match=r"task scheduler .*Proxy\d+ is no TaskSchedulerImpl"):
            decima.spark.attach(subclass, policy="strict_fair", mode="exact")
    finally:
        field.set(scala, usual)
