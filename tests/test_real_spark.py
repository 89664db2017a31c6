"""Without Java, tests of a real Spark are skipped and say so; where it must be, they fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.real_spark import REQUIRED, skip_without

ROOT = Path(__file__).parents[1]
STARTS_SPARK = ("local_spark", "quiet_spark", "SparkSession.builder", "logging_session")


def test_what_is_missing_skips_or_fails() -> None:
    skip_without(None, {REQUIRED: "1"})
    with pytest.raises(pytest.skip.Exception, match="no Java here"):
        skip_without("no Java here", {})
    with pytest.raises(pytest.fail.Exception, match=f"{REQUIRED}=1, but no Java here"):
        skip_without("no Java here", {REQUIRED: "1"})


def test_whatever_starts_spark_is_marked() -> None:
    unmarked = [
        path.name
        for path in sorted((ROOT / "tests").glob("test_*.py"))
        if path != Path(__file__)
        and any(word in path.read_text() for word in STARTS_SPARK)
        and "pytest.mark.real_spark" not in path.read_text()
    ]
    assert unmarked == []
