"""Without Java, tests of a real Spark are skipped and say so; where it must be, they fail."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.real_spark import REQUIRED, skip_without

ROOT = Path(__file__).parents[1]
STARTS_SPARK = ("local_spark", "quiet_spark", "SparkSession.builder", "logging_session")


def test_what_is_missing_skips_or_fails() -> None:
    """With the reason; and what is not missing does neither."""
    skip_without(None, {REQUIRED: "1"})
    with pytest.raises(pytest.skip.Exception, match="no Java here"):
        skip_without("no Java here", {})
    with pytest.raises(pytest.fail.Exception, match=f"{REQUIRED}=1, but no Java here"):
        skip_without("no Java here", {REQUIRED: "1"})


def test_a_marked_test_is_skipped_before_its_fixtures_start(tmp_path: Path) -> None:
    """In a process without Java: two that share a session, and one that starts its own."""
    bare = {key: value for key, value in os.environ.items() if key not in ("JAVA_HOME", REQUIRED)}
    command = [sys.executable, "-m", "pytest", "-m", "real_spark", "-rs", "-p", "no:cacheprovider"]
    files = ("tests/test_spark_soft.py", "tests/test_spark_connect.py")
    done = subprocess.run(  # noqa: S603 - our own command
        [*command, *files],
        cwd=ROOT,
        env={**bare, "PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "needs Java 17 or newer" in done.stdout
    assert "passed" not in done.stdout
    assert "error" not in done.stdout


def test_whatever_starts_spark_is_marked() -> None:
    """Else it ends in an error where there is no Java."""
    unmarked = [
        path.name
        for path in sorted((ROOT / "tests").glob("test_*.py"))
        if path != Path(__file__)
        and any(word in path.read_text() for word in STARTS_SPARK)
        and "pytest.mark.real_spark" not in path.read_text()
    ]
    assert unmarked == []
