"""The tests on a real Spark once more: on the oldest Spark and the newest Java that are there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.real_spark import skip_without

pytestmark = [pytest.mark.slow, pytest.mark.real_spark]

ROOT = Path(__file__).parents[1]
OLDEST = Path(sys.prefix) / "spark-3.5"
JAVAS = Path("/usr/lib/jvm")
_NEWER = 21
"""than the Java that all tests run on"""


def newest_java() -> tuple[int, Path] | None:
    """Of those that are installed, and its version; None if there is none after 17."""
    found = []
    for release in JAVAS.glob("*/release"):
        version = re.search(r'^JAVA_VERSION="(\d+)', release.read_text(), re.MULTILINE)
        if version is not None and int(version[1]) >= _NEWER:
            found.append((int(version[1]), release.parent))
    return max(found, default=None)


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


def test_everything_holds_on_the_oldest_spark() -> None:
    """In a process of its own that finds that pyspark first."""
    if not (OLDEST / "pyspark").is_dir():
        missing = f"there is no pyspark 3.5 at {OLDEST}: `make test` puts it there"
        skip_without(missing, os.environ)
    environment = {"PYTHONPATH": str(OLDEST)}
    version = "import pyspark; print(pyspark.__version__)"
    found = subprocess.run(  # noqa: S603 - our own command
        [sys.executable, "-c", version], env={**os.environ, **environment},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert found.stdout.startswith("3.5.")
    repeat(("attach", "faults", "exactness"), environment)


def test_everything_holds_on_the_newest_java() -> None:
    """Janino compiles our classes, and they set a field of Spark: both depend on the Java."""
    found = newest_java()
    if found is None:
        pytest.skip(f"no Java from {_NEWER} on in {JAVAS}")
    repeat(("attach", "exactness", "soft"), {"JAVA_HOME": str(found[1])})
