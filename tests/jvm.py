"""Our Java classes without Spark: compiled by javac, run by java, asked line by line."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from decima.spark.jar import build_jar, find_javac, spark_jars
from decima.spark.settings import AttachError
from tests.real_spark import skip_without

JAVA = Path(__file__).parent / "java"


class Classes:
    """The plugin's jar, and the tests' own classes beside it."""

    def __init__(self, folder: Path) -> None:
        """Args:
        folder: where both are put; made where there is none.
        """
        skip_without(_missing(), os.environ)
        self.jar = folder / "decima.jar"
        self._own = folder / "tests"
        if self._own.exists():
            return
        folder.mkdir(exist_ok=True)
        build_jar(self.jar)
        sources = [str(path) for path in JAVA.glob("*.java")]
        command = [str(find_javac(os.environ)), "-cp", self.path, "-d", str(self._own), *sources]
        subprocess.run(command, check=True)  # noqa: S603 - the JDK's compiler

    @property
    def path(self) -> str:
        """The class path: ours, and Spark's jars for Jackson and what the compiler looks for."""
        return f"{self.jar}:{spark_jars()}/*"

    @contextmanager
    def talk(self) -> Iterator[Talk]:
        """Run `DriveSession.java`."""
        java = shutil.which("java")
        assert java is not None
        with subprocess.Popen(  # noqa: S603 - our own class
            [java, "-Xshare:auto", "-cp", f"{self._own}:{self.path}", "decima.policy.DriveSession"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        ) as process:  # fmt: skip
            yield Talk(process)


class Talk:
    """Questions to a process, a line of JSON each, and its answers."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._to, self._from = process.stdin, process.stdout

    def ask(self, question: dict[str, Any]) -> Any:
        self._to.write(f"{json.dumps(question)}\n")
        self._to.flush()
        answer = self._from.readline()
        assert answer, "the JVM ended: its standard error says why"
        return json.loads(answer)


def _missing() -> str | None:
    """What this machine lacks; None if nothing."""
    try:
        find_javac(os.environ)
        spark_jars()
    except AttachError as error:
        return str(error)
    return None
