"""`Jvm`: Java classes in the driver, compiled there by the compiler that Spark ships.

Nothing is downloaded, put on a class path or left behind; the folder `java/exact` is all of it.
"""

from __future__ import annotations

import json
from typing import Any

from decima.spark.claims import Claim
from decima.spark.compile import first_line, java_class
from decima.spark.errors import AttachError, missing
from decima.spark.planning import Plan
from decima.spark.reports import SessionReport, read_report

OLDEST, NEWEST_MAJOR = (3, 5), 4
CAPACITY = 100_000
"""events that may wait to be read; beyond it they are dropped and counted"""


def check_session(spark: Any) -> Any:
    """Return the SparkContext of a session that can be scheduled.

    Args:
        spark: a `SparkSession` or `SparkContext`.

    Raises:
        AttachError: Spark Connect, a stopped context, another version or another task scheduler.
    """
    try:
        from pyspark import SparkContext
        from pyspark.sql.utils import is_remote
    except ImportError as error:
        raise missing("pyspark") from error
    if is_remote() or "connect" in type(spark).__module__:
        raise AttachError(
            "this is Spark Connect: it has no access to the scheduler; attach in the driver itself"
        )
    context = spark if isinstance(spark, SparkContext) else getattr(spark, "sparkContext", None)
    if not isinstance(context, SparkContext):
        raise AttachError(f"{spark!r} is neither a SparkSession nor a SparkContext")
    if context._jsc is None:
        raise AttachError("this SparkContext is stopped")
    version = tuple(int(part) for part in context.version.split(".")[:2])
    if version < OLDEST or version[0] > NEWEST_MAJOR:
        raise AttachError(f"Spark {context.version}: supported are 3.5 to 4.x")
    return context


class Jvm:
    """Calls into the driver's JVM; every method is one round trip."""

    def __init__(self, context: Any, *, lapse_ms: int, hold_ms: int, observe_only: bool) -> None:
        """Compile and connect; nothing of Spark is touched before `attach`.

        Raises:
            AttachError: Spark's scheduler lacks the fields to set, or refuses to have them
                set, or the classes do not compile.
        """
        from py4j.protocol import Py4JJavaError

        self._context = context
        self._claim = Claim(context)
        jvm = context._jvm
        kind = java_class(context, "exact", "decima.spark.Control")
        arguments = context._gateway.new_array(jvm.java.lang.Object, 5)
        arguments[0] = context._jsc.sc()
        arguments[1] = jvm.java.lang.Long.valueOf(lapse_ms)
        arguments[2] = jvm.java.lang.Long.valueOf(hold_ms)
        arguments[3] = jvm.java.lang.Integer.valueOf(CAPACITY)
        arguments[4] = observe_only
        try:
            self._control = kind.getConstructors()[0].newInstance(arguments)
        except Py4JJavaError as error:
            cause = error.java_exception.getCause() or error.java_exception
            raise AttachError(f"Spark {context.version}: {first_line(cause.toString())}") from error

    def attach(self) -> None:
        """Put ourselves before Spark's pool.

        Raises:
            AttachError: another scheduler is attached, or Spark refuses; nothing has changed.
        """
        from py4j.protocol import Py4JJavaError

        self._claim.take()
        try:
            self._control.attach()
        except Py4JJavaError as error:
            self._claim.release()
            raise AttachError(first_line(error.java_exception.getMessage())) from error

    def detach(self) -> None:
        """Give Spark its own objects back."""
        try:
            self._control.detach()
        finally:
            self._claim.release()

    def wait(self, timeout_ms: int) -> SessionReport:
        """Return what has happened, at the latest after `timeout_ms`."""
        return read_report(getattr(self._control, "await")(timeout_ms))

    def apply(self, plan: Plan, number: int) -> None:
        """Put a plan in force at once."""
        self._control.apply(plan.text(number))

    def leave_to_spark(self, is_left: bool) -> None:
        """Spark's own order from now on, or plans again."""
        self._control.leaveToSpark(is_left)

    def counters(self) -> dict[str, Any]:
        """Return the counters of the JVM classes."""
        found: dict[str, Any] = json.loads(self._control.counters())
        return found

    def is_stopped(self) -> bool:
        """Return whether the SparkContext has stopped."""
        return self._context._jsc is None or bool(self._context._jsc.sc().isStopped())
