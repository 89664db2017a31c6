"""Java sources of this package, compiled in the driver by Janino, the compiler that Spark ships."""

from __future__ import annotations

import re
import tempfile
import zipfile
from importlib.resources import files
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from decima.spark.errors import AttachError

_PACKAGE = re.compile(r"^package .*;\n", re.MULTILINE)
_IMPORT = re.compile(r"^import .*;\n", re.MULTILINE)

_classes: WeakKeyDictionary[Any, dict[str, Any]] = WeakKeyDictionary()
"""classes by gateway and name: py4j remembers methods by class name, so a second copy of a class
would be called with the first one's methods"""


def java_class(context: Any, source: str, name: str, *, for_executors: bool = False) -> Any:
    """The class `name` of ``java/source`` in the driver's JVM, compiled at its first use.

    Args:
        context: a SparkContext.
        source: name of a file, or of a folder whose files are of one package.
        name: of a class in it, with its package.
        for_executors: tasks need it too.

    Raises:
        AttachError: this Spark has no Janino, or lacks the classes that these extend.
    """
    from py4j.protocol import Py4JError

    known = _classes.setdefault(context._gateway, {})
    if name not in known:
        jvm = context._jvm
        try:
            compiler = jvm.org.codehaus.janino.SimpleCompiler()
            compiler.setParentClassLoader(
                jvm.java.lang.Thread.currentThread().getContextClassLoader()
            )
            compiler.cook(java_text(source))
            known[name] = compiler.getClassLoader().loadClass(name)
            if for_executors:
                known[f"jar of {name}"] = _jar_of(compiler, name)
        except (Py4JError, TypeError) as error:
            raise AttachError(
                f"Spark {context.version} has no Janino, or lacks the scheduler's base classes: "
                f"{first_line(error)}"
            ) from error
    if for_executors:
        context._jsc.sc().addJar(str(known[f"jar of {name}"]))
    return known[name]


def java_text(source: str) -> str:
    """Merge Java sources into one text, as Janino requires: a file, or a folder's files."""
    where = files("decima.spark") / "java" / source
    if where.is_file():
        return where.read_text("utf-8")
    names = sorted(one.name for one in where.iterdir() if one.name.endswith(".java"))
    packages: set[str] = set()
    imports: set[str] = set()
    bodies = []
    for name in names:
        text = (where / name).read_text("utf-8")
        packages.update(_PACKAGE.findall(text))
        imports.update(_IMPORT.findall(text))
        bodies.append(_IMPORT.sub("", _PACKAGE.sub("", text)))
    return "".join([*packages, *sorted(imports), *bodies])


def _jar_of(compiler: Any, name: str) -> Path:
    """A jar of what `compiler` has compiled, for as long as this process lives."""
    path = Path(tempfile.mkdtemp(prefix="decima-")) / f"{name}.jar"
    found = compiler.getBytecodes()
    with zipfile.ZipFile(path, "w") as jar:
        for one in found.keySet():
            jar.writestr(f"{one.replace('.', '/')}.class", bytes(found[one]))
    return path


def first_line(error: object) -> str:
    """Return the first line of an error's text, or its type; of an error in the JVM, the text
    there."""
    cause = getattr(error, "java_exception", None)
    text = str(error if cause is None else cause.toString()).strip()
    return text.splitlines()[0] if text else type(error).__name__
