"""The jar's classes in the driver's JVM, loaded beside Spark's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from decima.rl.parallel.session import NEWEST_MAJOR, OLDEST
from decima.spark.jar import plugin_jar
from decima.spark.settings import AttachError, missing

Load = Callable[[Any, Any], tuple[Any, str]]
"""makes a class loader and its jar, given the JVM and its gateway"""

_loaders: WeakKeyDictionary[Any, dict[Load, tuple[Any, str]]] = WeakKeyDictionary()
"""by gateway: py4j remembers methods by class name, so a second copy of a class would be called
with the first one's methods"""


def check_session(spark: Any) -> Any:
    """The SparkContext of a session, or that context, if it can be scheduled, else AttachError."""
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
        oldest = ".".join(map(str, OLDEST))
        raise AttachError(f"Spark {context.version}: supported are {oldest} to {NEWEST_MAJOR}.x")
    return context


def plugin_loader(jvm: Any, gateway: Any) -> tuple[Any, str]:
    """Return a loader of the plugin's classes beside Spark's, and the jar."""
    jar = str(plugin_jar().absolute())
    urls = gateway.new_array(jvm.java.net.URL, 1)
    urls[0] = jvm.java.io.File(jar).toURI().toURL()
    parent = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    return jvm.java.net.URLClassLoader(urls, parent), jar


def java_class(
    context: Any, name: str, *, for_executors: bool = False, load: Load = plugin_loader
) -> Any:
    """Return a class of the plugin, or of another jar that `load` loads once, in the driver's JVM.

    AttachError: there is no jar, or this Spark lacks what its classes extend. `for_executors`:
    tasks need it, too.
    """
    from py4j.protocol import Py4JError

    gateway = context._gateway
    try:
        loaders = _loaders.setdefault(gateway, {})
        if load not in loaders:
            loaders[load] = load(context._jvm, gateway)
        loader, jar = loaders[load]
        kind = loader.loadClass(name)
    except (Py4JError, TypeError) as error:
        raise AttachError(
            f"Spark {context.version} lacks classes that {name} needs: {first_line(error)}"
        ) from error
    if for_executors:
        context._jsc.sc().addJar(jar)
    return kind


class ControlError(AttachError):
    """Error of a Spark that cannot be controlled in the wanted mode; the settings are fine."""


def new_object(context: Any, name: str, arguments: list[Any]) -> Any:
    """Make an object by the only constructor of a class of the jar.

    AttachError: an argument is refused, or as for `java_class`; ControlError: this Spark is.
    """
    from py4j.protocol import Py4JJavaError

    array = context._gateway.new_array(context._jvm.java.lang.Object, len(arguments))
    for number, value in enumerate(arguments):
        array[number] = value
    try:
        return java_class(context, name).getConstructors()[0].newInstance(array)
    except Py4JJavaError as error:
        kind = _cause(error).getClass().getSimpleName()
        is_argument = kind in ("SettingsError", "IllegalArgumentException")
        raise (AttachError if is_argument else ControlError)(message(error)) from error


def _cause(error: Any) -> Any:
    """The exception in the JVM; its cause, where reflection wraps it."""
    thrown = error.java_exception
    is_wrapped = thrown.getClass().getSimpleName() == "InvocationTargetException"
    return thrown.getCause() if is_wrapped else thrown


def message(error: Any) -> str:
    """Return the first line of the message of an exception in the JVM, or its type."""
    cause = _cause(error)
    return str((cause.getMessage() or cause.toString()).strip().splitlines()[0])


def first_line(error: object) -> str:
    """First line of an error's text, of one in the JVM of the text there; else its type."""
    cause = getattr(error, "java_exception", None)
    text = str(error if cause is None else cause.toString()).strip()
    return text.splitlines()[0] if text else type(error).__name__
