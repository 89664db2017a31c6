"""Java sources of ours, compiled in the driver by Janino, the compiler that Spark ships."""

from __future__ import annotations

import tempfile
import zipfile
from importlib.resources import files
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from decima.spark.errors import AttachError

_classes: WeakKeyDictionary[Any, dict[str, Any]] = WeakKeyDictionary()
"""classes by gateway and name: py4j remembers methods by class name, so a second copy of a class
would be called with the first one's methods"""


def java_class(context: Any, source: str, name: str, *, for_executors: bool = False) -> Any:
    """The class `name` of ``java/source`` in the driver's JVM, compiled at its first use.

    Args:
        context: a SparkContext.
        source: name of a file.
        name: of a class in it, with its package.
        for_executors: tasks need it too.

    Raises:
        AttachError: this Spark has no Janino, or not the classes that ours extend.
    """
    from py4j.protocol import Py4JError

    known = _classes.setdefault(context._gateway, {})
    if name not in known:
        jvm = context._jvm
        text = (files("decima.spark") / "java" / source).read_text("utf-8")
        try:
            compiler = jvm.org.codehaus.janino.SimpleCompiler()
            compiler.setParentClassLoader(
                jvm.java.lang.Thread.currentThread().getContextClassLoader()
            )
            compiler.cook(text)
            known[name] = compiler.getClassLoader().loadClass(name)
            if for_executors:
                known[f"jar of {name}"] = _jar_of(compiler, name)
        except (Py4JError, TypeError) as error:
            raise AttachError(
                f"Spark {context.version} has no Janino, or not the classes that ours extend: "
                f"{first_line(error)}"
            ) from error
    if for_executors:
        context._jsc.sc().addJar(str(known[f"jar of {name}"]))
    return known[name]


def _jar_of(compiler: Any, name: str) -> Path:
    """A jar of what `compiler` has compiled, for as long as this process lives."""
    path = Path(tempfile.mkdtemp(prefix="decima-")) / f"{name}.jar"
    found = compiler.getBytecodes()
    with zipfile.ZipFile(path, "w") as jar:
        for one in found.keySet():
            jar.writestr(f"{one.replace('.', '/')}.class", bytes(found[one]))
    return path


def first_line(error: object) -> str:
    """The first line of an error's text, or its type; of one in the JVM, what it says there."""
    cause = getattr(error, "java_exception", None)
    text = str(error if cause is None else cause.toString()).strip()
    return text.splitlines()[0] if text else type(error).__name__
