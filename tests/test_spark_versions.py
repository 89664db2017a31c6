"""The tests on a real Spark once more: on other Sparks and newer Javas that are there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands import python
from tests.real_spark import skip_without

pytestmark = [pytest.mark.slow, pytest.mark.real_spark]

ROOT = Path(__file__).parents[1]
OLDEST = Path(sys.prefix) / "spark-3.5"
SPARKS = sorted({OLDEST, *Path(sys.prefix).glob("spark-*")})
"""beside the newest, which all tests run on"""
JAVAS = Path("/usr/lib/jvm")
_NEWER = 21
"""than the Java that all tests run on"""


def newer_javas() -> dict[int, Path]:
    """By version: those after 17 that are installed."""
    javas = {}
    for release in JAVAS.glob("*/release"):
        version = re.search(r'^JAVA_VERSION="(\d+)', release.read_text(), re.MULTILINE)
        if version is not None and int(version[1]) >= _NEWER:
            javas[int(version[1])] = release.parent
    return javas


each_newer_java = pytest.mark.parametrize(
    "java",
    newer_javas().values() or [pytest.param(None, marks=pytest.mark.skip("no Java after 17"))],
    ids=newer_javas().keys() or ["none"],
)


def repeat(names: tuple[str, ...], environment: dict[str, str]) -> None:
    """Run the tests of these names in a process of its own."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    result = subprocess.run(  # noqa: S603 - our own command
        [*command, *(f"tests/test_spark_{name}.py" for name in names)],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=1_800,
        check=False,
    )
    assert result.returncode == 0, result.stdout[-4_000:]


@pytest.mark.parametrize("home", SPARKS, ids=lambda home: home.name)
def test_everything_holds_on_another_spark(home: Path) -> None:
    """In a process of its own that finds that pyspark first."""
    if not (home / "pyspark").is_dir():
        missing = f"there is no pyspark at {home}: `make test` puts it there"
        skip_without(missing, os.environ)
    environment = {"PYTHONPATH": str(home)}
    version = "import pyspark; print(pyspark.__version__)"
    output = python("-c", version, environment=environment)
    assert output.startswith(home.name.removeprefix("spark-"))
    repeat(("attach", "faults", "exactness"), environment)


@each_newer_java
def test_everything_holds_on_a_newer_java(java: Path) -> None:
    """Our classes set a field of Spark, which depends on the Java."""
    repeat(("attach", "exactness", "soft"), {"JAVA_HOME": str(java)})
