"""The plugin's jar: Java classes for any Spark from 3.5 to 4.x and any Scala version."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Mapping
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from decima.agent import columns
from decima.rl.parallel.session import NEWEST_MAJOR, OLDEST
from decima.spark.settings import (
    LOG_FORMAT,
    LOG_VERSION,
    MOST_JOBS,
    TIMES_S,
    WEIGHTS,
    AttachError,
    missing,
)
from traces.files.errors import reason
from traces.files.private import NotPrivateError, private_folder, read_private, write_private
from traces.files.writing import written_whole

PLUGIN = "decima.spark.DecimaPlugin"
"""for the setting ``spark.plugins``"""
_SHARED = "decima/shared.json"
"""values that Python declares and the classes need, too (`Json.java`)"""
_FOLDERS = ("coordinator", "exact", "network", "plugin", "policy", "tasks")
_WEIGHTS = (("decima.heuristics", "es_rule.json"), ("decima.agent", "decima.safetensors"))
"""package and name of what lies in its folder ``data``"""
_CLASSES = "decima/classes.txt"
"""list of the classes, which `JarClasses.java` loads"""
_SHIPPED = Path(str(files("decima.spark"))) / "data"
_COMPILER_S = 300
_DATE = (1980, 1, 1, 0, 0, 0)
"""of every entry: the same sources make the same jar"""


def plugin_jar(environment: Mapping[str, str] = os.environ) -> Path:
    """The jar that came with this installation, else one in the user's cache, made if need be.

    A jar in the cache is used only if no other user can have written it (`traces.files.private`),
    and if it is what was written: its digest lies beside it.

    Raises:
        AttachError: it has to be compiled, and there is no JDK or no pyspark; or others may write
            to the cache.
    """
    name = jar_name()
    shipped = _SHIPPED / name
    if shipped.is_file():
        return shipped
    cache = environment.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    try:
        path = private_folder(Path(cache) / "decima") / name
    except NotPrivateError as fault:
        raise AttachError(
            f"{fault}: no jar is stored there or loaded; set XDG_CACHE_HOME to a folder of your own"
        ) from fault
    digest_path = path.with_name(f"{path.name}.sha256")
    jar = read_private(path)
    if jar is None or read_private(digest_path) != hashlib.sha256(jar).hexdigest().encode():
        with tempfile.TemporaryDirectory() as folder:
            made = Path(folder) / name
            build_jar(made, environment)
            jar = made.read_bytes()
        try:
            write_private(path, jar)
            # Last: with an older digest the jar is made again.
            write_private(digest_path, hashlib.sha256(jar).hexdigest().encode())
        except OSError as fault:
            raise AttachError(f"{path}: cannot write: {reason(fault)}") from fault
    return path


def ship_jar(environment: Mapping[str, str] = os.environ) -> Path:
    """Put the jar into the package, in place of older ones: `make wheel` does, before it packs."""
    path = _SHIPPED / jar_name()
    for old in _SHIPPED.glob("*.jar"):
        old.unlink()
    path.parent.mkdir(exist_ok=True)
    build_jar(path, environment)
    return path


def jar_name() -> str:
    digest = hashlib.sha256()
    for name, content in sorted((_sources() | _resources()).items()):
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    return f"decima-spark-{digest.hexdigest()[:12]}.jar"


def build_jar(path: Path, environment: Mapping[str, str] = os.environ) -> None:
    """Compile the jar, whole or not at all; AttachError without a JDK or pyspark, or on a fault."""
    with tempfile.TemporaryDirectory() as folder:
        classes = Path(folder) / "classes"
        compile_java(list(_sources().items()), classes, environment)
        pack(path, classes)


def pack(path: Path, classes: Path) -> None:
    """Write compiled classes and the resources as a jar; AttachError if it cannot be written."""
    compiled = {
        str(file.relative_to(classes)): file.read_bytes() for file in classes.rglob("*.class")
    }
    names = sorted(name.removesuffix(".class").replace("/", ".") for name in compiled)
    entries = compiled | _resources() | {_CLASSES: "".join(f"{name}\n" for name in names).encode()}
    with written_whole(path, AttachError) as file, zipfile.ZipFile(file, "w") as jar:
        for name, content in sorted(entries.items()):
            jar.writestr(zipfile.ZipInfo(name, _DATE), content, zipfile.ZIP_DEFLATED)


def compile_java(
    sources: list[tuple[str, bytes]], classes: Path, environment: Mapping[str, str] = os.environ
) -> None:
    """Compile files, content by name, against Spark's jars; AttachError if it fails."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / name for name, _ in sources]
        for path, (_, content) in zip(paths, sources, strict=True):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        command = [
            str(find_javac(environment)),
            # Spark 3.5 runs on Java 8; classes beside Spark's use raw types, with casts for them.
            *("--release", "8", "-Xlint:all,-options,-path,-rawtypes,-unchecked,-serial,-cast"),
            *("-Werror", "-proc:none", "-encoding", "utf-8"),
            *("-cp", f"{spark_jars()}/*", "-d", str(classes), *map(str, paths)),
        ]
        done = subprocess.run(  # noqa: S603 - the JDK's compiler on this package's sources
            command, capture_output=True, text=True, timeout=_COMPILER_S, check=False
        )
    if done.returncode != 0:
        raise AttachError(f"javac: {done.stderr.strip().splitlines()[0]}")


def find_javac(environment: Mapping[str, str]) -> Path:
    """The JDK's compiler: of JAVA_HOME, else on the path; AttachError if there is none."""
    home = environment.get("JAVA_HOME")
    javac = Path(home) / "bin" / "javac" if home else None
    if javac is None or not javac.is_file():
        on_path = shutil.which("javac", path=environment.get("PATH"))
        javac = None if on_path is None else Path(on_path)
    if javac is None:
        raise AttachError(
            "javac is not found: install a JDK of 9 to 21 (openjdk-17-jdk-headless), or set "
            "JAVA_HOME to one"
        )
    return javac


def spark_jars() -> Path:
    """The folder of Spark's jars in the pyspark that is installed; AttachError if none is."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise missing("pyspark")
    return Path(spec.origin).parent / "jars"


def _sources() -> dict[str, bytes]:
    java = files("decima.spark") / "java"
    return {
        f"{folder}/{file.name}": file.read_bytes()
        for folder in _FOLDERS
        for file in (java / folder).iterdir()
        if file.name.endswith(".java")
    }


def _resources() -> dict[str, bytes]:
    manifest = b"Manifest-Version: 1.0\r\n\r\n"
    weights = {
        f"decima/policy/{name}": (files(package) / "data" / name).read_bytes()
        for package, name in _WEIGHTS
    }
    return {"META-INF/MANIFEST.MF": manifest, _SHARED: json.dumps(shared()).encode(), **weights}


def shared() -> dict[str, Any]:
    """Return the values that both Python and the classes need (`Json.java`)."""
    tables = ("NODE", "JOB", "STAGE", "CLUSTER", "LIMIT", "CLASS", "LEADING", "PATH")
    return {
        "feature_version": columns.FEATURE_VERSION,
        "columns": {table: getattr(columns, table) for table in tables},
        "oldest_spark": OLDEST,
        "newest_spark_major": NEWEST_MAJOR,
        "times_ms": {
            name: [round(1000 * bound_s) for bound_s in bounds] for name, bounds in TIMES_S.items()
        },
        "weights": WEIGHTS,
        "decision_log_format": LOG_FORMAT,
        "decision_log_version": LOG_VERSION,
        "auto_most_jobs": MOST_JOBS,
    }
