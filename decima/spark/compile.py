"""A Java class for tasks, compiled in the driver by Janino, the compiler that Spark ships.

The jar is for every version of Scala. This is for classes that extend what differs between them.
"""

from __future__ import annotations

import tempfile
import zipfile
from importlib.resources import files
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from decima.spark.errors import AttachError
from decima.spark.jvm import first_line

_classes: WeakKeyDictionary[Any, tuple[Any, Path]] = WeakKeyDictionary()
"""class and jar by gateway: py4j remembers methods by class name"""


def replay_class(context: Any) -> Any:
    """Return ``decima.spark.Replay`` in the driver's JVM; tasks of this context have it, too.

    Raises:
        AttachError: this Spark has no Janino, or lacks the classes that it extends.
    """
    from py4j.protocol import Py4JError

    if context._gateway not in _classes:
        try:
            _classes[context._gateway] = _compiled(context._jvm)
        except (Py4JError, TypeError) as error:
            raise AttachError(
                f"Spark {context.version} has no Janino, or another RDD: {first_line(error)}"
            ) from error
    found, jar = _classes[context._gateway]
    context._jsc.sc().addJar(str(jar))
    return found


def _compiled(jvm: Any) -> tuple[Any, Path]:
    """The class, and a jar of it for as long as this process lives."""
    text = (files("decima.spark") / "java" / "replay" / "Replay.java").read_text("utf-8")
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(jvm.java.lang.Thread.currentThread().getContextClassLoader())
    compiler.cook(text)
    path = Path(tempfile.mkdtemp(prefix="decima-")) / "replay.jar"
    codes = compiler.getBytecodes()
    with zipfile.ZipFile(path, "w") as jar:
        for one in codes.keySet():
            jar.writestr(f"{one.replace('.', '/')}.class", bytes(codes[one]))
    return compiler.getClassLoader().loadClass("decima.spark.Replay"), path
